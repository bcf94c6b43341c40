"""Facts as queries on a timeline, and what the evaluation asks of those who answer them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from timeplex.kb.facts import Facts, Index, pair_key
from timeplex.kb.timeline import Timeline
from timeplex.models.base import Span
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.typing import Ints


class EntityScorer(Protocol):
    """Rows of scores, one a query; higher is likelier. What the evaluation asks of a scorer or a baseline."""

    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        """Scores of all entities as objects: (n, entities)."""
        ...

    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        """Scores of all entities as subjects: (n, entities)."""
        ...


class DirectedScorer(ABC):
    """A scorer that treats both directions alike: one function of the direction and the given entity."""

    @abstractmethod
    def rows(self, direction: Direction, given: Tensor, r: Tensor, span: Span) -> Tensor:
        """Scores of all entities as answers: (n, entities)."""

    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        """Scores of all entities as objects: (n, entities)."""
        return self.rows("object", s, r, span)

    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        """Scores of all entities as subjects: (n, entities)."""
        return self.rows("subject", o, r, span)


@dataclass(frozen=True)
class PlacedFacts:
    """Facts whose spans are positions on a timeline: first and last, both inclusive; arrays of shape (n,)."""

    s: Ints
    r: Ints
    o: Ints
    first: Ints
    last: Ints

    @classmethod
    def of(cls, facts: Facts, timeline: Timeline) -> "PlacedFacts":
        """Place facts; open ends run to the edges of the timeline.

        A span between two observed instants, which holds none of them, is moved to the one before it.
        """
        first, last = timeline.positions(facts.span)
        last = np.maximum(last, 0)
        first = np.minimum(first, last)
        s, r, o = (np.asarray(column, np.int64) for column in (facts.s, facts.r, facts.o))
        return cls(s, r, o, first, last)

    def __len__(self) -> int:
        return len(self.s)

    def answers(self, direction: Direction) -> Ints:
        """The entities that a query in this direction asks for."""
        return self.o if direction == "object" else self.s

    def given(self, direction: Direction) -> Ints:
        """The entities that a query in this direction names."""
        return self.s if direction == "object" else self.o

    def same_question(self, queries: "PlacedFacts", direction: Direction) -> tuple[Ints, Ints]:
        """All pairs (query, fact of these) that have the relation and the given entity in common, by query."""
        return self._questions[direction].matches(pair_key(queries.given(direction), queries.r))

    def count_same_question(self, queries: "PlacedFacts", direction: Direction) -> Ints:
        """How many of these facts `same_question` finds for each query: (queries,)."""
        start, stop = self._questions[direction].ranges(pair_key(queries.given(direction), queries.r))
        return stop - start

    @cached_property
    def _questions(self) -> dict[Direction, Index]:
        return {direction: Index(pair_key(self.given(direction), self.r)) for direction in DIRECTIONS}

    @property
    def lengths(self) -> Ints:
        """Number of instants of each span."""
        return self.last - self.first + 1

    def rows(self, start: int, stop: int) -> "PlacedFacts":
        """A part of the facts."""
        return self[slice(start, stop)]

    def __getitem__(self, part: slice | Ints) -> "PlacedFacts":
        return PlacedFacts(self.s[part], self.r[part], self.o[part], self.first[part], self.last[part])

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Span]:
        """(s, r, o, (first, last)) on a device."""
        s, r, o, first, last = (
            torch.from_numpy(np.ascontiguousarray(column)).to(device)
            for column in (self.s, self.r, self.o, self.first, self.last)
        )
        return s, r, o, (first, last)

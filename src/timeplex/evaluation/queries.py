"""Facts as queries on a timeline, and a model as something that answers them.

With inverse relations a subject query (?, r, o) is asked as the object query (o, r⁻¹, ?). Gadgets always see the
relation itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from timeplex.gadgets.base import Gadget
from timeplex.kb.facts import Facts, Index, pair_key
from timeplex.kb.timeline import Timeline
from timeplex.models.base import Model, Span
from timeplex.typing import Ints

Direction = Literal["subject", "object"]
DIRECTIONS: tuple[Direction, Direction] = ("subject", "object")


class Scorer(Protocol):
    """Rows of scores, one a query; higher is likelier. What the evaluation asks of a model."""

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
class Answers:
    """A model as a scorer; `inverse` says that it was trained with inverse relations (r + relations / 2)."""

    model: Model
    inverse: bool

    @property
    def predicts_times(self) -> bool:
        """Whether scores depend on time."""
        return self.model.uses_time

    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        """Scores of all entities as objects."""
        return self.model.objects(s, r, span)

    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        """Scores of all entities as subjects, by the inverse relation where there is one."""
        if self.inverse:
            return self.model.objects(o, r + self.model.space.relations // 2, span)
        return self.model.subjects(r, o, span)

    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor, direction: Direction) -> Tensor:
        """Scores of facts at instants, as answers of queries in a direction: (n,) in and out."""
        if self.inverse and direction == "subject":
            return self.model.score_at(o, r + self.model.space.relations // 2, s, t)
        return self.model.score_at(s, r, o, t)

    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        """Scores of all instants; with inverse relations the fact and its inverse are added."""
        scores = self.model.times(s, r, o)
        if self.inverse:
            scores = scores + self.model.times(o, r + self.model.space.relations // 2, s)
        return scores


@dataclass(frozen=True)
class WithGadgets:
    """φ(s, r, o, T) = φ_model(s, r, o, T) + Σ strength · φ_gadget(s, r, o, t_b), where t_b is the begin of T."""

    model: Answers
    gadgets: Mapping[str, Gadget]

    @property
    def predicts_times(self) -> bool:
        """Gadgets see time, whatever the model does."""
        return True

    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        """Scores of all entities as objects."""
        rows = self.model.objects(s, r, span)
        for gadget in self.gadgets.values():
            rows = torch.add(rows, gadget.objects_at(s, r, span[0]), alpha=float(gadget.strength))
        return rows

    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        """Scores of all entities as subjects."""
        rows = self.model.subjects(r, o, span)
        for gadget in self.gadgets.values():
            rows = torch.add(rows, gadget.subjects_at(r, o, span[0]), alpha=float(gadget.strength))
        return rows

    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        """Scores of all instants."""
        scores = self.model.times(s, r, o)
        for gadget in self.gadgets.values():
            scores = scores + gadget.strength * gadget.times(s, r, o)
        return scores


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
        part = slice(start, stop)
        return PlacedFacts(self.s[part], self.r[part], self.o[part], self.first[part], self.last[part])

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Span]:
        """(s, r, o, (first, last)) on a device."""
        s, r, o, first, last = (
            torch.from_numpy(np.ascontiguousarray(column)).to(device)
            for column in (self.s, self.r, self.o, self.first, self.last)
        )
        return s, r, o, (first, last)

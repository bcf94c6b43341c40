"""What a model must beat: answers by frequency, by frequency at that time, and by copying the nearest known fact.

Each is a scorer over the training facts; memory is that of the rows asked for.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from timeplex.evaluation.ranking import DirectedScorer, PlacedFacts
from timeplex.kb.facts import expand, pair_key
from timeplex.models.base import Span
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.typing import Ints

Floats = NDArray[np.float32]

MOST_FACTS = 1 << 23
"""About so many facts are compared with queries at a time."""

MANY = 4
"""With more facts to compare than so many times the entities, a query is answered by counting through time."""


@dataclass(frozen=True)
class MostFrequent(DirectedScorer):
    """Entities by how many training facts of the relation they answer."""

    train: PlacedFacts
    entities: int
    relations: int

    def rows(self, direction: Direction, given: Tensor, r: Tensor, span: Span) -> Tensor:
        given_, r_, first, last = (column.cpu().numpy() for column in (given, r, *span))
        # The given entity on both sides: the side that is asked for is never looked at.
        rows = self.scores(direction, PlacedFacts(given_, r_, given_, first, last))
        return torch.from_numpy(rows).to(given.device)

    def scores(self, direction: Direction, queries: PlacedFacts) -> Floats:
        """Share of the relation's facts that each entity answers, below 1: (n, entities)."""
        rows: Floats = self._shares[direction][queries.r].toarray()
        return rows

    @cached_property
    def _shares(self) -> dict[Direction, sparse.csr_array]:
        facts_of_relation = np.bincount(self.train.r, minlength=self.relations)
        share = (1 / (1 + facts_of_relation[self.train.r])).astype(np.float32)
        shape = (self.relations, self.entities)
        return {
            direction: sparse.csr_array((share, (self.train.r, self.train.answers(direction))), shape=shape)
            for direction in DIRECTIONS
        }


class MostFrequentThen(MostFrequent):
    """Entities by how many training facts of the relation they answer whose span meets the query's.

    Ties go by `MostFrequent`.
    """

    def scores(self, direction: Direction, queries: PlacedFacts) -> Floats:
        """Number of facts then, plus the share of all: (n, entities)."""
        rows = super().scores(direction, queries)
        # A fact that meets the span begins at most the relation's longest span before it.
        earliest = np.maximum(queries.first - self._longest[queries.r], 0)
        begins, order = self._begins
        start = np.searchsorted(begins, pair_key(queries.r, earliest), side="left")
        stop = np.searchsorted(begins, pair_key(queries.r, queries.last), side="right")
        many = stop - start > MANY * self.entities
        few = np.flatnonzero(~many)
        block = np.cumsum((stop - start)[few]) // MOST_FACTS
        for part in np.split(few, np.flatnonzero(np.diff(block)) + 1):
            query, place = expand(start[part], stop[part])
            query, fact = part[query], order[place]
            meets = self.train.last[fact] >= queries.first[query]
            np.add.at(rows, (query[meets], self.train.answers(direction)[fact[meets]]), np.float32(1))
        for relation in np.unique(queries.r[many]):
            part = np.flatnonzero(many & (queries.r == relation))
            rows[part] += self._count_through_time(direction, queries[part])
        return rows

    def _count_through_time(self, direction: Direction, queries: PlacedFacts) -> Floats:
        """How many facts of each entity meet each query's span, for queries of one relation: (n, entities).

        Those that begin by its last instant, but for those that end before its first: so each fact is looked at once
        for all queries.
        """
        met = np.zeros((len(queries), self.entities), np.float32)
        answers, relation = self.train.answers(direction), pair_key(queries.r, 0)
        for (keys, order), instant, sign in ((self._begins, queries.last, 1), (self._ends, queries.first - 1, -1)):
            stops = np.searchsorted(keys, relation + instant, side="right")
            counts, at = np.zeros(self.entities, np.float32), np.searchsorted(keys, relation[0])
            for stop in np.unique(stops):
                counts += np.bincount(answers[order[at:stop]], minlength=self.entities)
                met[stops == stop] += sign * counts
                at = stop
        return met

    @cached_property
    def _begins(self) -> tuple[Ints, Ints]:
        return _sorted(pair_key(self.train.r, self.train.first))

    @cached_property
    def _ends(self) -> tuple[Ints, Ints]:
        return _sorted(pair_key(self.train.r, self.train.last))

    @cached_property
    def _longest(self) -> Ints:
        longest = np.zeros(self.relations, np.int64)
        np.maximum.at(longest, self.train.r, self.train.lengths - 1)
        return longest


def _sorted(keys: Ints) -> tuple[Ints, Ints]:
    """The keys in order, and the places that they had."""
    order = np.argsort(keys, kind="stable")
    return keys[order], order


class CopyNearest(MostFrequent):
    """Known answers of the same question, the nearest in time first; then the others by `MostFrequent`."""

    def scores(self, direction: Direction, queries: PlacedFacts) -> Floats:
        """1 + 1 / (1 + instants from span to span) for known answers, below 1 for others: (n, entities)."""
        rows = super().scores(direction, queries)
        block = np.cumsum(self.train.count_same_question(queries, direction)) // MOST_FACTS
        for part in np.split(np.arange(len(queries)), np.flatnonzero(np.diff(block)) + 1):
            if len(part):
                self._put_known(rows[part[0] : part[-1] + 1], direction, queries.rows(part[0], part[-1] + 1))
        return rows

    def _put_known(self, rows: Floats, direction: Direction, queries: PlacedFacts) -> None:
        query, fact = self.train.same_question(queries, direction)
        apart = np.maximum(self.train.first[fact] - queries.last[query], queries.first[query] - self.train.last[fact])
        near = (1 + 1 / (1 + np.maximum(apart, 0))).astype(np.float32)
        np.maximum.at(rows, (query, self.train.answers(direction)[fact]), near)


BASELINES: dict[str, type[MostFrequent]] = {
    "most frequent": MostFrequent,
    "most frequent then": MostFrequentThen,
    "copy nearest": CopyNearest,
}

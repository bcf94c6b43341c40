"""Facts as queries on a timeline, the known answers that each is forgiven, and the ranks of the gold answers.

A known answer f of a query with span T is forgiven the share of T at which f is known to hold:

    none          nothing
    ignore-time   1 for every known answer, whenever it held            (the paper's Method 2)
    exact-span    1 if it is known with just the query's span           (its appendix E)
    per-instant   |T ∩ U_f| / |T|, U_f the union of f's known spans     (its Method 3)

Forgiving this share and taking one rank is the same as ranking at every instant of T, filtering what is known there,
and taking the mean: the ranks differ from instant to instant only by the known answers above the gold.
"""

import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timeplex.errors import InputError
from timeplex.evaluation.protocol import Filter, Protocol, SpanScore, Ties
from timeplex.kb import spans
from timeplex.kb.facts import Facts, Index, TemporalKB, pair_key, split_key
from timeplex.kb.timeline import Timeline
from timeplex.models.base import Span
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.typing import Ints


class EntityScorer(typing.Protocol):
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


MOST_ANSWERS = 1 << 25
"""The most known answers that are held for all queries; ICEWS05-15 has 27 million."""


@dataclass(frozen=True)
class Forgiven:
    """Known answers of queries, sorted by query: entity `answer` of query `query` at `instants` of its `of[query]`.

    Instants are counted, not shares, so that ranks are exact.
    """

    query: Ints
    answer: Ints
    instants: Ints
    of: Ints  # (queries,): the length of each query's span

    def rows(self, start: int, stop: int) -> "Forgiven":
        """The part for queries start … stop − 1, numbered from 0."""
        low, high = np.searchsorted(self.query, [start, stop])
        return Forgiven(
            self.query[low:high] - start, self.answer[low:high], self.instants[low:high], self.of[start:stop]
        )


def forgiven(queries: PlacedFacts, known: PlacedFacts, direction: Direction, by: Filter) -> Forgiven:
    """What is forgiven to each query, given all known facts; the gold itself is left out."""
    if by == "none":
        nothing = np.empty(0, np.int64)
        return Forgiven(nothing, nothing, nothing, queries.lengths)
    query, fact = known.same_question(queries, direction)
    answer = known.answers(direction)[fact]
    keep = answer != queries.answers(direction)[query]
    if by == "exact-span":
        keep &= (known.first[fact] == queries.first[query]) & (known.last[fact] == queries.last[query])
    query, fact, answer = query[keep], fact[keep], answer[keep]
    group = pair_key(query, answer)
    if by != "per-instant":
        distinct = np.unique(group)
        query = split_key(distinct)[0]
        return Forgiven(query, distinct & 0xFFFFFFFF, queries.lengths[query], queries.lengths)
    shared = spans.intersection((known.first[fact], known.last[fact]), (queries.first[query], queries.last[query]))
    overlap = shared[0] <= shared[1]
    first, last, group = spans.union((shared[0][overlap], shared[1][overlap]), group[overlap])
    distinct, where = np.unique(group, return_inverse=True)
    instants = np.bincount(where, weights=last - first + 1, minlength=len(distinct))
    return Forgiven(*split_key(distinct), instants.astype(np.int64), queries.lengths)


@dataclass(frozen=True)
class OnDemand:
    """What is forgiven to queries with very many known answers, told for some of them at a time."""

    queries: PlacedFacts
    known: PlacedFacts
    direction: Direction
    by: Filter
    most: int  # so many queries may be asked for at once

    def rows(self, start: int, stop: int) -> Forgiven:
        """The part for queries start … stop − 1, numbered from 0."""
        return forgiven(self.queries.rows(start, stop), self.known, self.direction, self.by)


def allowance(queries: PlacedFacts, known: PlacedFacts, direction: Direction, by: Filter) -> Forgiven | OnDemand:
    """What is forgiven to each query; on demand, if all of it would not fit in memory."""
    answers = known.count_same_question(queries, direction)
    if by == "none" or answers.sum() <= MOST_ANSWERS:
        return forgiven(queries, known, direction, by)
    return OnDemand(queries, known, direction, by, max(1, MOST_ANSWERS // 4 // int(answers.max())))


TIE_SHARE = {"realistic": 0.5, "pessimistic": 1.0, "optimistic": 0.0}
"""How much of an entity that ties with the gold stands above it."""

CHUNK_BYTES = 128_000_000
"""The most memory that one table of scores may take."""

BLOCK_BYTES = 16_000_000
"""The size of a block of scores that is counted at once: small enough to stay near the processor."""

Ranks = NDArray[np.float64]


@torch.no_grad()
def rank(
    scorer: EntityScorer,
    queries: PlacedFacts,
    forgiven: Mapping[str, Forgiven | OnDemand],
    direction: Direction,
    *,
    entities: int,
    ties: Ties = "realistic",
    span_score: SpanScore = "sum",
    last: Tensor | None = None,
    device: torch.device | None = None,
) -> dict[str, Ranks]:
    """The rank of every query's gold among all entities, under each filter: (n,) each.

    rank = 1 + #{e above the gold} − Σ shares of T at which a known answer above it is known, where an entity that ties
    counts by the tie rule. The gold's score is taken from the same row as the candidates'. Entities in the mask `last`,
    (entities,), come after all others. The queries' spans are positions on the scorer's timeline.
    """
    device = device or torch.device("cpu")
    ranks: dict[str, Ranks] = {name: np.empty(len(queries)) for name in forgiven}
    on_demand = [known.most for known in forgiven.values() if isinstance(known, OnDemand)]
    size = min(max(1, CHUNK_BYTES // (4 * entities)), *on_demand, len(queries) or 1)
    for start in range(0, len(queries), size):
        stop = min(start + size, len(queries))
        s, r, o, span = queries.rows(start, stop).tensors(device)
        if span_score == "begin":
            span = (span[0], span[0])
        rows = scorer.objects(s, r, span) if direction == "object" else scorer.subjects(r, o, span)
        _check(rows, (stop - start, entities))
        table = _Table(rows, o if direction == "object" else s, ties, None if last is None else last.to(device))
        above = table.above()
        for name, known in forgiven.items():
            here = known.rows(start, stop)
            instants = torch.from_numpy(here.of).to(device)
            ranks[name][start:stop] = (1 + (above * instants - table.forgiven(here)) / instants).cpu().numpy()
    return ranks


class _Table:
    """Scores of all entities (n, entities) and the gold of each row, (n,), with the rules that say who stands above."""

    def __init__(self, rows: Tensor, gold: Tensor, ties: Ties, last: Tensor | None) -> None:
        self.rows, self.tie, self.last = rows, TIE_SHARE[ties], last
        self.gold = rows.gather(1, gold[:, None])[:, 0]
        self.gold_is_last = None if last is None else last[gold]

    def above(self) -> Tensor:
        """How many entities stand above the gold; one that ties counts by its share. (n,), exact."""
        n, entities = self.rows.shape
        size = max(1, BLOCK_BYTES // (4 * entities))
        # Whether a score is higher is written as a float, because floats are summed much faster than truth values.
        # The sums are exact up to 2²⁴ entities.
        buffer = self.rows.new_empty(min(size, n), entities, dtype=torch.float32)
        higher, at_least = (self.rows.new_empty(n, dtype=torch.float32) for _ in range(2))
        for start in range(0, n, size):
            block = slice(start, min(start + size, n))
            rows, gold, there = self.rows[block], self.gold[block, None], buffer[: min(size, n - start)]
            torch.sum(torch.gt(rows, gold, out=there), 1, out=higher[block])
            torch.sum(torch.ge(rows, gold, out=there), 1, out=at_least[block])
        higher, at_least = higher.double(), at_least.double()
        above = higher + self.tie * (at_least - higher - 1)  # the gold does not tie with itself
        if self.last is None or self.gold_is_last is None:
            return above
        behind = torch.nonzero(self.last)[:, 0]
        above = above - self._share(self.rows[:, behind], self.gold[:, None]).sum(1)
        of_last = entities - len(behind) + self.tie * (len(behind) - 1)  # all these share the last places
        return torch.where(self.gold_is_last, of_last, above)

    def forgiven(self, allowance: Forgiven) -> Tensor:
        """Σ instants over the known answers above the gold, by query: (n,)."""
        query, answer, instants = (
            torch.from_numpy(column).to(self.rows.device)
            for column in (allowance.query, allowance.answer, allowance.instants)
        )
        scores, gold = self.rows[query, answer], self.gold[query]
        if self.last is not None and self.gold_is_last is not None:
            scores = scores.masked_fill(self.last[answer], -torch.inf)
            gold = gold.masked_fill(self.gold_is_last[query], -torch.inf)
        amount = self._share(scores, gold) * instants
        return torch.zeros(len(self.rows), dtype=torch.float64, device=query.device).index_add(0, query, amount)

    def _share(self, scores: Tensor, gold: Tensor) -> Tensor:
        """How much each score stands above the gold's: 1, the share of a tie, or 0."""
        return (scores > gold).double() + self.tie * (scores == gold).double()


def _check(rows: Tensor, shape: tuple[int, int]) -> None:
    """Scores of another shape, or that are not numbers, would give ranks that mean nothing."""
    if tuple(rows.shape) != shape:
        raise InputError(
            f"The scores have shape {tuple(rows.shape)}, not {shape}.", "Give a row a query, with all entities."
        )
    # The sum is cheaper than looking at every score; it is no number also if +∞ and −∞ meet, so look again.
    if bool(rows.sum().isnan()) and bool(rows.isnan().any()):
        raise InputError("Some scores are not numbers (NaN).", "A rank among them would mean nothing: fix the scorer.")


@dataclass(frozen=True)
class LinkPrediction:
    """The queries that some facts of a KB are, with all that is known of their answers in any split.

    Spans are scored on the scorer's `timeline`; filters count the instants that the protocol names.
    """

    kb: TemporalKB
    facts: Facts
    timeline: Timeline
    protocol: Protocol
    filters: Sequence[Filter]

    @cached_property
    def queries(self) -> PlacedFacts:
        """The facts on the scorer's timeline."""
        return PlacedFacts.of(self.facts, self.timeline)

    @cached_property
    def forgiven(self) -> dict[Direction, dict[str, Forgiven | OnDemand]]:
        """What each filter forgives, by direction."""
        timeline = self.kb.timeline(self.protocol.instants)
        queries, known = PlacedFacts.of(self.facts, timeline), PlacedFacts.of(self.kb.facts, timeline)
        return {
            direction: {name: allowance(queries, known, direction, name) for name in self.filters}
            for direction in DIRECTIONS
        }

    @cached_property
    def unseen(self) -> torch.Tensor:
        """Which entities have no training fact: (entities,)."""
        return torch.from_numpy(~self.kb.train.mentioned(len(self.kb.entities)))

    def ranks(self, scorer: EntityScorer, direction: Direction, device: torch.device | None = None) -> dict[str, Ranks]:
        """The gold's rank for each fact, by filter: (n,) each."""
        return rank(
            scorer,
            self.queries,
            self.forgiven[direction],
            direction,
            entities=len(self.kb.entities),
            ties=self.protocol.ties,
            span_score=self.protocol.span_score,
            last=self.unseen if self.protocol.unseen == "last" and bool(self.unseen.any()) else None,
            device=device,
        )

"""The training facts that gadgets look at, each at one time, with the indexes to find them by."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timeplex.errors import InputError
from timeplex.kb import spans
from timeplex.kb.facts import Facts, Index, expand, pair_key
from timeplex.models.scorer import Direction
from timeplex.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class Evidence:
    """Facts reduced to (s, r, o, t), arrays of shape (n,), where t is the begin, or the end where the begin is open.

    t is a calendar instant, so that gaps are years or days and not positions. Facts without any date are left out;
    `rows` says where the others stand among the training facts. `instants` is the timeline that queries are put on.
    """

    s: Ints
    r: Ints
    o: Ints
    t: Ints
    rows: Ints
    entities: int
    relations: int
    instants: Ints

    @classmethod
    def of(cls, train: Facts, entities: int, relations: int, instants: Ints) -> "Evidence":
        """The evidence that training facts are."""
        open_begin, open_end = spans.is_open(train.span)
        t = np.where(open_begin, train.end, train.begin).astype(np.int64)
        rows = np.flatnonzero(~(open_begin & open_end))
        s, r, o = (np.asarray(column, np.int64)[rows] for column in (train.s, train.r, train.o))
        return cls(s, r, o, t[rows], rows, entities, relations, np.asarray(instants, np.int64))

    def __len__(self) -> int:
        return len(self.s)

    def when(self, t: Tensor) -> Ints:
        """Calendar instants of positions on the timeline."""
        when: Ints = self.instants[t.cpu().numpy()]
        return when

    def places(self, rows: Ints) -> Ints:
        """Where training facts, given by their rows, stand here; −1 for those that are left out."""
        if len(self) == 0:
            return np.full(len(rows), -1)
        place = np.minimum(np.searchsorted(self.rows, rows), len(self) - 1)
        return np.where(self.rows[place] == rows, place, -1)

    @cached_property
    def by_subject(self) -> Index:
        """Facts by subject."""
        return Index(self.s)

    @cached_property
    def by_object(self) -> Index:
        """Facts by object."""
        return Index(self.o)

    @cached_property
    def by_subject_relation(self) -> Index:
        """Facts by subject and relation."""
        return Index(pair_key(self.s, self.r))

    @cached_property
    def by_object_relation(self) -> Index:
        """Facts by object and relation."""
        return Index(pair_key(self.o, self.r))

    def by_question(self, direction: Direction) -> tuple[Index, Ints]:
        """The facts by the given entity and the relation of a question, and what they answer it with."""
        return (self.by_subject_relation, self.o) if direction == "object" else (self.by_object_relation, self.s)

    def of_triples(self, s: Ints, r: Ints, o: Ints) -> tuple[Ints, Ints]:
        """All pairs (query, fact) that have subject, relation and object in common, by query."""
        query, fact = self.by_subject_relation.matches(pair_key(s, r))
        same = self.o[fact] == o[query]
        return query[same], fact[same]


def to_numpy(*tensors: Tensor) -> tuple[Ints, ...]:
    """Integer tensors as arrays; the indexes of the evidence live on the processor."""
    return tuple(tensor.cpu().numpy() for tensor in tensors)


def to_torch(array: NDArray[Any], like: Tensor) -> Tensor:
    """An array on the device of a tensor."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(like.device)


BLOCK = 1 << 22
"""About so many pairs of relations of an entity are looked at together."""

MOST_PAIRS = 10_000_000
"""The most pairs of relations that may meet in an entity; their tables take 1.5 GB in training."""


def density(x: Tensor, mean: Tensor, sigma: Tensor, *, normalised: bool) -> Tensor:
    """N(x | μ, σ), or exp(−(x − μ)² / 2σ²) if it is not normalised; the arguments broadcast."""
    height = torch.exp(-0.5 * ((x - mean) / sigma) ** 2)
    return height / (sigma * math.sqrt(2 * math.pi)) if normalised else height


def distinct(*columns: Ints) -> tuple[tuple[Ints, ...], Ints]:
    """The distinct rows of some columns in order, and which of them each row is."""
    order = np.lexsort(columns[::-1])
    ordered = [column[order] for column in columns]
    new = np.ones(len(order), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in ordered])
    which = np.empty(len(order), np.int64)
    which[order] = np.cumsum(new) - 1
    return tuple(column[new] for column in ordered), which


def recurring(evidence: Evidence) -> tuple[Ints, Floats, Floats]:
    """For each relation: how many pairs (s, o) recur, and mean and standard deviation of their gaps.

    A gap lies between two consecutive distinct times of one triple; (relations,) each, nan without any gap.
    """
    (s, r, o, t), _ = distinct(evidence.s, evidence.r, evidence.o, evidence.t)
    follows = (s[1:] == s[:-1]) & (r[1:] == r[:-1]) & (o[1:] == o[:-1])
    after = np.flatnonzero(follows) + 1
    relation, gap = r[after], (t[after] - t[after - 1]).astype(np.float64)
    first = after[~follows[np.maximum(after - 2, 0)] | (after < 2)]  # a triple's second time; later ones follow it
    pairs = np.bincount(r[first], minlength=evidence.relations)
    count = np.bincount(relation, minlength=evidence.relations)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(relation, gap, evidence.relations) / count
        variance = np.bincount(relation, (gap - mean[relation]) ** 2, evidence.relations) / count
    return pairs, mean, np.sqrt(variance)


@dataclass(frozen=True)
class Meetings:
    """The pairs of relations (r, r′) that an entity has in one role, by rising key = r · relations + r′: (k,) each.

    count    the number of gaps t − t′ between their facts
    mean     of the gaps, and sigma, their standard deviation
    """

    key: Ints
    count: Ints
    mean: Floats
    sigma: Floats


def meetings(entity: Ints, evidence: Evidence) -> Meetings:
    """Gaps t − t′ between the facts with r and those with r′ that an entity has in one role.

    entity: the subject or the object of each fact. All pairs of distinct times of (entity, r) and (entity, r′) count.

    The pairs are not formed: with n, S, Q = number, sum and sum of squares of the times of (entity, r), the pairs have
    Σ (t − t′) = n′ S − n S′ and Σ (t − t′)² = n′ Q − 2 S S′ + n Q′.
    """
    (entity, r, t), _ = distinct(entity, evidence.r, evidence.t)
    t = t - round(float(np.median(t))) if len(t) else t  # small numbers keep the sums exact
    (entity, r), group = distinct(entity, r)
    n, total, squares = (
        np.bincount(group, weights, len(r)) for weights in (np.ones(len(t)), t * 1.0, t.astype(np.float64) ** 2)
    )
    start = np.searchsorted(entity, entity, side="left")
    stop = np.searchsorted(entity, entity, side="right")
    key, sums = np.empty(0, np.int64), np.empty((3, 0))
    block = np.cumsum(stop - start) // BLOCK
    for groups in np.split(np.arange(len(r)), np.flatnonzero(np.diff(block)) + 1):
        here, there = expand(start[groups], stop[groups])  # all pairs (r, r′) of an entity
        here = groups[here]
        weights = (
            n[here] * n[there],
            n[there] * total[here] - n[here] * total[there],
            n[there] * squares[here] - 2 * total[here] * total[there] + n[here] * squares[there],
        )
        here = r[here] * evidence.relations + r[there]
        key, place = np.unique(np.concatenate([key, here]), return_inverse=True)
        _check_pairs(len(key))
        sums = np.stack(
            [np.bincount(place, np.append(old, new), len(key)) for old, new in zip(sums, weights, strict=True)]
        )
    count, first, second = sums
    mean = first / count
    return Meetings(key, count.astype(np.int64), mean, np.sqrt(np.maximum(second / count - mean**2, 0)))


def _check_pairs(number: int) -> None:
    if number > MOST_PAIRS:
        raise InputError(
            f"More than {MOST_PAIRS:,} pairs of relations meet in an entity: the pair gadget has no room for them.",
            "Train without it (--model timeplex-base), or import fewer relations.",
        )

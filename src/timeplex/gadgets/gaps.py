"""How far apart in time facts are: statistics of the training facts, and the Gaussians made of them."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timeplex.errors import InputError
from timeplex.gadgets.evidence import Evidence
from timeplex.kb.dates import Ints
from timeplex.kb.facts import expand

Floats = NDArray[np.float64]

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


def between(entity: Ints, evidence: Evidence) -> tuple[Ints, Floats, Floats]:
    """`meetings` as tables: number of gaps, mean and deviation, (relations, relations) each, nan without any gap."""
    found, relations = meetings(entity, evidence), evidence.relations
    count = np.zeros(relations**2, np.int64)
    mean, sigma = np.full((2, relations**2), np.nan)
    count[found.key], mean[found.key], sigma[found.key] = found.count, found.mean, found.sigma
    shape = relations, relations
    return count.reshape(shape), mean.reshape(shape), sigma.reshape(shape)

"""How far apart in time facts are: statistics of the training facts, and the Gaussians made of them."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timeplex.gadgets.evidence import Evidence
from timeplex.kb.dates import Ints
from timeplex.kb.facts import expand

Floats = NDArray[np.float64]


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


def between(entity: Ints, evidence: Evidence) -> tuple[Ints, Floats, Floats]:
    """Gaps t − t′ between the facts with r and those with r′ that an entity has in one role: by (r, r′).

    entity: the subject or the object of each fact. All pairs of distinct times of (entity, r) and (entity, r′) count.
    Result: the number of gaps, their mean and standard deviation, (relations, relations) each, nan without any gap.

    The pairs are not formed: with n, S, Q = number, sum and sum of squares of the times of (entity, r), the pairs have
    Σ (t − t′) = n′ S − n S′ and Σ (t − t′)² = n′ Q − 2 S S′ + n Q′.
    """
    relations = evidence.relations
    (entity, r, t), _ = distinct(entity, evidence.r, evidence.t)
    t = t - round(float(np.median(t))) if len(t) else t  # small numbers keep the sums exact
    (entity, r), group = distinct(entity, r)
    n, total, squares = (
        np.bincount(group, weights, len(r)) for weights in (np.ones(len(t)), t * 1.0, t.astype(np.float64) ** 2)
    )
    start = np.searchsorted(entity, entity, side="left")
    stop = np.searchsorted(entity, entity, side="right")
    here, there = expand(start, stop)  # all pairs (r, r′) of an entity
    cell = r[here] * relations + r[there]
    count, first, second = (
        np.bincount(cell, weights, relations**2).reshape(relations, relations)
        for weights in (
            n[here] * n[there],
            n[there] * total[here] - n[here] * total[there],
            n[there] * squares[here] - 2 * total[here] * total[there] + n[here] * squares[there],
        )
    )
    with np.errstate(invalid="ignore"):
        mean = first / count
        variance = np.maximum(second / count - mean**2, 0)
    return count.astype(np.int64), mean, np.sqrt(variance)

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


def recurring(evidence: Evidence) -> tuple[Ints, Floats, Floats]:
    """For each relation: how many pairs (s, o) recur, and mean and standard deviation of their gaps.

    A gap lies between two consecutive distinct times of one triple; (relations,) each, nan without any gap.
    """
    s, r, o, t = np.unique(np.stack([evidence.s, evidence.r, evidence.o, evidence.t]), axis=1)
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
    entity, r, t = np.unique(np.stack([entity, evidence.r, evidence.t]), axis=1)
    t = t - round(float(np.median(t))) if len(t) else t  # small numbers keep the sums exact
    new = np.ones(len(t), bool)
    new[1:] = (entity[1:] != entity[:-1]) | (r[1:] != r[:-1])
    begins, group = np.flatnonzero(new), np.cumsum(new) - 1
    n, total, squares = (
        np.bincount(group, weights, len(begins)) for weights in (np.ones(len(t)), t * 1.0, t.astype(np.float64) ** 2)
    )
    entity, r = entity[begins], r[begins]
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

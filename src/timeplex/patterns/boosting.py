"""Boosted trees that tell two classes apart: small, deterministic, no library.

Each feature is put in one of `BINS` bins by its quantiles. A tree of `DEPTH` levels asks in each node whether the bin
of one feature is above a threshold; the next tree is grown on what the sum of the trees before gets wrong,

    score(x) = Σ_t value_t(leaf of x),    Pr(class 1) = 1 / (1 + exp(−score)),
    value = −rate · Σ g / (Σ h + λ),      g = p − y,  h = p (1 − p)   over the rows of a leaf

and a node is split where Σ_children (Σ g)² / (Σ h + λ) is highest. Sums are taken in the order of the rows.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from timeplex.typing import Bools, Features, Floats, Ints

BINS, DEPTH, ROUNDS = 32, 4, 200
RATE, PENALTY, LEAST_HESSIAN = 0.1, 20.0, 5.0
_LEAVES = 1 << DEPTH

Bins = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Boosted:
    """edges: (features, bins − 1); feature and above: (trees, inner nodes); value: (trees, leaves)."""

    edges: Floats
    feature: Ints
    above: Ints
    value: Floats

    def __call__(self, rows: Features) -> Floats:
        """The score of each row of features, above 0 where class 1 is likelier: (n,)."""
        found: Floats = _scores(_binned(rows, self.edges), self.feature, self.above, self.value)
        return found


def boost(rows: Features, is_one: Bools, rounds: int = ROUNDS) -> Boosted:
    """Trees for rows (n, features) of two classes, (n,), which count alike in sum."""
    share = np.linspace(0, 1, BINS + 1)[1:-1]
    edges = np.stack([np.quantile(column, share, method="lower") for column in rows.T]).astype(np.float64)
    ones = max(int(is_one.sum()), 1)
    weight = np.where(is_one, len(rows) / 2 / ones, len(rows) / 2 / max(len(rows) - ones, 1))
    return Boosted(edges, *_grow(_binned(rows, edges), is_one.astype(np.float64), weight, rounds))


def _binned(rows: Features, edges: Floats) -> Bins:
    columns = [np.searchsorted(edge, column) for edge, column in zip(edges, rows.T, strict=True)]
    return np.stack(columns, axis=1).astype(np.uint8)


@njit(cache=True)
def _grow(bins: Bins, one: Floats, weight: Floats, rounds: int) -> tuple[Ints, Ints, Floats]:
    n, features = bins.shape
    feature = np.zeros((rounds, _LEAVES - 1), np.int64)
    above = np.full((rounds, _LEAVES - 1), BINS)
    value = np.zeros((rounds, _LEAVES))
    score, node = np.zeros(n), np.zeros(n, np.int64)
    g, h = np.zeros(n), np.zeros(n)
    for tree in range(rounds):
        for i in range(n):
            p = 1 / (1 + np.exp(-score[i]))
            g[i], h[i], node[i] = weight[i] * (p - one[i]), weight[i] * p * (1 - p), 0
        for level in range(DEPTH):
            nodes, first = 1 << level, (1 << level) - 1
            sums = np.zeros((nodes, features, BINS, 2))
            for i in range(n):
                at = sums[node[i]]
                for f in range(features):
                    at[f, bins[i, f], 0] += g[i]
                    at[f, bins[i, f], 1] += h[i]
            for each in range(nodes):
                feature[tree, first + each], above[tree, first + each] = _split(sums[each])
            for i in range(n):
                inner = first + node[i]
                node[i] = 2 * node[i] + (bins[i, feature[tree, inner]] > above[tree, inner])
        total = np.zeros((_LEAVES, 2))
        for i in range(n):
            total[node[i], 0] += g[i]
            total[node[i], 1] += h[i]
        for leaf in range(_LEAVES):
            value[tree, leaf] = -RATE * total[leaf, 0] / (total[leaf, 1] + PENALTY)
        for i in range(n):
            score[i] += value[tree, node[i]]
    return feature, above, value


@njit(cache=True)
def _split(sums: Floats) -> tuple[int, int]:
    """The best (feature, last bin of the left side) of a node; all go left if no split is worth it."""
    best, feature, above = 1e-9, 0, BINS
    g_all, h_all = 0.0, 0.0
    for b in range(BINS):
        g_all += sums[0, b, 0]
        h_all += sums[0, b, 1]
    whole = g_all * g_all / (h_all + PENALTY)
    for f in range(len(sums)):
        g, h = 0.0, 0.0
        for b in range(BINS - 1):
            g += sums[f, b, 0]
            h += sums[f, b, 1]
            if h < LEAST_HESSIAN or h_all - h < LEAST_HESSIAN:
                continue
            gain = g * g / (h + PENALTY) + (g_all - g) ** 2 / (h_all - h + PENALTY) - whole
            if gain > best * (1 + 1e-9):
                best, feature, above = gain, f, b
    return feature, above


@njit(cache=True)
def _scores(bins: Bins, feature: Ints, above: Ints, value: Floats) -> Floats:
    out = np.zeros(len(bins))
    for i in range(len(bins)):
        for tree in range(len(feature)):
            node = 0
            for level in range(DEPTH):
                inner = (1 << level) - 1 + node
                node = 2 * node + (bins[i, feature[tree, inner]] > above[tree, inner])
            out[i] += value[tree, node]
    return out

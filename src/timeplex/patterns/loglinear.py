"""The log-linear learner: which answer is right, by weighted features, with weights that are shared and corrected.

    Pr(c | x, r, T) ∝ exp(Σ_k (w_k + v_{r,k}) f_k(c))

w is shared by all directed relations, v_r corrects it for one. Both are fitted by L-BFGS to the mean log-likelihood of
the right answers, less penalties that pull w and v to the weights that they start from (none: to 0). This is convex.

To *train*, not all entities are needed: a pool has the right answer, the entities that score best, and others drawn
evenly from the rest, which stand for all of the rest (their part of the sum is multiplied accordingly).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from timeplex.typing import Bools, Features, Floats, Ints

STEPS = 200
ENOUGH = 1e-7
"""A step that improves the loss by a smaller share is the last: features are in single precision."""


@dataclass(frozen=True, eq=False)
class Pools:
    """Questions with their pools: features (n, pool, features), the right answer first.

    offset, (n, pool), is the logarithm of how much an entry counts; −inf where it does not. r: (n,).
    """

    features: Features
    offset: Features
    r: Ints

    def __len__(self) -> int:
        return len(self.r)

    def __getitem__(self, rows: Ints | Bools | slice) -> "Pools":
        return Pools(self.features[rows], self.offset[rows], self.r[rows])

    def only(self, kept: Bools) -> "Pools":
        """The same with some of the features: a mask (features,)."""
        return self if kept.all() else Pools(self.features[:, :, kept], self.offset, self.r)

    @classmethod
    def none(cls, size: int, features: int) -> "Pools":
        """No question, with pools of so many."""
        empty = np.empty((0, size, features), np.float32)
        return cls(empty, np.empty((0, size), np.float32), np.empty(0, np.int64))

    @classmethod
    def together(cls, parts: Sequence["Pools"]) -> "Pools":
        """All questions of some pools of one size."""
        return cls(
            np.concatenate([part.features for part in parts]),
            np.concatenate([part.offset for part in parts]),
            np.concatenate([part.r for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class Weights:
    """What each feature counts: `shared` (features,), and `corrections` (relations, features)."""

    shared: Floats
    corrections: Floats

    @classmethod
    def zero(cls, relations: int, features: int) -> "Weights":
        """No feature counts."""
        return cls(np.zeros(features), np.zeros((relations, features)))

    def only(self, kept: Bools) -> "Weights":
        """Those of some of the features: a mask (features,)."""
        return Weights(self.shared[kept], self.corrections[:, kept])

    def among(self, kept: Bools) -> "Weights":
        """These as the weights of the features in a mask; the others count nothing."""
        found = Weights.zero(len(self.corrections), len(kept))
        found.shared[kept], found.corrections[:, kept] = self.shared, self.corrections
        return found

    def of(self, r: Ints | int) -> Floats:
        """The weights of relations: (…, features)."""
        return self.shared + self.corrections[r]


def fit(
    pools: Pools,
    start: Weights,
    *,
    pull: Floats | float,
    pull_corrections: Floats | float,
    iterations: int = STEPS,
) -> Weights:
    """The weights that maximise mean log-likelihood − Σ_k λ_k (w_k − w⁰_k)² − Σ_{r,k} λ′_k (v_{r,k} − v⁰_{r,k})².

    Penalties count in units of a feature's standard deviation within pools, so that they do not depend on its scale.
    """
    if len(pools) == 0 or pools.features.shape[2] == 0:
        return start
    scale = spread(pools)
    problem = Problem(pools, start, scale, np.broadcast_to(pull, scale.shape), pull_corrections)
    options = {"maxiter": iterations, "ftol": ENOUGH}
    found = minimize(problem, problem.start, jac=True, method="L-BFGS-B", options=options)
    shared, corrections = problem.split(found.x)
    return Weights(shared / scale, corrections / scale)


def fit_some(
    pools: Pools,
    start: Weights,
    free: Bools,
    *,
    pull: Floats | float,
    pull_corrections: Floats | float,
    iterations: int = STEPS,
) -> Weights:
    """`fit` of those features alone that a mask, (features,), has; the others count what they count at the start."""
    if free.all():
        return fit(pools, start, pull=pull, pull_corrections=pull_corrections, iterations=iterations)
    fixed = np.matmul(pools.features[:, :, ~free], start.of(pools.r)[:, ~free, None].astype(np.float32))[:, :, 0]
    some = Pools(np.ascontiguousarray(pools.features[:, :, free]), pools.offset + fixed, pools.r)
    found = fit(some, start.only(free), pull=pull, pull_corrections=pull_corrections, iterations=iterations)
    weights = Weights(start.shared.copy(), start.corrections.copy())
    weights.shared[free], weights.corrections[:, free] = found.shared, found.corrections
    return weights


def mean_loss(pools: Pools, weights: Weights) -> float:
    """−Σ log-likelihood of the right answers / n."""
    lost = [loss_and_gradient(pools[pools.r == r], weights.of(int(r)))[0] for r in np.unique(pools.r)]
    return sum(lost) / max(len(pools), 1)


def spread(pools: Pools) -> Floats:
    """The standard deviation of each feature about the mean of its pool; 1 where it never varies: (features,)."""
    total = np.zeros(pools.features.shape[2])
    for block in np.array_split(np.arange(len(pools)), max(1, len(pools) // 256)):
        total += pools.features[block].astype(np.float64).var(1).sum(0)
    deviation = np.sqrt(total / len(pools))
    return np.where(deviation > 1e-6, deviation, 1)


class Problem:
    """The objective and its gradient, in units of `scale`; questions are sorted by relation."""

    def __init__(self, pools: Pools, start: Weights, scale: Floats, pull: Floats, pull_corrections: Floats | float):
        self.relations, self.features = start.corrections.shape
        order = np.argsort(pools.r, kind="stable")
        present, begins = np.unique(pools.r[order], return_index=True)
        self.blocks = [(int(r), pools[rows]) for r, rows in zip(present, np.split(order, begins[1:]), strict=True)]
        self.scale, self.pull, self.pull_corrections = scale, pull, np.asarray(pull_corrections, np.float64)
        self.start = np.concatenate([start.shared * scale, (start.corrections * scale).ravel()])
        self.n = len(pools)

    def split(self, values: Floats) -> tuple[Floats, Floats]:
        """(w, v) of the vector that is optimised."""
        return values[: self.features], values[self.features :].reshape(self.relations, self.features)

    def __call__(self, values: Floats) -> tuple[float, Floats]:
        (shared, corrections), (shared0, corrections0) = self.split(values), self.split(self.start)
        by_relation = np.zeros_like(corrections)
        loss = 0.0
        for r, block in self.blocks:
            weights = (shared + corrections[r]) / self.scale
            lost, gradient = loss_and_gradient(block, weights)
            loss += lost / self.n
            by_relation[r] = gradient / self.scale / self.n
        moved, moved_corrections = shared - shared0, corrections - corrections0
        loss += float(self.pull @ moved**2 + (self.pull_corrections * moved_corrections**2).sum())
        gradient_shared = by_relation.sum(0) + 2 * self.pull * moved
        gradient_corrections = by_relation + 2 * self.pull_corrections * moved_corrections
        return loss, np.concatenate([gradient_shared, gradient_corrections.ravel()])


def loss_and_gradient(pools: Pools, weights: Floats) -> tuple[float, Floats]:
    """−Σ log-likelihood of the right answers, and its gradient by the weights of one relation: (features,)."""
    n, size, features = pools.features.shape
    flat = pools.features.reshape(n * size, features)
    scores = (flat @ weights.astype(np.float32)).reshape(n, size) + pools.offset
    scores -= scores.max(1, keepdims=True)
    shares = np.exp(scores)
    total = shares.sum(1, keepdims=True)
    lost = float((np.log(total[:, 0]) - scores[:, 0]).sum(dtype=np.float64))
    shares /= total
    shares[:, 0] -= 1
    return lost, (shares.reshape(-1) @ flat).astype(np.float64)

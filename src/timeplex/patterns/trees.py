"""Trees that rank the best again: boosted by LightGBM on the same likelihood, kept and read as plain arrays.

LightGBM is needed only to train. What is kept of it is numbers, so that a stored model is data and nothing else.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from timeplex.errors import InputError
from timeplex.typing import Codes, Features, Floats, Ints

ROUNDS, LEAVES, RATE = 150, 8, 0.05
SMALLEST_LEAF = 20
LEAST_HESSIAN, PENALTY = 20.0, 10.0
"""Most candidates are very unlikely, so that Σ p (1 − p) of many of them is next to nothing, and one right answer among
them would make a leaf of any height."""


@dataclass(frozen=True, eq=False)
class Trees:
    """Binary trees; inner node k of tree t sends a row left if row[feature[t, k]] ≤ threshold[t, k].

    `left` and `right`, (trees, nodes), name a node, or a leaf l as −1 − l, whose value is in `value`, (trees, leaves).
    """

    feature: Codes
    threshold: Floats
    left: Codes
    right: Codes
    value: Floats

    def __call__(self, rows: Features) -> Floats:
        """The sum of all trees for each row of features: (…,)."""
        flat = np.ascontiguousarray(rows.reshape(-1, rows.shape[-1]), np.float64)
        found: Floats = _sums(self.feature, self.threshold, self.left, self.right, self.value, flat)
        return found.reshape(rows.shape[:-1])

    def and_more(self, others: "Trees") -> "Trees":
        """These and others, whose sums add up."""
        nodes = max(self.feature.shape[1], others.feature.shape[1])
        leaves = max(self.value.shape[1], others.value.shape[1])

        def both(name: str, width: int) -> NDArray[Any]:
            found = [getattr(trees, name) for trees in (self, others)]
            return np.concatenate([np.pad(each, ((0, 0), (0, width - each.shape[1]))) for each in found])

        inner = {name: both(name, nodes) for name in ("feature", "threshold", "left", "right")}
        return Trees(**inner, value=both("value", leaves))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it by name, as `Trees` takes it."""
        return {name: getattr(self, name) for name in ("feature", "threshold", "left", "right", "value")}


@njit(cache=True)
def _sums(feature: Codes, threshold: Floats, left: Codes, right: Codes, value: Floats, rows: Floats) -> Floats:
    out = np.zeros(len(rows))
    for row in range(len(rows)):
        for tree in range(len(feature)):
            node = 0
            while node >= 0:
                goes_left = rows[row, feature[tree, node]] <= threshold[tree, node]
                node = left[tree, node] if goes_left else right[tree, node]
            out[row] += value[tree, -1 - node]
    return out


def grow(features: Features, start: Floats, right: Ints, seed: int = 0, rounds: int = ROUNDS) -> Trees:
    """Trees for questions with equal numbers of candidates: features (n, candidates, features).

    `start`, (n, candidates), are the scores that the trees add to; −inf: no candidate. `right`, (n,), is the place of
    the right answer. The loss is that of a softmax over the candidates of a question.
    """
    try:
        import lightgbm
    except ImportError as error:
        raise InputError("LightGBM is not installed.", "Install it with: pip install timeplex[trees]") from error
    n, size, width = features.shape
    if n * size < 2 * SMALLEST_LEAF or not np.ptp(features.reshape(-1, width), axis=0).any():
        return _arrays([])  # no split is possible, which LightGBM takes for an error
    gold = np.zeros((n, size))
    gold[np.arange(n), right] = 1
    start = np.where(np.isfinite(start), start, -1e9)

    def gradients(scores: Floats, _: Any) -> tuple[Floats, Floats]:
        table = scores.reshape(n, size)
        shares = np.exp(table - table.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        return (shares - gold).ravel(), np.maximum(shares * (1 - shares), 1e-9).ravel()

    settings = {
        "objective": gradients,
        "num_leaves": LEAVES,
        "learning_rate": RATE,
        "min_data_in_leaf": SMALLEST_LEAF,
        "min_sum_hessian_in_leaf": LEAST_HESSIAN,
        "lambda_l2": PENALTY,
        "feature_pre_filter": False,
        "verbose": -1,
        "num_threads": 1,
        "seed": seed,
        "deterministic": True,
        "force_col_wise": True,
    }
    data = lightgbm.Dataset(features.reshape(n * size, width), init_score=start.ravel(), free_raw_data=True)
    booster = lightgbm.train(settings, data, num_boost_round=rounds)
    return _arrays([tree["tree_structure"] for tree in booster.dump_model()["tree_info"]])


def _arrays(roots: list[dict[str, Any]]) -> Trees:
    """Nested nodes as arrays; a tree that is a single leaf gets a node that sends all rows to it."""
    roots = [root for root in roots if "split_feature" in root or root.get("leaf_value")]
    flat = [_flat(root) for root in roots]
    nodes = max((len(inner) for inner, _ in flat), default=1)
    leaves = max((len(values) for _, values in flat), default=1)
    trees = Trees(
        np.zeros((len(flat), nodes), np.int32),
        np.zeros((len(flat), nodes)),
        np.full((len(flat), nodes), -1, np.int32),
        np.full((len(flat), nodes), -1, np.int32),
        np.zeros((len(flat), leaves)),
    )
    for tree, (inner, values) in enumerate(flat):
        for node, (feature, threshold, left, right) in enumerate(inner):
            trees.feature[tree, node], trees.threshold[tree, node] = feature, threshold
            trees.left[tree, node], trees.right[tree, node] = left, right
        trees.value[tree, : len(values)] = values
    return trees


def _flat(root: dict[str, Any]) -> tuple[list[tuple[int, float, int, int]], list[float]]:
    """(inner nodes, leaf values) of a tree, its root first."""
    inner: list[Any] = []
    values: list[float] = []

    def place(node: dict[str, Any]) -> int:
        if "split_feature" not in node:
            values.append(float(node["leaf_value"]))
            return -len(values)
        here = len(inner)
        inner.append(None)
        left, right = place(node["left_child"]), place(node["right_child"])
        inner[here] = (int(node["split_feature"]), float(node["threshold"]), left, right)
        return here

    if place(root) < 0:
        inner.append((0, 0.0, -1, -1))
    return inner, values

"""The convex learner: its gradient, its optimum, and pools that stand for all entities."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from timeplex.patterns.loglinear import Pools, Problem, Weights, fit, fit_some, loss_and_gradient, mean_loss, spread

N, SIZE, FEATURES, RELATIONS = 40, 6, 3, 2


def pools(seed: int = 0) -> Pools:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N, SIZE, FEATURES)).astype(np.float32)
    features[:, 0] += [1, 0, 0]  # the first feature tells the right answer
    offset = rng.normal(size=(N, SIZE)).astype(np.float32)
    offset[:, 0], offset[::3, -1] = 0, -np.inf
    return Pools(features, offset, rng.integers(RELATIONS, size=N))


def test_the_loss_is_the_log_likelihood_of_the_right_answers() -> None:
    some, weights = pools(), np.array([0.5, -1.0, 2.0])
    expected = 0.0
    for features, offset in zip(some.features, some.offset, strict=True):
        shares = [np.exp(row @ weights + more) for row, more in zip(features, offset, strict=True)]
        expected -= np.log(shares[0] / sum(shares))
    assert loss_and_gradient(some, weights)[0] == pytest.approx(expected, rel=1e-5)


def test_the_mean_loss_is_that_of_the_objective_without_penalties() -> None:
    rng, some = np.random.default_rng(2), pools()
    weights = Weights(rng.normal(size=FEATURES), rng.normal(size=(RELATIONS, FEATURES)))
    problem = Problem(some, weights, np.ones(FEATURES), np.zeros(FEATURES), 0.0)
    assert mean_loss(some, weights) == pytest.approx(problem(problem.start)[0], rel=1e-5)


def test_the_gradient_is_that_of_the_objective() -> None:
    some = pools()
    exact = Pools(some.features.astype(np.float64), some.offset.astype(np.float64), some.r)  # type: ignore[arg-type]
    start = Weights(np.array([0.1, 0.2, 0.3]), np.full((RELATIONS, FEATURES), 0.5))
    problem = Problem(exact, start, np.array([1.0, 2.0, 0.5]), np.array([0.1, 0.2, 0.3]), 0.4)
    at = np.random.default_rng(1).normal(size=FEATURES * (1 + RELATIONS))
    numeric = approx_fprime(at, lambda values: problem(values)[0], 1e-3)
    np.testing.assert_allclose(problem(at)[1], numeric, atol=2e-3)


def test_weights_learn_what_tells_and_a_strong_pull_holds_them() -> None:
    some, start = pools(), Weights(np.array([0.0, 3.0, 0.0]), np.zeros((RELATIONS, FEATURES)))
    learned = fit(some, start, pull=1e-4, pull_corrections=1e-2).shared
    assert learned[0] > 0.5
    assert abs(learned[1]) < 1
    held = fit(some, start, pull=1e4, pull_corrections=1e4)
    np.testing.assert_allclose(held.shared, start.shared, atol=1e-3)
    np.testing.assert_allclose(held.corrections, 0, atol=1e-3)


def test_the_scale_of_a_feature_does_not_matter() -> None:
    some, start = pools(), Weights.zero(RELATIONS, FEATURES)
    factor = np.array([10, 1, 0.1], np.float32)
    scaled = Pools(some.features * factor, some.offset, some.r)
    one, other = (fit(each, start, pull=1e-2, pull_corrections=1e-2) for each in (some, scaled))
    np.testing.assert_allclose(one.of(some.r), other.of(some.r) * factor, atol=5e-3)


def test_without_questions_the_weights_stay() -> None:
    start = Weights(np.ones(FEATURES), np.ones((RELATIONS, FEATURES)))
    assert fit(pools()[:0], start, pull=1.0, pull_corrections=1.0) is start


def test_some_features_are_fitted_beside_what_the_others_say() -> None:
    """With no feature free nothing moves; where one is, the loss of all has no slope along it any more."""
    rng = np.random.default_rng(4)
    features = rng.normal(size=(200, 6, 3)).astype(np.float32)
    pools = Pools(features, np.zeros((200, 6), np.float32), rng.integers(2, size=200))
    pools.features[:, 0] += 0.5
    start = Weights(rng.normal(size=3), rng.normal(size=(2, 3)))
    free = np.array([False, True, False])
    found = fit_some(pools, start, free, pull=1e-3, pull_corrections=1e-2)
    np.testing.assert_array_equal(found.shared[~free], start.shared[~free])
    np.testing.assert_array_equal(found.corrections[:, ~free], start.corrections[:, ~free])
    scale = spread(pools)
    problem = Problem(pools, start, scale, np.full(3, 1e-3), 1e-2)
    slopes = []
    for weights in (start, found):
        _, slope = problem(np.concatenate([weights.shared * scale, (weights.corrections * scale).ravel()]))
        slopes.append(np.abs([slope[1], *problem.split(slope)[1][:, 1]]).max())
    assert slopes[0] > 0.05
    assert slopes[1] < 0.002
    none = fit_some(pools, start, np.zeros(3, np.bool_), pull=1e-3, pull_corrections=1e-2)
    np.testing.assert_array_equal(none.shared, start.shared)

"""Trees as arrays say what LightGBM says, and learn what a straight line cannot."""

import sys

import numpy as np
import pytest

from timeplex.errors import InputError
from timeplex.patterns import trees
from timeplex.patterns.trees import Trees, grow

pytest.importorskip("lightgbm")


def world(n: int = 300, size: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """The right answer, first, is the one whose two features have the same sign most clearly."""
    features = np.random.default_rng(0).normal(size=(n, size, 2)).astype(np.float32)
    best = np.argmax(features[:, :, 0] * features[:, :, 1], axis=1)
    return features, best


def test_trees_learn_what_no_sum_of_features_says() -> None:
    features, best = world()
    found = grow(features, np.zeros(features.shape[:2]), best)
    right = np.argmax(found(features), axis=1) == best
    assert right.mean() > 0.7


def test_arrays_say_what_lightgbm_says(monkeypatch: pytest.MonkeyPatch) -> None:
    import lightgbm

    boosters = []

    def train(*args: object, **more: object) -> lightgbm.Booster:
        boosters.append(original(*args, **more))
        return boosters[-1]

    original = lightgbm.train
    monkeypatch.setattr(lightgbm, "train", train)
    features, best = world()
    found = grow(features, np.zeros(features.shape[:2]), best)
    expected = boosters[0].predict(features.reshape(-1, 2), raw_score=True).reshape(features.shape[:2])
    np.testing.assert_allclose(found(features), expected, rtol=1e-9, atol=1e-12)
    assert Trees(**found.arrays())(features[0, 0]) == found(features[0, 0])


@pytest.mark.parametrize("n", [0, 4, 100])
def test_where_no_split_helps_there_is_no_tree(n: int) -> None:
    features = np.zeros((n, 3, 2), np.float32)
    found = grow(features, np.zeros((n, 3)), np.zeros(n, np.int64))
    assert not found(features).any()


def test_a_feature_that_hardly_varies_is_no_error() -> None:
    features = np.zeros((100, 3, 2), np.float32)
    features[0, 0, 0] = 1
    found = grow(features, np.zeros((100, 3)), np.zeros(100, np.int64))
    assert np.isfinite(found(features)).all()


def test_who_is_no_candidate_does_not_matter() -> None:
    features, best = world()
    start = np.zeros(features.shape[:2])
    more = np.concatenate([features, features[:, :1] * 100], axis=1)
    hidden = np.concatenate([start, np.full((len(start), 1), -np.inf)], axis=1)
    one, other = grow(features, start, best), grow(more, hidden, best)
    assert np.corrcoef(one(features).ravel(), other(features).ravel())[0, 1] > 0.9


def test_lightgbm_is_asked_for_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(InputError, match="LightGBM is not installed"):
        trees.grow(*(np.zeros((1, 1, 1)), np.zeros((1, 1)), np.zeros(1, np.int64)))  # type: ignore[arg-type]


def test_trees_and_more_trees_add_up() -> None:
    """Of other depths, and none at all."""
    features, best = world()
    start = np.zeros(features.shape[:2])
    few = grow(features, start, best, rounds=7)
    more = grow(-features, start, best, rounds=2)
    none = grow(np.zeros_like(features), start, best)
    one, minus_one, minus_two = (np.array([[each]], np.int32) for each in (1, -1, -2))
    stump = Trees(one, np.array([[0.1]]), minus_one, minus_two, np.array([[0.5, -2.0]]))
    for first, second in ((few, more), (few, stump), (stump, few), (few, none), (none, few)):
        together = first.and_more(second)
        np.testing.assert_allclose(together(features), first(features) + second(features))
        assert len(together.feature) == len(first.feature) + len(second.feature)

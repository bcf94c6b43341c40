"""Trees for two classes: they tell apart what differs, together with what, and nothing where nothing differs."""

import numpy as np

from timeplex.patterns.boosting import boost


def test_it_learns_what_only_two_features_together_show() -> None:
    rng = np.random.default_rng(0)
    rows = rng.random((4000, 3)).astype(np.float32)
    is_one = (rows[:, 0] > 0.5) ^ (rows[:, 1] > 0.3)
    trees = boost(rows[:3000], is_one[:3000])
    assert ((trees(rows[3000:]) > 0) == is_one[3000:]).mean() > 0.95
    assert np.array_equal(trees(rows[3000:]), boost(rows[:3000], is_one[:3000])(rows[3000:]))


def test_both_classes_count_alike_and_scores_are_log_odds() -> None:
    """Class 1 is a tenth of the rows, and four times as frequent where the feature is 1."""
    rng = np.random.default_rng(1)
    is_one = rng.random(20_000) < 0.1
    feature = rng.random(20_000) < np.where(is_one, 0.8, 0.2)
    trees = boost(feature[:, None].astype(np.float32), is_one)
    score = trees(np.array([[0.0], [1.0]], np.float32))
    assert abs(score[1] - np.log(4)) < 0.15
    assert abs(score[0] + np.log(4)) < 0.15


def test_noise_says_next_to_nothing() -> None:
    rng = np.random.default_rng(2)
    rows, is_one = rng.random((6000, 4)).astype(np.float32), rng.random(6000) < 0.5
    told = boost(rows[:5000], is_one[:5000])(rows[5000:])
    assert abs(np.corrcoef(told, is_one[5000:])[0, 1]) < 0.1


def test_a_feature_that_never_varies_is_no_harm() -> None:
    assert np.allclose(boost(np.zeros((100, 1), np.float32), np.arange(100) < 30)(np.zeros((2, 1), np.float32)), 0)

"""Maps from raw probabilities to calibrated ones, on cases whose truth is known by construction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from timeplex.answers import calibration_maps
from timeplex.answers.calibration_maps import KINDS, CalibrationMap, Kind, calibration_error, reliability


def cases(seed: int, count: int, groups: int = 3):  # type: ignore[no-untyped-def]
    """Raw probabilities that promise too much, by group differently: truth = sigmoid(0.6 logit raw − 1 + effect)."""
    rng = np.random.default_rng(seed)
    raw = rng.beta(0.7, 1.2, count)
    group = rng.integers(0, groups, count)
    effect = np.linspace(-1.5, 1.5, groups)[group]
    truth = 1 / (1 + np.exp(-(0.6 * calibration_maps.logit(raw) - 1 + effect)))
    return raw, rng.random(count) < truth, group, calibration_maps.folds(count, seed), groups, truth


@settings(max_examples=30)
@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.integers(5, 400))
def test_maps_rise_and_stay_probabilities(kind: Kind, seed: int, count: int) -> None:
    raw, right, group, fold, groups, _ = cases(seed, count)
    found = calibration_maps.fit(kind, raw, right, group, fold, groups)
    grid = np.concatenate([[0.0, 1e-12], np.sort(np.random.default_rng(seed).random(200)), [1.0]])
    for each in range(groups):
        values = found(grid, np.array(each))
        assert (values >= 0).all()
        assert (values <= 1).all()
        assert (np.diff(values) >= -1e-12).all()
    assert CalibrationMap.model_validate_json(found.model_dump_json()) == found
    assert found(raw.reshape(1, -1), group[None]).shape == (1, count)


@pytest.mark.parametrize("kind", KINDS)
def test_maps_mend_what_is_wrong(kind: Kind) -> None:
    raw, right, group, fold, groups, _ = cases(0, 6000)
    new_raw, new_right, new_group, *_, new_truth = cases(1, 6000)
    found = calibration_maps.fit(kind, raw, right, group, fold, groups)
    values = found(new_raw, new_group)
    assert calibration_error(new_raw, new_right) > 0.1
    assert calibration_error(values, new_right) < 0.03
    if kind == "by-relation":  # it alone can know what differs between groups
        assert np.abs(values - new_truth).mean() < 0.04
    else:
        assert np.abs(values - new_truth).mean() > 0.1


def test_the_best_kind_is_chosen_on_cases_it_has_not_seen() -> None:
    raw, right, group, fold, groups, _ = cases(0, 3000)
    found, crossed = calibration_maps.choose(raw, right, group, fold, groups)
    assert found.kind == "by-relation"
    assert crossed == pytest.approx(calibration_maps.crossed("by-relation", raw, right, group, fold, groups))
    losses = {
        kind: calibration_maps.log_loss(calibration_maps.crossed(kind, raw, right, group, fold, groups), right)
        for kind in KINDS
    }
    assert losses["by-relation"] == min(losses.values())
    # Where groups and raw probabilities say nothing, few cases are better served by two numbers than by many.
    rng = np.random.default_rng(0)
    raw, group = rng.random(60), rng.integers(0, 20, 60)
    right = rng.random(60) < 1 / (1 + np.exp(-(calibration_maps.logit(raw) + 1)))
    assert calibration_maps.choose(raw, right, group, calibration_maps.folds(60), 20)[0].kind == "platt"


def test_what_a_case_gets_does_not_depend_on_itself() -> None:
    raw, right, group, fold, groups, _ = cases(2, 300)
    for kind in KINDS:
        before = calibration_maps.crossed(kind, raw, right, group, fold, groups)
        flipped = np.where(fold == 0, ~right, right)
        after = calibration_maps.crossed(kind, raw, flipped, group, fold, groups)
        assert before[fold == 0] == pytest.approx(after[fold == 0])
        assert before[fold != 0] != pytest.approx(after[fold != 0])


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_ever_quite_sure(kind: Kind, truth: bool) -> None:
    raw = np.linspace(0.01, 0.99, 50)
    found = calibration_maps.fit(kind, raw, np.full(50, truth), np.zeros(50, np.int64), calibration_maps.folds(50), 1)
    values = found(raw, np.zeros(50, np.int64))
    assert np.isfinite(values).all()
    assert ((values > 0) & (values < 1)).all()
    assert values[-1] > 0.9 if truth else values[-1] < 0.1


def test_folds_are_of_one_size_and_drawn_with_the_seed() -> None:
    assert np.bincount(calibration_maps.folds(52)).tolist() == [11, 11, 10, 10, 10]
    assert (
        calibration_maps.folds(52).tolist()
        == calibration_maps.folds(52, 0).tolist()
        != calibration_maps.folds(52, 1).tolist()
    )


def test_a_map_without_values_changes_nothing() -> None:
    raw = np.array([0.0, 0.3, 1.0])
    assert CalibrationMap()(raw, np.zeros(3, np.int64)).tolist() == raw.tolist()
    with pytest.raises(ValidationError):
        CalibrationMap(kind="platt", slope=float("nan"))
    with pytest.raises(ValidationError):
        CalibrationMap(kind="platt", slope=-1.0)


def test_reliability_by_hand() -> None:
    p = np.array([0.9, 0.1, 0.2, 0.8])
    right = np.array([True, False, True, False])
    assert reliability(p, right, 2) == [
        {"cases": 2, "from": 0.1, "to": 0.2, "predicted": pytest.approx(0.15), "right": 0.5},
        {"cases": 2, "from": 0.8, "to": 0.9, "predicted": pytest.approx(0.85), "right": 0.5},
    ]
    assert calibration_error(p, right, 2) == pytest.approx(0.35)
    assert calibration_error(p, right, 100) == pytest.approx((0.1 + 0.1 + 0.8 + 0.8) / 4)
    assert reliability(np.empty(0), np.empty(0, np.bool_)) == []
    assert calibration_error(np.empty(0), np.empty(0, np.bool_)) == 0


def test_rates_of_tiny_groups_are_not_believed() -> None:
    """Where groups say nothing, a case must not learn its own outcome from the rate of its group."""
    rng = np.random.default_rng(0)
    raw, right = rng.random(600), rng.random(600) < 0.5
    found = calibration_maps.fit("by-relation", raw, right, np.arange(600) // 2, calibration_maps.folds(600), 300)
    assert found.of_rate < 0.5
    spread = found(np.full(300, 0.5), np.arange(300))
    assert spread.max() - spread.min() < 0.2

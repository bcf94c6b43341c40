"""Calibration on dev: what is asked, what is kept, what happens where it cannot be."""

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.answers import small_runs
from tests.answers.random_runs import random_run

import timeplex
from timeplex.answers import calibration, trained
from timeplex.answers.calibration import Calibration, fit, group, some_of, who_cases
from timeplex.answers.calibration_maps import CalibrationMap
from timeplex.answers.rank import EntityQueries, EntityRanker
from timeplex.kb.facts import Facts
from timeplex.training.experiment import Experiment


def test_cases_of_who_by_hand() -> None:
    """Right is what dev says for the time, known is what train says for it, and test has no say."""
    run = random_run(4, count=40)
    found = who_cases(
        EntityRanker(run, run.kb.train), run.kb.valid, run.kb.valid, run.timeline.first, run.timeline.last
    )
    assert found.raw.shape == (12, 7)
    first, last = int(run.timeline.instants[0]), int(run.timeline.instants[-1])
    row = 0
    for direction in ("subject", "object"):
        questions = EntityQueries.of(run.kb.valid, direction, first, last)  # type: ignore[arg-type]
        ranked = EntityRanker(run, run.kb.train).rank(questions, 10, hide_known=True)
        for place, (s, r, o, begin, end) in enumerate(run.kb.valid):
            truths = {
                (o2 if direction == "object" else s2)
                for s2, r2, o2, b2, e2 in run.kb.valid
                if r2 == r and (s2 == s if direction == "object" else o2 == o) and b2 <= end and e2 >= begin
            }
            expected = [entity in truths for entity in ranked.entity[place].tolist()]
            assert found.right[row].tolist() == expected
            assert found.there[row].tolist() == [entity >= 0 for entity in ranked.entity[place].tolist()]
            assert found.group[row] == 2 * r + (direction == "subject")
            assert found.fact[row] == place
            row += 1


def test_test_facts_have_no_say() -> None:
    trained = small_runs.trained("gadgets")
    kb = trained.kb
    # The same dates, so that the timeline stays as it is, and other facts.
    test = Facts(kb.test.o, kb.test.r[::-1], kb.test.s, *kb.test.span)
    setup = Experiment(replace(kb, splits={**kb.splits, "test": test}), trained.run.recipe)
    assert setup.timeline == trained.run.timeline
    assert fit(replace(trained.run, setup=setup)) == fit(trained.run)


def test_what_is_fitted() -> None:
    found = small_runs.trained("gadgets").calibration
    assert found.who_facts == 180
    assert found.when_facts > 50
    assert found.who.kind in ("platt", "isotonic", "by-relation")
    assert found.measured["rank@1"]["after"] < 0.15
    assert found.measured["interval"]["coverage"] == pytest.approx(0.8, abs=0.1)
    chosen = f"{found.when.decoder}, weighted" if found.when.weights else found.when.decoder
    assert found.measured["aeiou"][chosen] == max(found.measured["aeiou"].values())
    assert len(found.measured["aeiou"]) == 6
    error = found.measured["rank@1"]["after"]
    assert (
        found.note("rank") == f"Probabilities were calibrated on 180 dev facts: expected calibration error {error:.3f}."
    )
    assert f"on {found.when_facts} dev facts" in found.note("when")


def test_a_model_without_time_has_nothing_fitted_for_when() -> None:
    found = fit(small_runs.trained("static").run)
    assert found.who_facts == 180
    assert found.when_facts == 0
    assert "not calibrated" in found.note("when")


def test_too_few_dev_facts() -> None:
    run = random_run(1)
    found = fit(run)
    assert found == Calibration()
    assert "not calibrated: the run's KB has fewer than 50 dev facts" in found.note("rank")
    raw = np.array([[0.2, 0.1]])
    assert found.rank(raw, np.array([0]), "object").tolist() == raw.tolist()


def test_groups_are_relation_and_direction() -> None:
    assert group(np.array([0, 3]), "object").tolist() == [0, 6]
    assert group(np.array([0, 3]), "subject").tolist() == [1, 7]
    rates = CalibrationMap(kind="by-relation", of_rate=1.0, rates=(0.0, 5.0))
    found = Calibration(who=rates, who_facts=1)
    raw = np.full((1, 1), 0.5)
    assert found.rank(raw, np.array([0]), "object") == pytest.approx(0.5)
    assert found.rank(raw, np.array([0]), "subject") > 0.9


def test_a_long_timeline_has_fewer_dev_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_runs.trained("gadgets").run
    whole = fit(run)
    monkeypatch.setattr(calibration, "ENOUGH", 100)
    monkeypatch.setattr(calibration, "MOST_INSTANTS", 50 * len(run.timeline))
    steps: list[tuple[int, int | None]] = []
    found = fit(run, lambda done, total: steps.append((done, total)))
    assert 50 <= found.when_facts < min(101, whole.when_facts)
    assert found.who == whole.who
    assert steps == [(done, calibration.STEPS) for done in range(calibration.STEPS + 1)]
    assert fit(run) == found


def test_a_part_of_many_facts() -> None:
    facts = random_run(1).kb.train
    assert some_of(facts) is facts
    part = some_of(facts, 10)
    assert len(part) == 10
    assert set(part) <= set(facts)
    assert [*part] == [*some_of(facts, 10)] == [fact for fact in facts if fact in set(part)][: len(part)]


# What is kept

FILE = "calibration.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_runs.trained("gadgets").calibration  # noqa: B018 - fitted once for all
    place = tmp_path / "run"
    shutil.copytree(small_runs.folder("gadgets"), place)
    return place


def never(*_: object) -> Calibration:
    raise AssertionError("it was fitted again")


def test_it_is_kept_and_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = small_runs.trained("gadgets").calibration
    assert (folder / FILE).is_file()
    monkeypatch.setattr(trained, "fit", never)
    assert timeplex.load(folder).calibration == expected


@pytest.mark.parametrize("damage", ["half", "digit", "other run", "no json", "missing", "list", "wrong values"])
def test_what_cannot_be_used_is_made_again(folder: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file, expected = folder / FILE, small_runs.trained("gadgets").calibration
    content = json.loads(file.read_text())
    if damage == "half":
        file.write_text(file.read_text()[:-100])
    elif damage == "digit":
        content["fitted"]["who_facts"] += 1
    elif damage == "other run":
        content["run"] = "0" * 64
    elif damage == "no json":
        file.write_bytes(b"\xff\x00")
    elif damage == "missing":
        file.unlink()
    elif damage == "list":
        file.write_text("[1]")
    else:
        content["fitted"]["when"]["shape"] = "round"
        content["sha256"] = calibration._digest(content["fitted"])
    if damage in ("digit", "other run", "wrong values"):
        file.write_text(json.dumps(content))
    monkeypatch.setattr(trained, "fit", lambda *_: expected)
    assert timeplex.load(folder).calibration == expected
    monkeypatch.setattr(trained, "fit", never)
    assert timeplex.load(folder).calibration == expected


def test_a_folder_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = small_runs.trained("gadgets").calibration
    (folder / FILE).unlink()
    before = sorted(path.name for path in folder.iterdir())

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(trained, "fit", lambda *_: expected)
    monkeypatch.setattr("timeplex.files.os.fsync", full)
    assert timeplex.load(folder).calibration == expected
    assert sorted(path.name for path in folder.iterdir()) == before


def test_gadgets_that_are_left_out_have_a_calibration_of_their_own(folder: Path) -> None:
    run = timeplex.load(folder).run
    assert calibration.fingerprint(run) != calibration.fingerprint(run.without("pair"))


def test_the_most_facts_are_bounded() -> None:
    assert calibration.MOST_FACTS == 5_000

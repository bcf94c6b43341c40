"""Folders that were written once, by this version and by earlier ones, load for ever and answer as they did then.

`tools/make_golden.py` makes a new one when a format changes; none is ever made again or removed.
"""

import json
import shutil
import sys
from pathlib import Path

import pytest

import timeplex
from timeplex.kb.facts import TemporalKB
from timeplex.training.loop import Trainer
from timeplex.training.run import RunFolder

ROOT = Path(__file__).parents[1]
GOLDEN = sorted(path for path in (ROOT / "tests" / "golden").iterdir() if path.is_dir())
sys.path.insert(0, str(ROOT / "tools"))

from make_golden import answers  # noqa: E402 - it lies in a folder of scripts


def test_there_are_some() -> None:
    assert {"0.1.0-november", "1"} <= {path.name for path in GOLDEN}


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda path: path.name)
def test_it_answers_as_it_did(folder: Path) -> None:
    expected = json.loads((folder / "answers.json").read_text())
    found = answers(folder)
    # Products of float32 numbers differ in the last digits from processor to processor.
    assert found["rank"] == pytest.approx(expected["rank"], rel=1e-4)
    assert {**found, "rank": None} == {**expected, "rank": None}


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda path: path.name)
def test_it_can_be_asked(folder: Path, tmp_path: Path) -> None:
    """What older runs have not kept is learned with the first question, and kept."""
    run = shutil.copytree(folder / "run", tmp_path / "run")
    asked = timeplex.load(run)
    assert len(asked.rank(relation="headOf", object="Town 3", at="1961", k=5)) == 5
    assert asked.when("P5", "headOf", "Town 0")["probability"].is_between(0, 1).all()
    assert {"dates.json", "links.json"} <= {path.name for path in run.iterdir()}


@pytest.mark.parametrize("folder", [path for path in GOLDEN if (path / "begun").exists()], ids=lambda path: path.name)
def test_a_training_that_was_cut_off_goes_on(folder: Path, tmp_path: Path) -> None:
    run = RunFolder(Path(shutil.copytree(folder / "begun", tmp_path / "run")))
    metrics = Trainer(run.kb(), run.recipe(), run.path).fit(resume=True)
    straight = json.loads((folder / "run" / "metrics.json").read_text())
    assert metrics["epochs"] == straight["epochs"]
    assert metrics["dev"]["mrr"] == pytest.approx(straight["dev"]["mrr"], rel=0.01)
    assert run.load().kb == TemporalKB.load(folder / "kb")

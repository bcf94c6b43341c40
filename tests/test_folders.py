"""Folders of strangers whose checksums fit: what they hold is held against what must be true, before it is used."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import torch
from safetensors.torch import save
from tests.kb.random_kbs import kb_of
from tests.patience import patience

from timeplex.answers.calibration import Calibration
from timeplex.answers.calibration_maps import CalibrationMap
from timeplex.answers.when import SpanDecoding
from timeplex.errors import DamagedError, InputError
from timeplex.files import MOST_JSON, checksum
from timeplex.kb import store
from timeplex.kb.facts import TemporalKB
from timeplex.kb.readers.packed import quiet_stderr
from timeplex.models import MODELS
from timeplex.training import checkpoint
from timeplex.training.checkpoint import State
from timeplex.training.experiment import Experiment
from timeplex.training.recipe import Recipe

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_changed_folders_are_refused_or_consistent() -> None:
    """3,000 changes of every file, in a process of its own, whose memory is measured."""
    command = [sys.executable, "-m", "tests.fuzz_folders", "--count", "3000", "--seed", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience(600), check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert found["refused"] + found["consistent"] == 3000
    assert min(found["refused"], found["consistent"]) > 200
    assert min(found["files"].values()) >= 30, "every file has its turn"
    assert found["peak_mb"] < 1000
    assert "panicked" not in done.stderr


# KBs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kb_of({"train": [(0, 1, 2, 1990, 1991), (3, 1, 3, 4, 5)], "test": [(1, 0, 2, 3, 4)]}).save(tmp_path / "kb")
    return tmp_path / "kb"


def refit(folder: Path) -> None:
    sums = {name: checksum(folder / name) for name in store.FILES}
    (folder / "MANIFEST.json").write_text(json.dumps({"format": 1, "sha256": sums}))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"splits": {}}, "no train facts"),
        ({"splits": {"train": 2}}, "other numbers of facts"),
        ({"splits": {"train": 2, "test": 1, "dev": 0}}, "Input should be"),
        ({"splits": {"train": 2, "test": "1"}}, "valid integer"),
        ({"entities": 11}, "11"),
        ({"relations": 9}, "9"),
        ({"granularity": "week"}, "granularity"),
        ({"rows_read": -1}, "rows_read"),
        ({"rows_read": True}, "rows_read"),
        ({"name": None}, "name"),
        ({"format": 2}, "format"),
    ],
)
def test_what_the_description_says_must_be_so(folder: Path, changes: dict[str, object], told: str) -> None:
    said = json.loads((folder / "kb.json").read_text())
    (folder / "kb.json").write_text(json.dumps({**said, **changes}))
    refit(folder)
    with pytest.raises(DamagedError, match=told):
        TemporalKB.load(folder)


def one_row(column: str, value: int) -> pl.Expr:
    """The fact of the relation r0 with another number."""
    return pl.when(pl.col("r") == 0).then(pl.lit(value, pl.Int32)).otherwise(column).alias(column)


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        ("facts", one_row("s", -1), "names nothing"),
        ("facts", one_row("o", 10), "names nothing"),
        ("facts", one_row("r", 10**6), "names nothing"),
        ("facts", pl.lit(None, pl.Int32).alias("s"), "null in the column s"),
        ("facts", one_row("end", 10**6), "beyond all years"),
        ("facts", one_row("end", -3000), "ends before it begins"),
        ("facts", pl.col("s").cast(pl.Int64), "of their types"),
        ("facts", pl.lit(1).alias("more"), "does not have the columns"),
        ("facts", pl.lit("valid").alias("split"), "other numbers of facts"),
        ("entities", pl.col("name").reverse(), "not sorted and distinct"),
        ("entities", pl.lit("e0").alias("name"), "not sorted and distinct"),
        ("relations", pl.when(pl.col("name") == "r3").then(None).otherwise("name").alias("name"), "null"),
    ],
)
def test_what_the_tables_hold_must_fit_together(folder: Path, file: str, change: pl.Expr, told: str) -> None:
    path = folder / f"{file}.parquet"
    pl.read_parquet(path).with_columns(change).write_parquet(path)
    refit(folder)
    with pytest.raises(DamagedError, match=told):
        TemporalKB.load(folder)


def test_a_few_bytes_cannot_stand_for_millions_of_rows(folder: Path) -> None:
    pl.select(pl.repeat(0, 3_000_000, dtype=pl.Int32).alias("s")).write_parquet(folder / "facts.parquet")
    assert (folder / "facts.parquet").stat().st_size < 10_000
    refit(folder)
    with pytest.raises(DamagedError, match="more than a file of its size can hold"):
        TemporalKB.load(folder)


def test_a_few_bytes_cannot_unpack_to_a_long_text(folder: Path) -> None:
    pl.DataFrame({"name": ["x" * 300_000_000], "label": [None]}).write_parquet(folder / "entities.parquet")
    refit(folder)
    with pytest.raises(DamagedError, match="more than a file of its size can hold"):
        TemporalKB.load(folder)


DEEP, LONG = "[" * 10**6, "1" + "0" * 10**6


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 10**5, LONG, " " * (MOST_JSON + 1), "nan", '"\\ud800"'], ids=range(6))
@pytest.mark.parametrize("file", ["MANIFEST.json", "kb.json"])
def test_json_that_a_reader_could_choke_on(folder: Path, file: str, text: str) -> None:
    (folder / file).write_text(text)
    if file != "MANIFEST.json":
        refit(folder)
    with pytest.raises(DamagedError) as caught:
        TemporalKB.load(folder)
    assert len(str(caught.value)) < 600


def test_standard_error_is_as_before(capfd: pytest.CaptureFixture[str]) -> None:
    def read() -> None:
        with quiet_stderr():
            os.write(2, b"lost")
            raise InputError("It cannot be read.")

    with pytest.raises(InputError):
        read()
    os.write(2, b"seen")
    assert capfd.readouterr().err == "seen"


def test_what_others_print_while_a_file_is_read_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_stderr():
        os.write(2, b"held back, " * 10_000)
        assert capfd.readouterr().err == ""
    os.write(2, b"then this")
    assert capfd.readouterr().err == "held back, " * 10_000 + "then this"


# Models


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_shapes_of_a_model_are_known_without_its_numbers(name: str) -> None:
    kb = kb_of([(0, 1, 2, 1990, 1991), (3, 1, 3, 4, 5)])
    setup = Experiment(kb, Recipe(model=name, options={"dimension": 6}))
    shapes, real = (
        {key: (table.shape, table.dtype) for key, table in each.items()}
        for each in (setup.shapes(), setup.new_model().state_dict())
    )
    assert shapes == real
    huge = Experiment(kb, Recipe(model=name, options={"dimension": 50_000})).shapes()
    assert all(table.is_meta for table in huge.values())
    with pytest.raises(DamagedError, match="another shape"):  # before any of the memory is taken
        checkpoint.unpack(b"x" * 1000, huge, "a file")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1e10, 3e38])
def test_numbers_that_no_training_leaves(number: float) -> None:
    good = {"a": torch.ones(2, 3), "b": torch.zeros(1, dtype=torch.int64)}
    assert torch.equal(checkpoint.unpack(save(good), good, "it")["a"], good["a"])
    with pytest.raises(DamagedError, match="not finite or far too large, in a"):
        checkpoint.unpack(save({**good, "a": torch.tensor([[1.0, number, 1.0]] * 2)}), good, "it")


@pytest.mark.parametrize("change", [{"c": torch.ones(9)}, {"a": torch.ones(3, 2)}, {"a": torch.ones(2, 3).double()}])
def test_other_tables_than_the_models(change: dict[str, torch.Tensor]) -> None:
    good = {"a": torch.ones(2, 3)}
    for wrong in ({**good, **change}, {}):
        with pytest.raises(DamagedError, match="another"):
            checkpoint.unpack(save(wrong), good, "it")


# Where a training stands, and what was fitted


@pytest.mark.parametrize(
    "change",
    [
        *({"epoch": 4}, {"epoch": -1}, {"batch": 8}, {"learning_rate": 0.2}, {"learning_rate": 0.0}, {"best_epoch": 5}),
        *({"best": float("nan")}, {"loss_sum": float("inf")}, {"seconds": -1.0}, {"precision": "int8"}, {"step": -1}),
        *({"trace": [{}]}, {"epoch": 1}, {"looks_since_best": -2}),
    ],
)
def test_a_training_cannot_stand_just_anywhere(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"learning_rate": 0.1, "step": 3, "batch": 3}
    assert State(**good).is_possible(3, 7, 0.1)
    assert not State(**{**good, **change}).is_possible(3, 7, 0.1)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"rates": (0.0,) * 3}, {"knots": (0.1,)}, {"intercept": 1e300}, {"knots": (0.1,), "values": (2.0,)}),
        {"knots": (0.2, 0.1), "values": (0.0, 1.0)},
    ],
)
def test_a_kept_map_must_fit(wrong: dict[str, Any]) -> None:
    assert CalibrationMap().fits(4)
    assert CalibrationMap(kind="by-relation", rates=(0.0,) * 4, knots=(0.1, 0.2), values=(0.0, 1.0)).fits(4)
    assert not CalibrationMap(kind="by-relation", **wrong).fits(4)


@pytest.mark.parametrize("wrong", [{"decoder": "grid", "theta": (0.1,)}, {"level": 1.5}, {"weights": {"model": -1.0}}])
def test_a_kept_calibration_must_fit(wrong: dict[str, Any]) -> None:
    run: Any = SimpleNamespace(kb=kb_of([]))
    assert Calibration().fits(run)
    assert not Calibration(when=SpanDecoding(**wrong)).fits(run)
    assert not Calibration(who_facts=3).fits(run), "nothing was measured"

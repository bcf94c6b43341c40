"""A tree of made-up results, and a workspace with a small KB and recipes that train in a second."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.builders import small_kb

from timeplex import TemporalKB
from timeplex.reproduce import runner
from timeplex.reproduce.records import DATASETS, FIGURES, LASTING, LATER, PAIRS, Cell, Request, Results, pair_name
from timeplex.reproduce.runner import Workspace
from timeplex.reproduce.tables import BIRTHS, YEARS

LINKS = ("mrr", "hits@1", "hits@3", "hits@10")
TIMES = tuple(f"{name}@{k}" for name in ("tac", "iou", "giou", "aeiou", "gaeiou") for k in (1, 5, 10))
DECODERS = ("mean-mass", "grid", "expected-aeiou")


def measured(dataset: str, model: str, seed: int) -> dict[str, Any]:
    """Figures as `measure` gives them, drawn by chance (the same each time)."""
    chance = random.Random(f"{dataset} {model} {seed}")

    def some(names: tuple[str, ...]) -> dict[str, float]:
        return {name: chance.random() for name in names}

    found: dict[str, Any] = {
        "recipe": {"model": model, "seed": seed, "options": {"scorer": "complex"} if model == "ta" else {}},
        "epochs": 3,
        "best_epoch": 2,
        "parameters": 1000,
        "machine": {"threads": 2, "device": "cpu"},
        "seconds": 12.5,
        **{split: {preset: some(LINKS) for preset in ("published-code", "paper")} for split in ("test", "valid")},
        "filters": {name: some(LINKS) for name in ("none", "ignore-time", "exact-span", "per-instant")},
    }
    if dataset in LASTING:
        found["ordering"] = {"share": chance.random(), "queries": 100}
        if model != "complex":
            found["decoders"] = {decoder: some(TIMES) for decoder in DECODERS}
            found["valid_decoders"] = {decoder: some(TIMES) for decoder in DECODERS}
            found["decoder_classes"] = {decoder: some(("instant", "short", "long")) for decoder in DECODERS}
        if model == "timeplex":
            rows = ("-pair", "-rec", "-pair-rec")
            found["ablation"] = {row: {**some(LINKS), "decoders": some(DECODERS)} for row in rows}
    return found


def compared(dataset: str, first: str, second: str) -> dict[str, float]:
    """A comparison as `compare` gives it."""
    one, other = (measured(dataset, model, 0)["test"]["published-code"]["mrr"] for model in (first, second))
    figures = {"difference": 0.1, "low": 0.05, "high": 0.15, "p": 0.001}
    return {"facts": 10, "first": one, "second": other, **figures}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Nothing is missing."""
    made = Results(tmp_path / "results")
    for cell in (*Request.of().cells(), *(Cell(dataset, model, 0) for dataset, model in LATER)):
        made.add(cell, measured(cell.dataset, cell.model, cell.seed))
    for dataset in DATASETS:
        sizes = ("entities", "relations", "instants", "intervals", "train", "valid", "test")
        made.write(f"{dataset}/stats", dict.fromkeys(sizes, 1234))
        made.write(f"{dataset}/significance", {"pairs": {pair_name(*pair): compared(dataset, *pair) for pair in PAIRS}})
    gaps = {"granularity": "year", "gap": [1, 2, 3], "distance": [0.5, 0.7, 0.8], "pairs": [40, 39, 38]}
    made.write("figures/distance", {dataset: {"years": list(YEARS[dataset]), **gaps} for dataset in LASTING})
    curve = {"granularity": "year", "instants": [1900, 1950, 2000], "probability": [0.1, 0.5, 0.2]}
    curves = dict.fromkeys(FIGURES["across-time"][1], curve)
    made.write("figures/across-time", {" ".join(fact): {"gold": [1950, 1951], "curves": curves} for fact in BIRTHS})
    return made


RECIPE = """
model = "{model}"
epochs = 2
batch_size = 200
time_weight = {time_weight}
precision = "float32"
[options]
dimension = 4
"""
GADGETS = """
[gadgets.recurrence]
[gadgets.pair]
[phase2]
epochs = 1
"""


@pytest.fixture(scope="session")
def small() -> TemporalKB:
    """A KB with facts that last."""
    return small_kb(400, seed=1, valid=0.15, test=0.15)


@pytest.fixture
def workspace(tmp_path: Path, small: TemporalKB, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """Every data set is the small KB."""
    monkeypatch.setattr(runner, "read", lambda dataset, data_dir=None: small)
    runner.read_kb.cache_clear()
    monkeypatch.chdir(tmp_path)
    for dataset in DATASETS:
        folder = tmp_path / "recipes" / dataset
        folder.mkdir(parents=True)
        for name in ("complex", "tnt-complex", "timeplex-base"):
            text = RECIPE.format(model=name, time_weight=0.0 if name == "complex" else 0.5)
            (folder / f"{name}.toml").write_text(text)
        (folder / "timeplex.toml").write_text(RECIPE.format(model="timeplex-base", time_weight=0.5) + GADGETS)
    yield Workspace(Path("runs"), Results(Path("results")), Path("recipes"), device="cpu")
    runner.read_kb.cache_clear()


@contextmanager
def no_training(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever trains, fails."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("trained")

    with monkeypatch.context() as patch:
        patch.setattr(runner, "Trainer", fail)
        yield

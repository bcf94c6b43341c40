"""The same command gives the same tables, whatever else the machine has to do."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.builders import small_kb

from timeplex.training.loop import Trainer, estimate
from timeplex.training.recipe import Recipe

BURN = "while True: pass"


@contextmanager
def burning(processes: int) -> Iterator[None]:
    """Other work that takes the processor."""
    running = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def tables(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.safetensors")}


@pytest.mark.parametrize("model", ["timeplex-base", "de-simple"])
def test_under_load_and_with_other_checkpoints(model: str, tmp_path: Path) -> None:
    kb = small_kb(500)
    recipe = Recipe(
        model=model,
        options={"dimension": 8} | ({"dropout": 0.2} if model == "de-simple" else {}),
        epochs=3,
        batch_size=64,
        gadgets={"recurrence": {}, "pair": {"form": "published-code", "try_weights": (0.3, 3.0)}},
    )
    Trainer(kb, recipe, tmp_path / "calm").fit()
    with burning(2):
        busy = Trainer(kb, recipe, tmp_path / "busy")
        estimate(busy)
        busy.fit(lambda now: None, checkpoint_seconds=0)
    assert len(tables(tmp_path / "calm")) == 2
    assert tables(tmp_path / "calm") == tables(tmp_path / "busy")

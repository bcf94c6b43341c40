"""Where the benchmarks lie. They are never in the repository: without them, the tests that need them are skipped."""

import os
from pathlib import Path

import pytest

from timeplex.kb.facts import SPLITS

DATA = Path(os.environ.get("TIMEPLEX_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def need_data(name: str) -> Path:
    """The folder to load a benchmark from; without its files the test is skipped, and says how to have it run."""
    if not all((DATA / name / f"{split}.txt").is_file() for split in SPLITS):
        pytest.skip(f"{name} is not in {DATA}: set TIMEPLEX_DATA to a folder that has the benchmarks")
    return DATA

"""A part of the fuzzing of source files, see `sources`."""

from pathlib import Path

import pytest
from tests.fuzz.sources import SUFFIXES, run


@pytest.mark.slow
def test_mutated_sources_are_read_or_refused(tmp_path: Path) -> None:
    cases = 100 * len(SUFFIXES)
    found = run(cases, 17, tmp_path)
    assert found["failed"] == 0
    assert found["kb"] + found["refused"] == cases
    assert found["kb"] > cases / 10, "the damage is so heavy that nothing is read"

"""KBs at the edge of what a KB can be go through every verb: an answer or a sentence, bounded memory."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Timeplex
from tests.cli.extreme_kbs import DAY, FIRST_DAY, KBS, LAST_DAY, MODELS, asking, fault, kb_of, plain, preparing

from timeplex.kb.facts import TemporalKB

EVERY = os.environ.get("TIMEPLEX_EXTREMES") == "all"
PLACES = range(len(KBS)) if EVERY else (0, 3, 7, 13, 17, 20, 21, 24)
"""The KBs that are tried; each learns patterns for its run, so that all of them take half an hour: that is by hand."""
SIZE = 0.004
MOST_GB = 1.5
"""Beyond what the process has before: torch alone takes 0.3."""


def peak_gb(*, reset: bool = False) -> float:
    """The most memory that this process has had since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1e6


def faults(timeplex: Timeplex, verbs: Iterable[list[str]]) -> dict[str, str]:
    """What is wrong with what each of some verbs says."""
    wrong = {}
    for arguments in verbs:
        answer = timeplex(*arguments)
        if found := fault(answer.code, answer.out, answer.err):
            wrong[" ".join(arguments)] = found
    return wrong


def through_all(timeplex: Timeplex, name: str, model: str, size: float = SIZE) -> None:
    """Take a KB through every verb with a model."""
    before = peak_gb(reset=True)
    kb = KBS[name](size)
    kb.save("kb")
    wrong = faults(timeplex, preparing(kb, (model,)))
    assert Path(model, "metrics.json").exists() or not len(kb.train), wrong
    assert not wrong | faults(timeplex, asking(TemporalKB.load(f"{model}/kb"), model))
    assert peak_gb() - before < MOST_GB


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is read from Linux's /proc")
@pytest.mark.parametrize("place", PLACES, ids=[list(KBS)[place] for place in PLACES])
def test_every_verb(timeplex: Timeplex, place: int) -> None:
    """With the full model and, in turns, the others; the sizes of the large ones are by hand (`extreme_kbs`)."""
    through_all(timeplex, list(KBS)[place], MODELS[place % 2 * (place // 2 % len(MODELS))])


def through_patterns(timeplex: Timeplex, name: str, size: float = SIZE) -> None:
    """Ask a KB by its patterns."""
    before = peak_gb(reset=True)
    kb = KBS[name](size)
    kb.save("kb")
    assert not faults(timeplex, plain(kb))
    assert peak_gb() - before < MOST_GB


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is read from Linux's /proc")
@pytest.mark.skipif(not EVERY, reason="TIMEPLEX_EXTREMES=all asks every KB, by hand; some are asked always")
@pytest.mark.parametrize("name", KBS)
def test_every_plain_kb(timeplex: Timeplex, name: str) -> None:
    through_patterns(timeplex, name)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is read from Linux's /proc")
@pytest.mark.parametrize("name", ["a fact in each split", "two days, twenty thousand years apart"])
def test_some_plain_kbs(timeplex: Timeplex, name: str) -> None:
    through_patterns(timeplex, name)


def test_a_timeline_that_does_not_fit_is_refused_before_it_is_made(timeplex: Timeplex) -> None:
    """Seven million days by calendar: vectors of 400 numbers, then the scores of a batch."""
    before = peak_gb(reset=True)
    kb_of(DAY, train=([0, 1] * 100, 0, [1, 0] * 100, [FIRST_DAY, LAST_DAY] * 100, LAST_DAY)).save("kb")
    calendar = ["train", "kb", "-o", "run", "--model", "timeplex-base", "--set", "timeline=calendar"]
    said = timeplex(*calendar, "--set", "options.dimension=200").err
    assert "A table of 7,304,850 instants with 400 numbers each takes 11.7 GB, more than the 1 GB" in said
    said = timeplex(*calendar, "--set", "options.dimension=2").err
    assert "The scores of 7,304,850 instants for a batch of 128 take 3.7 GB, more than the 1 GB" in said
    assert not Path("run").exists()
    assert peak_gb() - before < MOST_GB


def test_discover_without_any_candidate(timeplex: Timeplex) -> None:
    """Everything that could be proposed is known: an empty table, where a ValueError was."""
    pairs = np.arange(40)
    kb_of(DAY, train=(0, 0, 1, pairs, pairs)).save("kb")
    assert timeplex("train", "kb", "-o", "run", "--model", "timeplex-base", "--set", "epochs=1").code == 0
    found = timeplex("discover", "run", "-o", "found.csv", "--min-prob", "0")
    assert not fault(found.code, found.out, found.err)

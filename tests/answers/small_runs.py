"""Small trained runs to ask: made once a session, a second each."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from tests.builders import small_kb, trained_run

import timeplex
from timeplex.answers.trained import Trained
from timeplex.kb import spans
from timeplex.kb.facts import Facts

GADGETS = ["--set", "gadgets.recurrence={}", "--set", "gadgets.pair={}"]
FAST = ["--set", "epochs=4", "--set", "options.dimension=8", "--set", "batch_size=100"]
KINDS = {
    "gadgets": ["--model", "timeplex-base", *GADGETS],
    "plain": ["--model", "timeplex-base", "--set", "inverse=false"],
    "inverse": ["--model", "tnt-complex", "--set", "inverse=true", *GADGETS],
    "static": ["--model", "complex"],
    "undated": ["--model", "timeplex-base"],
}


def _undated(facts: Facts) -> Facts:
    open_begin, open_end = np.full_like(facts.begin, spans.OPEN_BEGIN), np.full_like(facts.end, spans.OPEN_END)
    return replace(facts, begin=open_begin, end=open_end)


@lru_cache
def folder(kind: str) -> Path:
    """The folder of a run on a made-up KB of 900 facts."""
    kb = small_kb(900, valid=0.2)
    if kind == "undated":  # but for the test facts, for a KB without any date does not train
        bare = {split: _undated(kb.splits[split]) for split in ("train", "valid")}
        kb = replace(kb, splits={**kb.splits, **bare})
    return trained_run(kb, kind, *KINDS[kind], *FAST)


@lru_cache
def trained(kind: str = "gadgets") -> Trained:
    """The run, ready to be asked."""
    return timeplex.load(folder(kind), device="cpu")

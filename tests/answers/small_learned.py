"""Small KBs to ask without training: learned once a session."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from tests.builders import small_kb

from timeplex.answers.learned import Learned
from timeplex.kb import spans
from timeplex.kb.facts import Facts, TemporalKB


@lru_cache
def _whole() -> TemporalKB:
    return small_kb(900, valid=0.2)


@lru_cache
def asked() -> Learned:
    """The patterns of a made-up KB of 900 facts, but for those that are `unseen`."""
    kb = _whole()
    return Learned(replace(kb, splits={**kb.splits, "test": Facts.empty()}))


@lru_cache
def unseen() -> Facts:
    """Facts that it does not state at any time, about what it knows."""
    kb, test = asked().kb, _whole().test
    seen = kb.facts.mentioned(len(kb.entities))
    return test[seen[test.s] & seen[test.o] & ~kb.facts.states(test.s, test.r, test.o)]


@lru_cache
def undated() -> Learned:
    """The same without any date."""
    kb = asked().kb
    splits = {name: _undated(facts) for name, facts in kb.splits.items()}
    return Learned(replace(kb, splits=splits))


def _undated(facts: Facts) -> Facts:
    open_begin, open_end = np.full_like(facts.begin, spans.OPEN_BEGIN), np.full_like(facts.end, spans.OPEN_END)
    return replace(facts, begin=open_begin, end=open_end)

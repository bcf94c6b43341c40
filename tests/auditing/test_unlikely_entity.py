"""Entities that other facts do not lead to: planted ones are found, and no fact vouches for itself."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import timeplex
from timeplex.auditing.audit import audit
from timeplex.auditing.rules.unlikely_entity import LEAST_FACTS, MOST_SEVERE, WRONG, wrong_share
from timeplex.kb.facts import TemporalKB
from timeplex.patterns import misfits
from timeplex.patterns.base import Evidence

RULE = "unlikely-entity"
MUTED = ("gap", "ordering", "implausible-date", "duration", "lifespan", "one-at-a-time", "rhythm", "contradiction")
CLUBS, PLAYERS = 40, 600


@cache
def clubs() -> tuple[TemporalKB, int]:
    """Players play for a club and live in its town; the first one plays for the club of another town."""
    rows = []
    for player in range(PLAYERS):
        club = player % CLUBS
        begin = 1950 + (player * 7) % 60
        played = (club + 17) % CLUBS if player == 0 else club
        rows.append((f"player {player:03}", "playsFor", f"club {played:02}", begin, begin + 3))
        rows.append((f"player {player:03}", "livesIn", f"town {club:02}", begin, begin + 3))
    columns = ("subject", "relation", "object", "begin", "end")
    kb = timeplex.read([dict(zip(columns, row, strict=True)) for row in rows])
    return kb, 0


def test_a_planted_object_is_found_and_the_right_one_named() -> None:
    kb, _ = clubs()
    found = audit(kb, mute=MUTED, entities=True).of(RULE)
    first = found.row(0, named=True)
    assert first["subject"] == "player 000"
    told = found.filter(found["subject"] == "player 000")
    assert "object → club 00?" in told["suggestion"].to_list(), told.select("object", "message", "suggestion").rows()


def test_a_small_kb_is_not_judged_and_a_dear_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kb, _ = clubs()
    few = replace(kb, splits={"train": kb.facts[: LEAST_FACTS - 1]})
    assert RULE not in audit(few, entities=True).counts()
    monkeypatch.setattr(misfits, "MOST_CELLS", 10)
    findings = audit(kb, entities=True)
    assert RULE not in findings.counts()
    assert any("were not judged" in note for note in findings.notes)


def test_a_fact_is_no_evidence_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the facts of a fold are asked about, the patterns have none of them."""
    kb, _ = clubs()
    evidence = Evidence.of(kb, kb.facts)
    plain = misfits._fits
    asked_rows = []

    def watched(patterns, weights, known, asked, stated, role, rng):  # type: ignore[no-untyped-def]
        seen = patterns[0].evidence
        held = set(zip(seen.x.tolist(), seen.r.tolist(), seen.y.tolist(), strict=True))
        mine = list(zip(asked.x.tolist(), asked.r.tolist(), stated.tolist(), strict=True))
        assert not held & set(mine)
        asked_rows.extend(mine)
        return plain(patterns, weights, known, asked, stated, role, rng)

    monkeypatch.setattr(misfits, "_fits", watched)
    steps: list[tuple[int, int | None]] = []
    misfits.judge(evidence, lambda done, total: steps.append((done, total)))
    assert len(asked_rows) == len(evidence)
    assert steps[-1] == (misfits.FOLDS, misfits.FOLDS)


def test_the_order_of_the_facts_does_not_matter() -> None:
    kb, _ = clubs()
    mixed = replace(kb, splits={"train": kb.facts[np.random.default_rng(1).permutation(len(kb.facts))]})
    one, two = (audit(each, mute=MUTED, entities=True).frame for each in (kb, mixed))
    assert one.drop("split").equals(two.drop("split"))


def test_wrong_share_falls_with_the_fit_and_counts_what_is_wrong() -> None:
    rng = np.random.default_rng(0)
    wrong = rng.random(4000) < WRONG
    stated = np.where(wrong, rng.normal(-4, 1, 4000), rng.normal(2, 1, 4000))
    share = wrong_share(stated, rng.normal(-4, 1, 16000))
    order = np.argsort(stated)
    assert (np.diff(share[order]) <= 1e-12).all()
    assert share.min() >= 0
    assert share.max() <= MOST_SEVERE
    assert share[wrong].mean() > 0.4
    assert share[~wrong].mean() < 0.01


def test_wrong_share_accuses_nobody_where_stated_ones_look_like_drawn_ones() -> None:
    rng = np.random.default_rng(0)
    assert wrong_share(rng.normal(size=2000), rng.normal(size=8000)).max() < 0.25


def test_it_is_asked_only_if_one_wants_it() -> None:
    assert RULE not in [found.rule for found in audit(clubs()[0]).found]

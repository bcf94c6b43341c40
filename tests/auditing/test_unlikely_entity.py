"""Entities that do not go together: planted ones are found, and no fact vouches for itself."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import timeplex
from timeplex.auditing.audit import audit
from timeplex.auditing.rules.unlikely_entity import LEAST_FACTS, MOST_SEVERE, WRONG, wrong_share
from timeplex.kb.facts import TemporalKB
from timeplex.patterns import misfits
from timeplex.patterns.base import Evidence
from timeplex.patterns.misfits import FEATURES, Seen, Sides

RULE = "unlikely-entity"
MUTED = ("gap", "ordering", "implausible-date", "duration", "lifespan", "one-at-a-time", "rhythm", "contradiction")
CLUBS, PLAYERS = 40, 600


@cache
def clubs() -> TemporalKB:
    """Players play for a club and live in its town; the first one plays for the club of another town."""
    rows = []
    for player in range(PLAYERS):
        club = player % CLUBS
        begin = 1950 + (player * 7) % 60
        played = (club + 17) % CLUBS if player == 0 else club
        rows.append((f"player {player:03}", "playsFor", f"club {played:02}", begin, begin + 3))
        rows.append((f"player {player:03}", "livesIn", f"town {club:02}", begin, begin + 3))
    columns = ("subject", "relation", "object", "begin", "end")
    return timeplex.read([dict(zip(columns, row, strict=True)) for row in rows])


def test_a_planted_object_is_found_and_the_right_one_named() -> None:
    found = audit(clubs(), mute=MUTED, entities=True).of(RULE)
    first = found.row(0, named=True)
    assert first["subject"] == "player 000"
    told = found.filter(found["subject"] == "player 000")
    assert "object → club 00?" in told["suggestion"].to_list(), told.select("object", "message", "suggestion").rows()
    assert found.height <= 4, found.select("fact", "message").rows()


def test_a_small_kb_is_not_judged_and_a_dear_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = clubs()
    few = replace(kb, splits={"train": kb.facts[: LEAST_FACTS - 1]})
    assert RULE not in audit(few, entities=True).counts()
    monkeypatch.setattr(misfits, "MOST_CELLS", 10)
    findings = audit(kb, entities=True)
    assert RULE not in findings.counts()
    assert any("were not judged" in note for note in findings.notes)


def test_a_fact_is_no_evidence_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the facts of a fold are asked about, the evidence has none of them."""
    kb = clubs()
    plain, asked_rows = Seen.both, []

    def watched(seen: Seen, facts: Any, o: Any) -> Any:
        held = set(zip(seen.evidence.x.tolist(), seen.evidence.r.tolist(), seen.evidence.y.tolist(), strict=True))
        stated = set(zip(facts.s.tolist(), facts.r.tolist(), facts.o.tolist(), strict=True))
        assert not held & stated
        asked_rows.extend(stated)
        return plain(seen, facts, o)

    monkeypatch.setattr(Seen, "both", watched)
    steps: list[tuple[int, int | None]] = []
    misfits.judge(Evidence.of(kb, kb.facts), lambda done, total: steps.append((done, total)))
    assert len(asked_rows) == len(kb.facts)
    assert steps[-1] == (misfits.FOLDS + misfits.PARTS, misfits.FOLDS + misfits.PARTS)


def seen_of(rows: list[tuple[str, str, str, int, int]], s: str, r: str, o: str) -> dict[str, float]:
    """What facts show of (s, r, o) in 2000, from the subject's end."""
    columns = ("subject", "relation", "object", "begin", "end")
    kb = timeplex.read([dict(zip(columns, row, strict=True)) for row in rows])
    number = {name: np.array([at]) for at, name in enumerate(kb.entities.names)}
    relation = np.array([list(kb.relations.names).index(r)])
    asked = Sides(number[s], relation, number[o], np.array([2000]), np.array([2002]))
    return dict(zip(FEATURES, Seen(Evidence.of(kb, kb.facts)).rows(asked)[0].tolist(), strict=True))


TEAMS = [
    ("ann", "plays", "red", 1999, 2001),
    ("bob", "plays", "red", 1998, 2001),
    ("bob", "plays", "blue", 2001, 2004),
    ("ann", "lives", "york", 1990, 2010),
    ("eve", "plays", "green", 1960, 1962),
]


def test_walks_are_probabilities() -> None:
    """ann –plays– red –plays⁻¹– bob –plays– blue: bob has one of red's two facts, and blue one of his two."""
    seen = seen_of(TEAMS, "ann", "plays", "blue")
    assert seen["collaborative"] == pytest.approx(np.log1p(1 / 2 / 2 / misfits.FLOOR), rel=1e-5)
    assert seen["walk"] == pytest.approx(np.log1p(1 / 2 / 2 / 2 / misfits.FLOOR), rel=1e-5)  # ann also lives in york
    near = 1 / 2 / 2 * np.exp(-1 / misfits.NEAR_YEARS)
    assert seen["collaborative near in time"] == pytest.approx(np.log1p(near / misfits.FLOOR), rel=1e-5)
    assert seen["facts in the role"] == 1
    nobody = seen_of(TEAMS, "ann", "plays", "green")
    assert nobody["walk"] == nobody["long walk"] == nobody["collaborative"] == 0


def test_links_are_counted_from_either_end() -> None:
    rows = [*TEAMS, ("york", "hosts", "blue", 1990, 1999), ("ann", "owns", "blue", 1995, 1996)]
    seen = seen_of(rows, "ann", "plays", "blue")
    assert seen["other links"] == 1
    assert seen["known"] == 0
    assert seen_of(rows, "ann", "plays", "red")["known"] == 1


def test_the_order_of_the_facts_does_not_matter() -> None:
    kb = clubs()
    mixed = replace(kb, splits={"train": kb.facts[np.random.default_rng(1).permutation(len(kb.facts))]})
    one, two = (audit(each, mute=MUTED, entities=True).frame for each in (kb, mixed))
    assert one.drop("split").equals(two.drop("split"))


def test_wrong_share_rises_with_the_odds_and_counts_what_is_wrong() -> None:
    rng = np.random.default_rng(0)
    wrong = rng.random(4000) < WRONG
    stated = np.where(wrong, rng.normal(4, 1, 4000), rng.normal(-2, 1, 4000))
    share = wrong_share(stated, rng.normal(4, 1, 16000))
    assert (np.diff(share[np.argsort(stated)]) >= -1e-12).all()
    assert share.min() >= 0
    assert share.max() <= MOST_SEVERE
    assert share[wrong].mean() > 0.6
    assert share[~wrong].mean() < 0.01


def test_wrong_share_accuses_nobody_where_stated_ones_look_like_drawn_ones() -> None:
    rng = np.random.default_rng(0)
    assert wrong_share(rng.normal(size=2000), rng.normal(size=8000)).max() < 0.25


def test_it_is_asked_only_if_one_wants_it() -> None:
    assert RULE not in [found.rule for found in audit(clubs()).found]

"""Recurrence, popularity, types and dates of candidates against literal loops over facts."""

from math import exp, log, log1p, sqrt

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patterns.worlds import FIRST, LAST, OPEN, Asked, asked_of, bucket, each, edges, evidences

from timeplex.patterns.base import Evidence
from timeplex.patterns.candidate_dates import CandidateDates
from timeplex.patterns.popularity import Popularity
from timeplex.patterns.recurrence import Recurrence
from timeplex.patterns.types import Types


def role_of(evidence: Evidence, asked: Asked) -> int:
    return (asked.r + evidence.relations) % (2 * evidence.relations)


def recurrence(evidence: Evidence, asked: Asked) -> np.ndarray:
    known = edges(evidence, without=asked.own)
    out = np.zeros((2, evidence.entities))
    for edge in known:
        if (edge.x, edge.r) != (asked.x, asked.r):
            continue
        place = bucket(asked.date, edge.date)
        pairs = [
            (one, other)
            for one in known
            for other in known
            if one.fact != other.fact and (one.x, one.r) == (other.x, other.r) and one.r == asked.r
            if bucket(one.date, other.date) == place
        ]
        rate = sum(one.y == other.y for one, other in pairs) / (len(pairs) + 5)
        out[:, edge.y] = 1, max(out[1, edge.y], log1p(rate / 1e-3))
    return out


def popularity(evidence: Evidence, asked: Asked) -> np.ndarray:
    out = np.zeros((7, evidence.entities))
    for edge in edges(evidence, without=asked.own):
        if edge.r != asked.r:
            continue
        c = edge.y
        out[0, c] += 1
        if asked.date is not None and edge.date is not None:
            for place, scale in enumerate((1.5, 6, 25)):
                out[1 + place, c] += exp(-abs(asked.date - edge.date) / scale) / 0.1
            out[4, c] += edge.begin <= asked.date <= edge.end
        out[5, c] += asked.begin not in OPEN and edge.end not in OPEN and asked.begin in (edge.end, edge.end + 1)
        out[6, c] += asked.end not in OPEN and edge.begin not in OPEN and edge.begin in (asked.end, asked.end + 1)
    return np.log1p(out)


def types(evidence: Evidence, asked: Asked) -> np.ndarray:
    known, role = edges(evidence, without=asked.own), role_of(evidence, asked)
    roles = [{edge.r for edge in known if edge.x == c} for c in range(evidence.entities)]
    seen = [has for has in roles if has]
    share = (sum(role in has for has in seen) + 1) / (len(seen) + 2)
    lift = {}
    for other in range(2 * evidence.relations):
        both, those = sum({role, other} <= has for has in seen), sum(other in has for has in seen)
        lift[other] = log((both + 2 * share) / (those + 2) / share)
    out = np.zeros((5, evidence.entities))
    for c, has in enumerate(roles):
        lifts = [lift[other] for other in has if other != role]
        out[0, c], out[4, c] = role in has, c == asked.x
        out[3, c] = log1p(sum(edge.x == c for edge in known))
        if lifts:
            out[1, c], out[2, c] = np.mean(lifts), min(lifts)
    return out


GAPS = np.arange(-300, 301)


def density(counts: np.ndarray) -> np.ndarray:
    total, smooth = counts.sum(), {}
    for scale in (2.0, 12.0):
        smooth[scale] = np.zeros(len(GAPS))
        for place, count in enumerate(counts):
            kernel = np.exp(-np.abs(GAPS - GAPS[place]) / scale)
            smooth[scale] += count * kernel / kernel.sum()
    wide = smooth[12.0] / total
    narrow = (smooth[2.0] + 10 * wide) / (total + 10)
    return 0.95 * (counts + 20 * narrow) / (total + 20) + 0.05 / len(GAPS)


def candidate_dates(evidence: Evidence, asked: Asked) -> np.ndarray:
    """The densities are those of all facts; the own fact is no fact of the candidate."""
    known, role = edges(evidence), role_of(evidence, asked)
    out = np.zeros((6, evidence.entities))
    for side, date in enumerate((asked.begin, asked.end)):
        if date in OPEN:
            continue
        for c in range(evidence.entities):
            values = []
            for edge in known:
                if edge.x != c or edge.fact == asked.own:
                    continue
                for anchor in range(2):
                    other = (edge.begin, edge.end)[anchor]
                    if other not in OPEN:
                        values += ratio(evidence, role, edge.r, side, anchor, date - other)
            if values:
                out[3 * side : 3 * side + 3, c] = (
                    sum(values) * min(len(values), 2.5) / len(values),
                    max(values),
                    min(values),
                )
    return out


def ratio(evidence: Evidence, role: int, other: int, side: int, anchor: int, gap: int) -> list[float]:
    """log p − log p₀ of a gap, or nothing if no entity has both roles."""
    known = edges(evidence)
    if not any(a.x == b.x and a.fact != b.fact for a in known if a.r == role for b in known if b.r == other):
        return []
    counts, chance = np.zeros(len(GAPS)), np.zeros(len(GAPS))
    for one in known:
        for two in known:
            dates = ((one.begin, one.end)[side], (two.begin, two.end)[anchor])
            if dates[0] in OPEN or dates[1] in OPEN:
                continue
            if (one.r, two.r) == (role, other) and one.x == two.x and one.fact != two.fact:
                counts[dates[0] - dates[1] + 300] += 1 / sqrt(sum(edge.x == one.x for edge in known))
            if (one.r, two.r) == (role % evidence.relations, other % evidence.relations):
                chance[dates[0] - dates[1] + 300] += 1
    if not counts.any():
        return [0.0]
    chance *= counts.sum() / chance.sum()
    return [float(np.log(density(counts) / density(chance))[gap + 300])]


ORACLES = {Recurrence: recurrence, Popularity: popularity, Types: types}


@given(st.data(), st.sampled_from(list(ORACLES)))
def test_features_are_what_a_literal_loop_finds(data: st.DataObject, kind: type) -> None:
    evidence = data.draw(evidences())
    queries = data.draw(asked_of(evidence))
    found = kind(evidence).candidates(queries)
    for row, asked in enumerate(each(queries)):
        expected = ORACLES[kind](evidence, asked)
        np.testing.assert_allclose(found[row], expected, rtol=1e-5, atol=1e-6, err_msg=str(asked))


@settings(max_examples=25)  # the loop goes over all pairs of facts and all of time
@given(st.data())
def test_dates_of_candidates_are_what_a_literal_loop_finds(data: st.DataObject) -> None:
    evidence = data.draw(evidences(most=6))
    queries = data.draw(asked_of(evidence))
    found = CandidateDates(evidence).candidates(queries)
    for row, asked in enumerate(each(queries)):
        expected = candidate_dates(evidence, asked)
        np.testing.assert_allclose(found[row], expected, rtol=1e-4, atol=1e-5, err_msg=str(asked))


def test_years_of_the_worlds_are_within_reach() -> None:
    assert LAST - FIRST < 300

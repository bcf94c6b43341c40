"""Rules against a literal walk over all paths; hubs; and that a fact does not vouch for itself."""

from collections import Counter
from collections.abc import Iterator
from math import log1p

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import facts_of
from tests.patterns.worlds import Asked, Edge, asked_of, bucket, each, edges, evidences

from timeplex.patterns.base import Evidence, LinkQueries
from timeplex.patterns.rules import Rules

Cell = tuple[int, ...]


def paths(known: list[Edge], asked: Asked) -> Iterator[tuple[Cell, int]]:
    """(cell, where it leads) of all paths over facts that are not the own one."""
    steps = [edge for edge in known if edge.fact != asked.own]
    for one in steps:
        if one.x != asked.x or one.y == asked.x:
            continue
        first = (asked.r, one.r, bucket(asked.date, one.date))
        if one.r != asked.r:
            yield first, one.y
        for two in steps:
            if two.x != one.y or two.y in (asked.x, one.y):
                continue
            second = (*first, two.r, bucket(asked.date, two.date))
            yield second, two.y
            for three in steps:
                if three.x == two.y and three.r == asked.r and three.y not in (asked.x, one.y, two.y):
                    yield (*second, bucket(asked.date, three.date)), three.y


def counts(evidence: Evidence, without: int) -> tuple[Counter[Cell], Counter[Cell]]:
    """Hits and cases of all cells, over all facts as questions but one."""
    known, hits, cases = edges(evidence), Counter[Cell](), Counter[Cell]()
    for case in known:
        if case.fact == without:
            continue
        for cell, c in paths(known, Asked(case.x, case.r, case.begin, case.end, case.fact)):
            if c == case.y or not any((edge.x, edge.r, edge.y) == (case.x, case.r, c) for edge in known):
                cases[cell] += 1
                hits[cell] += c == case.y
    return hits, cases


def expected(evidence: Evidence, asked: Asked) -> np.ndarray:
    hits, cases = counts(evidence, asked.own)
    found: dict[tuple[int, int], list[float]] = {}
    for cell, c in paths(edges(evidence), asked):
        length = {3: 0, 5: 1, 6: 2}[len(cell)]
        found.setdefault((length, c), []).append(hits[cell] / (cases[cell] + 5))
    out = np.zeros((6, evidence.entities))
    for (length, c), values in found.items():
        out[2 * length, c], out[2 * length + 1, c] = log1p(sum(values) / 1e-3), log1p(max(values) / 1e-3)
    return out


@given(st.data())
def test_rules_are_what_a_literal_walk_finds(data: st.DataObject) -> None:
    evidence = data.draw(evidences())
    queries = data.draw(asked_of(evidence))
    found = Rules(evidence).candidates(queries)
    for row, asked in enumerate(each(queries)):
        np.testing.assert_allclose(found[row], expected(evidence, asked), rtol=1e-5, atol=1e-6, err_msg=str(asked))


BORN, LIVES = 0, 1


def families(number: int) -> Evidence:
    """Each person is born in a town of its own in 1900 and lives there from 1900."""
    rows = [(2 * each, r, 2 * each + 1, 1900, 1900) for each in range(number) for r in (BORN, LIVES)]
    return Evidence(facts_of(rows), 2 * number, 2, 1900, 1900)


def test_who_is_born_in_a_town_lives_there() -> None:
    evidence = families(10)
    found = Rules(evidence).candidates(
        LinkQueries(np.array([0]), np.array([LIVES]), np.array([1900]), np.array([1900]))
    )
    assert found[0, 0, 1] == np.float32(log1p(10 / 15 / 1e-3))
    assert np.count_nonzero(found[0, 0]) == 1


def test_a_fact_does_not_vouch_for_itself() -> None:
    """One person alone: that it lives where it was born is no case for itself."""
    evidence = families(1)
    own = LinkQueries(*(np.array([value]) for value in (0, LIVES, 1900, 1900, 1)))
    assert not Rules(evidence).candidates(own)[0, 0].any()


def test_entities_with_very_many_facts_are_not_walked_through() -> None:
    def reached(neighbours: int) -> bool:
        rows = [(1 + each, 0, 0, 1900, 1900) for each in range(neighbours)]  # all live in town 0 …
        rows += [(1 + each, 1, neighbours + 1, 1900, 1900) for each in range(neighbours)]  # … and like the same
        evidence = Evidence(facts_of(rows), neighbours + 2, 2, 1900, 1900)
        query = LinkQueries(*(np.array([value]) for value in (1, 1, 1900, 1900)))
        return bool(Rules(evidence).candidates(query)[0, 2:].any())

    assert reached(200)
    assert not reached(201)


def test_the_fact_that_is_asked_for_is_no_step_of_its_own_case() -> None:
    """Ten have both parts of a set, of which the first part has a second and a third; one has the first part alone."""
    first, second, third, person = range(0, 33, 3), range(1, 33, 3), range(2, 33, 3), range(33, 44)
    rows = [
        (person[n], 0, part[n], 1900, 1900) for n in range(11) for part in (first, second) if n < 10 or part is first
    ]
    rows += [(first[n], 1, part[n], 1900, 1900) for n in range(11) for part in (second, third)]
    evidence = Evidence(facts_of(rows), 44, 2, 1900, 1900)
    query = LinkQueries(*(np.array([value]) for value in (person[10], 0, 1900, 1900)))
    # Cases: for the second part of each of the ten, a path to it and one to the third part.
    assert Rules(evidence).candidates(query)[0, 2, second[10]] == np.float32(log1p(10 / 25 / 1e-3))

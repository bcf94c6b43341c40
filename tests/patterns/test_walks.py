"""Walks against a literal sum over all of them."""

from math import exp, log1p

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.patterns.worlds import Asked, Edge, asked_of, each, edges, evidences

from timeplex.patterns.base import Evidence
from timeplex.patterns.walks import Walks


def walk(known: list[Edge], asked: Asked, relations: list[int | None], timed: bool) -> dict[int, float]:
    """The mass of each entity after steps over these relations (None: any) that do not come back to x."""
    mass = {asked.x: 1.0}
    for number, relation in enumerate(relations):
        after: dict[int, float] = {}
        for entity, here in mass.items():
            steps = [edge for edge in known if edge.x == entity and relation in (None, edge.r)]
            for edge in steps:
                weight = 1.0
                if timed and asked.date is not None:
                    weight = exp(-3) if edge.date is None else exp(-abs(asked.date - edge.date) / 4)
                after[edge.y] = after.get(edge.y, 0.0) + here / len(steps) * weight
        if number < len(relations) - 1:
            after.pop(asked.x, None)
        mass = after
    return mass


def expected(evidence: Evidence, asked: Asked) -> np.ndarray:
    known = edges(evidence, without=asked.own)
    there, back = asked.r, (asked.r + evidence.relations) % (2 * evidence.relations)
    kinds = [
        ([None, None, there], False),
        ([None, None, there], True),
        ([there, back, there], False),
        ([there, back, there], True),
        ([None, None, None, None, there], False),
        ([there, back, there, back, there], False),
    ]
    out = np.zeros((6, evidence.entities))
    for kind, (relations, timed) in enumerate(kinds):
        for c, mass in walk(known, asked, relations, timed).items():
            out[kind, c] = log1p(mass / 1e-4)
    return out


@given(st.data())
def test_walks_are_what_a_literal_sum_finds(data: st.DataObject) -> None:
    evidence = data.draw(evidences())
    queries = data.draw(asked_of(evidence))
    found = Walks(evidence).candidates(queries)
    for row, asked in enumerate(each(queries)):
        np.testing.assert_allclose(found[row], expected(evidence, asked), rtol=1e-4, atol=1e-5, err_msg=str(asked))

"""Every registered pattern keeps every law, on small evidence with all that is awkward."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patterns.worlds import asked_of, evidences

from timeplex.patterns import ranking  # noqa: F401 whose patterns are registered
from timeplex.patterns.base import PATTERNS, Evidence, Features, LinkQueries, Pattern

EXAMPLES = 25

WITHIN = {"rules", "candidate dates"}
"""Patterns whose statistics count the own fact of a question where it is no case of its own; see their modules."""

Law = Callable[[type[Pattern], Evidence, LinkQueries, np.random.Generator], None]


def asked(kind: type[Pattern], evidence: Evidence, queries: LinkQueries) -> Features:
    return kind(evidence).candidates(queries)


def shape(kind: type[Pattern], evidence: Evidence, queries: LinkQueries, _: np.random.Generator) -> None:
    """A row of numbers for every feature."""
    found = asked(kind, evidence, queries)
    assert found.shape == (len(queries), len(kind.candidate_features), evidence.entities)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()


def order(kind: type[Pattern], evidence: Evidence, queries: LinkQueries, rng: np.random.Generator) -> None:
    """The order of the facts does not matter, not even to the last bit."""
    shuffle = rng.permutation(len(evidence))
    place = np.append(np.argsort(shuffle), -1)
    moved = LinkQueries(queries.x, queries.r, queries.begin, queries.end, place[queries.own])
    shuffled = Evidence(evidence.facts[shuffle], evidence.entities, evidence.relations, evidence.first, evidence.last)
    np.testing.assert_array_equal(asked(kind, shuffled, moved), asked(kind, evidence, queries))


def alone(kind: type[Pattern], evidence: Evidence, queries: LinkQueries, _: np.random.Generator) -> None:
    """A question gets the same answer alone as among others, and a second time."""
    pattern = kind(evidence)
    together = pattern.candidates(queries)
    for row in range(len(queries)):
        np.testing.assert_array_equal(pattern.candidates(queries[row : row + 1])[0], together[row])


def leaves_out(kind: type[Pattern], evidence: Evidence, queries: LinkQueries, _: np.random.Generator) -> None:
    """The own fact of a question is left out as if it was not in the evidence."""
    if kind.name in WITHIN:
        return
    found = asked(kind, evidence, queries)
    for row in np.flatnonzero(queries.own >= 0):
        without = evidence.without(np.arange(len(evidence)) == queries.own[row])
        query = LinkQueries(*(column[row : row + 1] for column in (queries.x, queries.r, queries.begin, queries.end)))
        np.testing.assert_allclose(found[row], asked(kind, without, query)[0], rtol=1e-5, atol=1e-6)


LAWS = (shape, order, alone, leaves_out)


@pytest.mark.parametrize("name", [name for name, kind in PATTERNS.items() if kind.candidate_features])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_every_pattern_keeps_every_law(law: Law, name: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(data=st.data(), seed=st.integers(0, 2**31))
    def holds(data: st.DataObject, seed: int) -> None:
        evidence = data.draw(evidences())
        law(PATTERNS[name], evidence, data.draw(asked_of(evidence)), np.random.default_rng(seed))

    holds()

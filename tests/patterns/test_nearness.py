"""Nearness against matrices of a KB in which the own fact of a question is really missing."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import facts_of
from tests.patterns.worlds import FIRST, LAST, Asked, asked_of, each, edges, evidences

from timeplex.patterns.base import Evidence, LinkQueries
from timeplex.patterns.nearness import Nearness


def expected(evidence: Evidence, asked: Asked) -> np.ndarray:
    """Σ (1 − α) αᵏ p_k by powers of the matrix of one step."""
    known = edges(evidence, without=asked.own)
    facts = np.zeros((evidence.entities, evidence.entities))
    for edge in known:
        facts[edge.x, edge.y] += 1
    degree = facts.sum(1)
    step = facts / np.maximum(degree, 1)[:, None]
    answers = [edge.y for edge in known if (edge.x, edge.r) == (asked.x, asked.r)]
    starts = (
        np.eye(evidence.entities)[asked.x],
        np.bincount(answers, minlength=evidence.entities) / max(len(answers), 1),
    )
    out = np.zeros((6, evidence.entities))
    there = degree > 0
    for place, start in enumerate(starts):
        for shift, go_on, for_size in ((0, 0.85, False), (1, 0.85, True), (2, 0.95, True)):
            powers = [start @ np.linalg.matrix_power(step, k) for k in range(21)]
            near = sum((1 - go_on) * go_on**k * powers[k] for k in range(20)) + go_on**20 * powers[20]
            share = near[there] * degree.sum() / degree[there] / 0.1 if for_size else near[there] / 1e-5
            out[3 * place + shift, there] = np.log1p(share)
    return out


@given(st.data())
def test_nearness_is_what_powers_of_a_matrix_say(data: st.DataObject) -> None:
    evidence = data.draw(evidences())
    queries = data.draw(asked_of(evidence))
    found = Nearness(evidence).candidates(queries)
    for row, asked in enumerate(each(queries)):
        np.testing.assert_allclose(found[row], expected(evidence, asked), rtol=1e-4, atol=1e-5, err_msg=str(asked))


def test_questions_side_by_side_do_not_mix() -> None:
    rng = np.random.default_rng(0)
    facts = facts_of([(*map(int, rng.integers(6, size=1)), 0, int(rng.integers(6)), 1900, 1900) for _ in range(20)])
    evidence = Evidence(facts, 6, 1, FIRST, LAST)
    own = np.arange(20)
    queries = LinkQueries(facts.s, facts.r, facts.begin, facts.end, own)
    pattern = Nearness(evidence)
    together = pattern.candidates(queries)
    for row in own:
        np.testing.assert_allclose(together[row], pattern.candidates(queries[[row]])[0], rtol=1e-6)


def test_a_fact_does_not_bring_its_own_entities_near() -> None:
    """Two groups with one fact between them: asked about that fact, they are worlds apart."""
    group = [(a, 0, b, 1900, 1900) for a in (0, 1, 2) for b in (3, 4)]
    other = [(a + 5, 0, b + 5, 1900, 1900) for a in (0, 1, 2) for b in (3, 4)]
    evidence = Evidence(facts_of([(0, 0, 8, 1900, 1900), *group, *other]), 10, 1, FIRST, LAST)
    asked = [LinkQueries(*(np.array([each]) for each in (0, 0, 1900, 1900, own))) for own in (-1, 0)]
    naive, fair = (Nearness(evidence).candidates(each)[0] for each in asked)
    assert (naive[:, 8] > 0).all()
    assert (fair[:, 5:] == 0).all()
    assert fair[0, 3] > 0


def test_who_shares_much_is_nearer_than_who_is_as_far_away() -> None:
    """1 and 2 are both two facts from 0; 1 shares two places with it, 2 only one that everybody has."""
    facts = [(0, 0, 6, 1900, 1900), (0, 1, 7, 1900, 1900), (1, 0, 6, 1900, 1900), (1, 1, 7, 1900, 1900)]
    facts += [(0, 0, 8, 1900, 1900), *((who, 0, 8, 1900, 1900) for who in (2, 3, 4, 5)), (2, 1, 9, 1900, 1900)]
    queries = LinkQueries(*(np.array([each]) for each in (0, 0, 1900, 1900)))
    found = Nearness(Evidence(facts_of(facts), 10, 2, FIRST, LAST)).candidates(queries)[0]
    assert (found[:3, 1] > found[:3, 2]).all()

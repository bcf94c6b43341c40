"""How often proposals are true: right are just the dev facts, and the model says how many of them to expect."""

import numpy as np
import pytest
from tests.answers.small_learned import asked

from timeplex.answers import discover
from timeplex.answers.discover import FEATURES, Cases, Judged, PrecisionModel, Triples, cases, fitted_on, search_of
from timeplex.typing import Floats


@pytest.fixture(scope="module")
def found() -> Cases:
    kb = asked().kb
    return cases(search_of(asked(), kb, kb.train), kb.valid, kb.facts)


def test_right_is_what_dev_states(found: Cases) -> None:
    kb, triples = asked().kb, found.judged.triples
    assert found.right.tolist() == kb.valid.states(triples.s, triples.r, triples.o).tolist()
    assert not kb.train.states(triples.s, triples.r, triples.o).any()
    assert 0 < found.right.sum() < len(found.right)
    assert found.judged.features.shape == (len(found.right), len(FEATURES))
    assert np.isfinite(found.judged.features).all()
    assert found.judged.sensible.all()


def test_only_some_entities_of_a_large_kb_are_asked_about(found: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = asked().kb
    monkeypatch.setattr(discover, "MOST_ENTITIES", 60)
    some = cases(search_of(asked(), kb, kb.train), kb.valid, kb.facts)
    assert 0 < len(some.right) < len(found.right) / 2


def made(count: int) -> tuple[Cases, Floats]:
    """Proposals that are right by a known rule of two features, and the rule's probabilities."""
    generator = np.random.default_rng(0)
    features = np.zeros((count, len(FEATURES)))
    features[:, :2] = generator.normal(3, 2, (count, 2))
    truth = 1 / (1 + np.exp(3 - 1.5 * (features[:, 0] - 3) + 0.5 * features[:, 1]))
    return _cases(features, generator.random(count) < truth), truth


def _cases(features: Floats, right: np.ndarray) -> Cases:  # type: ignore[type-arg]
    none = np.zeros(len(right), np.int64)
    triples = Triples(np.arange(len(right)), none, none, np.zeros(len(right)))
    return Cases(Judged(triples, none, none, features, np.full(len(right), 0.5), right), right)


def test_as_many_are_right_as_is_said() -> None:
    known, truth = made(20_000)
    fitted = fitted_on(known, 180, 1)
    assert np.abs(fitted(known.judged) - truth).mean() < 0.02
    best = np.argsort(-truth)[:50]
    assert fitted.measured["cases"] == 50
    assert fitted.measured["said"] == pytest.approx(truth[best].mean(), abs=0.04)
    said, right = (round(50 * fitted.measured[key]) for key in ("said", "right"))
    assert fitted.note(1800) == (
        "A probability is the share of such proposals that were found to be true when 180 facts (10%) had been taken "
        f"out: of the likeliest 50, {right} were, and {said} had been expected."
    )


def test_few_cases_give_careful_probabilities() -> None:
    """Twenty right ones that a feature tells from all others, perfectly: no proposal is certain."""
    features = np.zeros((40, len(FEATURES)))
    features[:20, 0] = 1
    known = _cases(features, features[:, 0] > 0)
    said = fitted_on(known, 20, 1)(known.judged)
    assert 0.8 < said[0] < 1
    assert 0 < said[-1] < 0.2


def test_where_dev_facts_are_not_found_again_nothing_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "LEAST_RIGHT", 10_000)
    known, _ = made(100)
    nothing = fitted_on(known, 10, 1)
    assert nothing == PrecisionModel() or nothing.facts == 0
    assert nothing(known.judged).tolist() == [0.5] * 100
    assert nothing.note(10).startswith("Probabilities are not calibrated")

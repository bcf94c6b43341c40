"""How often proposals are true: right are just the dev facts, and the map says how many of them to expect."""

import math

import numpy as np
import pytest
from tests.answers import small_runs

import timeplex
from timeplex.answers import discover
from timeplex.answers import trained as module
from timeplex.answers.discover import Cases, PrecisionModel, Search, cases, fit
from timeplex.answers.rank import EntityQueries, EntityRanker
from timeplex.kb.facts import Facts
from timeplex.models.scorer import DIRECTIONS
from timeplex.typing import Floats

Triples = set[tuple[int, int, int]]


def triples(facts: Facts) -> Triples:
    return set(zip(facts.s.tolist(), facts.r.tolist(), facts.o.tolist(), strict=True))


@pytest.fixture(scope="module")
def found() -> Cases:
    trained = small_runs.trained()
    return cases(trained, trained.kb.train, trained.kb.valid)


def proposed() -> list[tuple[int, int, int]]:
    """All candidates of a search that knows the training facts alone, each once."""
    search = Search(small_runs.trained(), small_runs.trained().kb.train)
    every: Triples = set()
    for r in search.relations(()):
        for _, s, o in search.candidates(r):
            every |= {(a, r, b) for a, b in zip(s.tolist(), o.tolist(), strict=True)}
    return sorted(every, key=lambda triple: (triple[1], triple[0], triple[2]))


def counted() -> list[tuple[int, int, int]]:
    """Those that are not stated by test alone."""
    kb = small_runs.trained().kb
    return [triple for triple in proposed() if triple in triples(kb.valid) or triple not in triples(kb.test)]


def test_right_is_what_dev_states_and_other_splits_do_not_count(found: Cases) -> None:
    kb = small_runs.trained().kb
    dev, test = triples(kb.valid), triples(kb.test)
    assert not triples(kb.train) & set(counted())
    assert found.right.tolist() == [triple in dev for triple in counted()]
    assert 0 < found.right.sum() < len(found.right)
    assert any(triple in test for triple in proposed())


def test_features_are_what_they_say(found: Cases) -> None:
    """One by one, from the training facts and what `rank` is asked for, for some proposals, right ones among them."""
    trained = small_runs.trained()
    train = list(trained.kb.train)
    who = EntityRanker(trained.run, trained.kb.train)
    for row in [*np.flatnonzero(found.right)[:3].tolist(), *range(0, len(found.right), len(found.right) // 12)]:
        s, r, o = counted()[row]
        when = trained.dating.likeliest(*(np.array([each]) for each in (s, r, o)), trained.calibration.when)
        begin, end = (int(side[0]) for side in when)
        expected = []
        for direction in DIRECTIONS:
            given, answer, place = (s, o, 0) if direction == "object" else (o, s, 2)
            asked = EntityQueries(direction, *(np.array([each]) for each in (given, r, begin, end)))
            raw = float(who.raw_of(asked, np.array([answer]))[0][0])
            same = [fact for fact in train if fact[1] == r and fact[place] == given]
            middle = (begin + end) // 2
            holds = any(first <= middle <= last for *_, first, last in same)
            share = trained._company.share[direction][r] if holds else 1.0
            has = sum(fact[place] == given for fact in train)
            expected += [math.log(raw / (1 - raw)), math.log1p(len(same)), math.log(max(share, 0.001)), math.log1p(has)]
        expected.append(float(any({fact[0], fact[2]} == {s, o} for fact in train)))
        assert found.features[row].tolist() == pytest.approx(expected, rel=1e-3, abs=1e-3)


def made(cases: int) -> tuple[Cases, Floats]:
    """Proposals that are right by a known rule of two features, and the rule's probabilities."""
    generator = np.random.default_rng(0)
    features = np.column_stack([generator.normal(3, 2, (cases, 2)), np.ones(cases)])
    truth = 1 / (1 + np.exp(3 - 1.5 * (features[:, 0] - 3) + 0.5 * features[:, 1]))
    return Cases(features, generator.random(cases), generator.random(cases) < truth), truth


def test_as_many_are_right_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    known, truth = made(20_000)
    monkeypatch.setattr(discover, "cases", lambda *_: known)
    fitted = fit(small_runs.trained())
    assert fitted.facts == len(small_runs.trained().kb.valid)
    assert np.abs(fitted(known.features, known.both) - truth).mean() < 0.01  # sampling alone gives about 0.003
    best = np.argsort(-truth)[:50]
    assert fitted.measured["cases"] == 50
    assert fitted.measured["said"] == pytest.approx(truth[best].mean(), abs=0.03)
    assert fitted.measured["right"] == pytest.approx(truth[best].mean(), abs=0.2)  # 50 draws
    said, right = (round(50 * fitted.measured[key]) for key in ("said", "right"))
    assert fitted.note(1800) == (
        "A probability is the share of such proposals that were found to be true when 180 facts (10%) had been taken "
        f"out: of the likeliest 50, {right} were, and {said} had been expected."
    )


def test_few_cases_give_careful_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty right ones that a feature tells from all others, perfectly: no proposal is certain."""
    features = np.repeat([1.0, 0.0], [20, 20])[:, None]
    known = Cases(features, np.full(40, 0.5), features[:, 0] > 0)
    monkeypatch.setattr(discover, "cases", lambda *_: known)
    said = fit(small_runs.trained())(features, known.both)
    assert 0.8 < said[0] < 0.99
    assert 0.01 < said[-1] < 0.2


def test_only_some_entities_of_a_large_kb_are_asked_about(found: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = small_runs.trained()
    monkeypatch.setattr(discover, "MOST_ENTITIES", 100)
    some = cases(trained, trained.kb.train, trained.kb.valid)
    assert 0 < len(some.both) < len(found.both) / 2
    assert len(some.both) == len(some.right) == len(some.features)


def test_where_dev_facts_are_not_found_again_nothing_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "LEAST_RIGHT", 10_000)
    nothing = fit(small_runs.trained())
    assert nothing == PrecisionModel()
    raw = np.array([0.2, 0.9])
    assert nothing(np.ones((2, 9)), raw).tolist() == raw.tolist()
    assert nothing.note(10).startswith("Probabilities are not calibrated")


def test_it_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = small_runs.trained().proposals
    assert (small_runs.folder("gadgets") / "proposals.json").is_file()

    def never(_: object) -> PrecisionModel:
        raise AssertionError("it was fitted again")

    monkeypatch.setattr(module, "fit_proposals", never)
    assert timeplex.load(small_runs.folder("gadgets"), device="cpu").proposals == expected

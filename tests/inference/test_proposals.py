"""How often proposals are true: right are just the dev facts, and the map says how many of them to expect."""

import numpy as np
import pytest
from tests.inference import small_runs

import timeplex
from timeplex.inference import proposals
from timeplex.inference import trained as module
from timeplex.inference.discover import Search
from timeplex.inference.proposals import Cases, Proposals, cases, fit
from timeplex.kb.facts import Facts

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


def test_right_is_what_dev_states_and_other_splits_do_not_count(found: Cases) -> None:
    kb = small_runs.trained().kb
    train, dev, test = triples(kb.train), triples(kb.valid), triples(kb.test)
    expected = [triple for triple in proposed() if triple in dev or triple not in test]
    assert not train & set(expected)
    assert found.right.tolist() == [triple in dev for triple in expected]
    assert found.r.tolist() == [r for _, r, _ in expected]
    assert 0 < found.right.sum() < len(found.right)
    assert any(triple in test for triple in proposed())


def test_the_map_is_made_for_what_discover_gives(found: Cases) -> None:
    trained = small_runs.trained()
    search = Search(trained, trained.kb.train)
    s, r, o = np.array(
        [
            triple
            for triple in proposed()
            if triple in triples(trained.kb.valid) or triple not in triples(trained.kb.test)
        ]
    ).T[:, :40]
    assert search.judge(s, r, o).both == pytest.approx(found.both[:40], rel=1e-3, abs=1e-6)


def test_as_many_are_right_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposals that are right a quarter as often as both sides say, half of that for every second relation."""
    generator = np.random.default_rng(0)
    both, r = generator.random(20_000), generator.integers(0, 8, 20_000)
    truth = both / 4 / (1 + r % 2)
    made = Cases(both, generator.random(20_000) < truth, r)
    monkeypatch.setattr(proposals, "cases", lambda *_: made)
    fitted = fit(small_runs.trained())
    assert fitted.facts == len(small_runs.trained().kb.valid)
    assert np.abs(fitted.map(both, r) - truth).mean() < 0.02  # 0.4 without the map
    assert fitted.measured["after"] < 0.02 < 0.3 < fitted.measured["before"]
    assert fitted.note(1800) == (
        "A probability is the share of such proposals that were found to be true when 180 facts (10%) had been taken "
        f"out (expected calibration error {fitted.measured['after']:.3f})."
    )


def test_only_some_entities_of_a_large_kb_are_asked_about(found: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = small_runs.trained()
    monkeypatch.setattr(proposals, "MOST_ENTITIES", 100)
    some = cases(trained, trained.kb.train, trained.kb.valid)
    assert 0 < len(some.r) < len(found.r) / 2
    assert set(np.unique(some.r)) == set(np.unique(found.r))


def test_where_dev_facts_are_not_found_again_nothing_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "LEAST_RIGHT", 10_000)
    nothing = fit(small_runs.trained())
    assert nothing == Proposals()
    raw = np.array([0.2, 0.9])
    assert nothing.map(raw, np.array([0, 1])).tolist() == raw.tolist()
    assert nothing.note(10).startswith("Probabilities are not calibrated")


def test_it_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = small_runs.trained().proposals
    assert (small_runs.folder("gadgets") / "proposals.json").is_file()

    def never(_: object) -> Proposals:
        raise AssertionError("it was fitted again")

    monkeypatch.setattr(module, "fit_proposals", never)
    assert timeplex.load(small_runs.folder("gadgets"), device="cpu").proposals == expected

"""How much the parts of a score count when a fact is dated."""

import numpy as np
import pytest
import torch
from tests.answers import small_runs

from timeplex.answers.when import MODEL, Weighted, fit_weights
from timeplex.evaluation.ranking import PlacedFacts
from timeplex.evaluation.time_prediction import both_ends_known
from timeplex.kb.facts import Facts
from timeplex.training.run import TrainedRun


def likelihood(run: TrainedRun, facts: Facts, weights: dict[str, float]) -> float:
    """What the weights are to maximise, fact by fact."""
    total = 0.0
    for s, r, o, first, last in zip(*_columns(PlacedFacts.of(facts, run.timeline)), strict=True):
        parts = Weighted(run, {}).parts(*(torch.tensor([number]) for number in (s, r, o)))
        scores = sum(weights[name] * part[0].double().numpy() for name, part in parts.items())
        logs = scores - np.log(np.exp(scores - scores.max()).sum()) - scores.max()
        total += logs[first : last + 1].mean()
    return total - sum(np.log(weight) ** 2 for weight in weights.values()) / 2


def _columns(placed: PlacedFacts) -> list[list[int]]:
    return [column.tolist() for column in (placed.s, placed.r, placed.o, placed.first, placed.last)]


@pytest.mark.parametrize("kind", ["gadgets", "plain", "inverse"])
def test_no_other_weights_make_the_facts_likelier(kind: str) -> None:
    run = small_runs.trained(kind).run
    facts = both_ends_known(run.kb.valid)[:40]
    found = fit_weights(run, facts)
    assert list(found) == [MODEL, *run.gadgets]
    best = likelihood(run, facts, found)
    for name in found:
        for factor in (0.95, 1.05):
            assert likelihood(run, facts, {**found, name: factor * found[name]}) < best + 1e-9


def test_without_facts_all_weights_are_one() -> None:
    run = small_runs.trained("gadgets").run
    assert set(fit_weights(run, Facts.empty()).values()) == {1.0}


def test_the_parts_sum_to_the_score_and_weights_multiply_them() -> None:
    run = small_runs.trained("gadgets").run
    s, r, o, _ = PlacedFacts.of(run.kb.valid, run.timeline).rows(0, 5).tensors(torch.device("cpu"))
    plain = run.scorer.times(s, r, o)
    parts = Weighted(run, {}).parts(s, r, o)
    assert torch.equal(Weighted(run, {}).times(s, r, o), plain)
    torch.testing.assert_close(torch.stack(list(parts.values())).sum(0), plain)
    halved = Weighted(run, {MODEL: 0.5}).times(s, r, o)
    torch.testing.assert_close(halved, plain - parts[MODEL] / 2)


def test_only_some_of_many_facts_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_runs.trained("gadgets").run
    facts = both_ends_known(run.kb.valid)[:40]
    monkeypatch.setattr("timeplex.answers.when.MOST_FACTS", 20)
    assert fit_weights(run, facts) == fit_weights(run, facts[::2])

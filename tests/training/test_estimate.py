"""How long a training takes: gadgets and looks at dev are counted, and nothing of the training is changed."""

import time

import pytest
import torch
from tests.builders import small_kb

from timeplex.kb.facts import TemporalKB
from timeplex.training import loop as module
from timeplex.training.gadget_training import GadgetTrainer
from timeplex.training.loop import Trainer, estimate
from timeplex.training.recipe import Recipe

GADGETS = {"recurrence": {}, "pair": {"form": "published-code", "try_weights": [0.3, 3.0]}}


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return small_kb(400)


def recipe(**settings: object) -> Recipe:
    values = {"epochs": 2, "batch_size": 64, "options": {"dimension": 8}, "gadgets": GADGETS}
    return Recipe(**(values | settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [{}, {"negatives": 20}, {"model": "de-simple", "options": {"dimension": 8, "dropout": 0.3}, "time_weight": 0.0}],
)
def test_nothing_is_changed(kb: TemporalKB, settings: dict[str, object]) -> None:
    """With and without an estimate: the same random numbers follow, and the same tables come out."""
    trainers = [Trainer(kb, recipe(**settings)) for _ in range(2)]
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    estimate(trainers[0])
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in trainers[0].model.parameters())
    for trainer in trainers:
        trainer.fit()
    one, other = (
        [table for part in (each.model, *each.gadgets.values()) for table in part.state_dict().values()]
        for each in trainers
    )
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_buffers_that_a_pass_changes_are_put_back(kb: TemporalKB) -> None:
    trainer = Trainer(kb, recipe(gadgets={}))
    model = trainer.model
    model.register_buffer("seen", torch.zeros(()))
    right = model.object_side
    model.object_side = lambda *given: (model.seen.add_(1), right(*given))[1]  # type: ignore[method-assign]
    estimate(trainer)
    assert float(model.seen) == 0


def test_gadgets_are_counted_and_only_they_with_a_base(kb: TemporalKB, monkeypatch: pytest.MonkeyPatch) -> None:
    assert estimate(Trainer(kb, recipe(gadgets={}))).gadgets == 0
    found = estimate(Trainer(kb, recipe()))
    assert found.epoch > 0
    assert found.gadgets > 0
    # Ten times as many epochs of the gadgets take about so much longer, the rest is as it was.
    monkeypatch.setattr(module, "_look", lambda trainer, gadgets=None: 0.0)
    monkeypatch.setattr(GadgetTrainer, "trial", lambda self, gadgets, facts: time.sleep(facts / 1000))
    for together, groups in ((True, 1), (False, 2)):
        for epochs in (1, 10):
            trainer = Trainer(kb, recipe(phase2={"epochs": epochs, "together": together}))
            expected = groups * epochs * len(kb.train) / 1000
            assert expected <= estimate(trainer).gadgets <= 1.5 * expected + 2


def test_weights_that_are_tried_are_looked_at(kb: TemporalKB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_look", lambda trainer, gadgets=None: 1000.0)
    trainer = Trainer(kb, recipe(phase2={"epochs": 3}))
    looks = sum(len(line["dev"]) > 0 for line in trainer.fit()["phase2"]["trace"])
    assert looks == 6 + 3
    assert round(estimate(trainer).gadgets / 1000) == looks + 1  # and one with all gadgets at the end
    assert round(estimate(Trainer(kb, recipe(validate_every=4))).epoch / 250) == 1


def test_little_is_measured_where_the_work_is_long() -> None:
    done = []

    def work(rows: int) -> None:
        done.append(rows)
        time.sleep(rows / 200)

    assert 50 <= module._scaled(work, 10_000) <= 70
    assert sum(done) < 300

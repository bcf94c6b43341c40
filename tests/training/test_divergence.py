"""Training that diverges: it ends with the last good tables or with a sentence, and nothing kept is not finite."""

from pathlib import Path

import pytest
import torch
from tests.builders import small_kb

import timeplex
from timeplex.errors import DivergedError
from timeplex.kb.facts import TemporalKB
from timeplex.models import MODELS
from timeplex.training.checkpoint import Progress, Stopped
from timeplex.training.gadget_training import GadgetTrainer
from timeplex.training.loop import Trainer
from timeplex.training.objective import LARGEST, Diverged, check_tables, finite_loss
from timeplex.training.recipe import Recipe
from timeplex.training.run import RunFolder
from timeplex.training.tune import Trial, tune

GADGETS = {"recurrence": {"weight": 5.0}, "pair": {"form": "published-code", "try_weights": [0.3, 3.0]}}


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return small_kb(400)


@pytest.fixture(scope="module")
def without_dev() -> TemporalKB:
    return timeplex.generate(400, seed=0)


def recipe(**settings: object) -> Recipe:
    values = {"epochs": 4, "batch_size": 64, "options": {"dimension": 8}, "phase2": {"epochs": 2}}
    return Recipe(**(values | settings))  # type: ignore[arg-type]


def parameters(trainer: Trainer) -> list[torch.Tensor]:
    modules = (trainer.model, *trainer.gadgets.values())
    return [table for module in modules for table in module.state_dict().values()]


def spoil(trainer: Trainer, epoch: int, value: float) -> Trainer:
    """Put a number into a table while an epoch goes on, as a step that is too long would."""

    def listen(now: Progress) -> None:
        if now.epoch == epoch and not now.gadgets and not now.ended:
            with torch.no_grad():
                trainer.model.entity[0] = value

    trainer.fit(listen)
    return trainer


@pytest.mark.parametrize(
    ("value", "settings"),
    [
        (float("nan"), {}),
        (float("inf"), {}),
        (10 * LARGEST, {}),
        (float("inf"), {"negatives": 20}),
        (float("nan"), {"gadgets": GADGETS}),
    ],
)
def test_the_best_tables_before_are_kept(
    kb: TemporalKB, tmp_path: Path, value: float, settings: dict[str, object]
) -> None:
    """The run is that of so many epochs as were good, and says what happened."""
    good = Trainer(kb, recipe(epochs=2, **settings))
    good.fit()
    spoiled = spoil(Trainer(kb, recipe(**settings), tmp_path / "run"), 3, value)
    for one, other in zip(parameters(good), parameters(spoiled), strict=True):
        assert torch.equal(one, other)
    told = RunFolder(tmp_path / "run").metrics()["diverged"]
    assert told.startswith("Training diverged in epoch 3: ")
    assert "learning_rate" in told
    RunFolder(tmp_path / "run").load()


def test_a_training_without_trouble_says_nothing(kb: TemporalKB) -> None:
    assert "diverged" not in Trainer(kb, recipe(gadgets=GADGETS)).fit()


def test_without_dev_the_last_good_tables_are_kept(without_dev: TemporalKB) -> None:
    good = Trainer(without_dev, recipe(epochs=2))
    good.fit()
    spoiled = spoil(Trainer(without_dev, recipe()), 3, float("inf"))
    assert all(torch.equal(*pair) for pair in zip(parameters(good), parameters(spoiled), strict=True))


@pytest.mark.parametrize("model", sorted(MODELS))
@pytest.mark.parametrize("dev", [True, False])
def test_no_model_keeps_what_is_not_finite(kb: TemporalKB, without_dev: TemporalKB, model: str, dev: bool) -> None:
    """Steps of 10³⁰ end with a sentence."""
    margin = {"loss": "margin", "negatives": 5, "time_weight": 0.0} if model in ("hyte", "transe") else {}
    trainer = Trainer(kb if dev else without_dev, recipe(model=model, learning_rate=1e30, epochs=2, **margin))
    with pytest.raises(DivergedError, match=r"diverged in epoch \d: .* smaller learning_rate than 1e\+30"):
        trainer.fit()


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("dev", [True, False])
def test_gadgets_that_never_learned_add_nothing(
    kb: TemporalKB, without_dev: TemporalKB, tmp_path: Path, together: bool, dev: bool
) -> None:
    wild = {name: {**options, "learning_rate": 1e30} for name, options in GADGETS.items()}
    data, phase2 = kb if dev else without_dev, {"together": together, "epochs": 2}
    trainer = Trainer(data, recipe(gadgets=wild, phase2=phase2), tmp_path / "run")
    metrics = trainer.fit()
    assert set(metrics["phase2"]["weights"].values()) == {0.0}
    assert metrics["diverged"].count("diverged in epoch 1") == (1 if together else 2)
    assert metrics["dev"] == metrics["phase2"]["base_dev"]
    assert all(table.isfinite().all() for table in parameters(trainer))
    # The model was worth its time: gadgets can be trained on it.
    tame = Trainer(data, recipe(gadgets=GADGETS), tmp_path / "again", base=tmp_path / "run").fit()
    assert "diverged" not in tame


def test_gadgets_that_diverge_later_keep_what_they_learned(kb: TemporalKB, monkeypatch: pytest.MonkeyPatch) -> None:
    good = Trainer(kb, recipe(gadgets=GADGETS, phase2={"epochs": 1}))
    good.fit()
    right = GadgetTrainer.loss

    def loss(self: GadgetTrainer, gadgets: object, rows: object, key: tuple[int, int]) -> torch.Tensor:
        found = right(self, gadgets, rows, key)  # type: ignore[arg-type]
        return found * float("nan") if key == (1, 0) else found

    monkeypatch.setattr(GadgetTrainer, "loss", loss)
    spoiled = Trainer(kb, recipe(gadgets=GADGETS))
    metrics = spoiled.fit()
    assert "What was learned before is kept" in metrics["diverged"]
    assert all(torch.equal(*pair) for pair in zip(parameters(good), parameters(spoiled), strict=True))


def test_cut_off_after_it_diverged_it_does_not_go_on_learning(kb: TemporalKB, tmp_path: Path) -> None:
    settings = recipe(gadgets=GADGETS)
    straight = spoil(Trainer(kb, settings), 3, float("nan"))
    trainer = Trainer(kb, settings, tmp_path / "run")

    def listen(now: Progress) -> None:
        if now.gadgets:
            trainer.stop_asked = True
        elif now.epoch == 3 and not now.ended:
            with torch.no_grad():
                trainer.model.entity[0] = float("nan")

    with pytest.raises(Stopped):
        trainer.fit(listen)
    resumed = Trainer(kb, settings, tmp_path / "run")
    metrics = resumed.fit(resume=True)
    assert metrics["diverged"] == straight.state.diverged
    assert all(torch.equal(*pair) for pair in zip(parameters(straight), parameters(resumed), strict=True))


def test_a_trial_that_diverges_does_not_end_a_search(
    kb: TemporalKB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Trial] = []
    monkeypatch.setattr("timeplex.training.loop.finite_loss", lambda loss: finite_loss(loss * torch.inf))
    tune(kb, recipe(model="complex", epochs=1), 2, tmp_path, on_progress=heard.append)
    assert [trial.mrr for trial in heard] == [0.0, 0.0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_loss_that_is_no_number(value: float) -> None:
    with pytest.raises(Diverged, match="loss"):
        finite_loss(torch.tensor(value))
    assert finite_loss(torch.tensor(2.5)) == 2.5


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -2 * LARGEST])
def test_tables_that_are_no_use(value: float) -> None:
    layer = torch.nn.Linear(2, 3)
    check_tables(layer)
    with torch.no_grad():
        layer.bias[1] = value
    with pytest.raises(Diverged, match="'bias'"):
        check_tables(layer)

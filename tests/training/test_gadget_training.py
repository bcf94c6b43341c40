"""Phase 2: gadgets learn on top of a model that stays as it is."""

import json
from pathlib import Path

import pytest
import torch
from tests.builders import small_kb

import timeplex
from timeplex.errors import InputError
from timeplex.kb.facts import TemporalKB
from timeplex.models.scorer import Scorer
from timeplex.training.checkpoint import Progress, Stopped
from timeplex.training.experiment import Experiment, dev_metrics
from timeplex.training.gadget_training import GadgetTrainer, loss_among_drawn
from timeplex.training.loop import Trainer
from timeplex.training.recipe import Recipe
from timeplex.training.run import RunFolder

CPU = torch.device("cpu")
BOTH = {"recurrence": {"weight": 5.0, "learning_rate": 0.5}, "pair": {"weight": 3.0, "form": "published-code"}}


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return small_kb(600)


def recipe(**settings: object) -> Recipe:
    values = {"epochs": 4, "batch_size": 64, "precision": "float32", "options": {"dimension": 8}, "gadgets": BOTH}
    return Recipe(**(values | settings))  # type: ignore[arg-type]


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.safetensors").read_bytes() for name in ("model", "gadgets")}


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("inverse", [False, True])
def test_gadgets_learn_and_the_model_stays(kb: TemporalKB, together: bool, inverse: bool) -> None:
    settings = recipe(inverse=inverse, phase2={"together": together, "epochs": 2, "batch_size": 100})
    base = Trainer(kb, settings.without_gadgets())
    base.fit()
    before = {name: table.clone() for name, table in base.model.state_dict().items()}
    setup = Experiment(kb, settings)
    gadgets, trace = GadgetTrainer(setup, base.model, CPU).fit()
    assert all(torch.equal(before[name], table) for name, table in base.model.state_dict().items())
    fresh = setup.new_gadgets()
    for name, gadget in gadgets.items():
        assert not torch.equal(gadget.weight, fresh[name].weight)
        assert not torch.equal(gadget.bias, fresh[name].bias)
    first = [line["loss"] for line in trace if line.get("epoch") == 1]
    last = [line["loss"] for line in trace if line.get("epoch") == 2]
    assert all(end < begin for begin, end in zip(first, last, strict=True))
    assert len(first) == (1 if together else 2)
    # With what they learned the gadgets find more than the model alone, and more than they did at first.
    learned = dev_metrics(setup, base.model, CPU, gadgets)["mrr"]
    assert learned > dev_metrics(setup, base.model, CPU)["mrr"]
    assert learned > dev_metrics(setup, base.model, CPU, fresh)["mrr"]


def test_the_loss_among_all_entities_is_the_loss_among_all_drawn(kb: TemporalKB) -> None:
    """Drawing every entity once gives the loss of all of them, but that the gold is there twice."""
    settings = recipe(inverse=True)
    setup = Experiment(kb, settings)
    model, gadgets = setup.new_model(), setup.new_gadgets()
    rows = torch.arange(40).numpy()
    train = setup.train
    s, r, o, t = (torch.from_numpy(column[rows].copy()) for column in (train.s, train.r, train.o, train.first))
    own = torch.from_numpy(setup.evidence.places(rows))
    everyone = torch.arange(len(kb.entities))
    drawn = loss_among_drawn(setup.scorer(model, gadgets), s, r, o, t, own, everyone)
    answers = Scorer(model, True)
    expected = torch.zeros(())
    for direction, gold in (("object", o), ("subject", s)):
        scores = answers.objects(s, r, (t, t)) if direction == "object" else answers.subjects(r, o, (t, t))
        for gadget in gadgets.values():
            more = gadget.objects_at(s, r, t, own) if direction == "object" else gadget.subjects_at(r, o, t, own)
            scores = scores + gadget.strength * more
        right = scores.gather(1, gold[:, None])[:, 0]
        twice = torch.logsumexp(torch.cat([scores, right[:, None]], 1), 1)
        expected = expected + (twice - right).mean()
    torch.testing.assert_close(drawn, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("negatives", [0, 30])
def test_the_time_term_and_drawn_negatives_teach(kb: TemporalKB, negatives: int) -> None:
    settings = recipe(phase2={"time_weight": 1.0, "negatives": negatives, "epochs": 2, "together": True})
    model = Experiment(kb, settings).new_model()
    _, trace = GadgetTrainer(Experiment(kb, settings), model, CPU).fit()
    assert trace[1]["loss"] < trace[0]["loss"]


def test_the_best_weight_on_dev_stays(kb: TemporalKB) -> None:
    pair = {"pair": {"weight": 3.0, "form": "published-code", "try_weights": [0.0, 1000.0]}}
    trainer = Trainer(kb, recipe(gadgets=pair, phase2={"epochs": 1}))
    metrics = trainer.fit()
    tried = {line["weight"]: line["dev"]["mrr"] for line in metrics["phase2"]["trace"] if "weight" in line}
    assert set(tried) == {0.0, 3.0, 1000.0}
    assert metrics["phase2"]["weights"]["pair"] == max(tried, key=tried.__getitem__)
    assert metrics["dev"]["mrr"] == max(tried.values())


def test_the_best_look_of_a_gadget_is_told(kb: TemporalKB, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = iter([0.3, 0.2, 0.4, 0.1, 0.05, 0.2])
    monkeypatch.setattr(GadgetTrainer, "dev", lambda trainer, gadgets: {"mrr": next(figures)})
    heard: list[Progress] = []
    Trainer(kb, recipe(epochs=1, phase2={"epochs": 3})).fit(heard.append)
    ends = [(now.dev, now.best) for now in heard if now.gadgets and now.ended]
    assert ends == [(0.3, 0.3), (0.2, 0.3), (0.4, 0.4), (0.1, 0.1), (0.05, 0.1), (0.2, 0.2)]


def test_a_saved_run_is_what_was_measured(kb: TemporalKB, tmp_path: Path) -> None:
    trainer = Trainer(kb, recipe(), tmp_path / "run")
    metrics = trainer.fit()
    run = RunFolder(tmp_path / "run").load()
    assert set(run.gadgets) == {"recurrence", "pair"}
    assert dev_metrics(run.setup, run.model, CPU, run.gadgets) == metrics["dev"]
    assert metrics["dev"] != metrics["phase2"]["base_dev"]
    assert dev_metrics(run.setup, run.model, CPU) == metrics["phase2"]["base_dev"]
    assert set(run.without("pair").gadgets) == {"recurrence"}
    assert run.without("pair", "recurrence").scorer == Scorer(run.model, run.recipe.inverse)


def test_cut_off_in_phase_2_it_goes_on_from_phase_1(kb: TemporalKB, tmp_path: Path) -> None:
    Trainer(kb, recipe(), tmp_path / "straight").fit()
    trainer = Trainer(kb, recipe(), tmp_path / "stopped")

    def ask(now: Progress) -> None:
        trainer.stop_asked = bool(now.gadgets) and now.epoch == 2

    with pytest.raises(Stopped):
        trainer.fit(ask)
    again, heard = RunFolder(tmp_path / "stopped"), []
    assert not again.is_finished
    Trainer(again.kb(), again.recipe(), again.path).fit(heard.append, resume=True)
    assert all(now.gadgets for now in heard), "no epoch of phase 1 is repeated"
    assert tables(tmp_path / "stopped") == tables(tmp_path / "straight")


def test_a_finished_run_serves_as_base(kb: TemporalKB, tmp_path: Path) -> None:
    Trainer(kb, recipe().without_gadgets(), tmp_path / "base").fit()
    Trainer(kb, recipe(), tmp_path / "straight").fit()
    heard: list[Progress] = []
    Trainer(kb, recipe(), tmp_path / "added", base=tmp_path / "base").fit(heard.append)
    assert all(now.gadgets for now in heard)
    assert tables(tmp_path / "added") == tables(tmp_path / "straight")
    metrics = [RunFolder(tmp_path / name).metrics() for name in ("added", "straight")]
    assert metrics[0]["dev"] == metrics[1]["dev"]
    assert metrics[0]["best_epoch"] == metrics[1]["best_epoch"]


class Cut(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("where", ["timeplex.training.tracking.Tracking.begin", "timeplex.kb.facts.TemporalKB.save"])
def test_a_run_with_a_base_that_is_cut_off_at_once_keeps_its_base(
    kb: TemporalKB, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        raise Cut

    Trainer(kb, recipe().without_gadgets(), tmp_path / "base").fit()
    with monkeypatch.context() as patch:
        patch.setattr(where, end)
        with pytest.raises(Cut):
            Trainer(kb, recipe(), tmp_path / "run", base=tmp_path / "base").fit()
    begun, heard = RunFolder(tmp_path / "run").is_begun, list[Progress]()
    again = {"base": None} if begun else {"base": tmp_path / "base"}  # as `--resume`, or as the same command once more
    Trainer(kb, recipe(), tmp_path / "run", **again).fit(heard.append, resume=begun)
    assert all(now.gadgets for now in heard), "no epoch of phase 1 is trained"
    Trainer(kb, recipe(), tmp_path / "straight").fit()
    assert tables(tmp_path / "run") == tables(tmp_path / "straight")


def test_the_remains_of_a_start_with_a_base_are_none_of_one_without(
    kb: TemporalKB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Trainer(kb, recipe().without_gadgets(), tmp_path / "base").fit()
    save = TemporalKB.save
    for base in (tmp_path / "base", None):

        def end(kb: TemporalKB, path: Path, base: Path | None = base) -> None:
            if base is None:
                save(kb, path)
            raise Cut

        monkeypatch.setattr(TemporalKB, "save", end)
        with pytest.raises(Cut):
            Trainer(kb, recipe(), tmp_path / "run", base=base).fit()
    heard: list[Progress] = []
    Trainer(kb, recipe(), tmp_path / "run").fit(heard.append, resume=True)
    assert not heard[0].gadgets, "phase 1 is trained, as the second start had it"


def test_a_base_of_another_kb_or_recipe_is_refused(kb: TemporalKB, tmp_path: Path) -> None:
    Trainer(kb, recipe().without_gadgets(), tmp_path / "base").fit()
    other = small_kb(300, seed=1)
    for data, settings, what in ((other, recipe(), "KB"), (kb, recipe(seed=5), "recipe")):
        with pytest.raises(InputError, match=f"another {what}"):
            Trainer(data, settings, tmp_path / "run", base=tmp_path / "base")
    assert not (tmp_path / "run").exists()


def test_damaged_gadgets_are_refused(kb: TemporalKB, tmp_path: Path) -> None:
    Trainer(kb, recipe(epochs=1, phase2={"epochs": 1}), tmp_path / "run").fit()
    assert "gadgets.safetensors" in json.loads((tmp_path / "run" / "MANIFEST.json").read_text())["sha256"]
    (tmp_path / "run" / "gadgets.safetensors").write_bytes(b"")
    with pytest.raises(timeplex.errors.DamagedError, match="gadgets"):
        RunFolder(tmp_path / "run").load()

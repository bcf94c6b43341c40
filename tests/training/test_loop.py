"""Training: it learns, stops, keeps the best, and a resumed run is the straight run bit by bit."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.builders import small_kb

from timeplex.errors import DamagedError, InputError
from timeplex.files import write_whole
from timeplex.kb.facts import TemporalKB
from timeplex.models import MODELS
from timeplex.training import checkpoint
from timeplex.training.checkpoint import Stopped
from timeplex.training.loop import Trainer
from timeplex.training.recipe import Recipe
from timeplex.training.run import RunFolder

SMALL = {"epochs": 3, "batch_size": 64, "precision": "float32"}


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return small_kb(400)


def recipe(model: str = "timeplex-base", **settings: object) -> Recipe:
    options = {"dimension": 8} | ({"bin_size": 40} if model == "hyte" else {})
    return Recipe(**({"model": model, "options": options} | SMALL | settings))  # type: ignore[arg-type]


def fingerprint(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


VARIANTS = {
    "plain": recipe(),
    "both sides": recipe(inverse=False, l2=0.01, n3=0.001, smooth=0.1),
    "drawn negatives": recipe(negatives=20),
    "drawn negatives, adam": recipe(negatives=20, optimizer="adam", learning_rate=0.01),
    "margin": recipe("hyte", loss="margin", negatives=5, time_weight=0, instants="enumerate", inverse=False),
    "dropout": recipe("de-simple", time_weight=0).with_settings(["options.dropout=0.3"]),
    "lstm": recipe("ta", time_weight=0),
    "plateau": recipe(learning_rate=5.0, plateau=1, epochs=5),
    "frequent and drawn negatives": recipe(negatives=10, frequent=20),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_resumed_equals_straight(name: str, kb: TemporalKB, tmp_path: Path) -> None:
    """Stopped in the middle of an epoch and at its end, then resumed: the same tables to the last bit."""
    straight = Trainer(kb, VARIANTS[name], tmp_path / "straight")
    straight.fit()
    steps = len(straight.batches)
    for stop in (steps // 2, steps, steps + 1):
        folder = tmp_path / f"stopped-{stop}"
        trainer = Trainer(kb, VARIANTS[name], folder)

        def ask(now: object, trainer: Trainer = trainer, stop: int = stop) -> None:
            trainer.stop_asked = trainer.state.step >= stop

        with pytest.raises(Stopped):
            trainer.fit(ask)
        again = RunFolder(folder)
        Trainer(again.kb(), again.recipe(), folder).fit(resume=True)
        assert fingerprint(folder) == fingerprint(tmp_path / "straight")
        lines = [(folder / "trace.jsonl").read_text(), (tmp_path / "straight" / "trace.jsonl").read_text()]
        one, other = ([{**json.loads(line), "seconds": 0} for line in text.splitlines()] for text in lines)
        assert one == other


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_learns(model: str) -> None:
    """On a KB with a pattern each model ends far above chance and above where it began."""
    kb = small_kb(600, seed=1)
    extra: dict[str, object] = {}
    if model in ("hyte", "transe"):
        extra = {"loss": "margin", "negatives": 30, "margin": 2.0}
    settings = {"epochs": 12, "time_weight": 0, "patience": 12, "plateau": 12, "learning_rate": 0.1} | extra
    trainer = Trainer(kb, recipe(model, **settings).with_settings(["options.dimension=16"]))
    metrics = trainer.fit()
    losses = [line["loss"] for line in trainer.state.trace]
    assert losses[-1] < 0.9 * losses[0]
    assert metrics["dev"]["mrr"] > 3 * np.mean(1 / np.arange(1, len(kb.entities) + 1))


def test_two_runs_with_one_seed_are_equal_and_with_another_not(kb: TemporalKB, tmp_path: Path) -> None:
    for folder, seed in (("one", 1), ("two", 1), ("three", 2)):
        Trainer(kb, recipe(seed=seed), tmp_path / folder).fit()
    assert fingerprint(tmp_path / "one") == fingerprint(tmp_path / "two") != fingerprint(tmp_path / "three")


def test_the_best_epoch_is_kept_and_patience_stops(kb: TemporalKB, tmp_path: Path) -> None:
    trainer = Trainer(kb, recipe(epochs=50, patience=2, learning_rate=2.0), tmp_path / "run")
    metrics = trainer.fit()
    looks = [line["dev"]["mrr"] for line in trainer.state.trace]
    assert metrics["epochs"] < 50
    assert metrics["epochs"] == metrics["best_epoch"] + 2
    assert metrics["dev"]["mrr"] == max(looks)
    # What is saved is what was measured.
    run = RunFolder(tmp_path / "run").load()
    loaded, model = run.kb, run.model
    from timeplex.training.experiment import Experiment, dev_metrics

    assert loaded == kb
    assert dev_metrics(Experiment(kb, trainer.recipe), model, torch.device("cpu")) == metrics["dev"]


def test_row_steps_equal_dense_steps(kb: TemporalKB) -> None:
    """Adagrad on the used rows does just what dense Adagrad does, whose gradient is 0 elsewhere."""
    rows = Trainer(kb, recipe(negatives=20, epochs=1))
    dense = Trainer(kb, recipe(negatives=20, epochs=1))
    from timeplex.training.objective import dense_optimizer

    dense.rows, dense.optimizer = None, dense_optimizer(list(dense.model.parameters()), dense.recipe)
    rows.fit()
    dense.fit()
    for (name, one), other in zip(rows.model.named_parameters(), dense.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, msg=name)


def test_a_damaged_run_is_refused(kb: TemporalKB, tmp_path: Path) -> None:
    Trainer(kb, recipe(epochs=1), tmp_path / "run").fit()
    weights = tmp_path / "run" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(DamagedError, match=r"model\.safetensors"):
        RunFolder(tmp_path / "run").load()


def test_checkpoints_survive_and_are_checked(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(3.0)}
    assert checkpoint.read(tmp_path / "none") is None
    checkpoint.write(tmp_path, tensors, {"step": 1})
    (tmp_path / "step-000000099.safetensors").write_bytes(b"left over by an earlier run")
    checkpoint.write(tmp_path, {"a": torch.ones(3)}, {"step": 2})
    found = checkpoint.read(tmp_path)
    assert found is not None
    assert found[1] == {"step": 2}
    pointer, file = sorted(path.name for path in tmp_path.iterdir())
    assert pointer == "latest.json"
    assert re.fullmatch(r"step-000000002-[0-9a-f]{8}\.safetensors", file)
    (tmp_path / file).write_bytes(b"torn")
    with pytest.raises(DamagedError):
        checkpoint.read(tmp_path)


def test_a_checkpoint_of_the_same_step_does_not_touch_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Phase 2 begins with a checkpoint, also if the last batch of phase 1 left one of the same step."""
    checkpoint.write(tmp_path, {"a": torch.zeros(3)}, {"step": 7})
    before = contents(tmp_path)

    def die(path: Path, data: bytes) -> None:
        if path.name == "latest.json":
            raise KeyboardInterrupt
        write_whole(path, data)

    monkeypatch.setattr(checkpoint, "write_whole", die)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.write(tmp_path, {"a": torch.ones(3)}, {"step": 7})
    assert before.items() <= contents(tmp_path).items()
    found = checkpoint.read(tmp_path)
    assert found is not None
    assert found[0]["a"].tolist() == [0, 0, 0]


FOREIGN = ("notes.txt", "step-1.safetensors", "model.safetensors", "step-000000001-mine.safetensors")


def test_only_our_checkpoints_are_removed(kb: TemporalKB, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoint"
    with pytest.raises(Stopped):
        stop_at_once(Trainer(kb, recipe(), folder.parent))
    for name in FOREIGN:
        (folder / name).write_text("mine")
    (folder / "step-000000001.safetensors").mkdir()
    Trainer(kb, recipe(), folder.parent).fit(resume=True, checkpoint_seconds=0)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FOREIGN, "step-000000001.safetensors"])


@pytest.mark.parametrize("resume", [True, False])
def test_a_checkpoint_folder_that_is_a_link_is_refused(kb: TemporalKB, tmp_path: Path, resume: bool) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    with pytest.raises(Stopped):
        stop_at_once(Trainer(kb, recipe(), run))
    (run / "checkpoint").rename(elsewhere)
    (elsewhere / "step-000000001.safetensors").write_text("of another run")
    (run / "checkpoint").symlink_to(elsewhere)
    before = contents(elsewhere)
    with pytest.raises(InputError, match="checkpoint is a link" if resume else "exists already"):
        Trainer(kb, recipe(), run).fit(resume=resume)
    checkpoint.remove(run / "checkpoint")
    assert contents(elsewhere) == before


def stop_at_once(trainer: Trainer) -> None:
    def ask(now: object) -> None:
        trainer.stop_asked = True

    trainer.fit(ask)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_an_existing_folder_is_not_overwritten(kb: TemporalKB, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(InputError, match="exists"):
        Trainer(kb, recipe(), tmp_path).fit()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

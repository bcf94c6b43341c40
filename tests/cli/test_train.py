"""`timeplex train` and `timeplex tune` as a user calls them."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builders import small_kb
from tests.patience import patience

import timeplex as package
from timeplex.models import MODELS

FAST = ["--set", "epochs=2", "--set", "options.dimension=4", "--set", "batch_size=100"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("train") / "small.kb"
    small_kb(300).save(folder)
    return str(folder)


def test_train_says_what_and_how_long_and_saves(timeplex, small: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    answer = timeplex("train", small, "-o", str(tmp_path / "run"), *FAST)
    assert answer.code == 0
    assert "timeplex-base + recurrence + pair on" in answer.out
    assert "an epoch" in answer.out
    assert "dev (published-code protocol): MRR" in answer.out
    assert "epoch 2/2" in answer.err
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "MANIFEST.json",
        "gadgets.safetensors",
        "kb",
        "metrics.json",
        "model.safetensors",
        "recipe.json",
        "trace.jsonl",
    }


LEARNED = {f"{name}.{suffix}" for name in ("dates", "links") for suffix in ("json", "safetensors")}


def test_train_learns_the_patterns_too(timeplex, small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    run = tmp_path / "run"
    assert timeplex("train", small, "-o", run, "--patterns", "--model", "complex", *FAST).code == 0
    assert {path.name for path in run.iterdir()} >= LEARNED
    kept = package.load(run)

    def learn(*given: Any) -> None:
        raise AssertionError("it is learned again")

    monkeypatch.setattr("timeplex.answers.dates.Dates.learn", learn)
    monkeypatch.setattr("timeplex.answers.links.Links.learn", learn)
    s, r, o, *_ = next(iter(kept.kb.test))
    assert len(kept.when(kept.kb.entities[s], kept.kb.relations[r], kept.kb.entities[o])) == 1
    assert len(kept.rank(subject=kept.kb.entities[s], relation=kept.kb.relations[r], k=2)) == 2


def test_patterns_that_are_stopped_are_learned_later(  # type: ignore[no-untyped-def]
    timeplex, small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("timeplex.answers.learned.Learned.learn", stopped)
    answer = timeplex("train", small, "-o", "run", "--patterns", "--model", "complex", *FAST)
    assert answer.code == 130
    assert "The model is saved in run; its patterns are learned with the first question." in answer.out
    assert package.load("run").run.recipe.model == "complex"


def test_the_full_model_is_the_default_and_the_base_has_its_name(timeplex, small: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    answers = [
        timeplex("train", small, "-o", str(tmp_path / f"run{name}"), *FAST, *(["--model", name] if name else []))
        for name in ("", "timeplex", "timeplex-base")
    ]
    heads = [answer.out.splitlines()[0].partition(" on ")[0] for answer in answers]
    assert heads == ["timeplex-base + recurrence + pair", "timeplex-base + recurrence + pair", "timeplex-base"]


def test_json(timeplex, small: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    answer = timeplex("train", small, "-o", str(tmp_path / "run"), "--model", "complex", "--json", *FAST)
    result = json.loads(answer.out)
    assert result["dev"].keys() == {"mrr", "mr", "hits@1", "hits@3", "hits@10"}
    assert result["epochs"] == 2


def test_gadgets_on_a_model_that_is_there(timeplex, small: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    base, run = str(tmp_path / "base"), str(tmp_path / "run")
    gadgets = ["--set", "gadgets.recurrence={weight = 2.0}", "--set", "gadgets.pair={}", "--set", "phase2.epochs=1"]
    of_base = ["--model", "timeplex-base", *FAST]
    assert timeplex("train", small, "-o", base, *of_base).code == 0
    answer = timeplex("train", small, "-o", run, *of_base, *gadgets, "--base", base)
    assert answer.code == 0
    assert "timeplex-base + recurrence + pair on" in answer.out
    assert f"The model is that of {base}; only the gadgets learn" in answer.out
    assert "an epoch" not in answer.out
    assert "without gadgets, which learned for" in answer.out
    assert "recurrence: epoch 1/1" in answer.err
    assert "pair: epoch 1/1" in answer.err
    assert (tmp_path / "run" / "gadgets.safetensors").is_file()
    assert "timeplex-base + recurrence + pair on" in timeplex("evaluate", run).out
    assert json.loads(timeplex("evaluate", run, "--json").out)["model"] == "timeplex-base + recurrence + pair"
    wrong = timeplex(
        "train", small, "-o", str(tmp_path / "other"), *of_base, *gadgets, "--set", "seed=3", "--base", base
    )
    assert (wrong.code, wrong.out) == (2, "")
    assert "another recipe" in wrong.err
    assert not (tmp_path / "other").exists()


OWN = """
from timeplex.models import register
from timeplex.models.static import DistMult

@register("my-model")
class Mine(DistMult):
    '''As DistMult.'''
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[str]:
    """A model of one's own, as the command line takes it."""
    (tmp_path / "own.py").write_text(OWN)
    yield f"{tmp_path / 'own.py'}:my-model"
    MODELS.pop("my-model", None)


def test_an_own_model_from_a_file(timeplex, small: str, own: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    s, r, o, at = package.TemporalKB.load(small).to_polars().drop_nulls().row(0)[1:5]
    asked = ["explain", "run", s, r, o, "--at", at]
    assert timeplex("train", small, "-o", "run", "--model", own, *FAST).code == 0
    written = json.loads(Path("run/recipe.json").read_text())
    digest = hashlib.sha256((tmp_path / "own.py").read_bytes()).hexdigest()
    assert (written["model"], written["model_sha256"]) == ("my-model", digest)
    assert str(tmp_path) not in Path("run/recipe.json").read_text(), "no path of this machine"
    MODELS.pop("my-model")  # as in a new process
    assert "not part of timeplex, 'my-model'. Add its file: --model" in timeplex(*asked).complaint()
    assert timeplex(*asked, "--model", own).code == 0
    MODELS.pop("my-model")
    assert package.load("run", model=own).run.recipe.model == "my-model"
    # Another file of that name is not the recorded one.
    (tmp_path / "own.py").write_text(OWN + "# changed\n")
    complaint = timeplex(*asked, "--model", own).complaint()
    assert "is from another file" in complaint
    assert digest in complaint
    assert "not a model of your own" in timeplex(*asked, "--model", "complex").complaint()


def test_an_own_model_beside_a_recipe(timeplex, small: str, own: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """The recipe may name the model; the file is the caller's to give."""
    recipe = tmp_path / "recipe.toml"
    command = ["train", small, "--recipe", str(recipe), "-o"]
    for number, (model, told) in enumerate({"my-model": "no model 'my-model'", own: "no recipe can name"}.items()):
        recipe.write_text(f'model = "{model}"\nepochs = 1\noptions = {{dimension = 4}}\n')
        assert told in timeplex(*command, "none").complaint()
        assert timeplex(*command, f"run{number}", "--model", own).code == 0
        MODELS.pop("my-model")
    recipe.write_text('model = "complex"\n')
    assert "is for the model 'complex'" in timeplex(*command, "none", "--model", own).complaint()
    assert not Path("none").exists()


def test_an_own_model_is_resumed_with_its_file(  # type: ignore[no-untyped-def]
    timeplex, small: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from timeplex.training.loop import Trainer

    end_epoch = Trainer._end_epoch
    monkeypatch.setattr(Trainer, "_end_epoch", lambda self: (end_epoch(self), setattr(self, "stop_asked", True)))
    answer = timeplex("train", small, "-o", "run", "--model", own, *FAST)
    assert answer.code == 130
    said = answer.out.splitlines()[-1].rpartition("Go on with: timeplex ")[2]
    assert said == f"train --resume -o run --model {own}"
    monkeypatch.setattr(Trainer, "_end_epoch", end_epoch)
    MODELS.pop("my-model")
    assert "Add its file" in timeplex("train", "--resume", "-o", "run").complaint()
    assert timeplex(*said.split()).code == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train", "-o", "run"], "nothing to learn"),
        (["train", "KB", "-o", "run", "--model", "timplex"], "timeplex-base"),
        (["train", "KB", "-o", "run", "--set", "epoch=3"], "epoch"),
        (["train", "KB", "-o", "run", "--recipe", "none.toml"], "none.toml"),
        (["train", "KB", "-o", "run", "--recipe", "none.toml", "--model", "complex"], "--model"),
        (["train", "KB", "-o", "KB"], "exists"),
        (["train", "KB", "-o", "run", "--device", "abacus"], "abacus"),
        (["train", "--resume", "-o", "none"], "none"),
        (["train", "KB", "--resume", "-o", "none"], "--resume"),
        (["tune", "KB", "-o", "search", "--search", "luck"], "luck"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(timeplex, small: str, arguments: list[str], named: str) -> None:  # type: ignore[no-untyped-def]
    answer = timeplex(*(small if part == "KB" else part for part in arguments))
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert named in answer.err
    assert answer.err.count("\n") == 1


def test_interrupted_and_resumed(small: str, tmp_path: Path) -> None:
    """Ctrl-C saves, says how to go on, and --resume finishes."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "timeplex.cli.main", "train"]
    # Many small batches, so that there is time to press Ctrl-C.
    settings = [*FAST, "--set", "epochs=300", "--set", "batch_size=5", "--set", "patience=300"]
    process = subprocess.Popen(
        [*command, small, "-o", str(run), *settings], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (run / "trace.jsonl").exists() and process.poll() is None:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=patience(120))
    assert process.returncode == 130, err
    assert f"--resume -o {run}" in out
    assert "Traceback" not in err
    state = json.loads((run / "checkpoint" / "latest.json").read_text())["state"]
    assert state["step"] > 0
    # Finish quickly: the recipe is the run's own, so it is told to stop after few epochs.
    recipe = json.loads((run / "recipe.json").read_text())
    (run / "recipe.json").write_text(json.dumps({**recipe, "epochs": state["epoch"] + 1}))
    done = subprocess.run([*command, "--resume", "-o", str(run)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "for at most 1 epoch more" in done.stdout
    assert (run / "model.safetensors").exists()
    again = subprocess.run([*command, "--resume", "-o", str(run)], capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert "finished" in again.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SQLAlchemy, about MLflow
def test_trackers(timeplex, small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_LOGGING_LEVEL", "ERROR")
    answer = timeplex("train", small, "-o", "run", "--track", "tensorboard", "--track", "mlflow", *FAST)
    assert answer.code == 0
    assert "warning" not in answer.err
    assert len(list(Path("run/tensorboard").glob("events.out.tfevents.*"))) == 1
    assert len(Path("run/mlflow-run.txt").read_text()) == 32
    assert Path("mlflow.db").is_file(), "where an MLflow user looks for it"


def test_a_tracker_that_fails_is_one_sentence(  # type: ignore[no-untyped-def]
    timeplex, small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    answer = timeplex("train", small, "-o", "run", "--json", "--track", "mlflow", *FAST)
    assert answer.code == 0
    assert json.loads(answer.out)["epochs"] == 2
    assert answer.err.startswith("warning: mlflow takes no more (")
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_tracker_that_is_not_there_is_said_before_any_work(  # type: ignore[no-untyped-def]
    name: str, timeplex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    # There is no such KB either, so what is said first tells what is looked at first.
    complaint = timeplex("train", "no.kb", "-o", "run", "--track", name).complaint()
    assert name in complaint
    assert ("tensorboard or mlflow" if name == "wandb" else "pip install 'timeplex[track]'") in complaint
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_run_says_how_to_go_on_with_its_trackers(  # type: ignore[no-untyped-def]
    timeplex, small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from timeplex.training.loop import Trainer

    def press(trainer: Trainer) -> None:
        trainer.stop_asked = True
        trainer._checkpoint()

    end_epoch = Trainer._end_epoch
    monkeypatch.setattr(Trainer, "_end_epoch", lambda trainer: (end_epoch(trainer), press(trainer)))
    answer = timeplex("train", small, "-o", "run", "--track", "tensorboard", *FAST)
    assert answer.code == 130
    said = answer.out.splitlines()[-1].rpartition("Go on with: timeplex ")[2]
    assert said == "train --resume -o run --track tensorboard"
    monkeypatch.setattr(Trainer, "_end_epoch", end_epoch)
    assert timeplex(*said.split()).code == 0
    assert len(list(Path("run/tensorboard").iterdir())) == 2


def test_tune_resumes(timeplex, small: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "search"
    arguments = ["tune", small, "-o", str(folder), "--model", "complex", "--set", "epochs=1", *FAST[2:4]]
    assert "trial 2" in timeplex(*arguments, "--trials", "2").out
    answer = timeplex(*arguments, "--trials", "3")
    assert "trial 3" in answer.out
    assert "trial 2" not in answer.out
    trials = [json.loads(line) for line in (folder / "trials-all.jsonl").read_text().splitlines()]
    best = json.loads((folder / "best.json").read_text())
    assert len(trials) == 3
    winner = max(trials, key=lambda trial: trial["mrr"])["settings"]
    assert {key: best[key] for key in winner} == winner


def test_a_search_that_is_stopped_at_the_end_of_a_trial_stops(  # type: ignore[no-untyped-def]
    timeplex, small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the trial is left to stop: it counts, and there is no other."""
    from timeplex.training.loop import Trainer

    finish = Trainer._finish

    def press(trainer: Trainer, listener: object) -> object:
        trainer.stop_asked = True
        return finish(trainer, listener)  # type: ignore[arg-type]

    monkeypatch.setattr(Trainer, "_finish", press)
    answer = timeplex("tune", small, "-o", "search", "--model", "complex", "--set", "epochs=1", "--trials", "3")
    assert answer.code == 130
    assert answer.out.splitlines()[-1] == "Stopped. The same command goes on."
    assert len(Path("search/trials-all.jsonl").read_text().splitlines()) == 1


def test_the_papers_search_has_two_stages(timeplex, small: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "search"
    arguments = ["tune", small, "-o", str(folder), "--set", "epochs=1", *FAST[2:4], "--search", "paper"]
    assert timeplex(*arguments, "--trials", "3").code == 0
    first, second = (
        [json.loads(line)["settings"] for line in (folder / f"trials-{name}.jsonl").read_text().splitlines()]
        for name in ("first", "second")
    )
    assert (len(first), len(second)) == (2, 1)
    assert set(first[0]) == {"l2", "smooth", "learning_rate", "batch_size"}
    assert set(second[0]) == {"options.alpha", "options.beta", "options.gamma"}


def strictly(text: str) -> Any:
    """As a reader of JSON that keeps to the standard."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_the_precision_and_its_reason_are_told_and_recorded(timeplex, small: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    told = timeplex("train", small, "-o", str(tmp_path / "run"), *FAST).out.splitlines()[1]
    metrics = strictly((tmp_path / "run" / "metrics.json").read_text())
    assert told == f"{metrics['precision']}, because {metrics['precision_reason']}"
    assert told.startswith("float32, because the products are small")


def test_a_variable_that_says_nothing_about_bfloat16(timeplex, small: str, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("TIMEPLEX_BFLOAT16", "maybe")
    assert "TIMEPLEX_BFLOAT16" in timeplex("train", small, "-o", "run").complaint()


def test_how_long_the_gadgets_take_is_told(timeplex, small: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    whole = timeplex("train", small, "-o", str(tmp_path / "whole"), *FAST).out
    assert re.search(r"an epoch, \d+ s if all epochs are needed, then about \d+ s for the gadgets", whole)
    base = timeplex("train", small, "-o", str(tmp_path / "base"), *FAST, "--model", "timeplex-base").out
    assert "for the gadgets" not in base


@pytest.mark.parametrize("facts", [15, 300])
@pytest.mark.parametrize("model", ["timeplex", "complex"])
def test_a_training_that_diverges_is_one_sentence(timeplex, tmp_path: Path, model: str, facts: int) -> None:  # type: ignore[no-untyped-def]
    """With and without dev facts, of which small KBs have none."""
    kb = package.generate(300, seed=0)
    kb.to_polars().drop("split").head(facts).write_csv(tmp_path / "kb.csv")
    answer = timeplex("train", tmp_path / "kb.csv", "-o", tmp_path / "run", "--model", model, "--json", *FAST,
                      "--set", "learning_rate=1e30")  # fmt: skip
    assert answer.code == 2
    assert answer.out == ""
    assert "diverged in epoch 1" in answer.err.splitlines()[-1]
    assert "Set a smaller learning_rate than 1e+30" in answer.err.splitlines()[-1]
    assert "Traceback" not in answer.err
    assert not (tmp_path / "run" / "MANIFEST.json").exists()


@pytest.mark.parametrize("facts", [15, 300])
def test_gadgets_that_diverge_leave_the_model(timeplex, tmp_path: Path, facts: int) -> None:  # type: ignore[no-untyped-def]
    kb = package.generate(300, seed=0)
    kb.to_polars().drop("split").head(facts).write_csv(tmp_path / "kb.csv")
    wild = [word for name in ("recurrence", "pair") for word in ("--set", f"gadgets.{name}.learning_rate=1e30")]
    answer = timeplex("train", tmp_path / "kb.csv", "-o", tmp_path / "run", "--json", *FAST, *wild)
    assert answer.code == 0
    assert "warning: The gadgets recurrence + pair diverged in epoch 1" in answer.err
    metrics = strictly(answer.out)
    assert "weight 0" in metrics["diverged"]
    strictly((tmp_path / "run" / "metrics.json").read_text())
    fact = kb.to_polars().row(0, named=True)
    asked = timeplex("rank", tmp_path / "run", "--subject", fact["subject"], "--relation", fact["relation"],
                     "--at", fact["begin"], "--json")  # fmt: skip
    answers = strictly(asked.out)["answers"]
    assert answers
    assert all(row["probability"] is None if row["known"] else 0 <= row["probability"] <= 1 for row in answers)

"""What the verbs do, as functions: each takes folders or what was loaded, and says the same as the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.answers import small_runs
from tests.cli.conftest import Timeplex, timeplex  # noqa: F401 - a fixture

import timeplex as package
from timeplex.errors import InputError, Stopped
from timeplex.training.checkpoint import Progress
from timeplex.training.run import RunFolder

FAST = {"epochs": 2, "options.dimension": 4, "batch_size": 100}


@pytest.fixture(scope="module")
def kb() -> package.TemporalKB:
    return package.split_randomly(package.generate(300, seed=0), seed=0)


def tables(folder: Path) -> dict[str, np.ndarray]:
    return {name: table.numpy() for name, table in RunFolder(folder).load().model.state_dict().items()}


# Training


def test_settings_are_texts_or_a_mapping(kb: package.TemporalKB, tmp_path: Path) -> None:
    texts = [f"{key}={value}" for key, value in FAST.items()]
    said = package.train(kb, tmp_path / "texts", model="complex", settings=texts)
    mapped = package.train(kb, tmp_path / "mapping", model="complex", settings=FAST)
    assert said.run.recipe == mapped.run.recipe
    again = package.train(kb, tmp_path / "recipe", recipe=said.run.recipe)
    assert again.run.recipe == said.run.recipe
    with pytest.raises(InputError, match="settings: epochs: "):
        package.train(kb, tmp_path / "wrong", settings={"epochs": 0})
    with pytest.raises(InputError, match="There is nothing to learn from"):
        package.train(None, tmp_path / "nothing")


def test_a_training_that_is_stopped_is_resumed(kb: package.TemporalKB, tmp_path: Path) -> None:
    package.train(kb, tmp_path / "straight", model="complex", settings=FAST)

    def stop(now: Progress) -> None:
        if now.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, Stopped)):
        package.train(kb, tmp_path / "run", model="complex", settings=FAST, on_progress=stop)
    package.train(None, tmp_path / "run", resume=True)
    straight = tables(tmp_path / "straight")
    assert all(np.array_equal(table, straight[name]) for name, table in tables(tmp_path / "run").items())
    with pytest.raises(InputError, match="is finished"):
        package.train(None, tmp_path / "run", resume=True)
    for wrong in ({"settings": FAST}, {"recipe": "x.toml"}, {"model": "complex"}, {"base": tmp_path}):
        with pytest.raises(InputError, match="A resumed run has its KB and its recipe"):
            package.train(None, tmp_path / "run", resume=True, **wrong)  # type: ignore[arg-type]


def test_gadgets_are_added_to_a_base_and_tracked(kb: package.TemporalKB, tmp_path: Path) -> None:
    package.train(kb, tmp_path / "base", model="timeplex-base", settings=FAST)
    gadgets = {**FAST, "gadgets": {"recurrence": {}}, "phase2.epochs": 1}
    added = package.train(
        kb, tmp_path / "run", model="timeplex-base", settings=gadgets, base=tmp_path / "base", track="tensorboard"
    )
    base = tables(tmp_path / "base")
    assert all(np.array_equal(table, base[name]) for name, table in tables(tmp_path / "run").items())
    assert list(added.run.gadgets) == ["recurrence"]
    assert any((tmp_path / "run" / "tensorboard").iterdir())


def test_tune(kb: package.TemporalKB, tmp_path: Path) -> None:
    heard: list[float] = []
    best = package.tune(
        kb,
        tmp_path / "search",
        trials=2,
        model="complex",
        settings={**FAST, "epochs": 1},
        on_progress=lambda trial: heard.append(trial.mrr),
    )
    assert len(heard) == 2
    assert package.Recipe(**json.loads((tmp_path / "search" / "best.json").read_text())) == best
    for wrong in ({"trials": 0}, {"search": "everything"}):
        with pytest.raises(InputError):
            package.tune(kb, tmp_path / "search", **wrong)  # type: ignore[arg-type]


# Evaluation


def test_evaluate_takes_a_folder_a_run_or_a_kb(timeplex: Timeplex) -> None:  # noqa: F811
    folder, trained = small_runs.folder("plain"), small_runs.trained("plain")
    report = package.evaluate(folder, split="valid", filter="none", device="cpu")
    assert report.model == "timeplex-base"
    assert report.as_dict() == package.evaluate(trained, split="valid", filter="none").as_dict()
    assert report.as_dict() == trained.evaluate(split="valid", filter="none").as_dict()
    printed = timeplex("evaluate", folder, "--split", "valid", "--filter", "none", "--by", "span", "--json")
    assert json.loads(printed.out) == json.loads(json.dumps(report.as_dict("span")))
    alone = package.evaluate(trained.kb, filter=None)
    assert alone.model is None
    assert alone.as_dict()["baselines"] == package.evaluate(folder / "kb", filter=None).as_dict()["baselines"]
    with pytest.raises(InputError, match="There is no protocol 'papr'"):
        package.evaluate("no such folder", protocol="papr")


def test_a_protocol_of_ones_own() -> None:
    trained = small_runs.trained("plain")
    strict = package.Protocol("strict", filter="none", ties="pessimistic")
    report = trained.evaluate(protocol=strict, filter=None)
    assert report.protocol == strict
    assert list(report.as_dict()["link"]) == ["none"]


def test_compare() -> None:
    folder = small_runs.folder("plain")
    found = package.compare(folder, small_runs.trained("static"), small_runs.folder("inverse"), by_relation=True)
    assert found.runs == [str(small_runs.folder(kind)) for kind in ("plain", "static", "inverse")]
    assert set(found.table["metric"]) == {"MRR", "aeIOU@1"}
    first = found.table.filter(metric="MRR", of="all").row(0, named=True)
    mrr = [package.evaluate(run).as_dict()["link"]["per-instant"]["both"]["mrr"] for run in found.runs[:2]]
    assert [first["first"], first["second"]] == pytest.approx(mrr)
    assert package.compare(folder, folder).table.is_empty()
    with pytest.raises(InputError, match="only one run"):
        package.compare(folder)
    with pytest.raises(InputError, match="is not a run folder"):
        package.compare(folder, folder / "kb")


def test_diagnose(tmp_path: Path) -> None:
    found = package.diagnose(small_runs.folder("plain"), device="cpu")
    assert found.as_dict() == package.diagnose(small_runs.trained("plain")).as_dict()
    broken = found.violations["plain"]
    sentences = found.examples("plain", limit=3)
    assert len(sentences) == min(3, len(broken.query))
    assert all(sentence.startswith("(?, ") for sentence in sentences)
    found.draw_distances(tmp_path / "distances.svg")
    assert (tmp_path / "distances.svg").is_file()
    with pytest.raises(InputError, match="no run to diagnose"):
        package.diagnose()


# Audit


def test_findings_of_trained_runs_join(timeplex: Timeplex) -> None:  # noqa: F811
    trained, folder = small_runs.trained("plain"), small_runs.folder("plain")
    alone = package.audit(trained.kb)
    found = package.audit(trained.kb, runs=trained)
    assert found.notes[-1].startswith("The model judged ")
    assert found.notes[:-1] == alone.notes
    assert found.frame.filter(rule="model").height + len(alone) == len(found)
    assert package.audit(trained.kb, runs=[folder, folder]).frame.equals(found.frame)
    assert package.audit(trained.kb, runs=folder, mute=["model"]).frame.equals(alone.frame)
    printed = json.loads(timeplex("audit", folder / "kb", "--run", folder, "--json").out)
    assert printed["findings"] == json.loads(json.dumps(found.frame.to_dicts()))


# Models


def test_parameters_are_counted_for_a_kb(kb: package.TemporalKB, tmp_path: Path) -> None:
    counted = {model["name"]: model["parameters"] for model in package.list_models(kb)["models"]}
    settings = {"epochs": 1}
    for name in ("complex", "timeplex-base"):
        trained = package.train(kb, tmp_path / name, model=name, settings={**settings, "options.dimension": 200})
        assert trained.run.model.parameter_count == counted[name]

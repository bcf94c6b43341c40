"""Trackers: they have what the trace has, each epoch once, and no fault of theirs reaches the training."""

import hashlib
import json
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders import small_kb

from timeplex.errors import InputError
from timeplex.kb.facts import TemporalKB
from timeplex.training import tracking
from timeplex.training.checkpoint import Progress, Stopped
from timeplex.training.loop import Trainer
from timeplex.training.recipe import Recipe
from timeplex.training.run import RunFolder
from timeplex.training.tracking import TRACKERS, Tracking, numbers, settings, track

RECIPE = Recipe(
    model="complex", options={"dimension": 4}, epochs=4, batch_size=64, validate_every=2, precision="float32"
)
# What SQLAlchemy thinks of how MLflow uses it is not ours.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return small_kb(200)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for all tests: it takes seconds to make."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@pytest.fixture(autouse=True)
def mlflow_variables(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_LOGGING_LEVEL", "ERROR")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    for name in ("MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)


def fit(kb: TemporalKB, folder: Path, *names: str) -> None:
    Trainer(kb, RECIPE, folder).fit(tracking=track(names, folder, pytest.fail))


def go_on(folder: Path, *names: str) -> None:
    run = RunFolder(folder)
    Trainer(run.kb(), run.recipe(), folder).fit(resume=True, tracking=track(names, folder, pytest.fail))


def stop(kb: TemporalKB, folder: Path, epoch: int, *names: str) -> None:
    """Train, and press Ctrl-C after some epochs."""
    trainer = Trainer(kb, RECIPE, folder)

    def ask(now: Progress) -> None:
        trainer.stop_asked = now.epoch > epoch

    with pytest.raises(Stopped):
        trainer.fit(ask, tracking=track(names, folder, pytest.fail))


Series = dict[str, list[tuple[int, float]]]


def expected(folder: Path) -> Series:
    """What a tracker should have of a finished run: read from its files, by names that are written out here."""
    series: Series = defaultdict(list)
    for line in map(json.loads, (folder / "trace.jsonl").read_text().splitlines()):
        for name in ("step", "loss", "lr", "seconds"):
            series[name].append((line["epoch"], line[name]))
        for name, value in line.get("dev", {}).items():
            series[f"dev/{name.replace('hits@', 'hits_at_')}"].append((line["epoch"], value))
    metrics = json.loads((folder / "metrics.json").read_text())
    for name in ("best_epoch", "epochs", "seconds", "parameters"):
        series[f"final/{name}"].append((metrics["epochs"], metrics[name]))
    for name, value in metrics["dev"].items():
        series[f"final/dev/{name.replace('hits@', 'hits_at_')}"].append((metrics["epochs"], value))
    return dict(series)


def without_seconds(series: Series) -> Series:
    return {name: values for name, values in series.items() if not name.endswith("seconds")}


def reader(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    # As a plain reader does: nothing that was written twice is hidden.
    found = EventAccumulator(str(folder / "tensorboard"), {"scalars": 0}, purge_orphaned_data=False)
    found.Reload()
    return found


def in_tensorboard(folder: Path) -> Series:
    found = reader(folder)
    return {name: [(event.step, event.value) for event in found.Scalars(name)] for name in found.Tags()["scalars"]}


def client() -> Any:
    import mlflow

    return mlflow.MlflowClient()


def mlflow_run(folder: Path) -> Any:
    return client().get_run((folder / "mlflow-run.txt").read_text())


def in_mlflow(folder: Path) -> Series:
    run = mlflow_run(folder)
    histories = {name: client().get_metric_history(run.info.run_id, name) for name in run.data.metrics}
    return {name: sorted((metric.step, metric.value) for metric in found) for name, found in histories.items()}


def single(series: Series) -> Series:
    """In the precision of TensorBoard."""
    return {name: [(epoch, float(np.float32(value))) for epoch, value in found] for name, found in series.items()}


def test_trackers_have_what_the_trace_has(kb: TemporalKB, tmp_path: Path) -> None:
    fit(kb, tmp_path / "run", *TRACKERS)
    trace = expected(tmp_path / "run")
    assert [epoch for epoch, _ in trace["loss"]] == [1, 2, 3, 4]
    assert [epoch for epoch, _ in trace["dev/mrr"]] == [2, 4]
    assert {"dev/hits_at_10", "final/dev/mrr"} <= trace.keys()
    assert in_tensorboard(tmp_path / "run") == single(trace)
    assert in_mlflow(tmp_path / "run") == trace
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 1, "opened once"


def test_trackers_have_the_recipe(kb: TemporalKB, tmp_path: Path) -> None:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    fit(kb, tmp_path / "run", *TRACKERS)
    written = reader(tmp_path / "run").SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    shown = HParamsPluginData.FromString(written).session_start_info.hparams
    assert shown["model"].string_value == "complex"
    assert shown["options.dimension"].number_value == 4
    assert shown["inverse"].bool_value
    assert set(shown) == set(settings(RECIPE))
    run = mlflow_run(tmp_path / "run")
    assert run.data.params == {key: str(value) for key, value in settings(RECIPE).items()}
    assert run.data.params["options.dimension"] == "4"
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")


def test_tracking_changes_no_bit(kb: TemporalKB, tmp_path: Path) -> None:
    sums = set()
    for names in ((), tuple(TRACKERS)):
        folder = tmp_path / f"run-{len(names)}"
        fit(kb, folder, *names)
        sums.add(hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
        RunFolder(folder).load()  # the manifest does not mind the files of trackers
    assert len(sums) == 1


def test_stopped_and_resumed_is_one_record(kb: TemporalKB, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stop(kb, folder, 2, *TRACKERS)
    before = mlflow_run(folder)
    assert before.info.status == "KILLED"
    TRACKERS["mlflow"](folder).begin(RECIPE)
    assert mlflow_run(folder).info.status == "RUNNING"
    # An edited recipe, too: MLflow lets no parameter be changed, and that must not end the tracking.
    recipe = json.loads((folder / "recipe.json").read_text())
    (folder / "recipe.json").write_text(json.dumps({**recipe, "epochs": 3}))
    go_on(folder, *TRACKERS)
    trace = expected(folder)
    assert [epoch for epoch, _ in trace["loss"]] == [1, 2, 3]
    assert in_tensorboard(folder) == single(trace)
    assert in_mlflow(folder) == trace
    after = mlflow_run(folder)
    assert after.info.run_id == before.info.run_id
    assert after.info.status == "FINISHED"


KILLED = """
import os, signal, sys
from pathlib import Path
from timeplex.training.loop import Trainer
from timeplex.training.run import RunFolder
from timeplex.training.tracking import TRACKERS, track

def listen(now):
    if now.ended and now.epoch == 3:
        os.kill(os.getpid(), signal.SIGKILL)

run = RunFolder(Path(sys.argv[1]))
Trainer(run.kb(), run.recipe(), run.path).fit(listen, resume=True, tracking=track(TRACKERS, run.path))
"""


def test_killed_and_resumed_tells_no_epoch_twice(kb: TemporalKB, tmp_path: Path) -> None:
    """Killed before the first checkpoint: all epochs are trained again, and only those not yet told are told."""
    folder = tmp_path / "run"
    with RunFolder(folder).beginning(kb, RECIPE):
        pass
    killed = subprocess.run([sys.executable, "-c", KILLED, str(folder)], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (folder / "checkpoint").exists()
    before = mlflow_run(folder)
    assert [epoch for epoch, _ in in_mlflow(folder)["loss"]] == [1, 2, 3]
    go_on(folder, *TRACKERS)
    trace = without_seconds(expected(folder))
    assert without_seconds(in_tensorboard(folder)) == single(trace)
    assert without_seconds(in_mlflow(folder)) == trace
    assert [epoch for epoch, _ in in_tensorboard(folder)["seconds"]] == [1, 2, 3, 4]
    assert mlflow_run(folder).info.run_id == before.info.run_id


def test_half_a_record_is_written_again(kb: TemporalKB, tmp_path: Path) -> None:
    """The power failed while TensorBoard's file was written: the epoch is there once, and those after it are read."""
    stop(kb, tmp_path / "run", 2, "tensorboard")
    (file,) = (tmp_path / "run" / "tensorboard").iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    assert [epoch for epoch, _ in in_tensorboard(tmp_path / "run")["loss"]] == [1]
    go_on(tmp_path / "run", "tensorboard")
    assert in_tensorboard(tmp_path / "run") == single(expected(tmp_path / "run"))


def test_a_tracker_that_comes_later_gets_all_epochs(
    kb: TemporalKB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop(kb, tmp_path / "run", 2, "mlflow")
    first = mlflow_run(tmp_path / "run").info.run_id
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'other.db'}")  # where that run is not known
    go_on(tmp_path / "run", *TRACKERS)
    trace = expected(tmp_path / "run")
    assert in_tensorboard(tmp_path / "run") == single(trace)
    assert in_mlflow(tmp_path / "run") == trace
    assert mlflow_run(tmp_path / "run").info.run_id != first


@pytest.mark.parametrize("variable", ["MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"])
def test_mlflows_own_variables_name_the_experiment(
    variable: str, kb: TemporalKB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = client().create_experiment(variable) if variable.endswith("ID") else variable
    monkeypatch.setenv(variable, identity)
    tracker = TRACKERS["mlflow"](tmp_path)
    assert tracker.begin(RECIPE) == 0
    assert mlflow_run(tmp_path).info.experiment_id == client().get_experiment_by_name(variable).experiment_id


class Faulty:
    """Keeps epochs until it is asked for the second; `cured` says that it then works again."""

    def __init__(self, cured: bool) -> None:
        self.cured = cured
        self.told: list[int] = []
        self.calls: list[str] = []

    def begin(self, recipe: Recipe) -> int:
        self.calls.append("begin")
        return max(self.told, default=0)

    def log(self, epoch: int, numbers: dict[str, float]) -> None:
        self.calls.append("log")
        if epoch > 1 and not (self.cured and self.calls.count("begin") == 2):
            raise RuntimeError("The server is gone.\nSecond line.")
        self.told.append(epoch)

    def end(self, finished: bool) -> None:
        self.calls.append(f"end {finished}")


@pytest.mark.parametrize("cured", [False, True])
def test_a_tracker_that_fails_is_left_alone(cured: bool, kb: TemporalKB, tmp_path: Path) -> None:
    warnings: list[str] = []
    faulty = Faulty(cured)
    other = track(["tensorboard"], tmp_path / "run")._trackers["tensorboard"]
    tracking = Tracking({"faulty": faulty, "tensorboard": other}, warnings.append)
    Trainer(kb, RECIPE, tmp_path / "run").fit(tracking=tracking)
    assert warnings == ["faulty takes no more (The server is gone); training goes on, and trace.jsonl has every epoch."]
    assert RunFolder(tmp_path / "run").is_finished
    assert in_tensorboard(tmp_path / "run") == single(expected(tmp_path / "run"))
    if cured:  # it got what it had missed, when training had finished: epochs 2 to 4, and the final metrics
        assert faulty.told == [1, 2, 3, 4, 4]
        assert faulty.calls == ["begin", "log", "log", "begin", "log", "log", "log", "log", "end True"]
    else:  # it was not asked at each epoch, where every failure may cost a timeout
        assert faulty.calls == ["begin", "log", "log", "begin", "log"]


def test_by_default_the_warning_is_pythons(kb: TemporalKB, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="faulty takes no more"):
        Trainer(kb, RECIPE, tmp_path / "run").fit(tracking=Tracking({"faulty": Faulty(False)}))


def test_a_full_disk(
    kb: TemporalKB, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorBoard's disk is full from the second epoch on, and has room again when training has finished."""
    warnings: list[str] = []

    def full(path: Path, data: bytes) -> None:
        raise InputError(f"{path} cannot be written: No space left on device.")

    def fill(now: Progress) -> None:
        if now.ended and now.epoch == 1:
            monkeypatch.setattr(tracking, "append", full)
        if now.ended and now.epoch == 4:
            monkeypatch.undo()

    Trainer(kb, RECIPE, tmp_path / "run").fit(fill, tracking=track(["tensorboard"], tmp_path / "run", warnings.append))
    (warning,) = warnings
    assert "No space left on device" in warning
    assert capfd.readouterr().err == ""
    assert in_tensorboard(tmp_path / "run") == single(expected(tmp_path / "run"))


def test_a_server_with_a_moments_trouble_gets_no_second_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a store that does not know the run gets a new one."""
    import mlflow

    TRACKERS["mlflow"](tmp_path).begin(RECIPE)
    before = mlflow_run(tmp_path).info.run_id

    def refuse(client: object, run_id: str) -> None:
        raise mlflow.exceptions.MlflowException("Try again.", error_code=mlflow.exceptions.INTERNAL_ERROR)

    with monkeypatch.context() as trouble:
        trouble.setattr(mlflow.MlflowClient, "get_run", refuse)
        with pytest.raises(mlflow.exceptions.MlflowException, match=r"Try again\."):
            TRACKERS["mlflow"](tmp_path).begin(RECIPE)
    assert mlflow_run(tmp_path).info.run_id == before


def test_the_packages_are_loaded_only_when_asked_for() -> None:
    code = "import sys, timeplex.training.loop; print({'mlflow', 'tensorboard'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_numbers_and_settings_are_flat() -> None:
    line = {"loss": 1.5, "dev": {"hits@10": 0.5, "by": {"r": 1}}, "protocol": "text"}
    assert numbers(line) == {"loss": 1.5, "dev/hits_at_10": 0.5, "dev/by/r": 1.0}
    flat = settings(RECIPE)
    assert (flat["negatives"], flat["options.dimension"], flat["inverse"]) == ("None", 4, True)
    assert "options" not in flat

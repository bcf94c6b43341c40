"""Experiment trackers: what `trace.jsonl` holds, also in TensorBoard and MLflow.

A tracker is a place that may be full, slow or gone, and training needs nothing from it: one that fails is left alone,
with a warning. What it has already is read from itself and kept nowhere else. So no epoch is told twice or left out,
whenever a training was killed.
"""

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

from timeplex.errors import InputError
from timeplex.files import append, make_folder, write_whole
from timeplex.training.recipe import Recipe

Warn = Callable[[str], object]


class Tracker(Protocol):
    """A place that keeps the course of a training."""

    def begin(self, recipe: Recipe) -> int:
        """Open a record of the run, or go on with the one there is; the last epoch that it has, or 0."""

    def log(self, epoch: int, numbers: dict[str, float]) -> None:
        """Keep numbers of an epoch: they are safe when this returns."""

    def end(self, finished: bool) -> None:
        """Leave the record; unless `finished`, the training may go on later."""


class Tracking:
    """Tells trackers about a training. One that fails is left out, and tried once more when training has finished."""

    def __init__(self, trackers: dict[str, Tracker], warn: Warn = warnings.warn) -> None:
        self._trackers = trackers
        self._warn = warn
        self._warned: set[str] = set()
        self._last: dict[str, int] = {}  # of the trackers that work: the last epoch that they have

    def begin(self, recipe: Recipe) -> None:
        """Open the trackers that are not open."""
        for name, tracker in self._trackers.items():
            if name not in self._last:
                with self._safely(name):
                    self._last[name] = tracker.begin(recipe)

    def update(self, trace: Sequence[dict[str, Any]]) -> None:
        """Pass on the lines of the trace that a tracker lacks."""
        for name in list(self._last):
            with self._safely(name):
                for line in trace:
                    if line["epoch"] > self._last[name]:
                        rest = {key: value for key, value in line.items() if key != "epoch"}
                        self._trackers[name].log(line["epoch"], numbers(rest))
                        self._last[name] = line["epoch"]

    def stop(self) -> None:
        """Training was cut off."""
        for name in list(self._last):
            with self._safely(name):
                self._trackers[name].end(finished=False)

    def finish(self, recipe: Recipe, trace: Sequence[dict[str, Any]], metrics: dict[str, Any]) -> None:
        """Pass on the final metrics, and to a tracker that had failed all that it missed."""
        self.begin(recipe)
        self.update(trace)
        final = {key: value for key, value in metrics.items() if key != "machine"}
        for name in list(self._last):
            with self._safely(name):
                self._trackers[name].log(metrics["epochs"], numbers({"final": final}))
                self._trackers[name].end(finished=True)

    @contextmanager
    def _safely(self, name: str) -> Iterator[None]:
        """Whatever goes wrong inside is the end of this tracker, not of the training."""
        try:
            yield
        except Exception as error:
            self._last.pop(name, None)
            if name not in self._warned:
                self._warned.add(name)
                reason = _reason(error)
                self._warn(f"{name} takes no more ({reason}); training goes on, and trace.jsonl has every epoch.")


class TensorBoard:
    """Event files in the folder `tensorboard` of the run.

    An epoch is one record, written at once: it is there whole or not at all. torch's SummaryWriter would write it from
    a thread, which on a full disk prints a traceback of its own.
    """

    def __init__(self, run: Path) -> None:
        self._events = import_module("tensorboard.compat.proto.event_pb2")
        self._summaries = import_module("tensorboard.compat.proto.summary_pb2")
        self._settings = import_module("tensorboard.plugins.hparams.summary_v2")
        self._records = import_module("tensorboard.summary.writer.record_writer")
        self._reading = import_module("tensorboard.backend.event_processing.event_accumulator")
        self._folder = run / "tensorboard"
        self._file = self._folder

    def begin(self, recipe: Recipe) -> int:
        """Begin a new file beside those of earlier parts of the run."""
        last = self._last_epoch()
        make_folder(self._folder)
        # The old file may end with half a record, and readers stop there.
        self._file = self._folder / f"events.out.tfevents.{time.time_ns()}"
        self._write(self._events.Event(wall_time=time.time(), file_version="brain.Event:2"))
        if last == 0:
            summary = self._settings.hparams_pb(settings(recipe))
            self._write(self._events.Event(wall_time=time.time(), summary=summary))
        return last

    def log(self, epoch: int, numbers: dict[str, float]) -> None:
        """Write one record."""
        values = [self._summaries.Summary.Value(tag=name, simple_value=number) for name, number in numbers.items()]
        summary = self._summaries.Summary(value=values)
        self._write(self._events.Event(wall_time=time.time(), step=epoch, summary=summary))

    def end(self, finished: bool) -> None:
        """Nothing is open between two records."""

    def _write(self, event: Any) -> None:
        record = BytesIO()
        self._records.RecordWriter(record).write(event.SerializeToString())
        append(self._file, record.getvalue())

    def _last_epoch(self) -> int:
        if not self._folder.is_dir():
            return 0
        reader = self._reading.EventAccumulator(str(self._folder))
        reader.Reload()
        if "loss" not in reader.Tags()["scalars"]:
            return 0
        return max(int(event.step) for event in reader.Scalars("loss"))


class MLflow:
    """A run of MLflow with the name of the run folder, where its id lies in `mlflow-run.txt` for a resume.

    Store and experiment are those that MLflow's own variables name (MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME or
    MLFLOW_EXPERIMENT_ID), else MLflow's defaults: `mlflow.db` in the working folder, and the experiment 0.
    """

    def __init__(self, run: Path) -> None:
        # A server that is gone should cost seconds, not minutes, and its notes on its tables are not for our users.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")
        self._mlflow = import_module("mlflow")
        self._name = run.resolve().name
        self._file = run / "mlflow-run.txt"
        self._client: Any = None
        self._run_id = ""

    def begin(self, recipe: Recipe) -> int:
        """Go on with the run whose id lies in the run folder, if the store has it; else create one."""
        self._client = self._mlflow.MlflowClient()
        run = self._find() or self._create()
        self._run_id = run.info.run_id
        # A parameter cannot be changed, so only what is missing is set.
        missing = {key: value for key, value in settings(recipe).items() if key not in run.data.params}
        params = [self._mlflow.entities.Param(key, str(value)) for key, value in missing.items()]
        self._client.log_batch(self._run_id, params=params)
        return max((int(metric.step) for metric in self._client.get_metric_history(self._run_id, "loss")), default=0)

    def log(self, epoch: int, numbers: dict[str, float]) -> None:
        """Send one batch."""
        now = time.time_ns() // 1_000_000
        metrics = [self._mlflow.entities.Metric(name, number, now, epoch) for name, number in numbers.items()]
        self._client.log_batch(self._run_id, metrics=metrics)

    def end(self, finished: bool) -> None:
        """Say how it ended."""
        self._client.set_terminated(self._run_id, "FINISHED" if finished else "KILLED")

    def _find(self) -> Any:
        if not self._file.is_file():
            return None
        try:
            run = self._client.get_run(self._file.read_text().strip())
        except self._mlflow.exceptions.MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None  # another store than before
            raise
        self._client.update_run(run.info.run_id, status="RUNNING")
        return run

    def _create(self) -> Any:
        experiment = os.environ.get("MLFLOW_EXPERIMENT_ID", "0")
        if name := os.environ.get("MLFLOW_EXPERIMENT_NAME"):
            experiment = self._mlflow.set_experiment(name).experiment_id
        run = self._client.create_run(experiment, run_name=self._name)
        write_whole(self._file, run.info.run_id.encode())
        return run


TRACKERS: dict[str, Callable[[Path], Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


def track(names: Iterable[str], run: Path, warn: Warn = warnings.warn) -> Tracking:
    """The trackers of these names for a run folder; their packages are imported here, and nothing is written yet."""
    trackers = {}
    for name in names:
        if name not in TRACKERS:
            raise InputError(f"There is no tracker {name!r}.", f"Use {' or '.join(TRACKERS)}.")
        try:
            trackers[name] = TRACKERS[name](run)
        except Exception as error:  # not only ImportError: versions that do not fit each other fail in many ways
            raise InputError(
                f"{name} cannot be used: {_reason(error)}.", "Run pip install 'timeplex[track]' first."
            ) from error
    return Tracking(trackers, warn)


def numbers(values: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """Every number in nested values, by its path: {"dev": {"hits@1": 0.2}} is {"dev/hits_at_1": 0.2}."""
    found: dict[str, float] = {}
    for key, value in values.items():
        name = prefix + key.replace("@", "_at_")  # MLflow allows no @
        if isinstance(value, dict):
            found |= numbers(value, f"{name}/")
        elif isinstance(value, int | float):
            found[name] = float(value)
    return found


def settings(recipe: Recipe) -> dict[str, str | int | float | bool]:
    """The recipe as one flat table, with keys as in `--set`."""
    values = recipe.model_dump()
    options = {f"options.{key}": value for key, value in values.pop("options").items()}
    return {
        key: value if isinstance(value, str | int | float | bool) else str(value)
        for key, value in (values | options).items()
    }


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")

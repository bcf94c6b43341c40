"""The run folder: everything that a trained model needs to be used elsewhere.

recipe.json         how it was trained
kb/                 the KB, a folder of its own (`kb.store`)
model.safetensors   the tables of the best epoch
gadgets.safetensors the tables of the gadgets, if the recipe has any
metrics.json        what it reached on dev, how long it took, on which machine
trace.jsonl         one line an epoch
MANIFEST.json       SHA-256 of the files above
checkpoint/         only while training goes on

Trackers that were asked for add `tensorboard/` and `mlflow-run.txt`, which nothing else reads.
"""

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from timeplex.errors import DamagedError, InputError
from timeplex.files import (
    MOST_JSON,
    Table,
    checksum,
    is_temporary,
    locked,
    make_folder,
    parse_json,
    read,
    read_json,
    refuse_link,
    to_json,
    verified,
    write_whole,
)
from timeplex.gadgets import Gadget
from timeplex.kb import store
from timeplex.kb.facts import TemporalKB
from timeplex.kb.timeline import Timeline
from timeplex.models.base import MODELS, Model
from timeplex.models.scorer import Scorer
from timeplex.training import checkpoint
from timeplex.training import recipe as recipes
from timeplex.training.checkpoint import Epoch, Metrics
from timeplex.training.experiment import Experiment
from timeplex.training.recipe import Recipe

FILES = ("recipe.json", "model.safetensors", "metrics.json", "trace.jsonl")
GADGETS_FILE = "gadgets.safetensors"


@dataclass(frozen=True)
class RunFolder:
    """Where the parts of a run lie."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint."""
        return self.path / "checkpoint"

    @property
    def is_begun(self) -> bool:
        """Whether a training was started here."""
        return (self.path / "recipe.json").is_file() and store.is_kb_folder(self.path / "kb")

    @property
    def is_finished(self) -> bool:
        """Whether a training was finished here."""
        return (self.path / store.MANIFEST).is_file()

    @contextmanager
    def beginning(self, kb: TemporalKB, recipe: Recipe) -> Iterator[None]:
        """Write what is known before training, and what the caller has to add; the KB last: with it, it is begun."""
        self._check_free(recipe)
        write_whole(self.path / "recipe.json", _as_json(recipe))
        checkpoint.remove(self.checkpoint)
        yield
        kb.save(self.path / "kb")

    def is_free(self, recipe: Recipe) -> bool:
        """Whether nothing is there but, at most, the remains of a start by the same recipe that was cut off."""
        if not self.path.is_dir():
            return not self.path.exists()
        names = [path.name for path in self.path.iterdir() if not is_temporary(path.name)]
        if (
            "recipe.json" in names
            and {*names} <= {"recipe.json", "checkpoint"}
            and (self.path / "recipe.json").is_file()
        ):
            return (self.path / "recipe.json").read_bytes() == _as_json(recipe)
        return not names

    def _check_free(self, recipe: Recipe) -> None:
        if not self.is_free(recipe):
            raise InputError(f"{self.path} exists already.", "Choose another -o, or go on with --resume.")

    @contextmanager
    def in_training(self, recipe: Recipe, *, resume: bool) -> Iterator[None]:
        """Keep other processes from training here at the same time; refuse what cannot be trained, or resumed, here."""
        if not resume:
            self._check_free(recipe)
            make_folder(self.path)
        with locked(self.path):
            if resume and self.is_finished:
                raise InputError(f"{self.path} is finished.", "Nothing is left to do.")
            checkpoint.check_place(self.checkpoint)
            yield

    def recipe(self) -> Recipe:
        """The recipe of the run. A model of one's own must be known by now: the run does not say where it is."""
        if not (self.path / "recipe.json").is_file():
            raise InputError(f"{self.path} is not a run folder.", "Make one with: timeplex train KB -o RUN")
        values = read_json(self.path, "recipe.json", Table)
        values["model"] = name = recipes.plain_name(values.get("model"))  # once, runs named the file as well
        if isinstance(name, str) and name not in MODELS:
            raise InputError(
                f"{self.path} was trained with a model that is not part of timeplex, {name[:100]!r}.",
                f"Add its file: --model path/to/file.py:{name[:100]} (in Python: model=…).",
            )
        return recipes.parse(values, str(self.path / "recipe.json"))

    def kb(self) -> TemporalKB:
        """The KB of the run."""
        refuse_link(self.path / "kb")
        return store.load(self.path / "kb")

    def check_checkpoint(self, setup: Experiment) -> None:
        """Refuse a checkpoint that is too small for the recipe's model, before memory is taken for that."""
        size = checkpoint.size(self.checkpoint)
        if size is not None and size < checkpoint.nbytes(setup.shapes()):
            raise DamagedError(f"The checkpoint in {self.checkpoint} is of another recipe.", "Train it again.")

    @staticmethod
    def files(recipe: Recipe) -> tuple[str, ...]:
        """The files that the manifest lists."""
        return (*FILES, GADGETS_FILE) if recipe.gadgets else FILES

    def finish(self, recipe: Recipe, model: Model, gadgets: Mapping[str, Gadget], metrics: dict[str, Any]) -> None:
        """Write the trained tables and the metrics, then the manifest, which makes the run complete."""
        write_whole(self.path / "model.safetensors", _packed(model))
        if recipe.gadgets:
            write_whole(self.path / GADGETS_FILE, _packed(nn.ModuleDict(gadgets)))
        write_whole(self.path / "metrics.json", to_json(metrics, indent=1).encode())
        sums = {name: checksum(self.path / name) for name in self.files(recipe)}
        write_whole(self.path / store.MANIFEST, to_json({"format": store.FORMAT, "sha256": sums}, indent=1).encode())
        checkpoint.remove(self.checkpoint)

    def tidy(self) -> None:
        """Remove the checkpoint of a finished run, if the process died before it could."""
        with locked(self.path):
            checkpoint.remove(self.checkpoint)

    def load(self, device: torch.device | None = None) -> "TrainedRun":
        """The trained model with all that it needs, after checking every checksum and all that the files say."""
        if not self.is_finished:
            begun = "its training is not finished" if self.is_begun else "it is not a run folder"
            hint = f"timeplex train --resume -o {self.path}" if self.is_begun else "timeplex train KB -o RUN"
            raise InputError(f"{self.path} has no trained model: {begun}.", f"Use: {hint}")
        recipe = self.recipe()
        contents = verified(self.path, self.files(recipe))
        _metrics(contents["metrics.json"], self.path)
        _trace(contents["trace.jsonl"], self.path)
        setup = Experiment(self.kb(), recipe)
        # The file is held against what the recipe says before memory is taken for it.
        learned = checkpoint.unpack(contents["model.safetensors"], setup.shapes(), self.path / "model.safetensors")
        model, gadgets = setup.new_model(), setup.new_gadgets()
        model.load_state_dict(learned)
        if gadgets:
            together, source = nn.ModuleDict(gadgets), self.path / GADGETS_FILE
            learned = checkpoint.unpack(contents[GADGETS_FILE], together.state_dict(), source)
            checkpoint.check_statistics(together, learned, source)
            together.load_state_dict(learned)
        device = device or torch.device("cpu")
        for each in (model, *gadgets.values()):
            each.to(device).train(False).requires_grad_(False)
        return TrainedRun(self.path, setup, model, gadgets)

    def metrics(self) -> dict[str, Any]:
        """What training said of itself: dev figures, best epoch, seconds, machine."""
        return _metrics(read(self.path, "metrics.json"), self.path)

    def trace(self) -> list[dict[str, Any]]:
        """What training said of each epoch so far."""
        if not os.path.lexists(self.path / "trace.jsonl"):
            return []
        return _trace(read(self.path, "trace.jsonl"), self.path)


@dataclass(frozen=True)
class TrainedRun:
    """A finished run, ready to be asked."""

    path: Path
    setup: Experiment
    model: Model
    gadgets: Mapping[str, Gadget]

    @property
    def kb(self) -> TemporalKB:
        """The KB that it was trained on, all splits."""
        return self.setup.kb

    @property
    def recipe(self) -> Recipe:
        """How it was trained."""
        return self.setup.recipe

    @property
    def timeline(self) -> Timeline:
        """The instants that it has scores for."""
        return self.setup.timeline

    @property
    def scorer(self) -> Scorer:
        """What answers are ranked by."""
        return self.setup.scorer(self.model, self.gadgets)

    def without(self, *names: str) -> "TrainedRun":
        """The same run without some of its gadgets."""
        return replace(self, gadgets={name: each for name, each in self.gadgets.items() if name not in names})


def _as_json(recipe: Recipe) -> bytes:
    return recipe.model_dump_json(indent=1).encode()


def _metrics(content: bytes, folder: Path) -> dict[str, Any]:
    source = folder / "metrics.json"
    known = parse_json(content, Metrics, source)
    if known.best_epoch > known.epochs:
        raise DamagedError(f"{source} has a best epoch beyond the last one.", checkpoint.AGAIN)
    return parse_json(content, Table, source)


def _trace(content: bytes, folder: Path) -> list[dict[str, Any]]:
    if len(content) > MOST_JSON:
        raise DamagedError(f"{folder / 'trace.jsonl'} is larger than {MOST_JSON:,} bytes.", checkpoint.AGAIN)
    lines = content.splitlines()
    for line in lines:
        parse_json(line, Epoch, folder / "trace.jsonl")
    return [parse_json(line, Table, folder / "trace.jsonl") for line in lines]


def _packed(module: nn.Module) -> bytes:
    """All tables of a module, as the content of a file."""
    return save({name: table.detach().cpu().contiguous() for name, table in module.state_dict().items()})


def machine() -> dict[str, Any]:
    """What a figure was measured on."""
    return {
        "processor": platform.machine(),  # `processor` would start a program, uname
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }

"""Checkpoints: whole or not at all, checked, and never a pointer to one that is not there.

Order of writing: the new file under a temporary name, fsync, rename; then the pointer `latest.json` the same way; only
then are our files that the pointer does not name deleted. No two checkpoints have the same name, also of the same step.
So whenever the power fails, the pointer names a whole file. Files of others are never touched, nor is a link followed.

latest.json: format, file (the tensors), sha256 (of that file), state, state_sha256 (`state_digest`).
"""

import hashlib
import math
import os
import re
import secrets
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import AfterValidator, Field, FiniteFloat, NonNegativeInt, TypeAdapter, ValidationError
from safetensors.torch import load, save
from torch import Tensor, nn

from timeplex.errors import DamagedError, InputError, TimeplexError
from timeplex.files import (
    Record,
    checksum,
    is_temporary,
    parse_json,
    read_json,
    refuse_link,
    remove_file,
    remove_if_empty,
    to_json,
    write_whole,
)
from timeplex.files import read as read_file


class Stopped(Exception):  # noqa: N818 - not an error: the user asked for it
    """Training was stopped by Ctrl-C or another signal, after a checkpoint."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(f"stopped by signal {number}")
        self.code = 128 + number
        """The exit code that says so."""


def _none_or_all(figures: dict[str, float]) -> dict[str, float]:
    if figures and "mrr" not in figures:
        raise ValueError("figures without MRR")
    return figures


Dev = Annotated[dict[str, FiniteFloat], AfterValidator(_none_or_all)]
"""Figures on dev; none where there are no dev facts."""

Seconds = Annotated[FiniteFloat, Field(ge=0)]
Precision = Literal["float32", "bfloat16"]


class Epoch(Record):
    """A line of the trace."""

    epoch: Annotated[int, Field(ge=1)]
    step: NonNegativeInt
    loss: FiniteFloat
    lr: Annotated[FiniteFloat, Field(gt=0)]
    seconds: Seconds
    dev: Dev = Field(default_factory=dict)


class Gadgets(Record):
    """What metrics.json says of phase 2."""

    base_dev: Dev
    dev: Dev
    weights: dict[str, FiniteFloat]
    seconds: Seconds


class Metrics(Record):
    """What metrics.json says."""

    dev: Dev
    protocol: str
    best_epoch: NonNegativeInt
    epochs: NonNegativeInt
    seconds: Seconds
    precision: Precision
    parameters: NonNegativeInt
    machine: dict[str, Any]
    phase2: Gadgets | None = None


@dataclass
class State:
    """Where training stands; with the tables and the optimiser's sums it is all that a resume needs."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    loss_sum: float = 0.0
    learning_rate: float = 0.0
    best: float | None = None
    best_epoch: int = -1
    looks_since_best: int = 0
    looks_since_lowered: int = 0
    seconds: float = 0.0
    precision: str = "float32"
    precision_reason: str = ""
    diverged: str = ""  # what was found when training diverged, which ends it
    trace: list[dict[str, Any]] = field(default_factory=list)

    def is_possible(self, epochs: int, batches: int, learning_rate: float) -> bool:
        """Whether a training of at most so many epochs of batches, by a learning rate that only falls, can be here."""
        counts = (self.step, self.epoch, self.batch, self.looks_since_best, self.looks_since_lowered)
        return (
            min(counts) >= 0
            and self.epoch <= epochs
            and self.batch <= batches
            and -1 <= self.best_epoch < max(self.epoch, 1)
            and (self.best is None or math.isfinite(self.best))
            and math.isfinite(self.loss_sum)
            and 0 < self.learning_rate <= learning_rate
            and 0 <= self.seconds < math.inf
            and self.precision in ("float32", "bfloat16")
            and _is_trace(self.trace, self.epoch)
        )


def _is_trace(trace: list[dict[str, Any]], epochs: int) -> bool:
    """Whether there is a line for each epoch."""
    try:
        lines = TypeAdapter(list[Epoch]).validate_python(trace)
    except ValidationError:
        return False
    return [line.epoch for line in lines] == list(range(1, epochs + 1))


@dataclass(frozen=True)
class Progress:
    """What a listener hears after each batch, and once more when an epoch has `ended`."""

    epoch: int  # from 1
    epochs: int
    batch: int
    batches: int
    loss: float
    dev: float | None  # the last look
    best: float | None
    seconds: float
    ended: bool
    gadgets: str = ""  # those that learn in phase 2
    doing: str = ""  # what goes on if nothing is learned


Listener = Callable[[Progress], None]


LARGEST = 1e9
"""No learned number is larger; products of three of them, summed over an embedding and a span, are still finite."""

TOLERANCE = 1e-3
"""So much may statistics differ that two machines have computed from the same facts."""

AGAIN = "Train it again, or get the folder anew."


def unpack(content: bytes, expected: Mapping[str, Tensor], source: object) -> dict[str, Tensor]:
    """The tables in the content of a file, by name, if they are like the expected ones (which may be on `meta`)."""
    if nbytes(expected) > len(content):
        raise DamagedError(f"{source} holds a model of another shape.", AGAIN)
    tables = decoded(content, source)
    if set(tables) != set(expected):
        raise DamagedError(f"{source} holds the tables of another model.", AGAIN)
    for name, table in tables.items():
        check(table, expected[name], name, source)
    return tables


def decoded(content: bytes, source: object) -> dict[str, Tensor]:
    """All tables of a file; their sizes are bounded by that of the file."""
    try:
        return load(content)
    except Exception as error:  # whatever the library raises
        raise DamagedError(f"{source} is not a readable safetensors file.", AGAIN) from error


def check(table: Tensor, expected: Tensor, name: str, source: object, largest: float = LARGEST) -> None:
    """Refuse a table of another shape or type than expected, and numbers that no training leaves."""
    if table.shape != expected.shape or table.dtype != expected.dtype:
        raise DamagedError(f"{source} holds a model of another shape: {name[:60]} is {tuple(table.shape)}.", AGAIN)
    if table.is_floating_point() and not bool((table.abs() <= largest).all()):
        raise DamagedError(f"{source} holds numbers that are not finite or far too large, in {name[:60]}.", AGAIN)


def check_statistics(module: nn.Module, tables: Mapping[str, Tensor], source: object) -> None:
    """Refuse a file whose statistics are not those that a new module has computed from the facts."""
    for name, fresh in module.named_buffers():
        if name.endswith("strength") or name not in tables:
            continue  # a weight that was chosen on dev
        stored = tables[name]
        if not torch.allclose(stored.double(), fresh.double(), rtol=TOLERANCE, atol=TOLERANCE):
            raise DamagedError(f"{source} holds statistics of other facts than those of the run's KB.", AGAIN)
        if fresh.is_floating_point() and not torch.equal(stored.sign(), fresh.sign()):
            raise DamagedError(f"{source} holds statistics of other facts than those of the run's KB.", AGAIN)


def nbytes(tables: Mapping[str, Tensor]) -> int:
    """How many bytes tables take."""
    return sum(table.numel() * table.element_size() for table in tables.values())


POINTER = "latest.json"
STEP = re.compile(r"step-\d{9}(-[0-9a-f]{8})?\.safetensors")
FORMAT = 1


class Pointer(Record):
    """What latest.json says."""

    format: Literal[1]
    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.safetensors$")
    sha256: str
    state: dict[str, Any]
    state_sha256: str


def state_digest(state: dict[str, Any]) -> str:
    """SHA-256 of a state of training."""
    return hashlib.sha256(to_json(state, sort_keys=True).encode()).hexdigest()


def write(folder: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write a checkpoint of tensors and plain values."""
    check_place(folder)
    name = f"step-{state['step']:09d}-{secrets.token_hex(4)}.safetensors"
    write_whole(folder / name, save({key: tensor.detach().contiguous() for key, tensor in tensors.items()}))
    pointer = {"format": FORMAT, "file": name, "sha256": checksum(folder / name), "state": state}
    pointer["state_sha256"] = state_digest(state)
    write_whole(folder / POINTER, to_json(pointer).encode())
    _clear(folder, keep=(name, POINTER))


def remove(folder: Path) -> None:
    """Remove the checkpoint, and its folder unless somebody else has put something there."""
    if folder.is_dir() and not folder.is_symlink():
        _clear(folder)
        remove_if_empty(folder)


def check_place(folder: Path) -> None:
    """Refuse a folder of checkpoints that is a link: what it leads to is not ours to empty."""
    if folder.is_symlink():
        raise InputError(f"{folder} is a link, which is not followed.", "Put the folder itself there.")


def _clear(folder: Path, keep: tuple[str, ...] = ()) -> None:
    """Remove what we wrote. The pointer goes first, so that it never names what is gone."""
    ours = [path for path in folder.iterdir() if path.name not in keep and _is_ours(path)]
    for path in sorted(ours, key=lambda path: (path.name != POINTER, path.name)):
        remove_file(path)


def _is_ours(path: Path) -> bool:
    named = path.name == POINTER or STEP.fullmatch(path.name) is not None or is_temporary(path.name)
    return named and (path.is_symlink() or path.is_file())


def size(folder: Path) -> int | None:
    """How many bytes the tensors of the last checkpoint take, or None if there is none yet."""
    found = _pointer(folder)
    return None if found is None else len(_content(folder, found))


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The last checkpoint, or None if there is none yet. Neither part has been held against a recipe yet."""
    found = _pointer(folder)
    if found is None:
        return None
    if state_digest(found.state) != found.state_sha256:
        raise _damaged(folder)
    try:
        return decoded(_content(folder, found), folder / found.file), found.state
    except TimeplexError as error:
        raise _damaged(folder) from error


def parse_state(values: dict[str, Any]) -> State:
    """The state of a checkpoint: all that belongs to it, of the right types."""
    if values.keys() != State().__dict__.keys():
        raise DamagedError("The checkpoint is of another version.", "Delete its folder to train from the start.")
    return parse_json(to_json(values).encode(), State, "The checkpoint")


def _pointer(folder: Path) -> Pointer | None:
    refuse_link(folder)
    if not os.path.lexists(folder / POINTER):
        return None
    try:
        return read_json(folder, POINTER, Pointer)
    except TimeplexError as error:
        raise _damaged(folder) from error


def _content(folder: Path, found: Pointer) -> bytes:
    content = read_file(folder, found.file)
    if hashlib.sha256(content).hexdigest() != found.sha256:
        raise _damaged(folder)
    return content


def _damaged(folder: Path) -> DamagedError:
    return DamagedError(f"The checkpoint in {folder} is damaged.", "Delete the folder to train from the start.")

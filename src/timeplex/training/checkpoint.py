"""Checkpoints: whole or not at all, checked, and never a pointer to one that is not there.

Order of writing: the new file under a temporary name, fsync, rename; then the pointer `latest.json` the same way; only
then is every file that the pointer does not name deleted. So whenever the power fails, the pointer names a whole file.

latest.json: format, file (the tensors), sha256 (of that file), state, state_sha256 (`state_digest`).
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from safetensors.torch import save
from torch import Tensor

from timeplex.errors import DamagedError, TimeplexError
from timeplex.files import checksum, write_whole
from timeplex.stored import Record, parse_json, read_json, refuse_link
from timeplex.stored import read as read_file
from timeplex.training.state import State
from timeplex.training.tables import decoded

POINTER = "latest.json"
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
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def write(folder: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write a checkpoint of tensors and plain values."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"step-{state['step']:09d}.safetensors"
    write_whole(folder / name, save({key: tensor.detach().contiguous() for key, tensor in tensors.items()}))
    pointer = {"format": FORMAT, "file": name, "sha256": checksum(folder / name), "state": state}
    pointer["state_sha256"] = state_digest(state)
    write_whole(folder / POINTER, json.dumps(pointer).encode())
    for path in folder.iterdir():
        if path.name not in (name, POINTER):
            path.unlink()


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
    return parse_json(json.dumps(values).encode(), State, "The checkpoint")


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

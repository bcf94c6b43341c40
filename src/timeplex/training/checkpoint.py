"""Checkpoints: whole or not at all, checked, and never a pointer to one that is not there.

Order of writing: the new file under a temporary name, fsync, rename; then the pointer `latest.json` the same way; only
then are our files that the pointer does not name deleted. No two checkpoints have the same name, also of the same step.
So whenever the power fails, the pointer names a whole file. Files of others are never touched, nor is a link followed.

latest.json: format, file (the tensors), sha256 (of that file), state, state_sha256 (`state_digest`).
"""

import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from safetensors.torch import save
from torch import Tensor

from timeplex.errors import DamagedError, InputError, TimeplexError
from timeplex.files import checksum, is_temporary, remove_file, remove_if_empty, to_json, write_whole
from timeplex.stored import Record, parse_json, read_json, refuse_link
from timeplex.stored import read as read_file
from timeplex.training.state import State
from timeplex.training.tables import decoded

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

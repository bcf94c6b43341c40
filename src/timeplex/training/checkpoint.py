"""Checkpoints: whole or not at all, checked, and never a pointer to one that is not there.

Order of writing: the new file under a temporary name, fsync, rename; then the pointer `latest.json` the same way; only
then are our files that the pointer does not name deleted. No two checkpoints have the same name, also of the same step.
So whenever the power fails, the pointer names a whole file. Files of others are never touched, nor is a link followed.
"""

import json
import re
import secrets
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from timeplex.errors import DamagedError, InputError
from timeplex.files import checksum, is_temporary, remove_file, remove_if_empty, to_json, write_whole

POINTER = "latest.json"
STEP = re.compile(r"step-\d{9}(-[0-9a-f]{8})?\.safetensors")


def write(folder: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write a checkpoint of tensors and plain values."""
    check_place(folder)
    name = f"step-{state['step']:09d}-{secrets.token_hex(4)}.safetensors"
    write_whole(folder / name, save({key: tensor.detach().contiguous() for key, tensor in tensors.items()}))
    pointer = {"file": name, "sha256": checksum(folder / name), "state": state}
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


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The last checkpoint, or None if there is none yet."""
    pointer = folder / POINTER
    if not pointer.is_file():
        return None
    try:
        named = json.loads(pointer.read_text())
        path = folder / named["file"]
        if checksum(path) != named["sha256"]:
            raise ValueError("checksum")
        return load_file(path), named["state"]
    except (ValueError, KeyError, TypeError, OSError, SafetensorError) as error:
        raise DamagedError(
            f"The checkpoint in {folder} is damaged.", "Delete the folder to train from the start."
        ) from error

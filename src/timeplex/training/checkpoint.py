"""Checkpoints: whole or not at all, checked, and never a pointer to one that is not there.

Order of writing: the new file under a temporary name, fsync, rename; then the pointer `latest.json` the same way; only
then is every file that the pointer does not name deleted. So whenever the power fails, the pointer names a whole file.
"""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from timeplex.errors import DamagedError
from timeplex.files import checksum, to_json, write_whole

POINTER = "latest.json"


def write(folder: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write a checkpoint of tensors and plain values."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"step-{state['step']:09d}.safetensors"
    write_whole(folder / name, save({key: tensor.detach().contiguous() for key, tensor in tensors.items()}))
    pointer = {"file": name, "sha256": checksum(folder / name), "state": state}
    write_whole(folder / POINTER, to_json(pointer).encode())
    for path in folder.iterdir():
        if path.name not in (name, POINTER):
            path.unlink()


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

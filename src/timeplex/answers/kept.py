"""What was learned is kept beside what it was learned from, so that the next question is answered in seconds.

    NAME.safetensors   the weights
    NAME.json          all else, what it belongs to (a digest), and the checksums of both

The numbers come first and the JSON file makes them count, so that a write that is cut off leaves nothing half. Nothing
of it is trusted: what is damaged, of other facts or of another version is as if it were not there. A folder that cannot
be written keeps nothing.
"""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from safetensors.torch import save

from timeplex import __version__
from timeplex.errors import InputError, TimeplexError
from timeplex.files import Record, Table, read, read_json, to_json, write_whole
from timeplex.kb.facts import TemporalKB
from timeplex.training.checkpoint import unpack
from timeplex.typing import Floats

FORMAT = 2
"""Counted up when what is learned changes its meaning."""

State = TypeVar("State", bound=BaseModel)
Arrays = Mapping[str, Floats]


class _File(Record):
    digest: str
    numbers: str
    sha256: str
    learned: Table


class Keeper:
    """A folder that may keep what was learned; none keeps nothing. `digest` says what it belongs to."""

    def __init__(self, folder: Path | None = None, digest: str = "") -> None:
        self.folder, self.digest = folder, digest

    def restored(
        self, name: str, kind: type[State], build: Callable[[State, "Numbers"], Any]
    ) -> Any | None:  # what `build` makes of it
        """What `build` makes of the state that is kept under a name; None if there is none that can be used."""
        if self.folder is None or not (self.folder / f"{name}.json").is_file():
            return None
        try:
            found = read_json(self.folder, f"{name}.json", _File)
            if (found.digest, found.sha256) != (self.digest, checksum(found.learned)):
                return None
            content = read(self.folder, f"{name}.safetensors")
            if hashlib.sha256(content).hexdigest() != found.numbers:
                return None
            state = kind.model_validate_json(to_json(found.learned))
            return build(state, Numbers(content, self.folder / f"{name}.safetensors"))
        except (TimeplexError, ValidationError):
            return None

    def keep(self, name: str, state: BaseModel, arrays: Arrays) -> None:
        """Write a state, if the folder can be written."""
        if self.folder is None:
            return
        content = save({key: torch.from_numpy(np.ascontiguousarray(each)) for key, each in arrays.items()})
        values = state.model_dump(mode="json")
        numbers = hashlib.sha256(content).hexdigest()
        written = {"digest": self.digest, "numbers": numbers, "sha256": checksum(values), "learned": values}
        with suppress(InputError):
            write_whole(self.folder / f"{name}.safetensors", content)
            write_whole(self.folder / f"{name}.json", to_json(written, indent=1).encode())


class Numbers:
    """The arrays of a file that have not been looked at yet."""

    def __init__(self, content: bytes, source: Path) -> None:
        self._content, self._source = content, source

    def of(self, **shapes: tuple[int, ...]) -> dict[str, NDArray[np.float64]]:
        """Just these arrays; they must have these shapes, and no number that is not finite or far too large."""
        expected = {name: torch.empty(shape, dtype=torch.float64, device="meta") for name, shape in shapes.items()}
        return {name: each.numpy() for name, each in unpack(self._content, expected, self._source).items()}


def digest(kb: TemporalKB, *more: bytes) -> str:
    """What is learned of a KB depends on its names and facts, in their splits, and on the version."""
    found = hashlib.sha256(f"{FORMAT} {__version__} {kb.granularity}".encode())
    for names in (kb.entities, kb.relations):
        found.update(f" {len(names)} ".encode())
        found.update(to_json(names.names.to_list()).encode())
    for split, facts in kb.splits.items():
        found.update(f" {split} {len(facts)} ".encode())
        for column in facts.columns:
            found.update(np.ascontiguousarray(column).tobytes())
    for each in more:
        found.update(each)
    return found.hexdigest()


def checksum(values: object) -> str:
    """Of values that JSON can hold, whatever the order of their keys."""
    return hashlib.sha256(to_json(values, sort_keys=True).encode()).hexdigest()

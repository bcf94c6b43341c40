"""What is fitted on the dev facts of a run is fitted once and kept beside it, in a JSON file of its own.

The file names the digests of the run and of its own content. One that belongs to another model, is damaged, or was
written by another version is passed over and made again; where the folder cannot be written, it is made anew each time.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from timeplex.errors import InputError, TimeplexError
from timeplex.files import to_json, write_whole
from timeplex.stored import MANIFEST, Record, Table, read, read_json
from timeplex.training.run import TrainedRun

FORMAT = 4

Fitted = TypeVar("Fitted", bound=BaseModel)


class _File(Record):
    run: str
    sha256: str
    fitted: Table


def kept(
    run: TrainedRun, file: str, kind: type[Fitted], fit: Callable[[], Fitted], fits: Callable[[Fitted], bool]
) -> Fitted:
    """What was fitted for a run: the one that is kept in that file, or else a new one, which is kept if it can be.

    `fits` says whether one can be used with this run.
    """
    mark = fingerprint(run)
    found = _read(run.path, file, mark, kind)
    if found is not None and fits(found):
        return found
    fitted = fit()
    values = fitted.model_dump(mode="json")
    written = {"run": mark, "sha256": _digest(values), "fitted": values}
    with suppress(InputError):
        write_whole(run.path / file, to_json(written, indent=1).encode())
    return fitted


def fingerprint(run: TrainedRun) -> str:
    """What such a fit depends on: the run's files, by its manifests, and which of its gadgets are asked."""
    digest = hashlib.sha256(f"{FORMAT} {sorted(run.gadgets)} ".encode())
    for manifest in (MANIFEST, f"kb/{MANIFEST}"):
        digest.update(read(run.path, manifest))
    return digest.hexdigest()


def _read(folder: Path, file: str, mark: str, kind: type[Fitted]) -> Fitted | None:
    """What is kept, or None if it cannot be used."""
    if not os.path.lexists(folder / file):
        return None
    try:
        found = read_json(folder, file, _File)
        if found.run != mark or found.sha256 != _digest(found.fitted):
            return None
        return kind.model_validate_json(to_json(found.fitted))
    except (TimeplexError, ValidationError):
        return None


def _digest(values: object) -> str:
    return hashlib.sha256(to_json(values, sort_keys=True).encode()).hexdigest()

"""What is fitted on the dev facts of a run is fitted once and kept beside it, in a JSON file of its own.

The file names the digests of the run and of its own content. One that belongs to another model, is damaged, or was
written by another version is passed over and made again; where the folder cannot be written, it is made anew each time.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from timeplex.errors import InputError
from timeplex.files import to_json, write_whole
from timeplex.kb.store import MANIFEST
from timeplex.training.run import TrainedRun

FORMAT = 4

Fitted = TypeVar("Fitted", bound=BaseModel)


def kept(run: TrainedRun, file: str, kind: type[Fitted], fit: Callable[[], Fitted]) -> Fitted:
    """What was fitted for a run: the one that is kept in that file, or else a new one, which is kept if it can be."""
    mark = fingerprint(run)
    found = _read(run.path / file, mark, kind)
    if found is not None:
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
    for manifest in (run.path / MANIFEST, run.path / "kb" / MANIFEST):
        digest.update(manifest.read_bytes())
    return digest.hexdigest()


def _read(path: Path, mark: str, kind: type[Fitted]) -> Fitted | None:
    """What is kept, or None if it cannot be used."""
    try:
        found = json.loads(path.read_bytes())
        values = found["fitted"]
        if found["run"] != mark or found["sha256"] != _digest(values):
            return None
        return kind.model_validate_json(to_json(values))
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return None


def _digest(values: object) -> str:
    return hashlib.sha256(to_json(values, sort_keys=True).encode()).hexdigest()

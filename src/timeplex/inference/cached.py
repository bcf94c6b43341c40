"""The calibration of a run is fitted once and kept beside it, as calibration.json.

The file names the digests of the run and of its own content. One that belongs to another model, is damaged, or was
written by another version is passed over and made again; where the folder cannot be written, it is made anew each time.
"""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from timeplex.errors import InputError
from timeplex.inference.calibrate import Calibration, fit
from timeplex.kb.store import MANIFEST
from timeplex.kb.write import write_whole
from timeplex.training.run import TrainedRun

FILE = "calibration.json"
FORMAT = 2


def calibration(run: TrainedRun) -> Calibration:
    """The calibration of a run: the one that is kept, or else a new one, which is kept if it can be."""
    mark = fingerprint(run)
    kept = _read(run.path / FILE, mark)
    if kept is not None:
        return kept
    fitted = fit(run)
    values = fitted.model_dump(mode="json")
    written = {"run": mark, "sha256": _digest(values), "calibration": values}
    with suppress(InputError):
        write_whole(run.path / FILE, json.dumps(written, indent=1).encode())
    return fitted


def fingerprint(run: TrainedRun) -> str:
    """What the calibration depends on: the run's files, by its manifests, and which of its gadgets are asked."""
    digest = hashlib.sha256(f"{FORMAT} {sorted(run.gadgets)} ".encode())
    for manifest in (run.path / MANIFEST, run.path / "kb" / MANIFEST):
        digest.update(manifest.read_bytes())
    return digest.hexdigest()


def _read(path: Path, mark: str) -> Calibration | None:
    """What is kept, or None if it cannot be used."""
    try:
        found = json.loads(path.read_bytes())
        values = found["calibration"]
        if found["run"] != mark or found["sha256"] != _digest(values):
            return None
        return Calibration.model_validate_json(json.dumps(values))
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return None


def _digest(values: object) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

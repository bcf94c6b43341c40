"""Reading the files of KB and run folders, which may come from anyone, also if every checksum fits.

A file is opened once, never through a link, and what is checked is what is used. JSON is held against a type before
anything looks at it; nested too deeply, or larger than any that is written here, it is refused.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from timeplex.errors import DamagedError, InputError
from timeplex.files import open_inside

MANIFEST = "MANIFEST.json"
FORMAT = 1
AGAIN = "Import the source again, or get the folder anew."

MOST_JSON = 8_000_000
"""No JSON file is larger; it takes up to about thirty times as much memory while it is read."""

Kind = TypeVar("Kind")


class Record(BaseModel):
    """Part of a stored JSON file: every value has just the type that is stated; what is not known is passed over."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class Manifest(Record):
    """The checksums of the files of a folder."""

    format: Literal[1]
    sha256: dict[str, str]


class _Format(Record):
    format: int


def read(folder: Path, name: str, most: int | None = None) -> bytes:
    """The content of a file of a folder; one that is missing, a link, no file or larger than `most` is refused."""
    try:
        with open_inside(folder, name) as file:
            content = file.read() if most is None else file.read(most + 1)
    except FileNotFoundError as error:
        raise DamagedError(f"{folder / name} is missing.", AGAIN) from error
    except NotADirectoryError as error:
        raise DamagedError(f"{folder / name} is not a file.", AGAIN) from error
    except PermissionError as error:
        raise InputError(f"{folder / name} cannot be read: {error.strerror}.", "Check its permissions.") from error
    except OSError as error:
        raise DamagedError(f"{folder / name} cannot be read: {error.strerror or error}.", AGAIN) from error
    if most is not None and len(content) > most:
        raise DamagedError(f"{folder / name} is larger than {most:,} bytes.", AGAIN)
    return content


def parse_json(content: bytes, kind: type[Kind], source: object) -> Kind:
    """JSON as a value of a type; `source` is named where it is none."""
    if len(content) > MOST_JSON:
        raise DamagedError(f"{source} is larger than {MOST_JSON:,} bytes.", AGAIN)
    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise DamagedError(f"{source} is not JSON.", AGAIN) from error
        where = ".".join(str(part)[:40] for part in first["loc"])
        what = f"{where}: {first['msg']}" if where else first["msg"]
        raise DamagedError(f"{source} is not what it should be ({what}).", AGAIN) from error


def read_json(folder: Path, name: str, kind: type[Kind]) -> Kind:
    """A JSON file of a folder."""
    return parse_json(read(folder, name, MOST_JSON), kind, folder / name)


def verified(folder: Path, files: Sequence[str]) -> dict[str, bytes]:
    """The content of each file, after checking that the manifest lists just these and that each has its checksum."""
    content = read(folder, MANIFEST, MOST_JSON)
    found = parse_json(content, _Format, folder / MANIFEST).format
    if found != FORMAT:
        raise InputError(
            f"{folder} has format {found}, this version reads format {FORMAT}.", "Import the source again."
        )
    sums = parse_json(content, Manifest, folder / MANIFEST).sha256
    if set(sums) != set(files):
        raise DamagedError(f"{folder / MANIFEST} does not list the checksums.", AGAIN)
    contents = {name: read(folder, name) for name in files}
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != sums[name]:
            raise DamagedError(f"{folder / name} has been changed or damaged.", AGAIN)
    return contents


def refuse_link(folder: Path) -> None:
    """Refuse a folder inside a run that is a link: it would lead out of the run."""
    if folder.is_symlink():
        raise DamagedError(f"{folder} is a link, which is not followed.", "Put the folder itself there.")


Table = dict[str, Any]
"""A JSON object whose values are checked by what reads it."""

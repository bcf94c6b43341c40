"""Finding a model by name, and running the file of a model of one's own.

A file is run only if the caller names it: on the command line, or as an argument in Python. Recipes, KBs and runs may
come from anyone, so that none of them names a file: they hold the name of a model, and a run also the SHA-256 of the
file that it was trained with.
"""

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType

from timeplex.errors import InputError, UnknownNameError
from timeplex.files import open_regular
from timeplex.models.base import MODELS, Model
from timeplex.text import did_you_mean

_DIGESTS: dict[type[Model], str] = {}
"""SHA-256 of the file that each model of one's own comes from."""


def model_class(name: str) -> type[Model]:
    """The class of a registered model. This runs nothing, whatever the name says."""
    if names_file(name):
        raise UnknownNameError(
            f"{name!r} is a file, which no recipe can name, because recipes may come from anyone.",
            f"Give it yourself: --model {name} (in Python: model=…).",
        )
    return _usable(name, MODELS, "")


def own_model(given: str) -> type[Model]:
    """Run a file that the caller names, as `path/to/file.py:name`, and return its model of that name."""
    file, _, name = given.rpartition(":")
    if given.endswith(".py"):
        file, name = given, ""
    if not file.endswith(".py"):
        raise InputError(f"{given!r} is not a model of your own.", "Give it as path/to/file.py:name.")
    return _usable(name, _run(Path(file)), file)


def own_models(given: Iterable[str]) -> None:
    """Make several models of one's own known by their names."""
    for each in given:
        own_model(each)


def named_model(given: str) -> type[Model]:
    """The model that the caller names: a registered one, or one of their own."""
    return own_model(given) if names_file(given) else model_class(given)


def names_file(name: str) -> bool:
    """Whether this is `path/to/file.py:name` and not the name of a model."""
    return name.endswith(".py") or name.rpartition(":")[0].endswith(".py")


def file_digest(model: type[Model]) -> str | None:
    """SHA-256 of the file of a model of one's own; None for models that are not from a file."""
    return _DIGESTS.get(model)


def _usable(name: str, known: dict[str, type[Model]], file: str) -> type[Model]:
    """The model of that name among the known ones; `file` is where a user's own were looked for."""
    if name not in known:
        hint = f"Known are {', '.join(sorted(known))}." if known else 'Put @register("name") above its class.'
        hint = f"{did_you_mean(name, known)} {hint}".lstrip()
        if file:
            raise UnknownNameError(f"{file} registers no model {name!r}: write {file}:name.", hint)
        raise UnknownNameError(f"There is no model {name!r}.", hint)
    model = known[name]
    if inspect.isabstract(model):
        missing = ", ".join(sorted(model.__abstractmethods__))
        raise InputError(f"The model {name!r} is not complete.", f"Write its methods {missing}.")
    return model


class _Content(InspectLoader):
    """Runs just the bytes whose digest was taken: no compiled file that lies beside the source, and none is written."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.content = path, content

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self.content)

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.content, str(self.path))


def _run(path: Path) -> dict[str, type[Model]]:
    """Import a user's file, and return the models that it registers, by name."""
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as error:
        problem = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise InputError(f"{path} {problem}.", "Give a model as path/to/file.py:name.") from error
    name = f"timeplex_user_{path.stem}"
    loader = _Content(path, content)
    module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=str(path)))
    module.__file__ = str(path)
    before = dict(MODELS)
    sys.modules[name] = module  # as an import does, because dataclasses and pydantic look there
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        MODELS.clear()
        MODELS.update(before)
        raise InputError(f"{path} failed with {type(error).__name__}: {error}.", "Mend the file.") from error
    own = {name: model for name, model in MODELS.items() if before.get(name) is not model}
    _DIGESTS.update(dict.fromkeys(own.values(), hashlib.sha256(content).hexdigest()))
    return own

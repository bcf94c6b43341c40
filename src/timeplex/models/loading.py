"""Finding a model by name, also in a user's own file."""

import difflib
import importlib.util
import inspect
import sys
from pathlib import Path

from timeplex.errors import InputError, UnknownNameError
from timeplex.models.base import MODELS, Model


def model_class(name: str) -> type[Model]:
    """The class of a registered model, or of `path/to/file.py:name`, whose file is run first."""
    file, _, own = name.rpartition(":")
    if name.endswith(".py"):
        file, own = name, ""
    if file.endswith(".py"):
        return _usable(own, _run(Path(file)), file)
    return _usable(name, MODELS, "")


def _usable(name: str, known: dict[str, type[Model]], file: str) -> type[Model]:
    """The model of that name among the known ones; `file` is where a user's own were looked for."""
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        hint += f"Known are {', '.join(sorted(known))}." if known else 'Put @register("name") above its class.'
        if file:
            raise UnknownNameError(f"{file} registers no model {name!r}: write {file}:name.", hint)
        raise UnknownNameError(f"There is no model {name!r}.", hint)
    model = known[name]
    if inspect.isabstract(model):
        missing = ", ".join(sorted(model.__abstractmethods__))
        raise InputError(f"The model {name!r} is not complete.", f"Write its methods {missing}.")
    return model


def _run(path: Path) -> dict[str, type[Model]]:
    """Import a user's file, and return the models that it registers, by name."""
    if not path.is_file():
        raise InputError(f"{path} does not exist.", "Give a model as path/to/file.py:name.")
    spec = importlib.util.spec_from_file_location(f"timeplex_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file.", "Give a model as path/to/file.py:name.")
    module = importlib.util.module_from_spec(spec)
    before = dict(MODELS)
    sys.modules[spec.name] = module  # as an import does, because dataclasses and pydantic look there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        MODELS.clear()
        MODELS.update(before)
        raise InputError(f"{path} failed with {type(error).__name__}: {error}.", "Mend the file.") from error
    return {name: model for name, model in MODELS.items() if before.get(name) is not model}

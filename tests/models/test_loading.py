"""Models by name, and from a user's own file."""

import hashlib
import importlib.util
import inspect
import os
import py_compile
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from timeplex.errors import InputError, TimeplexError, UnknownNameError
from timeplex.models import MODELS, Model, Space, register
from timeplex.models.loading import file_digest, model_class, named_model, own_model
from timeplex.models.static import ComplEx

OWN = """
from timeplex.models import register
from timeplex.models.static import DistMult

@register("{name}")
class Mine(DistMult):
    '''As DistMult.'''
"""


def written(folder: Path, text: str, name: str = "own.py") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_registered() -> None:
    assert model_class("complex") is ComplEx
    assert ComplEx.name == "complex"


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    model = own_model(f"{written(tmp_path, OWN.format(name='mine'))}:mine")
    assert (model.name, model.__name__) == ("mine", "Mine")
    assert isinstance(model(Space.plain(2, 1, 1), model.options_type(dimension=2)), Model)
    assert model_class("mine") is model, "it is registered now"


def test_a_path_with_a_colon(tmp_path: Path) -> None:
    assert own_model(f"{written(tmp_path, OWN.format(name='mine'), 'a:b/own.py')}:mine").name == "mine"


def test_a_file_is_run_anew(tmp_path: Path) -> None:
    # A recipe names its model more than once in a process; and in a notebook one mends the file and goes on.
    path = written(tmp_path, OWN.format(name="mine"))
    first = own_model(f"{path}:mine")
    path.write_text(OWN.format(name="mine").replace("As DistMult", "Mended"))
    second = own_model(f"{path}:mine")
    assert (first.__doc__, second.__doc__) == ("As DistMult.", "Mended.")


def test_two_files_of_one_name(tmp_path: Path) -> None:
    models = [own_model(f"{written(tmp_path, OWN.format(name=name), f'{name}/own.py')}:{name}") for name in "ab"]
    assert [model.name for model in models] == ["a", "b"]


def test_an_unknown_name_is_answered_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match=r"no model 'timplex-base'. Did you mean 'timeplex-base'\?.* transe\."):
        model_class("timplex-base")


@pytest.mark.parametrize("asked", [":yours", ":complex", ":", ""])
def test_a_file_without_that_model(tmp_path: Path, asked: str) -> None:
    path = written(tmp_path, OWN.format(name="mine"))
    # Also `complex`: it is known, but not from this file.
    with pytest.raises(UnknownNameError, match=rf"own.py registers no model '{asked[1:]}'.*Known are mine\."):
        own_model(f"{path}{asked}")


def test_a_file_without_any_model(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"registers no model 'mine'.*Put @register\(\"name\"\) above its class"):
        own_model(f"{written(tmp_path, 'x = 1')}:mine")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.py does not exist"):
        own_model(f"{tmp_path}/none.py:mine")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (OWN.format(name="mine") + "\n1 / 0", "ZeroDivisionError"),
        (OWN.format(name="complex"), "ValueError: the name 'complex' belongs to timeplex.models.static"),
    ],
)
def test_a_file_that_fails(tmp_path: Path, text: str, reason: str) -> None:
    before = dict(MODELS)
    path = written(tmp_path, text, "failing.py")
    with pytest.raises(InputError, match=rf"failing\.py failed with {reason}"):
        own_model(f"{path}:mine")
    assert before == MODELS, "nothing of it is left"
    assert "timeplex_user_failing" not in sys.modules


def test_an_incomplete_model(tmp_path: Path) -> None:
    text = "from timeplex.models import Model, register\n@register('half')\nclass Half(Model):\n    '''Half.'''\n"
    with pytest.raises(
        InputError, match=r"'half' is not complete\. Write its methods objects_at, score_at, subjects_at"
    ):
        own_model(f"{written(tmp_path, text)}:half")


def test_every_failure_is_one_that_the_user_can_mend(tmp_path: Path) -> None:
    for name in ("", ":", ".py", ":x", "x:y", f"{tmp_path}:x", f"{tmp_path}.py:x", str(tmp_path)):
        with pytest.raises(TimeplexError):
            named_model(name)


def test_a_name_can_be_registered_again_from_the_same_place() -> None:
    for _ in range(2):  # a cell of a notebook that is run twice

        @register("here")
        class Here(ComplEx):
            """Here."""

        assert MODELS["here"] is Here


# What recipes and runs may say


@pytest.mark.parametrize("asked", ["own.py:mine", "own.py", "a/b:c/own.py:mine", "/tmp/own.py:complex"])
def test_no_name_that_is_read_from_a_file_runs_one(tmp_path: Path, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "raise AssertionError('it was run')")
    with pytest.raises(UnknownNameError, match=r"no recipe can name.*Give it yourself: --model"):
        model_class(asked)
    with pytest.raises(InputError, match=r"not a model of your own.*path/to/file\.py:name"):
        own_model("complex")


def test_what_is_run_is_what_was_digested(tmp_path: Path) -> None:
    path = written(tmp_path, OWN.format(name="mine"))
    # A compiled file beside the source that claims to be of it: an import would take it, for it has its time and size.
    compiled = Path(importlib.util.cache_from_source(str(path)))
    py_compile.compile(str(written(tmp_path, "1 / 0", "evil.py")), cfile=str(compiled), doraise=True)
    size, mtime = path.stat().st_size, int(path.stat().st_mtime)
    head = compiled.read_bytes()[:8] + mtime.to_bytes(4, "little") + size.to_bytes(4, "little")
    compiled.write_bytes(head + compiled.read_bytes()[16:])
    with pytest.raises(ZeroDivisionError):  # so it would
        SourceFileLoader("own", str(path)).exec_module(ModuleType("own"))
    model = own_model(f"{path}:mine")
    assert file_digest(model) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert file_digest(ComplEx) is None
    assert inspect.getsource(model).strip().startswith("@register")


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "own.py")
    with pytest.raises(InputError, match="not a plain file"):
        own_model(f"{tmp_path}/own.py:mine")

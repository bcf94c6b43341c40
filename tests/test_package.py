"""The package as a whole: quick to import, its API is there, its examples are true, and nothing in it is unsafe."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest
from tests.patience import patience

import timeplex

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(timeplex.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 600


def modules(folder: Path, prefix: str) -> Iterator[str]:
    """The names of all modules below a package, without importing any."""
    for module in pkgutil.iter_modules([str(folder)], prefix):
        yield module.name
        if module.ispkg:
            yield from modules(folder / module.name.removeprefix(prefix), f"{module.name}.")


MODULES = ["timeplex", *modules(PACKAGE, "timeplex.")]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


# The API


def test_the_import_is_quick_and_brings_no_large_library() -> None:
    code = "import sys, timeplex; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=patience(60)
    )
    loaded = set(done.stdout.split())
    assert "timeplex" in loaded
    assert loaded.isdisjoint({"torch", "polars", "numpy", "scipy", "pandas", "pydantic", "typer", "rich"})


def test_the_data_layer_does_not_import_torch() -> None:
    code = (
        "import sys, timeplex\n"
        "for name in timeplex.__all__:\n"
        "    if timeplex._WHERE.get(name, '').startswith('timeplex.kb'):\n"
        "        getattr(timeplex, name)\n"
        "print('torch' in sys.modules, 'polars' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=patience(60)
    )
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("name", timeplex.__all__)
def test_every_public_name_is_there_and_explains_itself(name: str) -> None:
    value = getattr(timeplex, name)
    assert name in dir(timeplex)
    if name == "__version__":
        return
    assert value is getattr(importlib.import_module(timeplex._WHERE[name]), name)
    assert value.__doc__


def test_what_type_checkers_see_is_what_there_is() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    seen: dict[str, str | None] = {}
    for line in block.body:
        assert isinstance(line, ast.ImportFrom)
        for alias in line.names:
            assert alias.asname == alias.name, "only `import x as x` is passed on"
            seen[alias.name] = line.module
    assert seen == timeplex._WHERE
    assert list(timeplex._WHERE) == sorted(timeplex._WHERE)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        timeplex.no_such_name  # noqa: B018 - looking is what is tested


IMPORT_EACH_FIRST = """
import os, sys
import polars, pydantic, torch, typer  # once: each child then loads our modules alone
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            __import__(name)
        except BaseException as error:
            print(f"{name}: {error}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.slow  # each in a process of its own
def test_every_module_can_be_the_first_to_be_imported() -> None:
    command = [sys.executable, "-W", "ignore", "-c", IMPORT_EACH_FIRST, *MODULES]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=patience(300))
    assert done.stdout == ""


# Examples


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_examples_are_found() -> None:
    assert {f"timeplex.kb.{name}" for name in ("dates", "spans", "timeline", "names")} <= set(MODULES)
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = finder.find(importlib.import_module("timeplex.kb.spans"))
    assert sum(len(test.examples) for test in found) >= 3


# Safety

FORBIDDEN_MODULES = {
    *("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"),
    *("subprocess", "runpy", "imp", "code", "codeop", "cffi", "multiprocessing", "pty"),
}
FORBIDDEN_NAMES = {"eval", "exec", "__import__", "compile", "breakpoint"}
FORBIDDEN_ATTRIBUTES = {("torch", "load"), ("torch", "save"), ("os", "system"), ("os", "popen"), ("os", "fork")}
FORBIDDEN_ENDINGS = {
    *("read_pickle", "to_pickle", "load_library", "load_inline", "LoadLibrary", "create_subprocess_exec"),
    *("exec_module", "load_module", "spec_from_file_location", "SourceFileLoader", "source_to_code"),
}
FORBIDDEN_BEGINNINGS = {("os", "exec"), ("os", "spawn"), ("os", "posix_spawn")}
FORBIDDEN_ARGUMENTS = {("shell", True), ("allow_pickle", True), ("weights_only", False)}


def unsafe(source: str) -> list[str]:
    """What of the forbidden a source has. Words in comments and docstrings, and `model.eval()`, are fine."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [alias.name for alias in names if alias.name.partition(".")[0] in FORBIDDEN_MODULES]
            case ast.ImportFrom(module=str(module), names=names):
                found += [module] if module.partition(".")[0] in FORBIDDEN_MODULES else []
                found += [f"{module}.{alias.name}" for alias in names if (module, alias.name) in FORBIDDEN_ATTRIBUTES]
                found += [alias.name for alias in names if alias.name in FORBIDDEN_ENDINGS]
            case ast.Name(id=name) if name in FORBIDDEN_NAMES:
                found.append(name)
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if (owner, name) in FORBIDDEN_ATTRIBUTES:
                found.append(f"{owner}.{name}")
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if any(
                owner == of and name.startswith(begin) for of, begin in FORBIDDEN_BEGINNINGS
            ):
                found.append(f"{owner}.{name}")
            case ast.Attribute(attr=name) if name in FORBIDDEN_ENDINGS:
                found.append(name)
            case ast.Call(func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"), args=[name, *_]):
                # Only of a name that stands in the source, or in a table of constants.
                if not isinstance(name, ast.Constant) and ast.unparse(name) != "_WHERE[name]":
                    found.append("import_module")
            case ast.Call(func=ast.Name(id="CDLL") | ast.Attribute(attr="CDLL"), args=[name, *_]):
                # Only the C library that is loaded already.
                if not isinstance(name, ast.Constant) or name.value is not None:
                    found.append("CDLL")
            case ast.keyword(arg=str(name), value=ast.Constant(value=value)) if (name, value) in FORBIDDEN_ARGUMENTS:
                found.append(f"{name}={value}")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_source_is_unsafe(path: Path) -> None:
    # One place runs a file, which the caller names, and no other (`models.loading`).
    allowed = ["exec_module", "source_to_code"] if path == PACKAGE / "models" / "loading.py" else []
    assert sorted(unsafe(path.read_text(encoding="utf-8"))) == allowed


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import pickle", ["pickle"]),
        ("def f():\n    import os, pickle as p", ["pickle"]),
        ("from joblib import load", ["joblib"]),
        ("from torch import load as read", ["torch.load"]),
        ("model = torch.load(path)", ["torch.load"]),
        ("write = torch.save", ["torch.save"]),
        ("eval('1')", ["eval"]),
        ("list(map(exec, lines))", ["exec"]),
        ("run('ls', shell=True)", ["shell=True"]),
        ("np.load(path, allow_pickle=True)", ["allow_pickle=True"]),
        ("pd.read_pickle(path)", ["read_pickle"]),
        ("import subprocess", ["subprocess"]),
        ("ctypes.CDLL(path)", ["CDLL"]),
        ("os.execvp('ls', [])", ["os.execvp"]),
        ("spec.loader.exec_module(module)", ["exec_module"]),
        ("from importlib.util import spec_from_file_location", ["spec_from_file_location"]),
        ("code = compile(text, '', 'exec')", ["compile"]),
        ("importlib.import_module(name)", ["import_module"]),
        ("import_module('torch')\nre.compile('x')\nimport_module(_WHERE[name])\nctypes.CDLL(None)", []),
        ("model.eval()\n# pickle\n'torch.load'\nrun('ls', shell=False)\nfrom . import x", []),
    ],
)
def test_what_is_unsafe_is_seen(source: str, expected: list[str]) -> None:
    assert unsafe(source) == expected


# Tests


TO_DO = {"auditing/test_evidence.py", "auditing/test_rules.py"}
"""Tests that still import private names; none is to be added."""


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=name_of)
def test_no_test_imports_what_is_private(path: Path) -> None:
    found = [
        alias.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("timeplex")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert bool(found) == (path.relative_to(ROOT / "tests").as_posix() in TO_DO), found


# Size


@pytest.mark.parametrize("path", [*SOURCES, *sorted((ROOT / "tests").rglob("*.py"))], ids=name_of)
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES, f"{lines} lines: it wants to be two files"


# What is said of it


@pytest.mark.parametrize("name", MODULES)
def test_every_public_method_is_told_of_by_itself_or_by_the_contract_that_it_keeps(name: str) -> None:
    module = importlib.import_module(name)
    kinds = [kind for kind in vars(module).values() if inspect.isclass(kind) and kind.__module__ == name]
    silent = [
        f"{kind.__name__}.{member}"
        for kind in kinds
        for member, value in vars(kind).items()
        if not kind.__name__.startswith("_") and not member.startswith("_") and is_method(value)
        if not inspect.getdoc(getattr(kind, member))
    ]
    assert silent == []


def is_method(value: object) -> bool:
    return inspect.isroutine(value) or isinstance(value, property | cached_property)

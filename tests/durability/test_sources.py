"""All that the package writes it writes through timeplex.files: else the tests beside this one would miss it."""

import ast
from pathlib import Path

import pytest

import timeplex

PACKAGE = Path(timeplex.__file__).parent
SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "files.py"]

ALLOWED = {
    # A download is collected piece by piece in a `.part`, and counts only if its digest is the published one.
    "datasets/benchmarks.py": {"shutil", "rmtree", "mkdir", "open", "replace", "rename", "unlink"},
    "cli/main.py": {"open"},  # of /dev/null
    "kb/readers/packed.py": {"fdopen", "tempfile"},  # of what is in memory, or has no name
}

MODULES = {"tempfile", "shutil"}
METHODS = {
    *("write_text", "write_bytes", "touch", "mkdir", "makedirs", "unlink", "remove_dir", "rmdir", "rmtree", "rename"),
    *("symlink_to", "hardlink_to", "chmod", "truncate", "save_file", "fdopen", "mkdtemp", "mkstemp"),
}
INTO_A_BUFFER = {"write_csv", "write_parquet", "write_ndjson", "write_json", "savefig", "to_csv", "to_parquet"}


def writes(source: str) -> set[str]:
    """What in a source writes, or may write, to the disk by itself."""
    found = set()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.Import):
            found |= {alias.name for alias in function.names} & MODULES
        elif isinstance(function, ast.ImportFrom):
            found |= {function.module or ""} & MODULES
            found |= {alias.name for alias in function.names} & {"save_file"}
        elif isinstance(function, ast.Call):
            found |= _call(function, source)
    return found


def _call(call: ast.Call, source: str) -> set[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    is_method = isinstance(call.func, ast.Attribute)
    owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if name in METHODS:
        return {name}
    if name == "open" and owner != "os" and any(letter in _mode(call, is_method) for letter in "wax+"):
        return {name}
    if name == "open" and owner == "os" and {"O_WRONLY", "O_RDWR", "O_CREAT"} & _flags(call):
        return {name}
    if name == "replace" and is_method and len(call.args) == 1 and not call.keywords:  # a text's has two
        return {name}
    if name in INTO_A_BUFFER and not (call.args and _is_buffer(call.args[0], source)):
        return {name}
    return set()


def _mode(call: ast.Call, is_method: bool) -> str:
    given = [keyword.value for keyword in call.keywords if keyword.arg == "mode"] or call.args[0 if is_method else 1 :][
        :1
    ]
    return str(given[0].value) if given and isinstance(given[0], ast.Constant) else ""


def _flags(call: ast.Call) -> set[str]:
    return {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)}


def _is_buffer(target: ast.expr, source: str) -> bool:
    """Whether it is None, or a name that is given to nothing but a buffer in memory."""
    if isinstance(target, ast.Constant):
        return target.value is None
    given = [
        ast.unparse(node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == ast.unparse(target)
    ]
    return bool(given) and all(value in ("BytesIO()", "io.BytesIO()", "StringIO()") for value in given)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_else_writes(path: Path) -> None:
    allowed = ALLOWED.get(str(path.relative_to(PACKAGE)), set())
    assert writes(path.read_text(encoding="utf-8")) <= allowed


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("path.write_text('x')", {"write_text"}),
        ("open(path, 'w')", {"open"}),
        ("open(path, mode='ab')", {"open"}),
        ("path.open('rb+')", {"open"}),
        ("os.open(path, os.O_WRONLY)", {"open"}),
        ("path.replace(target)", {"replace"}),
        ("frame.write_csv(path)", {"write_csv"}),
        ("drawn = io.BytesIO()\nfigure.savefig(drawn)\ndrawn = path", {"savefig"}),
        ("import shutil, os", {"shutil"}),
        ("from safetensors.torch import save_file", {"save_file"}),
        ("open(path)\nopen(path, 'rb')\npath.open()\nos.open(path, os.O_RDONLY)\n'a'.replace('b', 'c')", set()),
        ("buffer = BytesIO()\nframe.write_parquet(buffer)\nframe.write_csv(None)", set()),
    ],
)
def test_what_writes_is_seen(source: str, found: set[str]) -> None:
    assert writes(source) == found

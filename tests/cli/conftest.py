"""The command line as a user meets it: in this process (fast), or as the installed command (real)."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from timeplex.cli.main import run

COMMAND = Path(sys.executable).with_name("timeplex")
EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def complaint(self, code: int = 2) -> str:
        """The one line of a failure; anything else on either stream fails the test."""
        assert self.code == code, self.err
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.endswith((".\n", "?\n"))
        assert self.err.count("\n") == 1
        assert "Traceback" not in self.err
        return self.err.removeprefix("error: ").rstrip("\n")


Timeplex = Callable[..., Answer]


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder; nothing outside of it is looked at, and no variable changes what is printed."""
    monkeypatch.chdir(tmp_path)
    for name in ("TIMEPLEX_DATA", "TIMEPLEX_DEBUG", "FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    cache = tmp_path.with_name(tmp_path.name + "-cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def timeplex(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Timeplex:
    """Run the command in this process."""

    def call(*arguments: str | Path) -> Answer:
        words = list(map(str, arguments))
        if words[:1] == ["train"] and "--patterns" not in words:
            words.append("--no-patterns")  # learning takes seconds; the tests of it ask for it
        monkeypatch.setattr(sys, "argv", ["timeplex", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            run()
        printed = capsys.readouterr()
        return Answer(int(leaving.value.code or 0), printed.out, printed.err)

    return call


@pytest.fixture
def installed() -> Timeplex:
    """Run the installed command in a process of its own, with both streams as pipes."""

    def call(*arguments: str | Path, **variables: str) -> Answer:
        done = subprocess.run(
            [COMMAND, *map(str, arguments)], capture_output=True, encoding="utf-8", env={**os.environ, **variables}
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def careers(timeplex: Timeplex) -> Path:
    """The KB folder of examples/careers.csv, made by the command."""
    folder = Path("careers.kb")
    assert timeplex("import", EXAMPLES / "careers.csv", "-o", folder, "--object", "organisation").code == 0
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too: equal before and after means that nothing was touched."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

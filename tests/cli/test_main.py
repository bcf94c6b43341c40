"""What all verbs share: help, exit codes, one sentence for a failure, and leaving quietly."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import COMMAND, Timeplex

from timeplex import __version__
from timeplex.cli import main

VERBS = (
    *("datasets", "stats", "import", "problems", "split"),
    *("models", "check-model", "train", "tune", "evaluate", "compare", "diagnose", "reproduce"),
    *("audit", "apply", "rank", "when", "explain", "fill", "discover", "serve"),
)


def test_help_shows_an_example_and_every_verb(timeplex: Timeplex) -> None:
    for flag in ("--help", "-h"):
        answer = timeplex(flag)
        assert (answer.code, answer.err) == (0, "")
        assert "Example: timeplex " in answer.out
        assert all(f" {verb} " in answer.out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_shows_an_example_of_it(timeplex: Timeplex, verb: str) -> None:
    answer = timeplex(verb, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert f"Example: timeplex {verb}" in answer.out


def test_these_are_all_the_verbs() -> None:
    assert {command.name for command in main.app.registered_commands} == set(VERBS)


def test_version(timeplex: Timeplex) -> None:
    answer = timeplex("--version")
    assert (answer.code, answer.out, answer.err) == (0, f"timeplex {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["stats", "sample", "--bogus"], "--bogus"),
        (["bogus"], "bogus"),
        (["stats"], "KB"),
        (["import", "a.csv"], "--output"),
        (["problems", "sample", "--most", "-1"], "--most"),
        (["split", "sample", "-o", "x.kb", "--seed", "one"], "--seed"),
    ],
)
def test_a_wrong_call_is_exit_2_and_says_what(timeplex: Timeplex, arguments: list[str], named: str) -> None:
    answer = timeplex(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert named in answer.err
    assert "Traceback" not in answer.err
    assert not Path("x.kb").exists()


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `timeplex stats` meet with an error that nobody foresaw."""

    def broken(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("timeplex.sources.read", broken)


class PanicError(BaseException):
    """As a panic in polars: not an `Exception`."""


@pytest.mark.parametrize("kind", [ValueError, PanicError, MemoryError])
def test_an_unforeseen_error_is_exit_1_and_one_line(
    timeplex: Timeplex, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    fail_with(kind("first line\nsecond \x1b[31mline"), monkeypatch)
    complaint = timeplex("stats", "sample").complaint(code=1)
    assert f"{kind.__name__}: first line\\nsecond \\x1b[31mline" in complaint
    assert "TIMEPLEX_DEBUG=1" in complaint


def test_debug_shows_the_trace(timeplex: Timeplex, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(ValueError("unforeseen"), monkeypatch)
    monkeypatch.setenv("TIMEPLEX_DEBUG", "1")
    with pytest.raises(ValueError, match="unforeseen"):
        timeplex("stats", "sample")


def test_an_interrupt_is_exit_130(timeplex: Timeplex, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(KeyboardInterrupt(), monkeypatch)
    answer = timeplex("stats", "sample")
    assert (answer.code, answer.out, answer.err) == (130, "", "")


def test_an_interrupt_before_the_verb_begins_is_exit_130(timeplex: Timeplex, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "app", interrupted)
    assert timeplex("--help").code == 130


@pytest.mark.parametrize("arguments", [["stats", "sample"], ["stats", "sample", "--json"], ["--help"]])
def test_a_reader_that_leaves_is_no_failure(arguments: list[str]) -> None:
    with subprocess.Popen([COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # before anything is written
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_failure_of_the_installed_command(installed: Timeplex) -> None:
    assert "'yago11k'" in installed("stats", "yago11").complaint()


def test_the_installed_command_shows_the_trace_of_a_fault_only_when_asked() -> None:
    script = (
        "import sys, timeplex.sources as source\n"
        "from timeplex.cli.main import run\n"
        "source.read = lambda *_, **__: 1 / 0\n"
        "sys.argv = ['timeplex', 'stats', 'sample']\n"
        "run()\n"
    )
    results = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=variables)
        for variables in ({}, {"TIMEPLEX_DEBUG": "1"})
    ]
    assert [result.returncode for result in results] == [1, 1]
    assert ["Traceback" in result.stderr for result in results] == [False, True]
    assert results[0].stderr.count("\n") == 1


IMPORTED = """
import sys
from timeplex.cli.main import run
sys.argv = ["timeplex", *sys.argv[1:]]
try:
    run()
except SystemExit as leaving:
    assert not leaving.code, leaving.code
print(*({"torch", "polars"} & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], set()),
        (["--show-completion", "bash"], set()),
        (["stats", "--help"], set()),
        (["stats", "facts.tsv"], {"polars"}),
        (["import", "facts.tsv", "-o", "facts.kb"], {"polars"}),
        (["split", "facts.tsv", "-o", "split.kb"], {"polars"}),
    ],
)
def test_what_is_imported(arguments: list[str], allowed: set[str]) -> None:
    Path("facts.tsv").write_text("a\tr\tb\t1990\t1991\na\tr\tc\t1992\t1993\nb\tr\tc\t1995\t1999\n")
    variables = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-c", IMPORTED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
    assert set(done.stderr.split()) == allowed


def test_completion_is_installed_and_completes(installed: Timeplex, own_place: Path) -> None:
    # The variable: whatever shell the tests are run from.
    told = {"HOME": str(own_place), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    answer = installed("--install-completion", "bash", **told)
    assert (answer.code, answer.err) == (0, "")
    script = own_place / ".bash_completions" / "timeplex.sh"
    assert str(script) in (own_place / ".bashrc").read_text()
    assert "_TIMEPLEX_COMPLETE=complete_bash" in script.read_text()
    for words, expected in (("timeplex re", "reproduce"), ("timeplex reproduce --ta", "--table")):
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        answer = installed(_TIMEPLEX_COMPLETE="complete_bash", **asked)
        assert (answer.code, answer.out.split(), answer.err) == (0, [expected], "")


@pytest.mark.parametrize(("own", "found"), [({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")])
def test_threads_that_wait_leave_the_cores_to_others(own: dict[str, str], found: str) -> None:
    """Unless the user wants it otherwise; it has to be said before torch is loaded."""
    script = (
        "import os, sys\n"
        "from timeplex.cli.main import app, run\n"
        "assert 'torch' not in sys.modules\n"
        "sys.argv = ['timeplex', '--version']\n"
        "try:\n    run()\nfinally:\n    print(os.environ['OMP_WAIT_POLICY'])\n"
    )
    kept = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**kept, **own}
    )
    assert done.stdout.split()[-1] == found


def test_help_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    # Measuring coverage in the process measured would slow it down.
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def seconds() -> float:
        """Processor time, which other jobs on the machine do not add to."""
        before = os.times()
        subprocess.run([COMMAND, "--help"], check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds() for _ in range(3)) <= 0.5


def test_output_that_is_not_utf_8_is_no_failure(installed: Timeplex) -> None:
    Path("facts.tsv").write_text("Łódź\tліт\tb\t1990\t1991\n")
    answer = installed("stats", "facts.tsv", PYTHONIOENCODING="ascii")
    assert (answer.code, answer.err) == (0, "")
    assert "relation" in answer.out


LOST = """
import os, signal, time
from timeplex.cli.main import leave_on_signals

class Deleted:
    def __del__(self):
        os.kill(os.getpid(), signal.{number})

signal.signal(signal.SIGINT, signal.default_int_handler)
leave_on_signals()
Deleted()
time.sleep(20)
"""


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", -2)])
def test_a_signal_that_comes_where_no_exception_can_leave_comes_again(number: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOST.format(number=number)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code
    assert "Exception ignored" not in done.stderr

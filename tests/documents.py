"""Runs what a Markdown document tells its reader to run.

Fenced blocks with the language `console` hold commands (lines that begin with `$ `) and what they print. Blocks
with the language `python` are one script a document; a block with `>>>` is a doctest. All blocks of a document run
in order in one folder, which has a copy of `examples/`.

A command must exit with 0, or with 2 if the output shown begins with `error:`. What is shown is compared only in
blocks marked `console check` and `console about`; there a line of `…` stands for any number of lines. What a trained
model says may differ a little from machine to machine: in a block marked `about` numbers may be off by `ABOUT`, and
the heights of bars and the width of columns do not count.

`timeplex serve` goes on for the rest of the document, or until the next one, and is ended as by Ctrl-C.
"""

import doctest
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.patience import patience

from timeplex.datasets.benchmarks import BENCHMARKS

ROOT = Path(__file__).parents[1]

NOT_RUN = ("git clone", "pip install", "cd")
"""Set-up that a reader does once: recognised by these first words, and not run."""

RUN = ("timeplex", ".venv/bin/timeplex", "python", ".venv/bin/python", "cat", "curl", "head", "ls")
"""Programs that are run. A command of any other kind is a failure: add it here, or to NOT_RUN, on purpose."""

REALLY_MADE = ("demo",)
"""Targets of make that are made; of any other it is only checked that make knows it."""

SECONDS = 300

SERVE = ("timeplex serve ", ".venv/bin/timeplex serve ")
"""What is left running for the rest of the document, at a port that is free instead of the usual one."""
PORT = "8765"

ABOUT = {"whole": 2, "decimal": 0.05}
"""By how much a number may be off in a block marked `about`."""

NUMBER = re.compile(r"\d+(?:\.\d+)?")


class DocumentError(AssertionError):
    """Something in a document does not do what the document says."""


@dataclass(frozen=True)
class Block:
    """A fenced block and the line where its text begins."""

    language: str
    marks: tuple[str, ...]
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """A command of a console block, the output shown for it, and how that is compared: check, about, or not."""

    command: str
    shown: list[str]
    compared: Literal["check", "about", ""]
    line: int


def blocks(markdown: str) -> list[Block]:
    """The fenced blocks of a document; one that is never closed is an error."""
    found: list[Block] = []
    lines = markdown.splitlines()
    at = 0
    while at < len(lines):
        opening = re.fullmatch(r"( *)(`{3,}|~{3,})\s*([^`]*)", lines[at])
        at += 1
        if opening is None:
            continue
        indent, fence, info = opening.groups()
        start = at
        while at < len(lines) and not re.fullmatch(rf" *{fence[0]}{{{len(fence)},}} *", lines[at]):
            at += 1
        if at == len(lines):
            raise DocumentError(f"line {start}: the block is never closed")
        language, *marks = info.split() or [""]
        text = "\n".join(line.removeprefix(indent) for line in lines[start:at])
        found.append(Block(language, tuple(marks), text, start + 1))
        at += 1
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a console block. A command goes on in the next line after a backslash."""
    found: list[Command] = []
    compared: Literal["check", "about", ""] = (
        "check" if "check" in block.marks else "about" if "about" in block.marks else ""
    )
    lines = iter(enumerate(block.text.splitlines(), start=block.line))
    for number, line in lines:
        if line.startswith("$ "):
            command = line.removeprefix("$ ")
            while command.endswith("\\"):
                command = command.removesuffix("\\") + next(lines)[1].removeprefix("> ").lstrip()
            found.append(Command(command, [], compared, number))
        elif found:
            found[-1].shown.append(line)
        elif line.strip():
            raise DocumentError(f"line {number}: output without a command before it")
    return found


def matches(shown: list[str], printed: list[str], about: bool = False) -> bool:
    """Whether the output is the one shown; a line of `…` or `...` stands for any number of lines."""
    pattern = ""
    for line in _trimmed(shown):
        pattern += (
            r"(?:.*\n)*" if line.strip() in ("…", "...") else (_loosely(line) if about else re.escape(line)) + r"\n"
        )
    found = re.fullmatch(pattern, "".join(f"{line}\n" for line in _trimmed(printed)))
    if found is None or not about:
        return found is not None
    numbers = [number for line in shown for number in NUMBER.findall(line)]
    return all(_near(*pair) for pair in zip(numbers, found.groups(), strict=True))


def _loosely(line: str) -> str:
    """A pattern for the line with any numbers, each in a group, any bars, any spaces, and a rule of any length."""
    texts = [re.sub(r"(?:\\ )+", r"\\s+", re.escape(re.sub("[▁▂▃▄▅▆▇█]+", "▁", text))) for text in NUMBER.split(line)]
    return re.sub("─+", "─+", r"(\d+(?:\.\d+)?)".join(texts).replace("▁", "[▁▂▃▄▅▆▇█]+"))


def _near(shown: str, printed: str) -> bool:
    kind = "decimal" if "." in shown else "whole"
    return ("." in shown) == ("." in printed) and abs(float(shown) - float(printed)) <= ABOUT[kind] + 1e-9


def _trimmed(lines: list[str]) -> list[str]:
    return "\n".join(line.rstrip() for line in lines).rstrip("\n").split("\n")


def data_folder() -> Path | None:
    """Where the benchmarks lie, if they are on this machine."""
    places = [os.environ.get("TIMEPLEX_DATA"), ROOT.parent / "shared" / "data"]
    return next((Path(place).resolve() for place in places if place and Path(place).is_dir()), None)


@dataclass
class Runner:
    """Runs documents in a folder. `left_out` tells what was not run, and why."""

    folder: Path
    data: Path | None = field(default_factory=data_folder)
    left_out: list[str] = field(default_factory=list)
    server: "subprocess.Popen[str] | None" = None
    port: str = PORT

    def run(self, markdown: str) -> None:
        """Run all blocks in order; the first thing that goes wrong is raised."""
        try:
            self._run(markdown)
            self._stop()
        finally:
            if self.server is not None:
                self.server.kill()
                self.server.wait()

    def _run(self, markdown: str) -> None:
        shutil.copytree(ROOT / "examples", self.folder / "examples", dirs_exist_ok=True)
        if not (self.folder / ".venv").exists():
            (self.folder / ".venv").symlink_to(sys.prefix)
        names: dict[str, Any] = {"__name__": "__document__"}
        for block in blocks(markdown):
            if block.language == "console":
                for command in commands(block):
                    self._console(command)
            elif block.language == "python":
                self._python(block, names)

    def _console(self, command: Command) -> None:
        where = f"line {command.line}: {command.command}"
        if command.command.startswith(SERVE):
            self._serve(command, where)
            return
        for part in command.command.replace(f"127.0.0.1:{PORT}", f"127.0.0.1:{self.port}").split(" && "):
            action = self._action(part.strip(), where)
            if action is None:
                self.left_out.append(part.strip())
                continue
            arguments, folder = action
            done = subprocess.run(
                arguments,
                cwd=folder,
                env=self.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                timeout=patience(SECONDS),
            )
            expected = 2 if command.shown and command.shown[0].startswith("error:") else 0
            if done.returncode != expected:
                raise DocumentError(f"{where}\nexit code {done.returncode}, not {expected}; it printed:\n{done.stdout}")
            printed = done.stdout.replace(f"127.0.0.1:{self.port}", f"127.0.0.1:{PORT}").splitlines()
            if command.compared and not matches(command.shown, printed, command.compared == "about"):
                raise DocumentError(f"{where}\nprinted something else than is shown:\n{done.stdout}")

    def _serve(self, command: Command, where: str) -> None:
        """Start a server, which must print what is shown, and leave it running."""
        self._stop()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        log = self.folder / ".served"
        with log.open("w") as output:
            self.server = subprocess.Popen(
                [*shlex.split(command.command), "--port", self.port],
                cwd=self.folder,
                env=self.environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        end = time.monotonic() + patience(SECONDS)
        while True:
            printed = log.read_text().replace(f"127.0.0.1:{self.port}", f"127.0.0.1:{PORT}")
            said = "http://" in printed if not command.compared else matches(command.shown, printed.splitlines())
            if said and printed.endswith("\n"):
                return
            if self.server.poll() is not None or time.monotonic() > end:
                raise DocumentError(f"{where}\nprinted something else than is shown:\n{printed}")
            time.sleep(0.1)

    def _stop(self) -> None:
        """End the server as Ctrl-C does."""
        if self.server is None:
            return
        server, self.server = self.server, None
        if server.poll() is not None:
            raise DocumentError(f"the server has ended by itself with exit code {server.returncode}")
        server.send_signal(signal.SIGINT)
        if server.wait(patience(30)) != 0:
            raise DocumentError(f"the server ended with exit code {server.returncode} after Ctrl-C")

    def _action(self, command: str, where: str) -> tuple[list[str], Path] | None:
        """What to run for a command and where; None if it is of a kind that is left out."""
        if any(command == start or command.startswith(start + " ") for start in NOT_RUN):
            if re.search(r"[;|&<>`$]", command):
                raise DocumentError(f"{where}\nis not run, so nothing else may hide in it")
            return None
        words = list(_first_words(command))
        if words == ["make"]:
            return _make(shlex.split(command)[1:], where), ROOT
        unknown = [word for word in words if word not in RUN]
        if unknown:
            raise DocumentError(f"{where}\n{', '.join(unknown)}: not a kind of command that this test knows")
        if self._lacks_data(command):
            return None
        return ["bash", "-o", "pipefail", "-c", command], self.folder

    def _lacks_data(self, text: str) -> bool:
        return self.data is None and any(re.search(rf"\b{re.escape(name)}\b", text) for name in BENCHMARKS)

    def environment(self) -> dict[str, str]:
        """The variables of a reader who has activated the environment."""
        dropped = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "FORCE_COLOR", "TIMEPLEX_DEBUG")
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
        data = {} if self.data is None else {"TIMEPLEX_DATA": str(self.data)}
        return {**kept, "PATH": path, "XDG_CACHE_HOME": str(self.folder / ".cache"), **data}

    def _python(self, block: Block, names: dict[str, Any]) -> None:
        """Run a block in this process, with the names of the blocks before it, in the runner's folder."""
        if self._lacks_data(block.text):
            self.left_out.append(block.text)
            return
        before, variables = Path.cwd(), dict(os.environ)
        os.chdir(self.folder)
        os.environ.update({name: value for name, value in self.environment().items() if name != "PATH"})
        try:
            if ">>>" in block.text:
                test = doctest.DocTestParser().get_doctest(block.text, names, "document", "document", block.line - 1)
                report: list[str] = []
                runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
                if runner.run(test, out=report.append, clear_globs=False).failed:
                    raise DocumentError("".join(report))
                names.update(test.globs)
            else:
                # Line numbers in a trace are to be those of the document.
                text = block.text.replace(f"127.0.0.1:{PORT}", f"127.0.0.1:{self.port}")
                exec(compile("\n" * (block.line - 1) + text, "document", "exec"), names)
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(variables)


def _first_words(command: str) -> Iterator[str]:
    """The program of each part of a pipeline or list."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    program_comes = True
    for word in lexer:
        if set(word) <= set("|&;()"):
            program_comes = True
        elif program_comes and not re.match(r"[A-Z_]+=", word):
            program_comes = False
            yield word


def _make(targets: list[str], where: str) -> list[str]:
    """Make for real what the reader shall see, and of the rest only ask whether it is known."""
    ready = ".venv/.ready"
    if not targets or any(not re.fullmatch(r"[a-z]+", target) for target in targets):
        raise DocumentError(f"{where}\nname the targets of make, and nothing else")
    if set(targets) <= set(REALLY_MADE) and (ROOT / ready).exists():
        # -o: the environment is taken as it is, even if pyproject.toml has changed since.
        return ["make", "--no-print-directory", "-o", ready, *targets]
    return ["make", "-n", *targets]

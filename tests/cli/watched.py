"""Runs commands one after the other, as the console script does, under an audit hook; not a test, but run by one.

    python -P watched.py CASES.json REPORT.json

What is opened, compiled, executed, written, removed or started is written down for each command, with the real place.
"""

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from types import CodeType
from typing import Any

SEEN: list[tuple[str, str]] = []
PATHS = ("open", "compile", "exec", "ctypes.dlopen")
STARTING = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "subprocess.Popen")
CHANGING = tuple(
    f"os.{name}"
    for name in (
        "remove",
        "rename",
        "rmdir",
        "mkdir",
        "link",
        "symlink",
        "truncate",
        "chmod",
        "chown",
        "mkfifo",
        "utime",
    )
)
watching = False


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not watching or not event.startswith((*PATHS, *STARTING, *CHANGING, "shutil.", "socket.connect")):
        return
    first = arguments[0] if arguments else None
    if event == "compile":
        first = arguments[1]
    if event == "exec":
        first = first.co_filename if isinstance(first, CodeType) else None
    if isinstance(first, bytes):
        first = os.fsdecode(first)
    if not isinstance(first, str) or first.startswith("<"):
        if event.startswith(PATHS):
            return  # a descriptor that is open already, or code that has no file
        first = repr(first)
    if event == "ctypes.dlopen" and "/" not in first:
        return  # looked for where the system has its libraries, never in the working folder
    kind = event
    if event == "open" and (
        set(str(arguments[1] or "")) & set("wax+") or (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)
    ):
        kind = "write"
    if not event.startswith("os."):
        SEEN.append((kind, os.path.realpath(first)))
        return
    # These are about a name in a folder, not about what a link of that name leads to.
    names = arguments[:2] if event in ("os.rename", "os.link") else arguments[1:2] if event == "os.symlink" else [first]
    paths = [Path(os.fsdecode(name)) for name in names]
    SEEN.extend((kind, str(Path(os.path.realpath(path.parent), path.name))) for path in paths)


def main() -> None:
    global watching
    sys.addaudithook(watch)
    cases = json.loads(Path(sys.argv[1]).read_bytes())
    report = []
    for case in cases:
        SEEN.clear()
        os.chdir(case["folder"])
        sys.argv = ["timeplex", *case["arguments"]]
        out, err = io.StringIO(), io.StringIO()
        code: Any = None
        watching = True
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                from timeplex.cli.main import run

                run()
            except SystemExit as leaving:
                code = leaving.code
        watching = False
        report.append({"code": code or 0, "out": out.getvalue(), "err": err.getvalue(), "seen": sorted(set(SEEN))})
    Path(os.environ["REPORT"]).write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main()

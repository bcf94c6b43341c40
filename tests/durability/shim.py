"""Stands in for `os` in timeplex.files, through which all writing goes: counts, records, kills or fails each step."""

import errno
import os
import signal
from pathlib import Path
from typing import Any

from timeplex import files

STEPS = ("open", "mkdir", "write", "fsync", "replace", "rename", "unlink", "rmdir")
SPACE = ("open", "mkdir", "write", "fsync", "replace", "rename", "exchange")
"""What fails on a full disk; removing does not."""

CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
WATCHED = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod")

Step = tuple[Any, ...]


def absolute(path: str | Path) -> str:
    """The whole path; a link stays a link."""
    return str(Path(path).absolute())


class Shim:
    """Behaves as `os`. `how` is what happens at step `at` (from 1):

    count   nothing
    kill    the process dies before it
    full    it and all later ones fail for want of space, but for removing
    broken  it alone fails
    """

    def __init__(self, how: str, at: int) -> None:
        self.how, self.at = how, at
        self.steps: list[Step] = []
        self.escaped: list[str] = []
        self.count = 0
        self.inside = False
        self.place = str(Path.cwd())

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return real if name not in STEPS else lambda *arguments: self.step(name, real, *arguments)

    def step(self, name: str, real: Any, *arguments: Any) -> Any:
        """Do one step, unless this is the one."""
        reading = name == "open" and not arguments[1] & CHANGING
        if not reading:
            self._meet(name)
        self.inside = True
        try:
            found = real(*arguments)
        finally:
            self.inside = False
        if name == "open":
            self.steps.append(("opened" if reading else "create", absolute(arguments[0]), found))
        elif name == "write":
            self.steps.append(("write", arguments[0], bytes(arguments[1][:found])))
        elif name == "fsync":
            self.steps.append(("fsync", arguments[0]))
        elif found is not False:  # False is an exchange that this system cannot do
            paths = [absolute(each) for each in arguments if isinstance(each, str | Path)]
            self.steps.append(("rename" if name == "replace" else name, *paths))
        return found

    def _meet(self, name: str) -> None:
        self.count += 1
        if self.how == "kill" and self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "full" and self.count >= self.at and name in SPACE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.how == "broken" and self.count == self.at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def install(self, *, exchange: bool = True) -> None:
        """Take the place of `os`, and let Python itself tell of whatever is written elsewhere."""
        import sys

        real = files._exchange if exchange else lambda *_: False
        files.os = self  # type: ignore[assignment]
        files._exchange = lambda *paths: self.step("exchange", real, *paths)
        sys.addaudithook(self._watch)

    def _watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.inside or (event not in WATCHED and event != "open"):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & CHANGING):
            return
        path = arguments[0]
        if isinstance(path, str | bytes | Path):
            path = absolute(os.fsdecode(path))
            if path.startswith(self.place):  # libraries write elsewhere as they like
                self.escaped.append(f"{event} {path}")

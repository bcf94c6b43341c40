"""Standard output and error that never stop the work: who reads them may have left (`| head`), or the disk be full."""

import os
import signal
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Patient(FileIO):
    """A stream that takes everything. When it cannot be written any more, what follows is dropped."""

    failure: OSError | None = None

    def write(self, data: "Buffer", /) -> int:
        """Write, or drop what cannot be written; all of it counts as written."""
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


def make_patient() -> None:
    """Let work go on when nobody reads what is printed, and let what cannot be shown be a question mark."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # Closed from the start (`>&-`): or else the next file that is opened would be taken for it.
            os.open(os.devnull, os.O_RDWR)
        stream = getattr(sys, name)
        if descriptor and (stream is None or _is_of_the_process(stream, descriptor)):
            setattr(sys, name, _patient(stream, descriptor))
        elif isinstance(stream, TextIOWrapper) and descriptor:
            stream.reconfigure(errors="replace")


def _is_of_the_process(stream: object, descriptor: int) -> bool:
    raw = _raw(stream)
    return isinstance(stream, TextIOWrapper) and isinstance(raw, FileIO) and raw.fileno() == descriptor


def _raw(stream: object) -> object:
    buffer = getattr(stream, "buffer", None)
    return getattr(buffer, "raw", buffer)  # itself, where PYTHONUNBUFFERED is set


def _patient(stream: TextIOWrapper | None, descriptor: int) -> TextIOWrapper:
    if stream is not None:
        stream.flush()
    raw = Patient(descriptor, "w", closefd=False)
    encoding = "utf-8" if stream is None else stream.encoding
    at_once = descriptor == 2 or raw.isatty() or (stream is not None and stream.write_through)
    return TextIOWrapper(BufferedWriter(raw), encoding, "replace", line_buffering=at_once)


def failure() -> OSError | None:
    """Why what was printed has not arrived, unless its reader has left, who has seen enough."""
    stream = sys.stdout
    stream.flush()
    raw = _raw(stream)
    found = raw.failure if isinstance(raw, Patient) else None
    return None if isinstance(found, BrokenPipeError) else found


def leave_on_signals() -> None:
    """Let SIGTERM and SIGHUP end the process as Ctrl-C does: what is half done is cleared away."""

    def leave(number: int, frame: object) -> None:
        sys.exit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, leave)

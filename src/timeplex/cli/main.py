"""`timeplex`: the command line. Exit codes: 0 fine, 2 something the user can mend, 3 unreadable dates, 1 ours."""

import errno
import os
import signal
import sys
import threading
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING

import typer

from timeplex.cli import answers, evaluate, kb, serve, train
from timeplex.cli.show import visible
from timeplex.errors import TimeplexError

if TYPE_CHECKING:
    from typing_extensions import Buffer

LONGEST = 2000
"""Longer sentences are cut in the middle."""

app = typer.Typer(
    name="timeplex",
    help="Temporal knowledge bases: facts with time spans, what is missing in them and what is wrong.",
    epilog="Example: timeplex stats sample",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from timeplex import __version__

        typer.echo(f"timeplex {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    """Temporal knowledge bases: facts with time spans, what is missing in them and what is wrong."""


for verb in (
    *(kb.datasets, kb.stats, kb.import_, kb.problems, kb.audit, kb.apply, kb.split),
    *(train.models, train.check_model, train.train, train.tune),
    *(answers.rank, answers.when, answers.explain, answers.fill, answers.discover),
    *(evaluate.evaluate, evaluate.compare, evaluate.diagnose, evaluate.reproduce),
    serve.serve,
):
    app.command(verb.__name__.rstrip("_").replace("_", "-"))(verb)


def run() -> None:
    """Run the command line; every expected failure is one sentence and exit code 2."""
    # Threads that wait by spinning take the time of those that work: on a busy machine with two cores a small training
    # took twelve times as long. It is read when torch is loaded, which is later.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    make_patient()
    leave_on_signals()
    try:
        app()
    except SystemExit as leaving:  # Typer turns an interrupt into 130 by itself
        lost = failure()
        if lost is not None and not leaving.code:
            _complain(f"Standard output cannot be written: {lost.strerror}. All else is done.")
            sys.exit(2)
        raise
    except KeyboardInterrupt:
        sys.exit(130)
    except TimeplexError as error:
        _complain(error.for_command_line())
        sys.exit(error.exit_code)
    except BaseException as error:  # not only Exception: a panic inside polars is none
        if os.environ.get("TIMEPLEX_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            _complain("A file name is longer than this system allows. Give a shorter one.")
            sys.exit(2)
        _complain(
            f"timeplex failed unexpectedly ({type(error).__name__}: {error}). "
            "This is a fault of ours: please report it with what TIMEPLEX_DEBUG=1 prints."
        )
        sys.exit(1)


def _complain(sentence: str) -> None:
    """One line on standard error, whatever the sentence quotes."""
    if len(sentence) > LONGEST:  # somebody gave a name of a million letters
        sentence = f"{sentence[: LONGEST // 2]} … {sentence[-LONGEST // 2 :]}"
    typer.echo(f"error: {visible(sentence)}", err=True)


# Standard output and error never stop the work: who reads them may have left (`| head`), or the disk be full. -------


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
    """Let SIGTERM and SIGHUP end the process as Ctrl-C does: what is half done is cleared away.

    A signal may come where no exception can leave, inside a library or as an object is deleted: it comes again then.
    """
    others = sys.unraisablehook

    def leave(number: int, frame: object) -> None:
        sys.exit(128 + number)

    def leave_later(lost: "sys.UnraisableHookArgs") -> None:
        if isinstance(lost.exc_value, SystemExit | KeyboardInterrupt):
            code = getattr(lost.exc_value, "code", None)
            number = code - 128 if isinstance(code, int) and code > 128 else signal.SIGINT
            again = threading.Timer(0.01, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
        else:
            others(lost)

    sys.unraisablehook = leave_later

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, leave)


if __name__ == "__main__":
    run()

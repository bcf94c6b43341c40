"""`timeplex`: the command line. Exit codes: 0 fine, 2 something the user can mend, 3 unreadable dates, 1 ours."""

import errno
import os
import sys

import typer

from timeplex.cli import (
    audit,
    compare,
    datasets,
    diagnose,
    discover,
    evaluate,
    explain,
    fill,
    import_,
    models,
    problems,
    rank,
    reproduce,
    split,
    stats,
    streams,
    train,
    tune,
    when,
)
from timeplex.cli.show import visible
from timeplex.errors import TimeplexError

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


app.command("datasets")(datasets.datasets)
app.command("stats")(stats.stats)
app.command("import")(import_.import_)
app.command("problems")(problems.problems)
app.command("audit")(audit.audit)
app.command("split")(split.split)
app.command("models")(models.models)
app.command("check-model")(models.check_model)
app.command("train")(train.train)
app.command("tune")(tune.tune)
app.command("rank")(rank.rank)
app.command("when")(when.when)
app.command("explain")(explain.explain)
app.command("fill")(fill.fill)
app.command("discover")(discover.discover)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("diagnose")(diagnose.diagnose)
app.command("reproduce")(reproduce.reproduce)


def run() -> None:
    """Run the command line; every expected failure is one sentence and exit code 2."""
    # Threads that wait by spinning take the time of those that work: on a busy machine with two cores a small training
    # took twelve times as long. It is read when torch is loaded, which is later.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    streams.make_patient()
    streams.leave_on_signals()
    try:
        app()
    except SystemExit as leaving:  # Typer turns an interrupt into 130 by itself
        lost = streams.failure()
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


if __name__ == "__main__":
    run()

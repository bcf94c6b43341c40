"""`timeplex`: the command line. Exit codes: 0 fine, 2 something the user can mend, 1 a fault of ours."""

import os
import sys

import typer

from timeplex.cli import datasets, import_, problems, split, stats
from timeplex.errors import TimeplexError

app = typer.Typer(
    name="timeplex",
    help="Temporal knowledge bases: facts with time spans, what is missing in them and what is wrong.",
    no_args_is_help=True,
    add_completion=False,
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
app.command("split")(split.split)


def run() -> None:
    """Run the command line; every expected failure is one sentence and exit code 2."""
    try:
        app()
    except TimeplexError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output (`| head`) has left: say nothing, and let the interpreter not try either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        sys.exit(130)
    except Exception as error:
        if os.environ.get("TIMEPLEX_DEBUG"):
            raise
        typer.echo(f"error: timeplex failed unexpectedly ({type(error).__name__}: {error}).", err=True)
        typer.echo("This is a fault of ours: please report it with what TIMEPLEX_DEBUG=1 prints.", err=True)
        sys.exit(1)


if __name__ == "__main__":
    run()

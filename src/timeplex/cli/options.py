"""Arguments and options that several verbs have, and opening what they name."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from timeplex.cli.show import progress, visible
from timeplex.errors import InputError
from timeplex.text import counted

if TYPE_CHECKING:
    from timeplex.answers.learned import Learned
    from timeplex.answers.trained import Trained
    from timeplex.kb.facts import TemporalKB

KB = typer.Argument(
    ..., metavar="KB", help="A benchmark's name, `sample`, a KB folder, a folder with train/valid/test, or a file."
)
RUN = typer.Argument(..., metavar="RUN", help="A run folder, made by: timeplex train KB -o RUN")
RUN_OR_KB = typer.Argument(..., metavar="RUN|KB", help="A run folder, or a KB as it is: it needs no training.")

JSON = typer.Option(False, "--json", help="Print one JSON object instead of tables.")
DATA_DIR = typer.Option(None, "--data-dir", help="Where the benchmarks lie (else $TIMEPLEX_DATA, the cache).")
DEVICE = typer.Option("auto", help="auto, cpu or cuda.")
FORMULAS = typer.Option(
    False, "--formulas", help="CSV and TSV: leave texts such as =1+1 as they are, without an apostrophe before them."
)
OWN_MODELS = typer.Option(
    [], "--model", metavar="FILE.py:NAME", help="The file of your own model, for a run that was trained with it."
)
PROTOCOL = typer.Option("paper", "--protocol", help="How ranks are made: paper or published-code.")
SPLIT = typer.Option("test", "--split", help="Which facts are asked for: train, valid or test.")

LEARNED_MODEL = typer.Option(None, "--model", help="A model (see: timeplex models), or path/to/file.py:name.")
SETTINGS = typer.Option([], "--set", metavar="KEY=VALUE", help="Change a setting of the recipe.")

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
"""What problems and findings can be written as; each also with .gz. The facts of a KB can be written in more ways."""

LONG = 2.0
"""Seconds after which one is told what takes so long."""

MUCH_WORK = 3_000_000
"""So many scores are asked for in about two seconds."""


def check_table(path: Path | None) -> None:
    """Refuse a file, if one is given, that no problems or findings can be written to."""
    from timeplex.files import check_writable

    if path is None:
        return
    if not path.name.lower().removesuffix(".gz").endswith(TABLES):
        raise InputError(f"{path} has no suffix that says how to write it.", f"Use {', '.join(TABLES)}.")
    check_writable(path)


def opened(run: Path, device: str, models: Iterable[str]) -> "Trained":
    """The run, ready to be asked, once the caller's own models are known."""
    with progress(f"loading {run}"):  # the first import of torch takes seconds, too
        from timeplex.answers.trained import load
        from timeplex.models.loading import own_models

        own_models(models)
        return load(run, device)


def to_ask(source: str, data_dir: Path | None, device: str, models: Iterable[str]) -> "Learned":
    """A run, or a KB as it is, ready to be asked."""
    from timeplex.sources import is_kb

    if not is_kb(source):
        return opened(Path(source), device, models)
    from timeplex.api import learn
    from timeplex.kb.store import is_kb_folder
    from timeplex.sources import read

    with progress(f"reading {source}") as report:
        kb = read(source, data_dir=data_dir, on_progress=report)
    return learn(kb, folder=source if is_kb_folder(Path(source)) else None)


@contextmanager
def learning(asked: "Learned") -> Iterator[None]:
    """While a question is answered: the first one takes longer, because patterns are learned.

    Who does not look at a terminal is told in a line, if it takes long.
    """
    doing, start = f"learning the patterns of {asked.kb.name}", time.monotonic()
    with progress(doing, "steps") as report:
        told = False

        def tell(done: int, total: int | None) -> None:
            nonlocal told
            if not told and not sys.stderr.isatty() and time.monotonic() - start > LONG:
                typer.echo(f"{visible(doing)}, the first time only …", err=True)
                told = True
            report(done, total)

        asked.on_progress = tell
        yield


@contextmanager
def calibrating(trained: "Trained") -> Iterator[None]:
    """While a question is answered: the first one takes longer, because the calibration is fitted.

    Who does not look at a terminal is told in a line, if it is much work.
    """
    from timeplex.answers.calibration import work

    asking = f"asking {trained.run.path.name}"
    with progress(asking, "steps of calibration, the first time only") as report:
        told = False

        def tell(done: int, total: int | None) -> None:
            nonlocal told
            if not told and not sys.stderr.isatty() and work(trained.run) > MUCH_WORK:
                facts = counted(len(trained.kb.valid), "dev fact")
                typer.echo(f"{visible(asking)}: calibrating on {facts}, the first time only …", err=True)
            told = True
            report(done, total)

        trained.calibrated(tell)
        yield


def to_learn_from(kb: str, data_dir: Path | None) -> "TemporalKB":
    """The KB with dev facts; it is said if it had none."""
    from timeplex.sources import read
    from timeplex.training.recipe import with_dev

    with progress(f"reading {kb}") as report:
        found = read(kb, data_dir=data_dir, on_progress=report)
    data = with_dev(found)
    if data is not found:
        typer.echo("The KB has no dev facts: it was split at random, 8 : 1 : 1 (see: timeplex split).", err=True)
    return data

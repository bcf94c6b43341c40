"""`timeplex fill RUN FILE -o OUT`: the table of a file with its holes filled."""

from pathlib import Path

import typer

from timeplex.cli.options import (
    DEVICE_OPTION,
    FORMULAS_OPTION,
    JSON_OPTION,
    OWN_MODELS_OPTION,
    RUN_ARGUMENT,
    calibrating,
    opened,
)
from timeplex.cli.show import print_json, say
from timeplex.errors import InputError
from timeplex.text import counted

REASONS = 5
"""So many reasons why rows stay as they are get printed."""


def fill(
    run: Path = RUN_ARGUMENT,
    file: Path = typer.Argument(..., metavar="FILE", help="A .csv, .tsv, .jsonl, .json, .parquet, .xlsx or .ods file."),
    output: Path = typer.Option(
        ..., "-o", "--output", metavar="OUT", help="The file to write: .csv, .tsv, .jsonl, .json or .parquet."
    ),
    subject: str | None = typer.Option(None, help="The column of the subject."),
    relation: str | None = typer.Option(None, help="The column of the relation, or =NAME for one relation."),
    object_: str | None = typer.Option(None, "--object", help="The column of the object."),
    begin: str | None = typer.Option(None, help="The column of the begin (alone: each row is an event)."),
    end: str | None = typer.Option(None, help="The column of the end."),
    min_probability: float = typer.Option(
        0.0, "--min-probability", "--min-prob", help="Leave what is less probable empty."
    ),
    encoding: str | None = typer.Option(None, help="The encoding of text that is not UTF-8, such as cp1252."),
    models: list[str] = OWN_MODELS_OPTION,
    formulas: bool = FORMULAS_OPTION,
    device: str = DEVICE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Fill missing objects, begins and ends of a table, each with a probability and a reason.

    All columns and rows come back in their order, with these added: …_predicted, probability, still_going_on (how
    likely a missing end is open) and reason, which also says why a row stays empty.

    Example: timeplex fill runs/careers careers.csv -o filled.csv --object organisation
    """
    from timeplex.files import check_writable
    from timeplex.kb.readers import WRITTEN, check_format, read_source_table
    from timeplex.kb.readers.table import Columns

    check_format(output, WRITTEN)
    check_writable(output)
    if output.exists() and file.exists() and output.samefile(file):
        raise InputError(f"{output} is the table itself.", "Give another file with -o.")
    table = read_source_table(file, columns=Columns(subject, relation, object_, begin, end), encoding=encoding)
    trained = opened(run, device, models)
    from timeplex.answers.fill import fill_file

    with calibrating(trained):
        found = fill_file(trained, table, output, min_probability, source=str(file), formulas=formulas)
    if as_json:
        counts = {"rows": found.rows, "filled": found.filled, "columns": found.columns}
        print_json({"run": str(run), **counts, "file": str(output)})
        return
    say(f"{counted(found.rows, 'row')}, {found.filled:,} filled")
    for reason, count in found.left[:REASONS]:
        say(f"  {counted(count, 'row')} left: {reason}")
    if len(found.left) > REASONS:
        others = sum(count for _, count in found.left[REASONS:])
        say(f"  {counted(others, 'row')} left for other reasons")
    say(f"Saved in {output}.")

"""`timeplex fill RUN FILE -o OUT`: the table of a file with its holes filled."""

from pathlib import Path

import typer

from timeplex.cli.evaluate import DEVICE_OPTION
from timeplex.cli.rank import RUN_ARGUMENT, calibrating, opened
from timeplex.cli.show import FORMULAS_OPTION, JSON_OPTION, MODEL_OPTION, print_json, say
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
    least: float = typer.Option(0.0, "--min-prob", help="Leave what is less probable empty."),
    encoding: str | None = typer.Option(None, help="The encoding of text that is not UTF-8, such as cp1252."),
    models: list[str] = MODEL_OPTION,
    formulas: bool = FORMULAS_OPTION,
    device: str = DEVICE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Fill missing objects, begins and ends of a table, each with a probability and a reason.

    All columns and rows come back in their order, with these added: …_predicted, probability, still_going_on (how
    likely a missing end is open) and reason, which also says why a row stays empty.

    Example: timeplex fill runs/careers careers.csv -o filled.csv --object organisation
    """
    import narwhals as nw
    import polars as pl

    from timeplex.answers.fill import fill_frame
    from timeplex.files import check_writable
    from timeplex.kb.readers.source_table import WRITTEN, check_format, read_source_table
    from timeplex.kb.readers.table import Columns
    from timeplex.kb.write import write_frame

    check_format(output, WRITTEN)
    check_writable(output)
    if output.exists() and file.exists() and output.samefile(file):
        raise InputError(f"{output} is the table itself.", "Give another file with -o.")
    table = read_source_table(file, columns=Columns(subject, relation, object_, begin, end), encoding=encoding)
    trained = opened(run, device, models)
    with calibrating(trained):
        added = fill_frame(trained, nw.from_native(table.frame, eager_only=True), table.layout, least, str(file))
    write_frame(pl.concat([table.frame, added], how="horizontal"), output, table.separator, formulas=formulas)
    is_filled = added.select(pl.any_horizontal(pl.col("^.*_predicted$").is_not_null()))[:, 0]
    filled = int(is_filled.sum())
    if as_json:
        counts = {name: int(added[name].count()) for name in added.columns if name.endswith("_predicted")}
        print_json({"run": str(run), "rows": len(added), "filled": filled, "columns": counts, "file": str(output)})
        return
    say(f"{counted(len(added), 'row')}, {filled:,} filled")
    left = added.filter(~is_filled)["reason"].value_counts().sort("count", "reason", descending=[True, False])
    for reason, count in left.head(REASONS).rows():
        say(f"  {counted(count, 'row')} left: {reason}")
    if len(left) > REASONS:
        say(f"  {counted(int(left['count'][REASONS:].sum()), 'row')} left for other reasons")
    say(f"Saved in {output}.")

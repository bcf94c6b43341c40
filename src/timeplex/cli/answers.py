"""The verbs that ask a trained run, `rank` and `when` also a plain KB; `explain`, `fill`, `discover`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli import options
from timeplex.cli.show import percent, print_json, print_table, progress, say, sparkline
from timeplex.errors import InputError
from timeplex.text import counted, span

if TYPE_CHECKING:
    from timeplex.answers.dates import Dates
    from timeplex.answers.learned import Learned
    from timeplex.answers.links import Links
    from timeplex.answers.single import RankAnswer, WhenAnswer

COLUMNS = 60
"""The most bars that a curve has in the terminal."""

REASONS = 5
"""So many reasons why rows stay as they are get printed."""


def rank(
    source: str = options.RUN_OR_KB,
    subject: str | None = typer.Option(None, help="The subject; its objects are asked for."),
    relation: str = typer.Option(..., help="The relation."),
    object_: str | None = typer.Option(None, "--object", help="The object; its subjects are asked for."),
    at: str = typer.Option(
        "..", metavar="DATE|FROM..TO", help="The time, such as 2000, 2000-05, 2000..2003, 2000..; else any time."
    ),
    k: int = typer.Option(10, "-k", help="How many answers."),
    hide_known: bool = typer.Option(False, "--hide-known", help="Leave out what the KB knows to hold at the time."),
    explain: bool = typer.Option(False, "--explain", help="Say which facts speak for each answer."),
    models: list[str] = options.OWN_MODELS,
    device: str = options.DEVICE,
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """Rank the likeliest answers to (subject, relation, ?) or (?, relation, object) at a time.

    Names are ids or labels; case and underscores do not matter. A probability says how often such an answer is right.
    A KB needs no training: its patterns are learned first. What it states comes first, without a probability.

    Example: timeplex rank runs/sample --subject "Angela Merkel" --relation headOfGovernment --at 2005..2021
    """
    from timeplex.answers.single import RankAnswer

    asked = options.to_ask(source, data_dir, device, models)
    question = asked.asking.questions(relation=relation, at=at, subject=subject, object=object_)
    with options.learning(asked):
        found = RankAnswer.of(asked, question, k, hide_known=hide_known, explain=explain)
    if as_json:
        about = {**asked.about, **_calibration(asked.links)}
        print_json({**about, "question": found.question, "likely": found.likely, "answers": found.rows})
    else:
        _show_ranked(found, asked)


def _calibration(of: "Dates | Links") -> dict[str, Any]:
    """How far an answer can be believed, for JSON."""
    return {"calibration": {"dev_facts": of.cases, "measured": of.measured}}


def _show_ranked(found: "RankAnswer", asked: "Learned") -> None:
    s, r, o = (found.question[name] or "?" for name in ("subject", "relation", "object"))
    say(f"({s}, {r}, {o}) at {found.at}, asked of {asked.name}")
    headers = ["rank", found.direction, *(["id"] if asked.kb.entities.labels else []), "probability", "known"]
    cells = [[row["entity" if name == found.direction else name] for name in headers] for row in found.rows]
    print_table("", headers, cells, decimals=3)
    for row in found.rows:
        for number, reason in enumerate(row.get("why", ())):
            say(f"{'' if number else row['rank']:>4}   {reason}")
    if found.likely is not None:
        say(f"What held then most likely held {found.likely}.")
    if found.company is not None:
        say(
            f"The KB states an answer for that time already. {percent(found.company)} of such facts have company: "
            "new answers are that much less likely."
        )
    say(asked.note("rank"))


def when(
    source: str = options.RUN_OR_KB,
    subject: str = typer.Argument(..., metavar="S", help="The subject."),
    relation: str = typer.Argument(..., metavar="R", help="The relation."),
    object_: str = typer.Argument(..., metavar="O", help="The object."),
    explain: bool = typer.Option(False, "--explain", help="Say which facts speak for that time."),
    plot: Path | None = typer.Option(None, metavar="FILE", help="Draw the curve over time (.png, .svg)."),
    models: list[str] = options.OWN_MODELS,
    device: str = options.DEVICE,
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """Say when a fact held, if it did: the most likely span, how sure that is, and the curve over time.

    The probability is that of the span to overlap the true one; the begin lies in the interval in 80 % of all cases.
    A KB needs no training: its patterns are learned in seconds.

    Example: timeplex when sample "Angela Merkel" headOfGovernment Germany --explain
    """
    from timeplex.evaluation.plots import check_picture

    if plot is not None:
        check_picture(plot)
    from timeplex.answers.single import WhenAnswer

    asked = options.to_ask(source, data_dir, device, models)
    asked.asking.triples(subject, relation, object_)  # an unknown name is told before anything is learned
    with options.learning(asked):
        found = WhenAnswer(asked, subject, relation, object_)
    why = found.reasons() if explain else []
    if plot is not None:
        found.draw(plot)
    if as_json:
        about = {**asked.about, **_calibration(asked.dates)}
        print_json({**about, **found.row, **({"why": why} if explain else {}), "curve": found.points()})
    else:
        _show_dated(found, why)
        if plot is not None:
            say(f"The curve is drawn in {plot}.")


def _show_dated(found: "WhenAnswer", why: list[str]) -> None:
    row = found.row
    say(f"({row['subject']}, {row['relation']}, {row['object']}) asked of {found.asked_of.name}")
    say()
    if found.further:
        say(f"stated         {row['known']}")
    likely = "a further time" if found.further else "most likely   "
    say(f"{likely} {span(row['begin'], row['end'])}   probability {row['probability']:.2f}")
    say(f"80 % interval  {span(row['low'], row['high'])}   for the begin")
    if not found.further:
        say(f"known          {row['known'] or 'nothing'}")
    say()
    bars, width = found.bars(COLUMNS)
    first, last = found.edges
    unit = found.curve.granularity
    say(f"  {sparkline(bars)}   a bar is {f'a {unit}' if width == 1 else f'{width:,} {unit}s'}")
    say(f"  {first}{last:>{max(len(bars) - len(first), len(last) + 1)}}   {max(0.0, 1 - sum(bars)):.0%} lies outside")
    say()
    for number, reason in enumerate(why):
        say(f"{'        ' if number else 'because '}{reason}")
    say(found.asked_of.note("when"))


def explain(
    source: str = options.RUN_OR_KB,
    subject: str = typer.Argument(..., metavar="S", help="The subject: an id or a label."),
    relation: str = typer.Argument(..., metavar="R", help="The relation."),
    object_: str = typer.Argument(..., metavar="O", help="The object."),
    at: str = typer.Option("..", metavar="DATE|FROM..TO", help="The time; else any time."),
    of: str = typer.Option("object", help="Which of the two is explained as an answer: object or subject."),
    limit: int = typer.Option(5, "--limit", "--most", min=0, help="How many reasons to show."),
    models: list[str] = options.OWN_MODELS,
    device: str = options.DEVICE,
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """Explain why an answer is likely: what each pattern adds to its score, and the facts behind it.

    The parts sum to the score; the average entity has 0. Only scores of one question can be compared.

    Example: timeplex explain sample "Angela Merkel" headOfGovernment Germany --at 2005
    """
    if of not in ("object", "subject"):
        raise InputError(f"{of!r} is neither object nor subject.", "Use --of object or --of subject.")
    asked = options.to_ask(source, data_dir, device, models)
    asked.asking.triples(subject, relation, object_)  # an unknown name is told before anything is learned
    asked.asking.span(at)
    with options.learning(asked):
        found = asked.explain(subject, relation, object_, at=at, direction="object" if of == "object" else "subject")
    if as_json:
        print_json({**asked.about, **found.as_dict(), "reasons": found.as_dict()["reasons"][:limit]})
        return
    likely = "" if found.probability is None else f", probability {found.probability:.2f}"
    say(f"{found.question}, at {found.at}: score {found.score:.2f}{likely}, by {asked.name}")
    if found.note:
        say(found.note)
    print_table("", ["part", "value"], [[part.name, part.value] for part in found.parts], decimals=2)
    for reason in found.reasons[:limit]:
        say(f"{reason.part}: {reason.sentence}")
    if len(found.reasons) > limit:
        say(f"{counted(len(found.reasons) - limit, 'reason')} more: see them with --limit or --json")


def fill(
    source: str = options.RUN_OR_KB,
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
    models: list[str] = options.OWN_MODELS,
    formulas: bool = options.FORMULAS,
    device: str = options.DEVICE,
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """Fill missing objects, begins and ends of a table, each with a probability and a reason.

    All columns and rows come back in their order, with these added: …_predicted, probability, still_going_on (how
    likely a missing end is open) and reason, which also says why a row stays empty. A KB needs no training.

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
    from timeplex.answers.fill import fill_file

    asked = options.to_ask(source, data_dir, device, models)
    with options.learning(asked):
        found = fill_file(asked, table, output, min_probability, source=str(file), formulas=formulas)
    if as_json:
        counts = {"rows": found.rows, "filled": found.filled, "columns": found.columns}
        print_json({**asked.about, **counts, "file": str(output)})
        return
    say(f"{counted(found.rows, 'row')}, {found.filled:,} filled")
    for reason, count in found.left[:REASONS]:
        say(f"  {counted(count, 'row')} left: {reason}")
    if len(found.left) > REASONS:
        others = sum(count for _, count in found.left[REASONS:])
        say(f"  {counted(others, 'row')} left for other reasons")
    say(f"Saved in {output}.")


def discover(
    source: str = options.RUN_OR_KB,
    output: Path = typer.Option(..., "-o", "--output", metavar="OUT", help="A .csv, .tsv, .jsonl or .parquet file."),
    relation: list[str] = typer.Option([], "--relation", help="Only this relation; may be given several times."),
    min_probability: float = typer.Option(0.1, "--min-probability", "--min-prob", help="The least probability."),
    limit: int = typer.Option(1000, "--limit", "--most", help="How many facts to keep, the best ones."),
    show: int = typer.Option(5, "--show", min=0, help="How many to print."),
    models: list[str] = options.OWN_MODELS,
    formulas: bool = options.FORMULAS,
    device: str = options.DEVICE,
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """Find facts that are likely true and that the KB does not state, best first, each with dates and a reason.

    A KB needs no training. The probability is learned from dev facts, taken out for it: the share of such proposals
    that were among them. Facts that are true but stated nowhere counted as wrong: it is rather too low than too high.

    Example: timeplex discover runs/sample -o found.csv --relation headOfGovernment
    """
    from timeplex.files import check_writable
    from timeplex.kb.readers import check_format
    from timeplex.kb.store import write_frame
    from timeplex.sources import is_kb

    check_format(output)
    check_writable(output)
    asked = options.to_ask(source, data_dir, device, models)
    if Path(source).is_dir() and output.resolve().is_relative_to(Path(source).resolve()):
        kind = "KB" if is_kb(source) else "run"
        raise InputError(f"{output} lies in the {kind} folder.", "Choose another place with -o.")
    with options.learning(asked):
        proposals = asked.proposals  # so that it is not fitted under the next bar
    with progress(f"searching {asked.kb.name}", "entities") as report:
        found = asked.discover(relation=relation, min_probability=min_probability, limit=limit, on_progress=report)
    write_frame(found, output, formulas=formulas)
    if as_json:
        facts = {"found": len(found), "file": str(output), "facts": found[: min(show, len(found))].to_dicts()}
        judged = {"facts": proposals.facts, "measured": proposals.measured}
        print_json({**asked.about, "calibration": judged, **facts})
        return
    if show and len(found):
        shown = found.drop("reason").head(min(show, len(found)))
        print_table("", shown.columns, shown.rows(), decimals=3)
    say(proposals.note(len(asked.kb.facts)))
    say(f"{counted(len(found), 'fact')} with a probability of at least {min_probability:g}, saved in {output}.")

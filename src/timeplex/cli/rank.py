"""`timeplex rank RUN`: who or what stands in a relation at a time."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli.evaluate import DEVICE_OPTION
from timeplex.cli.show import JSON_OPTION, MODEL_OPTION, percent, print_json, print_table, progress, say, visible
from timeplex.text import counted

if TYPE_CHECKING:
    from timeplex.answers.rank import EntityQueries
    from timeplex.answers.trained import Trained

MUCH_WORK = 3_000_000
"""So many scores are asked for in about two seconds."""

RUN_ARGUMENT = typer.Argument(..., metavar="RUN", help="A run folder, made by: timeplex train KB -o RUN")


def rank(
    run: Path = RUN_ARGUMENT,
    subject: str | None = typer.Option(None, help="The subject; its objects are asked for."),
    relation: str = typer.Option(..., help="The relation."),
    object_: str | None = typer.Option(None, "--object", help="The object; its subjects are asked for."),
    at: str = typer.Option(..., metavar="DATE|FROM..TO", help="The time, such as 2000, 2000-05, 2000..2003, 2000.."),
    k: int = typer.Option(10, "-k", help="How many answers."),
    hide_known: bool = typer.Option(False, "--hide-known", help="Leave out what the KB knows to hold at the time."),
    explain: bool = typer.Option(False, "--explain", help="Say which facts speak for each answer."),
    models: list[str] = MODEL_OPTION,
    device: str = DEVICE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Rank the likeliest answers to (subject, relation, ?) or (?, relation, object) at a time.

    Names are ids or labels; case and underscores do not matter. A probability says how often such an answer is right.

    Example: timeplex rank runs/sample --subject "Angela Merkel" --relation headOfGovernment --at 2005..2021
    """
    trained = opened(run, device, models)
    questions = trained.questions(relation=relation, at=at, subject=subject, object=object_)
    with calibrating(trained):
        table = trained.rank(relation=relation, at=at, subject=subject, object=object_, k=k, hide_known=hide_known)
    rows = table.drop("query").to_dicts()
    given: list[str] = []
    if explain and rows:
        given = _why(trained, questions, rows[0]["id"], of_answer=False)
        for row in rows:
            row["why"] = _why(trained, questions, row["id"], of_answer=True)
    if as_json:
        question = _question(trained, questions)
        print_json({**about(trained, "rank"), "question": question, "why": given, "answers": rows})
        return
    _show(trained, questions, rows, given)


def _show(trained: "Trained", questions: "EntityQueries", rows: list[dict[str, Any]], given: list[str]) -> None:
    from timeplex.answers.resolve import ELSEWHEN

    asked = _question(trained, questions)
    s, r, o = (asked[name] or "?" for name in ("subject", "relation", "object"))
    at = trained.asking.span_text(int(questions.begin[0]), int(questions.end[0]))
    say(f"({s}, {r}, {o}) at {at}, asked of {named(trained)}")
    headers = ["rank", questions.direction, *(["id"] if trained.kb.entities.labels else []), "probability", "known"]
    cells = [[row["entity" if name == questions.direction else name] for name in headers] for row in rows]
    print_table("", headers, cells, decimals=3)
    for number, reason in enumerate(given):
        say(f"{'' if number else 'all':>4}   {reason}")
    for row in rows:
        for number, reason in enumerate(row.get("why", ())):
            say(f"{'' if number else row['rank']:>4}   {reason}")
    if any(row["known"] and not row["known"].endswith(ELSEWHEN) for row in rows):
        share = percent(float(trained.company.share[questions.direction][questions.r[0]]))
        say(
            f"The KB states an answer for that time already. {share} of such facts have company: "
            "new answers are that much less likely."
        )
    say(trained.calibration.note("rank"))


def opened(run: Path, device: str, models: Iterable[str]) -> "Trained":
    """The run, ready to be asked, once the caller's own models are known."""
    with progress(f"loading {run}"):  # the first import of torch takes seconds, too
        from timeplex.answers.trained import load
        from timeplex.models.loading import own_models

        own_models(models)
        return load(run, device)


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


def named(trained: "Trained") -> str:
    """`timeplex-base on yago11k (runs/yago11k)`."""
    return f"{trained.run.recipe.title} on {trained.kb.name} ({trained.run.path})"


def about(trained: "Trained", question: str) -> dict[str, Any]:
    """Whom the answer is from and how far it can be believed, for JSON."""
    fitted = trained.calibration
    return {
        "run": str(trained.run.path),
        "model": trained.run.recipe.title,
        "kb": trained.kb.name,
        "calibration": {
            "dev_facts": fitted.who_facts if question == "rank" else fitted.when_facts,
            "measured": fitted.measured,
        },
    }


def _question(trained: "Trained", questions: "EntityQueries") -> dict[str, Any]:
    """The names as the KB has them, None for what is asked for, and the time."""
    from timeplex.kb import dates

    kb = trained.kb
    given = kb.entities.label(int(questions.given[0]))
    return {
        "subject": given if questions.direction == "object" else None,
        "relation": kb.relations.label(int(questions.r[0])),
        "object": given if questions.direction == "subject" else None,
        "at": dates.write([questions.begin[0], questions.end[0]], kb.granularity),
    }


def _why(trained: "Trained", questions: "EntityQueries", answer: str, *, of_answer: bool) -> list[str]:
    """The facts, at the begin of the time, about the answer alone or about what is given, which all answers share."""
    from timeplex.answers.explain import reasons_text
    from timeplex.models.scorer import DIRECTIONS

    given, r, entity = int(questions.given[0]), int(questions.r[0]), trained.kb.entities.id(answer)
    s, o = (given, entity) if questions.direction == "object" else (entity, given)
    other = next(side for side in DIRECTIONS if side != questions.direction)
    t = int(trained.who.positions(questions)[0][0])
    return reasons_text(trained, s, r, o, t, about=(questions.direction, "both") if of_answer else (other,))

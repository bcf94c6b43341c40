"""`timeplex rank RUN`: who or what stands in a relation at a time."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from timeplex.cli.options import DEVICE_OPTION, JSON_OPTION, OWN_MODELS_OPTION, RUN_ARGUMENT, calibrating, opened
from timeplex.cli.show import about, named, percent, print_json, print_table, say

if TYPE_CHECKING:
    from timeplex.answers.single import RankAnswer
    from timeplex.answers.trained import Trained


def rank(
    run: Path = RUN_ARGUMENT,
    subject: str | None = typer.Option(None, help="The subject; its objects are asked for."),
    relation: str = typer.Option(..., help="The relation."),
    object_: str | None = typer.Option(None, "--object", help="The object; its subjects are asked for."),
    at: str = typer.Option(..., metavar="DATE|FROM..TO", help="The time, such as 2000, 2000-05, 2000..2003, 2000.."),
    k: int = typer.Option(10, "-k", help="How many answers."),
    hide_known: bool = typer.Option(False, "--hide-known", help="Leave out what the KB knows to hold at the time."),
    explain: bool = typer.Option(False, "--explain", help="Say which facts speak for each answer."),
    models: list[str] = OWN_MODELS_OPTION,
    device: str = DEVICE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Rank the likeliest answers to (subject, relation, ?) or (?, relation, object) at a time.

    Names are ids or labels; case and underscores do not matter. A probability says how often such an answer is right.

    Example: timeplex rank runs/sample --subject "Angela Merkel" --relation headOfGovernment --at 2005..2021
    """
    trained = opened(run, device, models)
    from timeplex.answers.single import RankAnswer

    asked = trained.questions(relation=relation, at=at, subject=subject, object=object_)
    with calibrating(trained):
        found = RankAnswer.of(trained, asked, k, hide_known=hide_known, explain=explain)
    if as_json:
        print_json({**about(trained, "rank"), "question": found.question, "why": found.why, "answers": found.rows})
        return
    _show(trained, found)


def _show(trained: "Trained", found: "RankAnswer") -> None:
    s, r, o = (found.question[name] or "?" for name in ("subject", "relation", "object"))
    say(f"({s}, {r}, {o}) at {found.at}, asked of {named(trained)}")
    headers = ["rank", found.direction, *(["id"] if trained.kb.entities.labels else []), "probability", "known"]
    cells = [[row["entity" if name == found.direction else name] for name in headers] for row in found.rows]
    print_table("", headers, cells, decimals=3)
    for number, reason in enumerate(found.why):
        say(f"{'' if number else 'all':>4}   {reason}")
    for row in found.rows:
        for number, reason in enumerate(row.get("why", ())):
            say(f"{'' if number else row['rank']:>4}   {reason}")
    if found.company is not None:
        say(
            f"The KB states an answer for that time already. {percent(found.company)} of such facts have company: "
            "new answers are that much less likely."
        )
    say(trained.calibration.note("rank"))

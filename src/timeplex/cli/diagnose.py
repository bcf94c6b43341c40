"""`timeplex diagnose RUN…`: what models have learned of time, beyond ranks."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli.evaluate import DEVICE_OPTION, SPLIT_OPTION
from timeplex.cli.show import JSON_OPTION, MODEL_OPTION, print_json, print_table, progress, say, visible

if TYPE_CHECKING:
    from timeplex.evaluation.diagnostics import Violations
    from timeplex.evaluation.plots import Years
    from timeplex.kb.facts import TemporalKB
    from timeplex.patterns.orderings import Ordering
    from timeplex.training.run import TrainedRun

EXAMPLES = 5


def diagnose(
    runs: list[Path] = typer.Argument(..., metavar="RUN…", help="Run folders of models trained on one KB."),
    split: str = SPLIT_OPTION,
    distances: Path | None = typer.Option(None, metavar="FILE", help="Draw distances of time embeddings (.png, .svg)."),
    across_time: Path | None = typer.Option(None, metavar="FILE", help="Draw the probability of --fact over time."),
    fact: tuple[str, str, str] | None = typer.Option(None, metavar="S R O", help="Subject, relation and object."),
    years: str | None = typer.Option(None, metavar="FROM..TO", help="The years that pictures show."),
    own: list[str] = MODEL_OPTION,
    device: str = DEVICE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Show orderings of relations, how often top predictions break them, and pictures of time.

    Example: timeplex diagnose runs/yago11k --distances distances.png --years 1958..2017
    """
    from timeplex.errors import InputError
    from timeplex.evaluation.plots import check_picture
    from timeplex.models.loading import own_models
    from timeplex.patterns import orderings

    if (across_time is None) != (fact is None):
        raise InputError("--across-time and --fact belong together.", "Give both, or none.")
    for picture in (distances, across_time):
        if picture is not None:
            check_picture(picture)
    window = _years(years)
    own_models(own)
    with progress("loading"):
        models = [_load(run, device) for run in runs]
    kb = models[0].kb
    if any(other.kb != kb for other in models[1:]):
        raise InputError("The runs were not trained on the same KB.", "Diagnose them one by one.")
    mined = orderings.mine(kb.train)
    with progress("asking for subjects"):
        broken = {model.path.name: _violations(model, split, mined, device) for model in models}
    if as_json:
        print_json(_as_json(kb, split, mined, broken))
    else:
        _show(kb, split, mined, broken)
    if distances is not None:
        _draw_distances(models, distances, window)
        typer.echo(visible(f"Distances of time embeddings are drawn in {distances}."), err=as_json)
    if across_time is not None and fact is not None:
        _draw_across_time(models, fact, across_time, window)
        typer.echo(visible(f"Probabilities over time are drawn in {across_time}."), err=as_json)


def _load(run: Path, device: str) -> "TrainedRun":
    from timeplex.training.loop import choose_device
    from timeplex.training.run import RunFolder

    return RunFolder(run).load(choose_device(device))


def _years(text: str | None) -> "Years | None":
    from timeplex.errors import InputError

    if text is None:
        return None
    first, separator, last = text.partition("..")
    try:
        window = (int(first), int(last))
    except ValueError:
        window = (0, -1)
    if not separator or window[0] > window[1]:
        raise InputError(f"{text!r} are not years.", "Give the first and the last, such as 1958..2017.")
    return window


def _violations(model: "TrainedRun", split: str, mined: "list[Ordering]", device: str) -> "Violations":
    from timeplex.evaluation.diagnostics import top_subjects, violations
    from timeplex.evaluation.queries import PlacedFacts
    from timeplex.training.loop import choose_device

    facts = model.kb.split(split)
    queries = PlacedFacts.of(facts, model.timeline)
    top = top_subjects(model.scorer, queries, entities=len(model.kb.entities), device=choose_device(device))
    return violations(top, facts, model.kb.train, mined)


def _show(kb: "TemporalKB", split: str, mined: "list[Ordering]", broken: "dict[str, Violations]") -> None:
    if not mined:
        say("No relation comes before another regularly enough in train, so that none can be broken.")
        return
    rows = [[each.text(kb.relations), 100 * each.confidence, each.cases, each.entities] for each in mined]
    print_table("Orderings in train", ["ordering", "holds in %", "pairs of facts", "subjects"], rows)
    print_table(
        f"Broken by top subjects on {split}",
        ["model", "% of queries", "queries asked"],
        [[name, 100 * found.share, found.queries] for name, found in broken.items()],
        decimals=2,
    )
    for name, found in broken.items():
        for example in range(min(EXAMPLES, len(found.query))):
            say(f"{name}: {_sentence(kb, split, mined, found, example)}")


def _sentence(kb: "TemporalKB", split: str, mined: "list[Ordering]", found: "Violations", row: int) -> str:
    """Such as: `(?, hasWonPrize, Nobel Prize, 1925): Barack Obama, but wasBornIn Honolulu 1961`."""
    from timeplex.kb import dates

    asked, known = kb.split(split), kb.train
    query, fact = int(found.query[row]), int(found.fact[row])
    when, then = dates.write([asked.begin[query], known.begin[fact]], kb.granularity)
    question = f"(?, {kb.relations.label(int(asked.r[query]))}, {kb.entities.label(int(asked.o[query]))}, {when})"
    evidence = f"{kb.relations.label(int(known.r[fact]))} {kb.entities.label(int(known.o[fact]))} {then}"
    ordering = mined[int(found.ordering[row])].text(kb.relations)
    return f"{question}: {kb.entities.label(int(found.subject[row]))}, but {evidence} ({ordering})"


def _as_json(kb: "TemporalKB", split: str, mined: "list[Ordering]", broken: "dict[str, Violations]") -> dict[str, Any]:
    return {
        "kb": kb.name,
        "split": split,
        "orderings": [
            {
                "first": kb.relations[each.first],
                "second": kb.relations[each.second],
                "holds": each.holds,
                "cases": each.cases,
                "entities": each.entities,
            }
            for each in mined
        ],
        "violations": {name: {"share": found.share, "queries": found.queries} for name, found in broken.items()},
    }


def _draw_distances(models: "list[TrainedRun]", path: Path, years: "Years | None") -> None:
    from timeplex.evaluation.diagnostics import time_distances
    from timeplex.evaluation.plots import distance_picture

    distance_picture({each.path.name: time_distances(each.model, each.timeline, years) for each in models}, path)


def _draw_across_time(
    models: "list[TrainedRun]", fact: tuple[str, str, str], path: Path, years: "Years | None"
) -> None:
    from timeplex.evaluation.diagnostics import across_time
    from timeplex.evaluation.plots import FactAcrossTime, across_time_picture

    kb = models[0].kb
    s, r, o = kb.entities.id(fact[0]), kb.relations.id(fact[1]), kb.entities.id(fact[2])
    window = years or (1850, 2010)
    curves = across_time({each.path.name: (each.scorer, each.timeline) for each in models}, (s, r, o), window)
    known = (kb.facts.s == s) & (kb.facts.r == r) & (kb.facts.o == o)
    gold = next(((begin, end) for *_, begin, end in kb.facts[known]), None)
    across_time_picture([FactAcrossTime(" ".join(fact), gold, curves)], path, window)

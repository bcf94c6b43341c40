"""docs/results.md: tables, in Markdown, from records and the paper's numbers; the page; the figures, as PNG and SVG.

distance      mean distance of time embeddings by the gap between them (figure 2)
across-time   Pr(t | s, r, o) of two births by three models (figure 3 and the plots of appendix J)
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib.resources import files
from itertools import chain, product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from timeplex.datasets.benchmarks import BENCHMARKS
from timeplex.evaluation.plots import Curve, Distances, FactAcrossTime, Years, across_time_picture, distance_picture
from timeplex.files import write_whole
from timeplex.kb.dates import Granularity
from timeplex.reproduce.records import (
    DATASETS,
    FIGURES,
    LATER,
    MODELS,
    PAIRS,
    PATTERN_DATASETS,
    PATTERNS,
    SEEDS,
    TABLES,
    Cell,
    Request,
    Results,
    Values,
    command,
    figure,
    pair_name,
    printed,
    published,
)
from timeplex.text import counted

if TYPE_CHECKING:
    from timeplex.training.run import TrainedRun


NONE = "–"
PRESET = "published-code"
LINK = {"mrr": "MRR", "hits@1": "HITS@1", "hits@10": "HITS@10"}
TIME = {"aeiou@1": "aeIOU@1", "tac@1": "TAC@1", "giou@1": "gIOU@1", "iou@1": "IOU@1"}
DECODERS = {
    "mean-mass": "mean-mass (published code)",
    "grid": "grid (the paper's text)",
    "expected-aeiou": "expected-aeiou (ours)",
}
SCORERS = {"transe": "TransE", "distmult": "DistMult", "complex": "ComplEx"}
GADGETS = {"timeplex": "TimePlex", "-pair": "− Pair", "-rec": "− Rec", "-pair-rec": "− Pair − Rec"}
SIZES = {
    "entities": "entities",
    "relations": "relations",
    "instants": "instants",
    "intervals": "facts that last",
    **{split: split for split in ("train", "valid", "test")},
}

Found = tuple[float, float | None] | None
"""Mean and standard deviation, fractions of 1."""


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column holds names, the others numbers."""
    lines = [headers, ["---", *("---:" for _ in headers[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(found: Found, digits: int = 2) -> str:
    """`23.64`, or `23.64 ± 0.12` over several seeds."""
    if found is None:
        return NONE
    mean, deviation = found
    spread = "" if deviation is None else f" ± {100 * deviation:.{digits}f}"
    return f"{100 * mean:.{digits}f}{spread}"


def number(value: float | None, digits: int = 2) -> str:
    """A number of the paper."""
    return NONE if value is None else f"{value:.{digits}f}"


def beside(found: Found, paper: float | None) -> list[str]:
    """Ours, the paper's, and the difference."""
    apart = NONE if found is None or paper is None else f"{100 * found[0] - paper:+.2f}"
    return [percent(found), number(paper), apart]


def _links(record: Values | None, path: Sequence[str], *paper: str) -> list[str]:
    """The figures of link prediction at a path of a record beside those of a table of the paper."""
    return [cell for metric in LINK for cell in beside(figure(record, *path, metric), printed(*paper, metric))]


def title(dataset: str) -> str:
    """The name of a data set as the paper writes it, or its own."""
    return BENCHMARKS[dataset].title if dataset in BENCHMARKS else f"`{dataset}`"


def _headers(names: Sequence[str]) -> list[str]:
    return [header for name in names for header in (name, "paper", "Δ")]


def _by_dataset(name: str, datasets: Sequence[str], table: Callable[[str], str]) -> str:
    return "\n\n".join(f"**{title(dataset)}**\n\n{table(dataset)}" for dataset in _needed(name, datasets))


def _needed(name: str, datasets: Sequence[str]) -> list[str]:
    """Those of the data sets that a table is about."""
    return [dataset for dataset in TABLES[name][0] if dataset in datasets]


def link(results: Results, datasets: Sequence[str] = DATASETS) -> str:
    """Link prediction on test, ours beside the paper's; the last column is by the other protocol."""

    def table(dataset: str) -> str:
        rows = []
        for model in TABLES["link"][1]:
            record = results.record(dataset, model)
            cells = _links(record, ("test", PRESET), "link", dataset, model)
            more = [percent(figure(record, "test", PRESET, "hits@3")), percent(figure(record, "test", "paper", "mrr"))]
            rows.append([_with_scorer(model, record), *cells, *more])
        return markdown(["", *_headers(list(LINK.values())), "HITS@3", "MRR, `paper`"], rows)

    return _by_dataset("link", datasets, table)


def _with_scorer(model: str, record: Values | None) -> str:
    """The model's name, with the scorer that its recipe chose among several."""
    scorer = "" if record is None else record["recipe"]["options"].get("scorer", "")
    return f"{MODELS[model]} ({SCORERS[scorer]})" if scorer else MODELS[model]


def significance(results: Results) -> str:
    """Differences of MRR between models, with their intervals; and the commands for those that are not compared yet."""
    rows, absent = [], []
    for dataset in TABLES["link"][0]:
        found = results.comparisons(dataset)
        for first, second in PAIRS:
            pair = f"{title(dataset)}: {MODELS[second]} against {MODELS[first]}"
            each = found.get(pair_name(first, second))
            if each is None:
                if all(results.record(dataset, model) for model in (first, second)):
                    absent.append(f"- {pair}. `{command(dataset=[dataset], model=[first, second])} --again`")
                continue
            interval = f"{100 * each['low']:+.2f} … {100 * each['high']:+.2f}"
            p = "< 0.0001" if each["p"] < 0.0001 else f"{each['p']:.4f}"
            rows.append([pair, f"{100 * each['difference']:+.2f}", interval, p])
    parts = [markdown(["test, seed 0", "difference of MRR", "95 % interval", "p"], rows)] if rows else []
    if absent:
        parts.append("\n".join(["Not compared yet, or one of them was measured anew since:", "", *absent]))
    return "\n\n".join(parts) or "No two of these models have been run yet."


def time(results: Results, datasets: Sequence[str] = DATASETS) -> str:
    """Time prediction by every decoder; the one that dev chose is marked."""

    def table(dataset: str) -> str:
        rows = []
        for model in TABLES["time"][1]:
            record = results.record(dataset, model)
            paper = [number(printed("time", dataset, model, metric)) for metric in TIME]
            rows.append([f"**{MODELS[model]}**", "the paper", *paper, NONE, NONE])
            for decoder, name in DECODERS.items():
                chosen = record is not None and record.get("decoder") == decoder
                ours = [percent(figure(record, "decoders", decoder, metric)) for metric in (*TIME, "aeiou@10")]
                dev = percent(figure(record, "valid_decoders", decoder, "aeiou@1"))
                rows.append(["", f"{name} ←" if chosen else name, *ours, dev])
        return markdown(["", "decoder", *TIME.values(), "aeIOU@10", "dev aeIOU@1"], rows)

    return _by_dataset("time", datasets, table)


def ordering(results: Results, datasets: Sequence[str] = DATASETS) -> str:
    """Top predictions that break an ordering."""
    named, rows = _needed("ordering", datasets), []
    for model in TABLES["ordering"][1]:
        ours = [figure(results.record(dataset, model), "ordering", "share") for dataset in named]
        paper = [printed("ordering", dataset, model) for dataset in named]
        rows.append([MODELS[model], *chain.from_iterable(map(beside, ours, paper))])
    return markdown(["% of test queries", *_headers([title(dataset) for dataset in named])], rows)


def classes(results: Results, datasets: Sequence[str] = DATASETS) -> str:
    """aeIOU@1 by class of the relation, as the published code decodes and by the decoder that dev chose."""
    rows = []
    for dataset, model in product(_needed("classes", datasets), TABLES["classes"][1]):
        record = results.record(dataset, model)
        names = ("instant", "short", "long")
        rows.append([MODELS[model], "the paper", *(number(printed("classes", dataset, model, name)) for name in names)])
        chosen = None if record is None else record.get("decoder")
        for decoder in ("mean-mass", *([chosen] if chosen not in (None, "mean-mass") else [])):
            ours = [percent(figure(record, "decoder_classes", str(decoder), name)) for name in names]
            rows.append([MODELS[model], DECODERS[str(decoder)], *ours])
    return markdown(["aeIOU@1", "decoder", "instant", "short", "long"], rows)


def filter_(results: Results, datasets: Sequence[str] = DATASETS) -> str:
    """Link prediction where a known answer is forgiven only with the very span of the query."""

    def table(dataset: str) -> str:
        rows = [
            [
                MODELS[model],
                *_links(results.record(dataset, model), ("filters", "exact-span"), "filter", dataset, model),
            ]
            for model in TABLES["filter"][1]
        ]
        return markdown(["", *_headers(list(LINK.values()))], rows)

    return _by_dataset("filter", datasets, table)


def ablation(results: Results, datasets: Sequence[str] = DATASETS) -> str:
    """TimePlex with gadgets left out."""

    def table(dataset: str) -> str:
        record = results.record(dataset, "timeplex")
        chosen = None if record is None else record.get("decoder")
        rows = []
        for row, name in GADGETS.items():
            if record is not None and row not in ("timeplex", *record.get("ablation", ())):
                continue  # a gadget that this run does not have
            whole = row == "timeplex"
            links = _links(record, ("test", PRESET) if whole else ("ablation", row), "ablation", dataset, row)
            coded, best = (
                figure(record, "decoders", str(decoder), "aeiou@1")
                if whole
                else figure(record, "ablation", row, "decoders", str(decoder))
                for decoder in ("mean-mass", chosen)
            )
            aeiou = beside(coded, printed("ablation", dataset, row, "aeiou@1"))
            rows.append([name, *links, *aeiou, percent(best)])
        headers = _headers([*LINK.values(), "aeIOU@1, mean-mass"])
        return markdown(["", *headers, f"aeIOU@1, {chosen or 'chosen on dev'}"], rows)

    return _by_dataset("ablation", datasets, table)


def params(results: Results, datasets: Sequence[str] = DATASETS) -> str:
    """Numbers of parameters."""
    named, rows = _needed("params", datasets), []
    for model in TABLES["params"][1]:
        records = [results.record(dataset, model) for dataset in named]
        counts = [NONE if record is None else f"{record['parameters']:,}" for record in records]
        rows.append([MODELS[model], published()["params"][model], *counts])
    return markdown(["", "the paper", *(title(dataset) for dataset in named)], rows)


def stats(results: Results, datasets: Sequence[str] = DATASETS) -> str:
    """Sizes of the data sets."""
    named, rows = _needed("stats", datasets), []
    for size, name in SIZES.items():
        cells = []
        for dataset in named:
            ours, paper = results.read(f"{dataset}/stats"), printed("stats", dataset, size)
            cells += [NONE if ours is None else f"{ours[size]:,}", NONE if paper is None else f"{paper:,.0f}"]
        rows.append([name, *cells])
    return markdown(["", *(header for dataset in named for header in (title(dataset), "paper"))], rows)


def beyond(results: Results) -> str:
    """Patterns beside TimePlex and the best of the baselines, on test, with dev in brackets."""
    rows = []
    for dataset in PATTERN_DATASETS:
        record = results.record(dataset, PATTERNS)
        if record is None:
            continue
        name = title(dataset)
        best = max(record["baselines"], key=lambda each: float(record["baselines"][each]["mrr"]))
        before = results.record(dataset, "timeplex")
        rows += [
            [f"**{name}**: {best} (baseline)", *_beyond(record, ("baselines", best), ("baseline_time",))],
            [f"{name}: TimePlex", *_beyond(before, ("test", PRESET), ("time",))],
            [f"{name}: TimePlex with patterns", *_beyond(record, ("test", PRESET), ("time",))],
            [f"{name}: the same on dev", *_beyond(record, ("valid", PRESET), ("valid_time",))],
        ]
    if not rows:
        return f"Nothing is recorded yet. `{command(model=[PATTERNS])}`"
    return markdown(["", *LINK.values(), "aeIOU@1", "aeIOU@10"], rows)


def _beyond(record: Values | None, links: Sequence[str], times: Sequence[str]) -> list[str]:
    link = [percent(figure(record, *links, metric)) for metric in LINK]
    return link + [percent(figure(record, *times, metric)) for metric in ("aeiou@1", "aeiou@10")]


def without(results: Results) -> str:
    """What dev loses without each pattern: MRR of the additive part, aeIOU@1 of dates learned on train alone."""
    named = [dataset for dataset in PATTERN_DATASETS if results.has(Cell(dataset, PATTERNS, 0))]
    titles = [title(dataset) for dataset in named]
    tables = []
    for task, metric, shown in (("links", "mrr", "dev MRR"), ("dates", "aeiou@1", "dev aeIOU@1")):
        records = [record for dataset in named if (record := results.record(dataset, PATTERNS))]
        rows = dict.fromkeys(
            row for record in records for row in record["by_seed"]["0"].get("without", {}).get(task, {})
        )
        cells = {row: [percent(figure(record, "without", task, row, metric)) for record in records] for row in rows}
        lines = [["all" if row == "nothing" else f"− {row}", *cells[row]] for row in rows]
        if lines:
            tables.append(markdown([shown, *titles], lines))
    return "\n\n".join(tables) or "Nothing is recorded yet."


def limit(results: Results) -> str:
    """How close patterns come to the best possible answers on made-up worlds."""
    record = results.read("limit")
    if record is None:
        return "Nothing is recorded yet. `python -m tools.measure_limit`"
    rows = []
    for task, metric in (("dates", "aeIOU@1"), ("entities", "MRR")):
        cells = [f"{100 * record[task][name]:.1f}" for name in ("limit", "learner", "ours")]
        for share, interval in (("share", "95 %"), ("share of learner", "95 % of learner")):
            low, high = (fmean(world[task][interval][side] for world in record["worlds"]) for side in (0, 1))
            cells.append(f"{100 * record[task][share]:.1f} ({100 * low:.1f}–{100 * high:.1f})")
        rows.append([f"{task}, {metric}", *cells])
    header = ["", "best possible", "a learner told the form", "ours", "share of the best", "share of the learner"]
    return markdown(header, rows)


def births(results: Results) -> str:
    """The likeliest years of figure 3 and appendix J."""
    recorded = results.read("figures/across-time") or {}
    models = FIGURES["across-time"][1]
    rows = []
    for fact, paper in published()["across-time"].items():
        curves: Values = recorded.get(fact, {}).get("curves", {})
        ours = [str(likeliest(curves[model])) if model in curves else NONE for model in models]
        cells = [cell for model, year in zip(models, ours, strict=True) for cell in (year, str(paper[model]))]
        rows.append([fact.replace("_", " "), str(paper["gold"]), *cells])
    return markdown(["", "gold", *(header for model in models for header in (MODELS[model], "paper"))], rows)


def missing(results: Results) -> str:
    """What has no result yet, and how to get it."""
    absent: dict[str, dict[str, list[int]]] = {}
    cells = Request.of().cells()
    for cell in cells:
        if not results.has(cell):
            absent.setdefault(cell.dataset, {}).setdefault(cell.model, []).append(cell.seed)
    later = _later(results)
    if not absent:
        return f"Nothing is missing: every cell has its result.{later}"
    lines = []
    for dataset, models in absent.items():
        names = ", ".join(f"{MODELS[model]}{_seeds(dataset, seeds)}" for model, seeds in models.items())
        some = len(models) < len({cell.model for cell in cells if cell.dataset == dataset})
        lines.append(f"- {title(dataset)}: {names}. `{command(dataset=[dataset], model=list(models) if some else [])}`")
    return "\n".join([f"These have no result yet, and show as –. The command makes them.{later}", "", *lines])


def _later(results: Results) -> str:
    """Which of the long runs, that are made only if they are named, have no result."""
    cells = [Cell(*pair, 0) for pair in product(DATASETS, MODELS) if pair in LATER]
    absent = [cell for cell in cells if not results.has(cell)]
    if not absent:
        return ""
    names = ", ".join(f"{MODELS[cell.model]} on {title(cell.dataset)}" for cell in absent)
    asked = command(dataset=sorted({cell.dataset for cell in absent}), model=[cell.model for cell in absent])
    return f" Left for later, because they take hours: {names} (`{asked}`)."


def _seeds(dataset: str, seeds: Sequence[int]) -> str:
    if len(seeds) == SEEDS.get(dataset, 1):
        return ""
    return f" (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))})"


def provenance(results: Results) -> str:
    """What each result comes from: seeds, time, machine, command."""
    rows = []
    for dataset, model in product(PATTERN_DATASETS, (*MODELS, PATTERNS)):
        record = results.record(dataset, model)
        if record is not None:
            seconds = ", ".join(f"{value:,.0f}" for value in record["seconds"].values())
            threads = record["machine"]["threads"]
            machine = f"{counted(threads, 'thread')}, {record['machine']['device']}"
            seeds = ", ".join(map(str, record["seeds"]))
            name = f"{MODELS.get(model, 'TimePlex with patterns')} on {title(dataset)}"
            rows.append([name, seeds, seconds, machine, f"`{record['command']}`"])
    if not rows:
        return "There are no results yet."
    return markdown(["", "seeds", "training seconds", "machine", "command"], rows)


ALL: dict[str, Callable[..., str]] = {
    each.__name__.strip("_"): each for each in (link, time, ordering, filter_, ablation, classes, params, stats)
}
"""The tables that can be asked for."""


# The page -------------------------------------------------------------------------------------------------------------

NAME = "results.md"
PLACE = re.compile(r"^\[\[(\w+)(?: ([\w-]+))?\]\]$", re.MULTILINE)

OTHERS = {each.__name__: each for each in (missing, significance, births, provenance, beyond, without, limit)}
"""What stands on the page beside the tables that can be asked for."""

ALT = {
    "distance": "Distance of time embeddings against the gap between them",
    "across-time": "Probability of two births over the years, by model",
}


def text(results: Results) -> str:
    """The page, from what is recorded."""
    template = files("timeplex.reproduce").joinpath(NAME).read_text(encoding="utf-8")
    makers = {**ALL, **OTHERS}

    def put(place: re.Match[str]) -> str:
        kind, name = place.groups()
        return _figure(name, results) if kind == "figure" else makers[kind](results)

    return PLACE.sub(put, template)


def _figure(name: str, results: Results) -> str:
    """The picture, once something of it is recorded, and whose part is missing."""
    found = results.read(f"figures/{name}")
    shown = f"![{ALT[name]}](figures/{name}.png)\n\n[The same as SVG](figures/{name}.svg)." if found else ""
    datasets, models = FIGURES[name]
    if name == "distance":
        absent = [title(dataset) for dataset in datasets if dataset not in (found or {})]
    else:
        curves = [fact["curves"] for fact in (found or {}).values()]
        absent = [MODELS[model] for model in models if not curves or any(model not in each for each in curves)]
    lacking = f"Not there yet: {', '.join(absent)} (`timeplex reproduce --figure {name}`)." if absent else ""
    return "\n\n".join(part for part in (shown, lacking) if part)


def write(results: Results, docs: Path) -> Path:
    """Write the page into the folder of documents."""
    path = docs / NAME
    write_whole(path, text(results).encode())
    return path


def is_complete(request: Request, results: Results) -> bool:
    """Whether nothing is left to be trained, evaluated, counted, compared or gathered."""
    return (
        all(results.has(cell) for cell in request.cells())
        and not ("stats" in request.tables and any(not results.read(f"{each}/stats") for each in request.datasets))
        and not (
            "link" in request.tables and any(len(results.comparisons(each)) < len(PAIRS) for each in request.datasets)
        )
        and all(_is_gathered(name, request, results) for name in request.figures)
    )


def _is_gathered(name: str, request: Request, results: Results) -> bool:
    found, (datasets, models) = results.read(f"figures/{name}") or {}, FIGURES[name]
    cells = [Cell(dataset, model, 0) for dataset in datasets for model in models if dataset in request.datasets]
    return all(shows(name, found, cell) for cell in cells)


# The figures ----------------------------------------------------------------------------------------------------------


YEARS: dict[str, Years] = {"wikidata12k": (1984, 2020), "yago11k": (1958, 2017)}
"""The windows of figure 2."""

BIRTHS = (("Shin_Ae-ra", "wasBornIn", "South_Korea"), ("Peter_Nowell", "wasBornIn", "Philadelphia"))
"""The facts of figure 3 and of appendix J."""

WINDOW: Years = (1850, 2010)
Seen = TypeVar("Seen", Curve, Distances)
SUFFIXES = (".png", ".svg")


def shows(name: str, found: Values, cell: Cell) -> bool:
    """Whether the figure shows the run already."""
    if name == "distance":
        return cell.dataset in found
    return bool(found) and all(cell.model in fact["curves"] for fact in found.values())


def with_run(name: str, found: Values, cell: Cell, run: "TrainedRun") -> Values:
    """What the figure shows, with one more run."""
    if name == "distance":
        return {**found, cell.dataset: _distances(run, YEARS[cell.dataset])}
    return {" ".join(fact): _birth(found.get(" ".join(fact)), fact, cell, run) for fact in BIRTHS}


def _distances(run: "TrainedRun", years: Years) -> Values:
    from timeplex.evaluation.diagnostics import time_distances

    return {"years": list(years), **_recorded(time_distances(run.model, run.timeline, years))}


def _birth(before: Values | None, fact: tuple[str, str, str], cell: Cell, run: "TrainedRun") -> Values:
    from timeplex.evaluation.diagnostics import across_time

    kb = run.kb
    s, r, o = kb.entities.id(fact[0]), kb.relations.id(fact[1]), kb.entities.id(fact[2])
    device = next(run.model.parameters()).device
    curve = across_time({"it": (run.scorer, run.timeline)}, (s, r, o), WINDOW, device)["it"]
    stated = (kb.facts.s == s) & (kb.facts.r == r) & (kb.facts.o == o)
    gold = next([int(begin), int(end)] for *_, begin, end in kb.facts[stated])
    return {"gold": gold, "curves": {**(before or {"curves": {}})["curves"], cell.model: _recorded(curve)}}


# Drawing --------------------------------------------------------------------------------------------------------------


def draw(results: Results, folder: Path) -> list[str]:
    """Draw every figure of which something is recorded, as PNG and SVG; their names."""
    drawn = []
    for name in FIGURES:
        found = results.read(f"figures/{name}")
        if found:
            for suffix in SUFFIXES:
                _draw(name, found, folder / f"{name}{suffix}")
            drawn.append(name)
    return drawn


def _draw(name: str, found: Values, path: Path) -> None:
    if name == "distance":
        shown = {f"{title(of)}, {first}–{last}": found[of] for of, (first, last) in YEARS.items() if of in found}
        distance_picture({panel: _columns(Distances, values) for panel, values in shown.items()}, path)
        return
    facts = []
    for fact, values in found.items():
        models = [model for model in FIGURES["across-time"][1] if model in values["curves"]]
        curves = {MODELS[model]: _columns(Curve, values["curves"][model]) for model in models}
        begin, end = values["gold"]
        facts.append(FactAcrossTime(fact.replace("_", " "), (begin, end), curves))
    across_time_picture(facts, path, WINDOW)


def _recorded(seen: Curve | Distances) -> Values:
    """The columns of a curve, and what one instant is, for JSON."""
    return {name: str(of) if isinstance(of, Granularity) else of.tolist() for name, of in vars(seen).items()}


def _columns(kind: type[Seen], values: Values) -> Seen:
    """What `_recorded` made of a curve, as one again."""
    columns = {field.name: np.array(values[field.name]) for field in fields(kind) if field.name != "granularity"}
    return kind(**columns, granularity=Granularity(values["granularity"]))


def likeliest(curve: Values) -> int:
    """The year at which a recorded curve is highest."""
    top: Any = np.argmax(curve["probability"])
    return int(curve["instants"][int(top)])

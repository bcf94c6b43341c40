"""Do what is missing: train, resume, measure all that the tables need, record. Cut off at any point, it goes on."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from timeplex.datasets.benchmarks import BENCHMARKS
from timeplex.errors import InputError
from timeplex.evaluation.diagnostics import top_subjects, violations
from timeplex.evaluation.metrics import link_metrics, nested, time_figures
from timeplex.evaluation.protocol import FILTERS, PAPER, PUBLISHED_CODE, Protocol
from timeplex.evaluation.ranking import LinkPrediction, PlacedFacts, Ranks
from timeplex.evaluation.report import compare, predicted_spans, predicts_times, ways_to_decode
from timeplex.evaluation.time_prediction import both_ends_known, dev_values
from timeplex.kb.facts import TemporalKB
from timeplex.kb.stats import describe
from timeplex.models.base import Model
from timeplex.models.scorer import DIRECTIONS
from timeplex.patterns import orderings
from timeplex.reproduce import Display, Step, tables
from timeplex.reproduce.records import FIGURES, PAIRS, Cell, Request, Results, pair_name
from timeplex.sources import read
from timeplex.training import recipe as recipes
from timeplex.training.checkpoint import Stopped
from timeplex.training.loop import Trainer, choose_device
from timeplex.training.recipe import Recipe
from timeplex.training.run import RunFolder, TrainedRun


@dataclass(frozen=True)
class Workspace:
    """Where things lie: run folders as runs/<dataset>/<model>-<seed>, recipes as recipes/<dataset>/<model>.toml."""

    runs: Path
    results: Results
    recipes: Path = recipes.SHIPPED
    data_dir: Path | None = None
    device: str = "auto"

    def folder(self, cell: Cell, beside: str = "") -> RunFolder:
        """The run folder of a cell; `beside` names another run of it, with other settings."""
        return RunFolder(self.runs / cell.dataset / f"{cell.model}-{cell.seed}{beside}")

    def recipe(self, cell: Cell) -> Recipe:
        """How the cell is to be trained; a KB that has no recipes gets one that suits it."""
        path = self.recipes / cell.dataset / f"{cell.model}.toml"
        known = cell.dataset in BENCHMARKS or path.is_file()
        recipe = recipes.read(path) if known else recipes.suitable(self.kb(cell.dataset), cell.model)
        return recipe.with_settings([f"seed={cell.seed}"])

    def kb(self, dataset: str) -> TemporalKB:
        """The data."""
        return read_kb(dataset, self.data_dir)

    def load(self, cell: Cell) -> TrainedRun:
        """The trained model of a cell."""
        return self.folder(cell).load(choose_device(self.device))


@lru_cache(maxsize=1)
def read_kb(dataset: str, data_dir: Path | None) -> TemporalKB:
    """The data; the last one read is kept."""
    return read(dataset, data_dir=data_dir)


def run_missing(
    request: Request,
    workspace: Workspace,
    *,
    again: bool = False,
    train: bool = True,
    on_step: Callable[[Step], None] = lambda step: None,
    display: Display = nullcontext,
) -> None:
    """Record all that is asked for and is not recorded yet.

    `again` measures what is recorded once more; a run is trained only if its folder is not there. Without `train` only
    finished runs are measured.
    """
    cells = [cell for cell in request.cells() if again or not workspace.results.has(cell)]
    if train:
        todo = _with_bases(cells, workspace)
        _check(todo, workspace)
    else:
        cells = todo = [cell for cell in cells if workspace.folder(cell).is_finished]
    if "stats" in request.tables:
        _count_facts(request.datasets, workspace, again=again)
    _go_through(todo, set(cells), workspace, on_step, display)
    for dataset in request.datasets if "link" in request.tables else ():
        _compare(dataset, workspace.results, again=again)
    for name in request.figures:
        _gather(name, request.datasets, workspace, again=again)


def _with_bases(cells: Sequence[Cell], workspace: Workspace) -> list[Cell]:
    """The cells, each after the base that it needs and that is not trained yet."""
    todo: dict[Cell, None] = {}
    for cell in cells:
        base = cell.base
        if base and not workspace.folder(cell).is_finished and not workspace.folder(base).is_finished:
            todo[base] = None
        todo[cell] = None
    return list(todo)


def _check(cells: Sequence[Cell], workspace: Workspace) -> None:
    """Complain now about what would stop the work hours later."""
    for cell in cells:
        folder, wanted = workspace.folder(cell), workspace.recipe(cell)
        if folder.is_begun or folder.is_finished:
            _compare_recipes(folder.recipe(), wanted, f"{folder.path}", f"delete {folder.path} to train it again")
        elif not folder.is_free(wanted):
            raise InputError(f"{folder.path} is not a run that was begun.", "Delete it, and repeat the command.")
        before = workspace.results.record(cell.dataset, cell.model)
        others = (
            {} if before is None else {seed: of for seed, of in before["by_seed"].items() if int(seed) != cell.seed}
        )
        for seed, of in others.items():
            record = f"{workspace.results.folder}/{cell.dataset}/{cell.model}.json"
            recorded = recipes.parse(of["recipe"], record).with_settings([f"seed={cell.seed}"])
            _compare_recipes(
                recorded, wanted, f"seed {seed} of {record}", f"delete {record} to measure all seeds again"
            )


def _compare_recipes(found: Recipe, wanted: Recipe, what: str, remedy: str) -> None:
    if found != wanted:
        mine, theirs = found.model_dump(), wanted.model_dump()
        differing = ", ".join(key for key in mine if mine[key] != theirs[key])
        raise InputError(
            f"{what} was trained by another recipe than the one that is asked for ({differing}).",
            f"Put the recipe back, or {remedy}.",
        )


def _go_through(
    todo: Sequence[Cell],
    wanted: set[Cell],
    workspace: Workspace,
    on_step: Callable[[Step], None],
    display: Display,
) -> None:
    begun, done = time.monotonic(), 0
    work = sum(cell.work for cell in todo)
    for number, cell in enumerate(todo, start=1):
        left = (time.monotonic() - begun) / done * (work - done) if done else None

        def tell(doing: str, number: int = number, cell: Cell = cell, left: float | None = left) -> None:
            on_step(Step(number, len(todo), f"{cell}: {doing}", left))

        folder = workspace.folder(cell)
        if not folder.is_finished:
            tell("training goes on" if folder.is_begun else "training")
            train_cell(cell, workspace, display)
        if cell in wanted:
            tell("evaluating")
            _record(cell, workspace)
        done += cell.work


def _record(cell: Cell, workspace: Workspace) -> None:
    run, device = workspace.load(cell), choose_device(workspace.device)
    ranked = ranks_of_test(run, device)
    if cell.is_compared:
        workspace.results.write_ranks(cell, kept_ranks(ranked))
    workspace.results.add(cell, measure(run, workspace.folder(cell).metrics(), ranked, device))


def train_cell(
    cell: Cell, workspace: Workspace, display: Display, settings: Sequence[str] = (), beside: str = ""
) -> None:
    """Train what a cell needs, or go on with it; with other settings in a folder beside."""
    folder = workspace.folder(cell, beside)
    base = None if cell.base is None else workspace.folder(cell.base).path
    kb = folder.kb() if folder.is_begun else workspace.kb(cell.dataset)
    recipe = workspace.recipe(cell).with_settings(list(settings))
    trainer = Trainer(kb, recipe, folder.path, workspace.device, base)
    with display() as on_progress:
        trainer.fit(on_progress, resume=folder.is_begun)
    if trainer.stop_asked:  # when nothing of this run was left to stop
        raise Stopped(trainer.stop_signal)


# What is not one run --------------------------------------------------------------------------------------------------


def _count_facts(datasets: Sequence[str], workspace: Workspace, *, again: bool) -> None:
    """Record the sizes of the data (appendix A)."""
    for dataset in datasets:
        name = f"{dataset}/stats"
        if again or workspace.results.read(name) is None:
            kb = workspace.kb(dataset)
            stats = describe(kb)
            sizes = {"entities": stats.entities, "relations": stats.relations, "instants": stats.instants}
            lasting = stats.both_ends_known - stats.events if has_lasting_facts(kb) else 0
            workspace.results.write(name, {**sizes, "intervals": lasting, **stats.splits})


def _compare(dataset: str, results: Results, *, again: bool) -> None:
    """Record the significance of differences between runs of seed 0 whose ranks are kept."""
    before, found = results.comparisons(dataset), {}
    for first, second in PAIRS:
        name = pair_name(first, second)
        one, other = (
            results.ranks(dataset, model) if results.has(Cell(dataset, model, 0)) else None for model in (first, second)
        )
        if one is not None and other is not None and (again or name not in before):
            found[name] = compare_ranks(one, other)
        elif name in before:
            found[name] = before[name]
    if found != (results.read(f"{dataset}/significance") or {"pairs": {}})["pairs"]:
        about = {"split": "test", "protocol": "published-code", "metric": "mrr", "seed": 0}
        results.write(f"{dataset}/significance", {**about, "pairs": found})


def _gather(name: str, datasets: Sequence[str], workspace: Workspace, *, again: bool) -> None:
    """Record what a figure shows of those of its runs that are finished."""
    recorded = found = workspace.results.read(f"figures/{name}") or {}
    shown, models = FIGURES[name]
    for cell in (Cell(dataset, model, 0) for dataset in shown for model in models):
        missing = again or not tables.shows(name, recorded, cell)
        if missing and cell.dataset in datasets and workspace.folder(cell).is_finished:
            found = tables.with_run(name, found, cell, workspace.load(cell))
    if found != recorded:
        workspace.results.write(f"figures/{name}", found)


# All figures of one trained run that the tables need.


Ranked = dict[str, tuple[Ranks, Ranks]]
"""Ranks of the golds as subjects and as objects, (n,) each, by filter."""

LINK = ("mrr", "hits@1", "hits@3", "hits@10")

LEFT_OUT = {"-pair": ("pair",), "-rec": ("recurrence",), "-pair-rec": ("pair", "recurrence")}
"""The rows of the ablation (appendix F), and the gadgets that each does without."""


def measure(run: TrainedRun, trained: dict[str, Any], ranked: Ranked, device: torch.device) -> dict[str, Any]:
    """Link prediction by both protocols on test and dev, and on data whose facts last also what concerns time.

    `trained` is what the training said of itself, `ranked` what `ranks_of_test` found. On dev the protocol `paper` is
    left out for models that have to sum over the instants of a span one by one: for HyTE on YAGO11k it takes 8 times
    as long as `published-code`.
    """
    lasting = has_lasting_facts(run.kb)
    quick = not lasting or type(run.model).objects is not Model.objects
    filters = link_figures(ranked)
    found = {
        "recipe": run.recipe.model_dump(),
        **{name: trained[name] for name in ("epochs", "best_epoch", "parameters", "machine")},
        **_training_time(trained),
        "test": {PUBLISHED_CODE.name: filters[PUBLISHED_CODE.filter], PAPER.name: links(run, "test", PAPER, device)},
        "valid": {of.name: links(run, "valid", of, device) for of in (PUBLISHED_CODE, PAPER) if quick or of != PAPER},
        "filters": filters,
    }
    if lasting:
        found["ordering"] = broken_orderings(run, device)
        found |= times(run, device)
        found |= ablation(run, device)
    return found


def _training_time(trained: dict[str, Any]) -> dict[str, float]:
    """Seconds of the whole training, and of the gadgets' part of it."""
    if "phase2" not in trained:
        return {"seconds": trained["seconds"]}
    gadgets = trained["phase2"]["seconds"]
    return {"seconds": round(trained["seconds"] + gadgets, 1), "phase2_seconds": gadgets}


def has_lasting_facts(kb: TemporalKB) -> bool:
    """Whether some fact is known to end later than it begins."""
    facts = both_ends_known(kb.facts)
    return bool((facts.end > facts.begin).any())


def ranks(
    run: TrainedRun, split: str, protocol: Protocol, device: torch.device, filters: tuple[str, ...] = ()
) -> Ranked:
    """Ranks of the golds as subjects and as objects, (n,) each, by filter; by the protocol's own if none is named."""
    chosen = [protocol.filter] if not filters else [name for name in FILTERS if name in filters]
    task = LinkPrediction(run.kb, run.kb.split(split), run.timeline, protocol, chosen)
    subjects, objects = (task.ranks(run.scorer, direction, device) for direction in DIRECTIONS)
    return {name: (subjects[name], objects[name]) for name in chosen}


def ranks_of_test(run: TrainedRun, device: torch.device) -> Ranked:
    """Ranks of the test facts' subjects and objects by `published-code`, with every filter."""
    return ranks(run, "test", PUBLISHED_CODE, device, FILTERS)


def links(run: TrainedRun, split: str, protocol: Protocol, device: torch.device) -> dict[str, float]:
    """MRR and HITS@k over both directions, by the protocol's filter."""
    return link_figures(ranks(run, split, protocol, device))[protocol.filter]


def link_figures(ranked: Ranked) -> dict[str, dict[str, float]]:
    """MRR and HITS@k over both directions, by filter."""
    found = {}
    for name, both in ranked.items():
        metrics = link_metrics(np.concatenate(both))
        found[name] = {metric: metrics[metric] for metric in LINK}
    return found


def broken_orderings(run: TrainedRun, device: torch.device) -> dict[str, float]:
    """The share of test queries (?, r, o, t) whose top subject breaks an ordering of relations (table 4).

    t is the begin of the fact, as in the published code; orderings are about begins.
    """
    spans = PlacedFacts.of(run.kb.test, run.timeline)
    queries = replace(spans, last=spans.first)
    top = top_subjects(run.scorer, queries, entities=len(run.kb.entities), device=device)
    found = violations(top, run.kb.test, run.kb.train, orderings.mine(run.kb.train))
    return {"share": found.share, "queries": found.queries}


# Times ----------------------------------------------------------------------------------------------------------------


def times(run: TrainedRun, device: torch.device) -> dict[str, Any]:
    """Figures of time prediction by each decoder, on test and on dev; nothing if the model predicts no times.

    On test the thresholds are those of all dev facts. On dev they are fitted on one half and judged on the other, both
    ways: thresholds judged by the facts that they were fitted on would look too good beside a decoder without any.
    """
    kb, timeline, scorer = run.kb, run.timeline, run.scorer
    facts = both_ends_known(kb.valid)
    if not predicts_times(scorer) or len(facts) < 2 or len(both_ends_known(kb.test)) == 0:
        return {}
    said = dev_values(scorer, kb.valid, timeline, device=device)
    test = predicted_spans(kb, kb.test, timeline, scorer, ways_to_decode(kb, said), device)
    judged = []
    half = np.random.default_rng(0).permutation(len(facts)) % 2 == 0
    for mine in (half, ~half):
        ways = ways_to_decode(kb, said, ~mine)
        judged.append(predicted_spans(kb, facts[mine], timeline, scorer, ways, device))
    return {
        "decoders": _without_count(nested(time_figures(test), ["decoder"])),
        "valid_decoders": _without_count(nested(time_figures(pl.concat(judged)), ["decoder"])),
        "decoder_classes": {
            decoder: {name: figures["aeiou@1"] for name, figures in classes.items()}
            for decoder, classes in nested(time_figures(test, "class"), ["decoder", "class"]).items()
        },
    }


def _without_count(figures: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {decoder: {name: of[name] for name in of if name != "facts"} for decoder, of in figures.items()}


def ablation(run: TrainedRun, device: torch.device) -> dict[str, Any]:
    """Test figures without one gadget, and without any; nothing for a run without gadgets."""
    found = {}
    for name, gadgets in LEFT_OUT.items():
        if set(gadgets) <= set(run.gadgets):
            rest = run.without(*gadgets)
            decoders = times(rest, device).get("decoders", {})
            found[name] = {
                **links(rest, "test", PUBLISHED_CODE, device),
                "decoders": {decoder: figures["aeiou@1"] for decoder, figures in decoders.items()},
            }
    return {"ablation": found} if found else {}


# Significance ---------------------------------------------------------------------------------------------------------


def kept_ranks(ranked: Ranked) -> pl.DataFrame:
    """What is kept of `ranks_of_test`: the ranks by the filter of `published-code`."""
    subjects, objects = ranked[PUBLISHED_CODE.filter]
    return pl.DataFrame({"subject": subjects, "object": objects})


def compare_ranks(first: pl.DataFrame, second: pl.DataFrame) -> dict[str, Any]:
    """How two models differ by the reciprocal ranks of the same facts (mean of both directions)."""
    one, other = ((1 / of["subject"] + 1 / of["object"]).to_numpy() / 2 for of in (first, second))
    return asdict(compare(one, other))

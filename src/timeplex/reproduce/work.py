"""Do what is missing: train, resume, evaluate, record. Cut off at any point, the same call goes on."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from timeplex.errors import InputError
from timeplex.kb.facts import TemporalKB
from timeplex.kb.stats import describe
from timeplex.reproduce import Audience, Step, figures
from timeplex.reproduce.measure import compare_ranks, has_lasting_facts, kept_ranks, measure, ranks_of_test
from timeplex.reproduce.plan import FIGURES, PAIRS, Cell, Wish
from timeplex.reproduce.records import Results, pair_name
from timeplex.sources import read
from timeplex.training import recipe as recipes
from timeplex.training.checkpoint import Stopped
from timeplex.training.loop import Trainer, choose_device
from timeplex.training.recipe import Recipe
from timeplex.training.run import RunFolder, TrainedRun


@dataclass(frozen=True)
class Workshop:
    """Where things lie: run folders as runs/<dataset>/<model>-<seed>, recipes as recipes/<dataset>/<model>.toml."""

    runs: Path
    results: Results
    recipes: Path
    data_dir: Path | None = None
    device: str = "auto"

    def folder(self, cell: Cell) -> RunFolder:
        """The run folder of a cell."""
        return RunFolder(self.runs / cell.dataset / f"{cell.model}-{cell.seed}")

    def recipe(self, cell: Cell) -> Recipe:
        """How the cell is to be trained."""
        return recipes.read(self.recipes / cell.dataset / f"{cell.model}.toml").with_settings([f"seed={cell.seed}"])

    def kb(self, dataset: str) -> TemporalKB:
        """The data."""
        return _read(dataset, self.data_dir)

    def load(self, cell: Cell) -> TrainedRun:
        """The trained model of a cell."""
        return self.folder(cell).load(choose_device(self.device))


@lru_cache(maxsize=1)
def _read(dataset: str, data_dir: Path | None) -> TemporalKB:
    return read(dataset, data_dir=data_dir)


def do(wish: Wish, workshop: Workshop, audience: Audience, *, again: bool = False, train: bool = True) -> None:
    """Record all that was wished for and is not recorded yet.

    `again` measures what is recorded once more; a run is trained only if its folder is not there. Without `train` only
    finished runs are measured.
    """
    cells = [cell for cell in wish.cells() if again or not workshop.results.has(cell)]
    if train:
        todo = _with_bases(cells, workshop)
        _check(todo, workshop)
    else:
        cells = todo = [cell for cell in cells if workshop.folder(cell).is_finished]
    if "stats" in wish.tables:
        _count_facts(wish.datasets, workshop, again=again)
    _go_through(todo, set(cells), workshop, audience)
    for dataset in wish.datasets if "link" in wish.tables else ():
        _compare(dataset, workshop.results, again=again)
    for name in wish.figures:
        _gather(name, wish.datasets, workshop, again=again)


def _with_bases(cells: Sequence[Cell], workshop: Workshop) -> list[Cell]:
    """The cells, each after the base that it needs and that is not trained yet."""
    todo: dict[Cell, None] = {}
    for cell in cells:
        base = cell.base
        if base and not workshop.folder(cell).is_finished and not workshop.folder(base).is_finished:
            todo[base] = None
        todo[cell] = None
    return list(todo)


def _check(cells: Sequence[Cell], workshop: Workshop) -> None:
    """Complain now about what would stop the work hours later."""
    for cell in cells:
        folder, wanted = workshop.folder(cell), workshop.recipe(cell)
        if folder.is_begun or folder.is_finished:
            _compare_recipes(folder.recipe(), wanted, f"{folder.path}", f"delete {folder.path} to train it again")
        elif not folder.is_free(wanted):
            raise InputError(f"{folder.path} is not a run that was begun.", "Delete it, and repeat the command.")
        before = workshop.results.record(cell.dataset, cell.model)
        others = (
            {} if before is None else {seed: of for seed, of in before["by_seed"].items() if int(seed) != cell.seed}
        )
        for seed, of in others.items():
            record = f"{workshop.results.folder}/{cell.dataset}/{cell.model}.json"
            recorded = recipes.parse(of["recipe"], record).with_settings([f"seed={cell.seed}"])
            _compare_recipes(
                recorded, wanted, f"seed {seed} of {record}", f"delete {record} to measure all seeds again"
            )


def _compare_recipes(found: Recipe, wanted: Recipe, what: str, remedy: str) -> None:
    if found != wanted:
        mine, theirs = found.model_dump(), wanted.model_dump()
        differing = ", ".join(key for key in mine if mine[key] != theirs[key])
        raise InputError(
            f"{what} was trained by another recipe than the one in recipes ({differing}).",
            f"Put the recipe back, or {remedy}.",
        )


def _go_through(todo: Sequence[Cell], wanted: set[Cell], workshop: Workshop, audience: Audience) -> None:
    begun, done = time.monotonic(), 0
    work = sum(cell.work for cell in todo)
    for number, cell in enumerate(todo, start=1):
        left = (time.monotonic() - begun) / done * (work - done) if done else None

        def tell(doing: str, number: int = number, cell: Cell = cell, left: float | None = left) -> None:
            audience.tell(Step(number, len(todo), f"{cell}: {doing}", left))

        folder = workshop.folder(cell)
        if not folder.is_finished:
            tell("training goes on" if folder.is_begun else "training")
            _train(cell, workshop, audience)
        if cell in wanted:
            tell("evaluating")
            _record(cell, workshop)
        done += cell.work


def _record(cell: Cell, workshop: Workshop) -> None:
    run, device = workshop.load(cell), choose_device(workshop.device)
    ranked = ranks_of_test(run, device)
    if cell.is_compared:
        workshop.results.write_ranks(cell, kept_ranks(ranked))
    workshop.results.add(cell, measure(run, workshop.folder(cell).metrics(), ranked, device))


def _train(cell: Cell, workshop: Workshop, audience: Audience) -> None:
    folder = workshop.folder(cell)
    base = None if cell.base is None else workshop.folder(cell.base).path
    kb = folder.kb() if folder.is_begun else workshop.kb(cell.dataset)
    trainer = Trainer(kb, workshop.recipe(cell), folder.path, workshop.device, base)
    with audience.training() as on_progress:
        trainer.fit(on_progress, resume=folder.is_begun)
    if trainer.stop_asked:  # when nothing of this run was left to stop
        raise Stopped(trainer.stop_signal)


# What is not one run --------------------------------------------------------------------------------------------------


def _count_facts(datasets: Sequence[str], workshop: Workshop, *, again: bool) -> None:
    """Record the sizes of the data (appendix A)."""
    for dataset in datasets:
        name = f"{dataset}/stats"
        if again or workshop.results.read(name) is None:
            kb = workshop.kb(dataset)
            stats = describe(kb)
            sizes = {"entities": stats.entities, "relations": stats.relations, "instants": stats.instants}
            lasting = stats.both_ends_known - stats.events if has_lasting_facts(kb) else 0
            workshop.results.write(name, {**sizes, "intervals": lasting, **stats.splits})


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


def _gather(name: str, datasets: Sequence[str], workshop: Workshop, *, again: bool) -> None:
    """Record what a figure shows of those of its runs that are finished."""
    recorded = found = workshop.results.read(f"figures/{name}") or {}
    shown, models = FIGURES[name]
    for cell in (Cell(dataset, model, 0) for dataset in shown for model in models):
        missing = again or not figures.shows(name, recorded, cell)
        if missing and cell.dataset in datasets and workshop.folder(cell).is_finished:
            found = figures.with_run(name, found, cell, workshop.load(cell))
    if found != recorded:
        workshop.results.write(f"figures/{name}", found)

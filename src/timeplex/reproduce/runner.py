"""Do what is missing: train, resume, evaluate, record. Cut off at any point, the same call goes on."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from timeplex.errors import InputError
from timeplex.kb.facts import TemporalKB
from timeplex.kb.stats import describe
from timeplex.reproduce import Display, Step, figures
from timeplex.reproduce.measure import compare_ranks, has_lasting_facts, kept_ranks, measure, ranks_of_test
from timeplex.reproduce.plan import FIGURES, PAIRS, Cell, Request
from timeplex.reproduce.records import Results, pair_name
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

    def folder(self, cell: Cell) -> RunFolder:
        """The run folder of a cell."""
        return RunFolder(self.runs / cell.dataset / f"{cell.model}-{cell.seed}")

    def recipe(self, cell: Cell) -> Recipe:
        """How the cell is to be trained."""
        return recipes.read(self.recipes / cell.dataset / f"{cell.model}.toml").with_settings([f"seed={cell.seed}"])

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
            _train(cell, workspace, display)
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


def _train(cell: Cell, workspace: Workspace, display: Display) -> None:
    folder = workspace.folder(cell)
    base = None if cell.base is None else workspace.folder(cell.base).path
    kb = folder.kb() if folder.is_begun else workspace.kb(cell.dataset)
    trainer = Trainer(kb, workspace.recipe(cell), folder.path, workspace.device, base)
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
        missing = again or not figures.shows(name, recorded, cell)
        if missing and cell.dataset in datasets and workspace.folder(cell).is_finished:
            found = figures.with_run(name, found, cell, workspace.load(cell))
    if found != recorded:
        workspace.results.write(f"figures/{name}", found)

"""The paper's tables and figures from real runs, with the published numbers beside ours.

records         which runs each table and figure needs, and what was measured of them, kept as JSON in `results/`
published.toml  the numbers of the paper
runner          train what is missing, resume what was cut off, measure, record
beyond          the same for timeplex-patterns, which the paper does not have
tables          the records → docs/results.md, by the template results.md, and the figures beside it

Reading records and writing the page does not import torch.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from timeplex.errors import InputError

if TYPE_CHECKING:
    from timeplex.training.checkpoint import Listener


@dataclass(frozen=True)
class Step:
    """What is done now: step `number` of `total`; about so many seconds are left for all (None: not known yet)."""

    number: int
    total: int
    what: str
    left: float | None


Display: TypeAlias = "Callable[[], AbstractContextManager[Listener | None]]"
"""Opened around each training: what it gives hears of each batch."""


@dataclass(frozen=True)
class Reproduced:
    """What came of it.

    tables     those that were named, as text
    page       docs/results.md; None where results that come with timeplex were shown and no figure was named
    figures    the pictures beside the page
    runs       how many runs are asked for, and `absent`, how many of them have no result
    shipped    whether the results are those that come with timeplex
    """

    tables: Sequence[str]
    page: Path | None
    figures: Sequence[str]
    runs: int
    absent: int
    shipped: bool


def reproduce(
    tables: Sequence[str] = (),
    figures: Sequence[str] = (),
    datasets: Sequence[str] = (),
    models: Sequence[str] = (),
    *,
    seeds: int | None = None,
    runs: str | Path = "runs",
    results: str | Path = "results",
    recipes: str | Path | None = None,
    docs: str | Path = "docs",
    again: bool = False,
    train: bool = True,
    device: str = "auto",
    data_dir: str | Path | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
    display: Display = nullcontext,
) -> Reproduced:
    """Regenerate tables and figures of the paper, all if none is named, and write docs/results.md with them.

    What is missing is trained (or left out, without `train`) and evaluated; what is recorded in `results` is not done
    again, unless `again`. Where nothing is recorded, the results that come with timeplex are shown. `recipes` is a
    folder of your own with <dataset>/<model>.toml. The model `timeplex-patterns`, which the paper does not have, is
    measured only if it is named; `sample` is one of its data sets.

    >>> from timeplex.reproduce import reproduce
    >>> reproduce(["link"], datasets=["yago11k"]).tables                                    # doctest: +SKIP
    """
    from timeplex.reproduce.records import PATTERNS, SHIPPED, Request, Results, pattern_cells
    from timeplex.reproduce.tables import ALL, beyond, draw, is_complete, write

    if PATTERNS in models:
        if tables or figures or len(set(models)) > 1:
            raise InputError(f"{PATTERNS} has tables of its own.", f"Ask for it alone: --model {PATTERNS}")
        from timeplex.reproduce.beyond import run_missing_patterns
        from timeplex.reproduce.runner import Workspace
        from timeplex.training import recipe

        cells, recorded = pattern_cells(datasets, seeds), Results(Path(results))
        where = None if data_dir is None else Path(data_dir)
        workspace = Workspace(Path(runs), recorded, Path(recipes or recipe.SHIPPED), where, device)
        run_missing_patterns(cells, workspace, again=again, train=train, on_step=on_step, display=display)
        absent = sum(not recorded.has(cell) for cell in cells)
        page = None if recorded.is_empty else write(recorded, Path(docs))
        return Reproduced([beyond(recorded)], page, (), len(cells), absent, shipped=False)
    request, recorded = Request.of(tables, figures, datasets, models, seeds), Results(Path(results))
    if not request.cells() and "stats" not in request.tables:
        raise InputError("No table or figure that is asked for needs such a run.", "Leave out --model or --dataset.")
    shipped = not (again or recipes) and recorded.is_empty and is_complete(request, Results(SHIPPED))
    if shipped:
        recorded = Results(SHIPPED)
    elif again or not is_complete(request, recorded):
        from timeplex.reproduce.runner import Workspace, run_missing
        from timeplex.training import recipe

        where = None if data_dir is None else Path(data_dir)
        workspace = Workspace(Path(runs), recorded, Path(recipes or recipe.SHIPPED), where, device)
        run_missing(request, workspace, again=again, train=train, on_step=on_step, display=display)
    if recorded.is_empty:
        raise InputError(
            f"{results} has no results, and {runs} no finished run to evaluate.", "Leave out --no-train to train."
        )
    texts = [ALL[name](recorded, request.datasets) for name in request.tables] if tables else []
    page, drawn = None, []
    if not shipped or request.figures:  # a page about everything, in somebody's folder, was not asked for
        drawn = draw(recorded, Path(docs) / "figures")
        page = write(recorded, Path(docs))
    absent = sum(not recorded.has(cell) for cell in request.cells())
    return Reproduced(texts, page, drawn, len(request.cells()), absent, shipped)

"""The paper's tables and figures from real runs, with the published numbers beside ours.

plan            which runs each table and figure needs
published.toml  the numbers of the paper
records         what was measured, kept as JSON in `results/`
measure         a trained run → all figures that the tables need
work            train what is missing, resume what was cut off, evaluate, record
figures         what the figures show, and drawing it
tables          the records → docs/results.md

Reading records and writing the page does not import torch.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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


@dataclass(frozen=True)
class Audience:
    """Who hears of it: `tell` of each step, and what `training()` gives of each batch."""

    tell: Callable[[Step], None] = lambda step: None
    training: "Callable[[], AbstractContextManager[Listener | None]]" = nullcontext


SILENT = Audience()


@dataclass(frozen=True)
class Reproduced:
    """What came of it: the page, the pictures, the tables that were named as text, and how many runs lack a result."""

    page: Path
    figures: Sequence[str]
    tables: Sequence[str]
    runs: int
    absent: int


def reproduce(
    tables: Sequence[str] = (),
    figures: Sequence[str] = (),
    datasets: Sequence[str] = (),
    models: Sequence[str] = (),
    *,
    seeds: int | None = None,
    runs: str | Path = "runs",
    results: str | Path = "results",
    docs: str | Path = "docs",
    again: bool = False,
    train: bool = True,
    device: str = "auto",
    data_dir: str | Path | None = None,
    audience: Audience = SILENT,
) -> Reproduced:
    """Regenerate tables and figures of the paper, all if none is named, and write docs/results.md with them.

    What is missing is trained from recipes/ (or left out, without `train`) and evaluated; what is recorded in `results`
    is not done again, unless `again`.

    >>> from timeplex.reproduce import reproduce
    >>> reproduce(["link"], datasets=["yago11k"]).page                                      # doctest: +SKIP
    """
    from timeplex.reproduce import figures as pictures
    from timeplex.reproduce.plan import Wish
    from timeplex.reproduce.records import Results
    from timeplex.reproduce.tables import ALL, is_complete, write

    wish, recorded = Wish.of(tables, figures, datasets, models, seeds), Results(Path(results))
    if not wish.cells() and "stats" not in wish.tables:
        raise InputError("No table or figure that is asked for needs such a run.", "Leave out --model or --dataset.")
    if again or not is_complete(wish, recorded):
        from timeplex.reproduce.work import Workshop, do

        where = None if data_dir is None else Path(data_dir)
        workshop = Workshop(Path(runs), recorded, Path("recipes"), where, device)
        do(wish, workshop, audience, again=again, train=train)
    if recorded.is_empty:
        raise InputError(
            f"{results} has no results, and {runs} no finished run to evaluate.", "Leave out --no-train to train."
        )
    drawn = pictures.draw(recorded, Path(docs) / "figures")
    page = write(recorded, Path(docs))
    texts = [ALL[name](recorded, wish.datasets) for name in wish.tables] if tables else []
    absent = sum(not recorded.has(cell) for cell in wish.cells())
    return Reproduced(page, drawn, texts, len(wish.cells()), absent)

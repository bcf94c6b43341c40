"""Whether everything that is wished for is recorded. By the records alone, so that torch is not needed to see it."""

from timeplex.reproduce.figures import shows
from timeplex.reproduce.plan import FIGURES, PAIRS, Cell, Wish
from timeplex.reproduce.records import Results


def is_complete(wish: Wish, results: Results) -> bool:
    """Whether nothing is left to be trained, evaluated, counted, compared or gathered."""
    return (
        all(results.has(cell) for cell in wish.cells())
        and not ("stats" in wish.tables and any(not results.read(f"{each}/stats") for each in wish.datasets))
        and not ("link" in wish.tables and any(not _is_compared(each, results) for each in wish.datasets))
        and all(_is_gathered(name, wish, results) for name in wish.figures)
    )


def _is_compared(dataset: str, results: Results) -> bool:
    return len(results.comparisons(dataset)) == len(PAIRS)


def _is_gathered(name: str, wish: Wish, results: Results) -> bool:
    found, (datasets, models) = results.read(f"figures/{name}") or {}, FIGURES[name]
    cells = [Cell(dataset, model, 0) for dataset in datasets for model in models if dataset in wish.datasets]
    return all(shows(name, found, cell) for cell in cells)

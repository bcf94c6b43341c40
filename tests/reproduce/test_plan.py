"""Which runs are needed, and names that are wrong."""

import pytest

from timeplex.errors import InputError
from timeplex.models import MODELS as REGISTERED
from timeplex.reproduce.records import DATASETS, FIGURES, LATER, MODELS, TABLES, Cell, Request


def test_everything_is_every_cell_but_those_for_later() -> None:
    cells = Request.of().cells()
    assert len(cells) == len(set(cells)) == 7 * 3 + 7 + 7 + 7 - len(LATER)
    assert Request.of().tables == tuple(TABLES)
    assert Request.of().figures == tuple(FIGURES)
    assert {cell.seed for cell in cells if cell.dataset == "yago11k"} == {0, 1, 2}
    assert {cell.seed for cell in cells if cell.dataset != "yago11k"} == {0}


def test_a_long_run_is_made_if_its_model_is_named() -> None:
    assert Cell("icews05-15", "ta", 0) not in Request.of(datasets=["icews05-15"]).cells()
    assert Request.of(datasets=["icews05-15"], models=["ta"]).cells() == [Cell("icews05-15", "ta", 0)]


def test_a_base_comes_before_what_needs_it() -> None:
    cells = Request.of().cells()
    for cell in cells:
        if cell.base is not None:
            assert cells.index(cell.base) < cells.index(cell)
    assert Cell("yago11k", "timeplex", 2).base == Cell("yago11k", "timeplex-base", 2)
    assert Cell("yago11k", "complex", 2).base is None


def test_a_table_alone_is_no_figure_and_needs_its_own_cells() -> None:
    request = Request.of(tables=["classes"])
    assert request.figures == ()
    assert [str(cell) for cell in request.cells() if cell.seed == 0] == [
        "tnt-complex on yago11k, seed 0",
        "timeplex on yago11k, seed 0",
    ]
    assert Request.of(figures=["distance"]).tables == ()
    assert Request.of(tables=["stats"]).cells() == []
    assert len(Request.of(tables=["link"], datasets=["icews14", "yago11k"], models=["ta"], seeds=2).cells()) == 4


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tables": ["lnk"]}, "There is no table 'lnk'. Did you mean 'link'? Use one of: link, time,"),
        ({"figures": ["picture"]}, "There is no figure 'picture'. Use one of: distance, across-time."),
        ({"datasets": ["YAGO11K"]}, "There is no data set 'YAGO11K'. Did you mean 'yago11k'?"),
        ({"models": ["transe"]}, "There is no model 'transe'."),
    ],
)
def test_wrong_names(wrong: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError) as error:
        Request.of(**wrong)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_names_are_known_elsewhere() -> None:
    from timeplex.datasets.benchmarks import BENCHMARKS

    assert set(DATASETS) == set(BENCHMARKS)
    assert set(MODELS) - {"timeplex"} <= set(REGISTERED)

"""Every registered model keeps every law, with all its options; models with a mistake do not."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timeplex.models import MODELS, Model, Options, Space
from timeplex.models.loading import own_model
from timeplex.models.static import ComplEx
from timeplex.testing.models import LAWS, Broken, Case, Sizes, check_model, variants

ROOT = Path(__file__).parents[1]
WRONG = ROOT / "models" / "wrong_model.py"
VARIANTS = [(name, options) for name, model in MODELS.items() for options in variants(model)]
QUICK, SLOW = 15, 200
"""Examples a model, shared among its variants."""

WORLDS = st.builds(
    Sizes,
    entities=st.integers(1, 8),
    relations=st.integers(1, 4),
    instants=st.integers(1, 7),
    facts=st.integers(1, 4),
)


pytestmark = pytest.mark.usefixtures("one_thread")


def described(value: object) -> str | None:
    if not isinstance(value, Options):
        return None
    chosen = {name: each for name, each in value.model_dump().items() if isinstance(each, str | bool | int)}
    return " ".join(str(each) for name, each in chosen.items() if name != "dimension") or "-"


def keeps_all_laws(model: type[Model], options: Options, examples: int) -> None:
    share = -(-examples // len(variants(model)))

    @settings(max_examples=share)
    @given(sizes=WORLDS, seed=st.integers(0, 2**31))
    def holds(sizes: Sizes, seed: int) -> None:
        case = Case(model, options, sizes, seed)
        for law in LAWS.values():
            law(case)

    holds()


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=described)
def test_every_model_keeps_every_law(name: str, options: Options) -> None:
    keeps_all_laws(MODELS[name], options, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=described)
def test_every_model_keeps_every_law_in_many_worlds(name: str, options: Options) -> None:
    keeps_all_laws(MODELS[name], options, SLOW)


def test_the_models_of_the_paper_are_there() -> None:
    paper = {"transe", "distmult", "simple", "complex", "ta", "hyte", "de-simple", "tnt-complex", "timeplex-base"}
    assert paper <= set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_computed_by_hand_in_a_test(name: str) -> None:
    model = MODELS[name]
    names = (model.__module__.rpartition(".")[2], name.replace("-", "_"))  # of the file it is in, or its own
    path = next(path for path in (ROOT / "models" / f"test_{each}.py" for each in names) if path.is_file())
    assert f'"{name}"' in path.read_text() or f"{model.__name__}(" in path.read_text()


# The options that are tried


def test_variants_have_every_choice() -> None:
    tried = variants(MODELS["hyte"])
    assert {(each.scorer, each.norm, each.bin_size) for each in tried} == {  # type: ignore[attr-defined]
        (scorer, norm, size) for scorer in ("transe", "distmult", "complex") for norm in (1, 2) for size in (1, 300)
    }
    assert len(variants(MODELS["timeplex-base"])) == 4
    assert [each.dimension for each in variants(MODELS["complex"])] == [4]


# Models with a mistake


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong-times", "times[t] and score_at differ by "),
        ("wrong-subjects", "subjects_at and score_at of all subjects differ by "),
    ],
)
def test_a_wrong_model_breaks_the_law_that_it_should(name: str, message: str) -> None:
    model = own_model(f"{WRONG}:{name}")
    results = {result.law: result for result in check_model(model, variants(model), examples=5, seed=1)}
    assert not results["agreement"].passed
    assert results["agreement"].message.startswith(message)
    assert "seed 1)" in results["agreement"].message
    assert all(results[law].passed for law in ("repetition", "batches", "saving", "shapes", "steps"))


def test_a_right_model_passes_the_check() -> None:
    results = check_model(MODELS["complex"], variants(MODELS["complex"]), examples=3)
    assert [result.law for result in results] == list(LAWS)
    assert all(result.passed and not result.message for result in results)


def test_check_tries_every_option_set_even_with_few_examples() -> None:
    seen = set()

    class Watched(ComplEx):
        def __init__(self, space: Space, options: Options) -> None:
            seen.add(options.dimension)
            super().__init__(space, options)

    check_model(Watched, [Options(dimension=dimension) for dimension in (2, 4, 6)], examples=1)
    assert seen == {2, 4, 6}


def test_a_law_raises_what_differs() -> None:
    model = own_model(f"{WRONG}:wrong-times")
    case = Case(model, variants(model)[0], Sizes(3, 2, 4, 3), seed=0)
    with pytest.raises(Broken, match=r"^times\[t\] and score_at differ by [\d.]+, with values up to [\d.]+$"):
        LAWS["agreement"](case)

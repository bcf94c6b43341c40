"""Recipes: every shipped one parses, and what is wrong is named by its key."""

from pathlib import Path

import pytest

from timeplex.errors import InputError, UnknownNameError
from timeplex.training import recipe as recipes
from timeplex.training.recipe import Recipe

SHIPPED = sorted(recipes.SHIPPED.rglob("*.toml"))
METHODS = ("complex", "ta", "hyte", "de-simple", "tnt-complex", "timeplex-base", "timeplex")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_shipped_recipes_parse(path: Path) -> None:
    recipe = recipes.read(path)
    assert recipe.model == {"timeplex": "timeplex-base", "hyte-transe": "hyte"}.get(path.stem, path.stem)
    assert bool(recipe.gadgets) == (path.stem == "timeplex")
    assert recipes.parse(recipe.model_dump(), "again") == recipe
    assert recipe.options["dimension"] in (200, 400)


@pytest.mark.parametrize("dataset", sorted({path.parent.name for path in SHIPPED}))
def test_timeplex_is_its_base_and_gadgets(dataset: str) -> None:
    whole, base = (recipes.read(f"{dataset}/{name}") for name in ("timeplex", "timeplex-base"))
    assert whole.without_gadgets() == base


def test_a_recipe_can_extend_another(tmp_path: Path) -> None:
    (tmp_path / "first.toml").write_text("epochs = 7\nl2 = 0.5\n[options]\nalpha = 2.0\n")
    (tmp_path / "second.toml").write_text('extends = "first.toml"\nl2 = 0.25\n[gadgets.pair]\nweight = 3.0\n')
    recipe = recipes.read(tmp_path / "second.toml")
    assert (recipe.epochs, recipe.l2, recipe.options["alpha"]) == (7, 0.25, 2.0)
    assert recipe.gadgets["pair"]["weight"] == 3.0
    (tmp_path / "round.toml").write_text('extends = "second.toml"\n')
    for wrong, what in (("second", "extends itself"), ("round", "extends itself"), ("third", "does not exist")):
        (tmp_path / "second.toml").write_text(f'extends = "{wrong}.toml"\n')
        with pytest.raises(InputError, match=what):
            recipes.read(tmp_path / "second.toml")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_name_means_the_shipped_recipe(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{path.parent.name}/{path.stem}"
    monkeypatch.chdir(tmp_path)
    assert recipes.read(name) == recipes.read(path)
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text("epochs = 1")  # such as in a KB folder that somebody sent
    assert recipes.read(name) == recipes.read(path)
    (tmp_path / f"{name}.toml").write_text("epochs = 1")
    assert recipes.read(f"{name}.toml").epochs == 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("yago11k/timplex", "Did you mean 'yago11k/timeplex'?"),
        ("yago/complex", "Did you mean 'yago11k/complex'?"),
        ("mine", "Give a TOML file, or a name such as 'yago11k/timeplex'."),
    ],
)
def test_an_unknown_recipe(name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownNameError) as caught:
        recipes.read(name)
    assert str(caught.value) == f"There is no recipe {name!r}. {hint}"


def test_every_cell_of_the_papers_table_has_a_recipe() -> None:
    for dataset in ("yago11k", "wikidata12k", "icews14", "icews05-15"):
        assert {path.stem for path in SHIPPED if path.parent.name == dataset} >= set(METHODS)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"epoch": 3}, "epoch"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": "many"}, "epochs"),
        ({"loss": "hinge"}, "loss"),
        ({"options": {"alpha": -1}}, "alpha"),
        ({"options": {"omega": 1}}, "omega"),
        ({"model": "complex", "options": {"alpha": 1}}, "alpha"),
        ({"loss": "margin", "time_weight": 0}, "negatives"),
        ({"loss": "margin", "negatives": 5}, "time_weight"),
        ({"frequent": 5, "negatives": 0}, "negatives"),
        ({"loss": "margin", "negatives": 5, "time_weight": 0, "frequent": 5}, "frequent"),
        ({"gadgets": {"pairs": {}}}, "pairs"),
        ({"gadgets": {"pair": {"minimum": 1}}}, "minimum"),
        ({"gadgets": {"recurrence": {"weight": -1}}}, "weight"),
        ({"phase2": {"epochs": 0}}, "epochs"),
    ],
)
def test_wrong_values_are_named(values: dict[str, object], key: str) -> None:
    with pytest.raises(InputError, match=key) as caught:
        recipes.parse(values, "test.toml")
    assert "\n" not in str(caught.value)


def test_settings_that_do_not_go_together_are_told_in_a_sentence() -> None:
    with pytest.raises(InputError) as caught:
        recipes.parse({"frequent": 5, "negatives": 0}, "--set")
    told = "--set: frequent needs negatives of at least 1, which stand for the other entities. Change one of them."
    assert str(caught.value) == told


def test_unknown_model_is_named() -> None:
    with pytest.raises(Exception, match="timplex-base"):
        recipes.parse({"model": "timplex-base"}, "test.toml")


def test_settings() -> None:
    recipe = Recipe().with_settings(["epochs=7", "options.alpha=2", "loss=softmax", "inverse=false"])
    assert (recipe.epochs, recipe.options["alpha"], recipe.inverse) == (7, 2.0, False)
    assert Recipe().with_settings(["model=complex"]).options == {"dimension": 200, "spread": 0.05}
    for wrong in ("epochs", "epoch=3", "wrong.alpha=2"):
        with pytest.raises(InputError):
            Recipe().with_settings([wrong])


def test_files_that_are_no_recipe(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("epochs = = 3")
    for path in (tmp_path / "bad.toml", tmp_path / "none.toml", tmp_path):
        with pytest.raises(InputError):
            recipes.read(path)

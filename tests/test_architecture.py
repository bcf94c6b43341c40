"""docs/architecture.md tells of the tree as it is."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import timeplex

PACKAGE = Path(timeplex.__file__).parent
PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
NAMES = sorted(set(re.findall(r"`(timeplex(?:\.\w+)+)`", PAGE)))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_named_exists(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    try:
        import_module(name)
    except ImportError:
        assert hasattr(import_module(module), attribute), name


def test_much_is_named() -> None:
    assert len(NAMES) > 25


def rooms() -> dict[str, str]:
    """First column of the table of places → second column."""
    table = PAGE.partition("## What lives where")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE))


def test_every_place_of_the_table_is_there() -> None:
    inside = PACKAGE
    for places in rooms():
        for place in re.findall(r"`([\w/]+(?:\.py)?/?)`", places):
            path = (inside if places.startswith("…") else PACKAGE) / place
            assert path.exists(), place
            if not places.startswith("…"):
                inside = path if path.is_dir() else PACKAGE


def test_every_package_and_module_of_the_root_is_in_the_table() -> None:
    told = " ".join(rooms())
    for path in PACKAGE.iterdir():
        if path.suffix == ".py":
            assert f"`{path.name}`" in told, path.name
        elif (path / "__init__.py").exists():
            assert f"`{path.name}/`" in told, path.name

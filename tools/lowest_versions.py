"""The lowest version of each library that pyproject.toml allows to users, and the pinned tools to test with them."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
EXTRAS = ("plot", "pandas", "trees", "tune", "track")
PINNED = ("torch", "pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "hatchling", "editables", "XlsxWriter")
"""Other versions of torch bring gigabytes that a CPU has no use for; tools are as in every other test."""


def lowest() -> dict[str, str]:
    """Name → version, for all libraries that users install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (line for extra in EXTRAS for line in project["optional-dependencies"][extra])
    wanted = [Requirement(line) for line in (*project["dependencies"], *extras)]
    return {
        canonicalize_name(each.name): clause.version
        for each in wanted
        for clause in each.specifier
        if clause.operator == ">="
    }


def pinned() -> dict[str, str]:
    """Name → version of what is not varied."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    return {name: pins[name] for name in PINNED}


if __name__ == "__main__":
    for name, version in {**lowest(), **pinned()}.items():
        print(f"{name}=={version}")

"""The repository as a whole: versions, licence, CI, and nothing in it that should not be."""

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import timeplex

ROOT = Path(__file__).parents[1]
LARGEST = 2_000_000
TOOLS = {"timeplex", "pip", "setuptools", "wheel"}
"""Not pinned: the package itself, and what every environment brings along."""


def pins(text: str) -> dict[str, str]:
    """Name → version of a constraints file; anything but `name==version` is an error."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    parts = [re.fullmatch(r"([\w.-]+)==([\w.!+-]+)", line) for line in lines if line]
    assert all(parts), "each line of constraints.txt is name==version"
    return {canonicalize_name(part[1]): part[2] for part in parts if part}


PINNED = pins((ROOT / "constraints.txt").read_text())
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, TOOL = PYPROJECT["project"], PYPROJECT["tool"]
PYTHON = "Programming Language :: Python :: 3"
EXTRAS = ("dev", "plot", "pandas")
REQUIREMENTS = [
    Requirement(text)
    for text in (
        *PROJECT["dependencies"],
        *(line for extra in EXTRAS for line in PROJECT["optional-dependencies"][extra]),
    )
]


def test_every_installed_distribution_is_pinned_at_its_version() -> None:
    installed = {canonicalize_name(found.metadata["Name"]): found.version for found in distributions()}
    wanted = {name: Version(version).public for name, version in installed.items() if name not in TOOLS}
    wrong = {name: (version, PINNED.get(name)) for name, version in wanted.items() if PINNED.get(name) != version}
    assert wrong == {}


def test_torch_is_pinned_as_designed() -> None:
    assert PINNED["torch"] == "2.13.0"


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_a_dependency_has_a_range_that_its_pin_satisfies(requirement: Requirement) -> None:
    if canonicalize_name(requirement.name) == "timeplex":
        assert requirement.extras <= set(PROJECT["optional-dependencies"])
        return
    operators = {clause.operator for clause in requirement.specifier}
    assert ">=" in operators, "a range begins somewhere"
    assert "==" not in operators, "pins belong into constraints.txt"
    assert requirement.specifier.contains(PINNED[canonicalize_name(requirement.name)])


def test_what_users_install_has_an_upper_bound() -> None:
    # What only tests use may be as new as it likes: the pins decide there.
    for text in PROJECT["dependencies"]:
        assert "<" in {clause.operator for clause in Requirement(text).specifier}, text


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111, "it can be executed"
    lines = [line.strip() for line in script.read_text().splitlines()]
    assert "make test" in lines
    assert any(line.startswith("set -e") for line in lines), "a failure is not passed over"


def test_the_lowest_versions_are_those_of_the_ranges() -> None:
    script = ROOT / "tools" / "lowest_versions.py"
    listed = pins(subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout)
    users = [
        *PROJECT["dependencies"],
        *PROJECT["optional-dependencies"]["plot"],
        *PROJECT["optional-dependencies"]["pandas"],
    ]
    for requirement in map(Requirement, users):
        name = canonicalize_name(requirement.name)
        assert requirement.specifier.contains(listed[name])
        assert name == "torch" or f">={listed[name]}" in str(requirement.specifier)
    assert listed["torch"] == PINNED["torch"]
    assert listed["pytest"] == PINNED["pytest"]


def test_make_test_checks_everything() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    steps = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for tool in ("ruff check .", "ruff format --check .", "mypy", "lint-imports", "pytest", "--cov"):
        assert tool in steps


# Habits of an open project


def parsed(path: str) -> Any:
    """What a YAML file of the repository says."""
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_version_is_written_in_one_place() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert TOOL["hatch"]["version"]["path"] == "src/timeplex/__init__.py"
    assert Version(timeplex.__version__).release
    assert parsed("CITATION.cff")["version"] == timeplex.__version__


def test_ci_tests_every_python_that_is_promised() -> None:
    workflow = parsed(".github/workflows/ci.yml")
    assert {"push", "pull_request"} <= set(workflow[True])  # YAML reads `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    tested = workflow["jobs"]["quick"]["strategy"]["matrix"]["python-version"]
    said = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if line.startswith(PYTHON) and "." in line]
    assert tested == said == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == f">={tested[0]}"
    steps = workflow["jobs"]["whole"]["steps"]
    assert {"run": ".ci/run"} in steps
    assert steps[1]["with"]["python-version"] == tested[0]
    for job in workflow["jobs"].values():
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])
        assert job["timeout-minutes"] <= 60


def test_hooks_before_a_commit_are_those_of_make_lint() -> None:
    hooks = [hook for repo in parsed(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert [hook["entry"].split()[0] for hook in hooks] == ["ruff", "ruff", "mypy", "lint-imports"]
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    for hook in hooks:
        assert hook["language"] == "system", "the tools are those of .venv"
        assert f"$(BIN)/{' '.join(hook['entry'].split(' --')[0].split())}" in lint


def test_the_citation_names_the_toolkit_and_the_paper() -> None:
    citation = parsed("CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= set(citation)
    assert (citation["type"], citation["license"]) == ("software", PROJECT["license"])
    assert [each["name"] for each in citation["authors"]] == [each["name"] for each in PROJECT["authors"]]
    assert citation["keywords"] == PROJECT["keywords"]
    (paper,) = citation["references"]
    assert paper["title"] == "Temporal Knowledge Base Completion: New Algorithms and Evaluation Protocols"
    assert [each.get("family-names", each.get("name")) for each in paper["authors"]] == [
        *("Jain", "Rathi", "Mausam", "Chakrabarti")
    ]
    assert (paper["year"], paper["doi"]) == (2020, "10.18653/v1/2020.emnlp-main.305")


@pytest.mark.parametrize("name", ["bug", "idea"])
def test_the_forms_of_issues_ask_something(name: str) -> None:
    form = parsed(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= set(form)
    fields = [field["id"] for field in form["body"]]
    assert len(fields) == len(set(fields)) >= 2
    assert all(field["attributes"]["label"] for field in form["body"])
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_the_form_of_pull_requests_names_what_there_is() -> None:
    text = (ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md").read_text()
    assert "make test" in text
    assert all((ROOT / name).is_file() for name in re.findall(r"[A-Z]+\.md", text))


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_something_stands_behind_every_extra(extra: str) -> None:
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert extra == "dev" or f"timeplex[{extra}]" in sources


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert text.split("\n")[1].strip() == "Apache License"
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["license"] == "Apache-2.0"


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """The files that git knows, and those that it would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is not a clone")
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_is_large(tracked: list[Path]) -> None:
    assert ROOT / "pyproject.toml" in tracked
    assert {path.name: path.stat().st_size for path in tracked if path.stat().st_size > LARGEST} == {}


HYTE_LINE = re.compile(rb"^[^\t\n]+\t[^\t\n]+\t[^\t\n]+\t(-?[\d#]{2,4}-[\d#]{2}-[\d#]{2})", re.MULTILINE)


def is_benchmark_data(path: Path) -> bool:
    """Whether a file looks like a split of a benchmark: by its name, or by many lines of HyTE or ICEWS text."""
    named = re.fullmatch(r"(icews_.*_)?(train|valid|test)\.txt|(entity|relation)2id\.txt", path.name) is not None
    return named or len(HYTE_LINE.findall(path.read_bytes())) > 100


def test_no_benchmark_data_is_kept(tracked: list[Path]) -> None:
    assert [path.name for path in tracked if is_benchmark_data(path)] == []


def test_benchmark_data_is_recognised(tmp_path: Path) -> None:
    lines = {
        "train.txt": "",
        "entity2id.txt": "",
        "renamed.tsv": "<A>\t<r>\t<B>\t1952-##-##\t####-##-##\n" * 101,
        "events.dat": "China\tConsult\tIran\t2014-05-13\n" * 101,
        "short.txt": "<A>\t<r>\t<B>\t1952-##-##\t####-##-##\n" * 3,
        "sample.tsv": "A\tr\tB\t1952\t1960\n" * 500,
    }
    for name, text in lines.items():
        (tmp_path / name).write_text(text)
    assert [is_benchmark_data(tmp_path / name) for name in lines] == [True] * 4 + [False] * 2


def test_no_path_of_one_machine(tracked: list[Path]) -> None:
    home = rb"/(home|Users)/[a-z]\w*/"
    # A clone right below the root, such as /src, has a name that may well stand in a file by chance.
    here = b"|" + re.escape(str(ROOT).encode()) if len(ROOT.parts) > 2 else b""
    found = [str(path.relative_to(ROOT)) for path in tracked if re.search(home + here, path.read_bytes())]
    assert found == []


def test_every_promise_of_security_names_a_test_that_exists() -> None:
    lines = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if line.startswith("| ")]
    promises = [line for line in lines if not line.startswith("| promise")]
    assert len(promises) >= 12
    for line in promises:
        named = re.findall(r"`(tests/[a-z_/]+\.py)`", line.split("|")[2])
        assert named, line
        assert [name for name in named if not (ROOT / name).is_file()] == []

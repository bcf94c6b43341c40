"""The wheel: what users install has all that it needs, and nothing of the source tree is needed beside it."""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.patience import patience

from timeplex import __version__
from timeplex.reproduce.records import DATASETS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "timeplex"
RESULTS = ROOT / "results"
LARGEST = 900_000
SHIPPED = {".py", ".tsv", ".md", ".toml", ".typed", ".html", ".css", ".js", ".svg"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as a release is, without the network."""
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w"]
    subprocess.run([*build, place, ROOT], check=True, timeout=patience(120))
    (built,) = place.glob("*.whl")
    return built


def test_all_of_the_package_and_nothing_else_is_inside(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {f"timeplex/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*") if path.suffix in SHIPPED}
    records = [path for name in (*DATASETS, "sample", "figures") for path in (RESULTS / name).glob("*.json")]
    ours |= {f"timeplex/reproduce/results/{path.relative_to(RESULTS)}" for path in records}
    assert {name for name in names if name.startswith("timeplex/")} == ours
    others = {name.partition("/")[2] for name in names - ours}
    assert others == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert "timeplex/py.typed" in names
    assert "timeplex/recipes/yago11k/timeplex.toml" in names
    assert wheel.stat().st_size < LARGEST


def test_the_source_archive_has_what_a_build_needs(tmp_path: Path) -> None:
    build = "import sys, hatchling.build; hatchling.build.build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, tmp_path], cwd=ROOT, check=True, timeout=patience(120), capture_output=True
    )
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "src/timeplex/__init__.py", "src/timeplex/py.typed"} <= names
    assert not [name for name in names if name.startswith((".venv", "demo", "runs", ".git/"))]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed by itself; what it depends on is that of the tests."""
    place = tmp_path_factory.mktemp("installed")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", place, wheel]
    subprocess.run(install, check=True, timeout=patience(120))
    return place


@pytest.fixture
def python(installed: Path, tmp_path: Path) -> Callable[..., str]:
    """Python in an empty folder, where the package is the installed wheel and nothing else of ours is found."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("TIMEPLEX", "COV"))}
    variables |= {"PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}

    def call(*arguments: str) -> str:
        # -P: neither the working folder nor that of a script is on the path.
        command = [sys.executable, "-P", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=patience(120)
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@pytest.fixture
def timeplex(python: Callable[..., str]) -> Callable[..., str]:
    """The command line of the wheel."""
    return partial(python, "-m", "timeplex.cli.main")


def test_the_wheel_is_what_is_tested(installed: Path, python: Callable[..., str]) -> None:
    where = python("-c", "import timeplex; print(timeplex.__file__)")
    assert where.strip() == str(installed / "timeplex" / "__init__.py")
    assert f"timeplex-{__version__}.dist-info" in {path.name for path in installed.iterdir()}


def test_it_trains_and_answers(timeplex: Callable[..., str], tmp_path: Path) -> None:
    assert timeplex("--version") == f"timeplex {__version__}\n"
    assert "headOfState" in timeplex("stats", "sample")
    timeplex("train", "sample", "-o", "run", "--set", "epochs=2", "--set", "options.dimension=8")
    question = ("--relation", "headOfState", "--object", "France", "--at", "1970")
    assert "Georges Pompidou" in timeplex("rank", "run", *question)
    rows = "".join(f"p{n % 9},worksFor,c{n % 4},{1990 + n},{1992 + n}\n" for n in range(30))
    (tmp_path / "facts.csv").write_text("subject,relation,object,begin,end\n" + rows)
    timeplex("import", "facts.csv", "-o", "facts.kb")
    small = ("--set", "epochs=1", "--set", "options.dimension=4")
    assert "complex on facts" in timeplex("train", "facts.kb", "-o", "other", "--recipe", "yago11k/complex", *small)
    assert {path.name for path in tmp_path.iterdir()} == {"facts.csv", "facts.kb", "run", "other"}


def test_it_audits(timeplex: Callable[..., str], tmp_path: Path) -> None:
    assert "Zhou Enlai headOfGovernment" in timeplex("audit", "sample")
    assert list(tmp_path.iterdir()) == []


def test_it_shows_the_tables_of_the_paper(timeplex: Callable[..., str], tmp_path: Path) -> None:
    assert "| entities | 10,623 | 10,622 |" in timeplex("reproduce", "--table", "stats")
    assert "| TimePlex | " in timeplex("reproduce", "--table", "link", "--dataset", "yago11k")
    assert list(tmp_path.iterdir()) == []

"""The wheel: what users install has all that it needs, and nothing of the source tree is needed beside it."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "timeplex"
SHIPPED = {".py", ".tsv", ".md", ".toml", ".typed"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as a release is, without the network."""
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w"]
    subprocess.run([*build, place, ROOT], check=True, timeout=120)
    (built,) = place.glob("*.whl")
    return built


def test_all_of_the_package_and_nothing_else_is_inside(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {f"timeplex/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*") if path.suffix in SHIPPED}
    assert {name for name in names if name.startswith("timeplex/")} == ours
    others = {name.partition("/")[2] for name in names - ours}
    assert others == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert "timeplex/py.typed" in names


def test_the_source_archive_has_what_a_build_needs(tmp_path: Path) -> None:
    build = "import sys, hatchling.build; hatchling.build.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=ROOT, check=True, timeout=120, capture_output=True)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "src/timeplex/__init__.py", "src/timeplex/py.typed"} <= names
    assert not [name for name in names if name.startswith((".venv", "demo", "runs", ".git/"))]


def test_it_works_alone_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    installed, empty = tmp_path / "installed", tmp_path / "empty"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        installed,
        wheel,
    ]
    subprocess.run(install, check=True, timeout=120)
    empty.mkdir()
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("TIMEPLEX", "COV"))}

    def timeplex(*arguments: str) -> str:
        # -P: neither the working folder nor that of a script is on the path.
        command = [sys.executable, "-P", "-m", "timeplex.cli.main", *arguments]
        environment = {**variables, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = "import timeplex, sys; print(timeplex.__file__)"
    found = subprocess.run(
        [sys.executable, "-P", "-c", where],
        cwd=empty,
        env={**variables, "PYTHONPATH": str(installed)},
        capture_output=True,
    )
    assert found.stdout.decode().strip() == str(installed / "timeplex" / "__init__.py")
    assert timeplex("--version").startswith("timeplex ")
    assert "headOfState" in timeplex("stats", "sample")
    rows = "".join(f"p{n % 9},worksFor,c{n % 4},{1990 + n},{1992 + n}\n" for n in range(30))
    (empty / "facts.csv").write_text("subject,relation,object,begin,end\n" + rows)
    timeplex("import", "facts.csv", "-o", "facts.kb")
    timeplex("train", "facts.kb", "-o", "run", "--set", "epochs=1", "--set", "options.dimension=4")
    assert "c1" in timeplex("rank", "run", "--subject", "p1", "--relation", "worksFor", "--at", "1995")
    assert {path.name for path in empty.iterdir()} == {"facts.csv", "facts.kb", "run"}

"""Folders of strangers, for every verb that takes a KB or a run: nothing runs, nothing outside is read or changed.

The working folder is the stranger's, too. Each command is watched by an audit hook (`watched.py`).
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.builders import small_kb
from tests.kb.test_store import FILES as KB_FILES
from tests.patience import patience

import timeplex as package
from timeplex.cli.main import app
from timeplex.decisions.journal import Decisions
from timeplex.training.checkpoint import Stopped
from timeplex.training.loop import Trainer
from timeplex.training.recipe import Recipe

EVIL = "open('/tmp/it-ran', 'w').close()\nraise SystemExit('it ran')\n"
PLANTED = ("evil", "torch", "timeplex", "numpy", "polars", "json", "sitecustomize", "usercustomize", "pydantic")
NO_FOLDER = {"datasets", "check-model", "reproduce", "import"}
"""Verbs that take neither a KB folder nor a run folder."""
ENDLESS = {"serve"}
"""It loads a KB or a run as `rank` does, and then answers until it is stopped."""

QUICK = ["--set", "epochs=1", "--set", "options.dimension=4"]


def kb_verbs(kb: str, out: Path) -> dict[str, list[str]]:
    return {
        "stats": [kb],
        "problems": [kb, "-o", f"{out}/problems.csv"],
        "audit": [kb, "-o", f"{out}/findings.csv", "--html", f"{out}/findings.html"],
        "split": [kb, "-o", f"{out}/split.kb"],
        "apply": [kb, "decisions.csv", "-o", f"{out}/applied.kb"],
        "models": [kb],
        "evaluate": [kb],
        "train": [kb, "-o", f"{out}/trained", "--model", "complex", *QUICK],
        "tune": [kb, "-o", f"{out}/tuned", "--model", "complex", "--trials", "1", *QUICK],
    }


def run_verbs(run: str, kb: str, out: Path) -> dict[str, list[str]]:
    s, r, o = package.TemporalKB.load(out.parent / "good/kb").to_polars().drop_nulls().row(0)[1:4]
    return {
        "rank": [run, "--subject", s, "--relation", r, "--at", "1990"],
        "when": [run, s, r, o],
        "explain": [run, s, r, o, "--at", "1990"],
        "evaluate": [run],
        "fill": [run, str(out.parent / "holes.csv"), "-o", f"{out}/filled.csv"],
        "discover": [run, "-o", f"{out}/found.csv"],
        "compare": [run, run],
        "diagnose": [run],
        "audit": [kb, "--run", run],
        "train": [kb, "-o", f"{out}/on-base", "--base", run, "--model", "timeplex-base", *QUICK],
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good KB, run and begun run; an empty folder for what is written; and a secret that nobody may touch."""
    place = tmp_path_factory.mktemp("untrusted").resolve()
    kb = small_kb(200)
    kb.save(place / "good/kb")
    Decisions(kb, place / "good/decisions.csv").close()  # none is made
    recipe = Recipe(options={"dimension": 4}, epochs=1, batch_size=50, precision="float32")
    Trainer(kb, recipe, place / "good/run", "cpu").fit()
    begun = Trainer(kb, recipe, place / "good/begun", "cpu")
    with pytest.raises(Stopped):
        begun.fit(lambda now: setattr(begun, "stop_asked", True))
    shutil.copytree(place / "good", place / "secret")
    kb.to_polars().head(5).drop("split", "end").write_csv(place / "holes.csv")
    return place


def hostile(place: Path) -> Path:
    """A copy of the good folders with traps beside their files."""
    folder = place / "hostile"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(place / "out", ignore_errors=True)
    (place / "out").mkdir()
    shutil.copytree(place / "good", folder)
    for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        for name in PLANTED:
            (each / f"{name}.py").write_text(EVIL)
        for name, target in (("passwd", "/etc/passwd"), ("up", ".."), ("nowhere", "/no/such"), ("s", place / "secret")):
            (each / f"link-{name}").symlink_to(target)
        os.mkfifo(each / "pipe")
    return folder


def watched(place: Path, cases: list[tuple[str, list[str]]]) -> list[dict[str, Any]]:
    """What each command, run in the hostile folder, gave and touched."""
    (place / "cases.json").write_text(
        json.dumps([{"folder": str(place / "hostile"), "arguments": [verb, *rest]} for verb, rest in cases])
    )
    variables = {**os.environ, "REPORT": str(place / "report.json"), "MPLCONFIGDIR": str(place / "out")}
    watcher = [sys.executable, "-P", str(Path(__file__).with_name("watched.py")), str(place / "cases.json")]
    done = subprocess.run(
        watcher,
        cwd=place / "hostile",
        env=variables,
        capture_output=True,
        text=True,
        timeout=patience(400),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report: list[dict[str, Any]] = json.loads((place / "report.json").read_text())
    touched = {f"{case}": wrong(place, answer["seen"]) for case, answer in zip(cases, report, strict=True)}
    assert {case: found for case, found in touched.items() if found} == {}
    assert not Path("/tmp/it-ran").exists()
    return report


SYSTEM = tuple(
    os.path.realpath(path)
    for path in (
        sys.prefix,
        sys.base_prefix,
        Path(package.__file__).parents[1],
        Path(__file__).parent,
        "/proc",
        "/sys",
        "/usr",
        "/lib",
        "/lib64",
    )
)
SINGLE = {"/dev/null", "/dev/urandom", "/etc/localtime", "/etc/timezone", "/etc/ld.so.cache", "/etc/mime.types"}


def wrong(place: Path, seen: list[list[str]]) -> list[list[str]]:
    """What no command may do: start programs, run or open what is not its own, write elsewhere."""
    found = []
    for event, path in seen:
        inside = [path == str(place / name) or path.startswith(f"{place / name}/") for name in ("hostile", "out")]
        own = path.startswith(SYSTEM) or path in SINGLE
        match event:
            case "open":
                fine = own or any(inside) or path in (f"{place}/holes.csv", "/tmp", "/var/tmp") or is_temporary(path)
                fine = own or (fine and not path.endswith((*(f"/{name}.py" for name in PLANTED), "pipe")))
            case "compile" | "exec" | "ctypes.dlopen":
                fine = own or not path.startswith(str(place))
            case "write":
                fine = path == "/dev/null" or any(inside) or is_temporary(path)
            case "os.mkdir" | "os.rename" | "os.remove" | "os.rmdir" | "os.chmod" | "os.symlink":
                fine = any(inside) or is_temporary(path)
            case _:
                fine = event.startswith("shutil.") and (any(inside) or is_temporary(path))
        if not fine:
            found.append([event, path])
    return found


def is_temporary(path: str) -> bool:
    """A file of a name that nobody could know before, or the package's own compiled code, kept beside its source."""
    if path.startswith(str(Path(package.__file__).parent)) and "/__pycache__" in path:
        return True
    return path.startswith(("/tmp/tmp", "/dev/shm/", "/tmp/torchinductor", "/tmp/_wr")) or path.startswith(
        "/tmp/matplotlib"
    )


def secrets(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (place / "secret").rglob("*") if path.is_file()}


def test_every_verb_is_tried() -> None:
    names = {command.name for command in app.registered_commands}
    asked = {*kb_verbs("kb", Path()), "rank", "when", "explain", "fill", "discover", "compare", "diagnose"}
    assert names == asked | NO_FOLDER | ENDLESS


@pytest.mark.slow
def test_traps_beside_the_files_are_not_stepped_into(place: Path) -> None:
    hostile(place)
    before = secrets(place)
    cases = [*kb_verbs("./kb", place / "out").items(), *run_verbs("run", "./kb", place / "out").items()]
    cases.append(("train", ["--resume", "-o", "begun"]))
    for (verb, rest), answer in zip(cases, watched(place, cases), strict=True):
        # A base needs a recipe that is the same; how far a verb gets is not the question here.
        assert answer["code"] == (2 if "--base" in rest else 0), (verb, rest, answer["err"])
    assert secrets(place) == before


@pytest.mark.slow
def test_a_run_that_names_a_file_is_refused_by_every_verb(place: Path) -> None:
    folder = hostile(place)
    for run in ("run", "begun"):
        recipe = json.loads((folder / run / "recipe.json").read_text())
        recipe["model"] = f"{folder}/evil.py:evil"
        (folder / run / "recipe.json").write_text(json.dumps(recipe))
    cases = [*run_verbs("run", "./kb", place / "out").items(), ("train", ["--resume", "-o", "begun"])]
    for (verb, _), answer in zip(cases, watched(place, cases), strict=True):
        assert answer["code"] == 2, (verb, answer)
        assert "not part of timeplex, 'evil'. Add its file: --model path/to/file.py:evil" in answer["err"], verb


INSTEAD = ("link", "passwd", "dangling", "pipe", "folder")
WAYS = {"kb": ["stats"], "run": ["evaluate"], "begun": ["train", "--resume", "-o"]}


def put_instead(path: Path, instead: str, secret: Path) -> None:
    """Something else in the place of a file or folder."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if instead == "pipe":
        os.mkfifo(path)
    elif instead == "folder":
        path.mkdir()
    else:
        path.symlink_to({"link": secret, "passwd": "/etc/passwd", "dangling": secret / "no-such"}[instead])


@pytest.mark.slow
def test_what_stands_instead_of_a_file_is_refused(place: Path) -> None:
    """Each file in turn, and each folder inside a run, is a link, a pipe or a folder; a link even to the same file."""
    folder = hostile(place)
    before = secrets(place)
    of_run = ("MANIFEST.json", "recipe.json", "model.safetensors", "metrics.json", "trace.jsonl")
    step = next((folder / "begun/checkpoint").glob("step-*.safetensors")).name
    files = [f"{kb}/{name}" for kb in ("kb", "run/kb") for name in KB_FILES] + [f"run/{name}" for name in of_run]
    files += [
        f"begun/{name}" for name in ("recipe.json", "checkpoint/latest.json", f"checkpoint/{step}", "trace.jsonl")
    ]
    folders = ["run/kb", "begun/kb", "begun/checkpoint"]
    tried = [(file, instead) for instead in INSTEAD for file in files] + [(each, "link") for each in folders]
    cases: list[tuple[str, list[str]]] = []
    for number, (file, instead) in enumerate(tried):
        kind, _, name = file.partition("/")
        shutil.copytree(place / "good" / kind, folder / f"{number}")
        put_instead(folder / f"{number}" / name, instead, place / "secret" / file)
        verb, *options = WAYS[kind]
        cases.append((verb, [*options, f"./{number}"]))
    for what, answer in zip(tried, watched(place, cases), strict=True):
        assert answer["code"] == 2, (what, answer["out"][-300:], answer["err"])
        assert answer["err"].count("\n") == 1, (what, answer["err"])
    assert secrets(place) == before

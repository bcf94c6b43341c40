"""Small trained runs to ask: made once a session, a second each."""

from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

from typer.testing import CliRunner

import timeplex
from timeplex.cli.main import app
from timeplex.inference.trained import Trained

GADGETS = ["--set", "gadgets.recurrence={}", "--set", "gadgets.pair={}"]
FAST = ["--set", "epochs=4", "--set", "options.dimension=8", "--set", "batch_size=100"]
KINDS = {
    "gadgets": ["--model", "timeplex-base", *GADGETS],
    "plain": ["--model", "timeplex-base", "--set", "inverse=false"],
    "inverse": ["--model", "tnt-complex", "--set", "inverse=true", *GADGETS],
    "static": ["--model", "complex"],
    "undated": ["--model", "timeplex-base"],
}


@lru_cache
def folder(kind: str) -> Path:
    """The folder of a run on a made-up KB of 900 facts."""
    place = Path(mkdtemp(prefix="small-runs-"))
    kb = timeplex.generate(900, seed=0)
    if kind == "undated":
        kb = timeplex.read(kb.to_polars().select("subject", "relation", "object"))
    timeplex.split_randomly(kb, valid=0.2, test=0.1, seed=0).save(place / "small.kb")
    arguments = ["train", str(place / "small.kb"), "-o", str(place / kind), *KINDS[kind], *FAST]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    return place / kind


@lru_cache
def trained(kind: str = "gadgets") -> Trained:
    """The run, ready to be asked."""
    return timeplex.load(folder(kind), device="cpu")

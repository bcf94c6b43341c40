"""The `sample` KB: real public facts that come with the package, for demos and tests; see SOURCES.md."""

from pathlib import Path

from timeplex.kb.dates import Granularity
from timeplex.kb.facts import TemporalKB
from timeplex.kb.readers import read_files
from timeplex.kb.split import split_randomly


def load() -> TemporalKB:
    """The sample, split at random with a fixed seed (8 : 1 : 1)."""
    files = sorted(Path(__file__).parent.glob("*.tsv"))
    kb = read_files(files, granularity=Granularity.YEAR, name="sample")
    return split_randomly(kb, valid=0.1, test=0.1, seed=0)

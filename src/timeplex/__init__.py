"""timeplex: temporal knowledge base completion. The public API in one place.

Everything is imported on first use, so that `import timeplex` is quick and does not import torch.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from timeplex import errors as errors

# Some virtual machines announce units for products of bfloat16 numbers (AMX) that they have not got: the first product
# then ends the process, and no exception tells. So these units are not used, unless the environment says otherwise.
# It is read when torch multiplies for the first time; whatever of ours does that has been imported through here.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

__version__ = "0.1.0"

_WHERE = {
    "Findings": "timeplex.auditing.findings",
    "Granularity": "timeplex.kb.dates",
    "Learned": "timeplex.answers.learned",
    "Model": "timeplex.models.base",
    "Protocol": "timeplex.evaluation.protocol",
    "Recipe": "timeplex.training.recipe",
    "Report": "timeplex.evaluation.report",
    "TemporalKB": "timeplex.kb.facts",
    "TimeplexError": "timeplex.errors",
    "Trained": "timeplex.answers.trained",
    "apply": "timeplex.api",
    "audit": "timeplex.api",
    "compare": "timeplex.api",
    "describe": "timeplex.kb.stats",
    "diagnose": "timeplex.api",
    "evaluate": "timeplex.api",
    "evaluate_scores": "timeplex.evaluation.report",
    "generate": "timeplex.datasets.synthetic",
    "leakage": "timeplex.kb.split",
    "learn": "timeplex.api",
    "list_models": "timeplex.api",
    "load": "timeplex.answers.trained",
    "read": "timeplex.sources",
    "split_by_time": "timeplex.kb.split",
    "split_randomly": "timeplex.kb.split",
    "train": "timeplex.api",
    "tune": "timeplex.api",
    "write_file": "timeplex.kb.store",
    "write_folder": "timeplex.kb.store",
}

__all__ = ["__version__", *_WHERE]

if TYPE_CHECKING:
    from timeplex.answers.learned import Learned as Learned
    from timeplex.answers.trained import Trained as Trained
    from timeplex.answers.trained import load as load
    from timeplex.api import apply as apply
    from timeplex.api import audit as audit
    from timeplex.api import compare as compare
    from timeplex.api import diagnose as diagnose
    from timeplex.api import evaluate as evaluate
    from timeplex.api import learn as learn
    from timeplex.api import list_models as list_models
    from timeplex.api import train as train
    from timeplex.api import tune as tune
    from timeplex.auditing.findings import Findings as Findings
    from timeplex.datasets.synthetic import generate as generate
    from timeplex.errors import TimeplexError as TimeplexError
    from timeplex.evaluation.protocol import Protocol as Protocol
    from timeplex.evaluation.report import Report as Report
    from timeplex.evaluation.report import evaluate_scores as evaluate_scores
    from timeplex.kb.dates import Granularity as Granularity
    from timeplex.kb.facts import TemporalKB as TemporalKB
    from timeplex.kb.split import leakage as leakage
    from timeplex.kb.split import split_by_time as split_by_time
    from timeplex.kb.split import split_randomly as split_randomly
    from timeplex.kb.stats import describe as describe
    from timeplex.kb.store import write_file as write_file
    from timeplex.kb.store import write_folder as write_folder
    from timeplex.models.base import Model as Model
    from timeplex.sources import read as read
    from timeplex.training.recipe import Recipe as Recipe


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'timeplex' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

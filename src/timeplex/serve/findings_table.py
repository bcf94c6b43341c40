"""Findings as columns that a list is chosen and counted by."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from timeplex.auditing.findings import Findings
from timeplex.serve.limits import FACETS
from timeplex.typing import Bools


class FindingsTable:
    """Findings as columns to choose by."""

    def __init__(self, findings: Findings) -> None:
        self.findings, self.rows = findings, findings.rows
        self.rule = findings.frame["rule"].to_numpy()
        self.severity = findings.frame["severity"].to_numpy()
        self.suspicion = dict(zip(self.rows.tolist(), findings.frame["suspicion"].to_list(), strict=True))
        self._others: dict[tuple[str, int], list[int]] = {}
        if findings.case is not None:
            row_of = findings.case.rows
            for found in findings.found:
                for fact, others in zip(found.fact.tolist(), found.others, strict=True):
                    self._others[found.rule, int(row_of[fact])] = [int(row_of[other]) for other in others]

    def __len__(self) -> int:
        return len(self.rows)

    def others(self, number: int) -> list[int]:
        """The rows of the other facts that a finding involves."""
        return self._others.get((str(self.rule[number]), int(self.rows[number])), [])


def where_all(masks: Mapping[str, Bools], but: str = "") -> Bools:
    """Where all masks hold, but for one of them."""
    together: Bools = np.logical_and.reduce([mask for name, mask in masks.items() if name != but])
    return together


def counts(values: Any) -> list[tuple[Any, int]]:
    """Each value with how often it is there, most frequent first."""
    each, count = np.unique(values, return_counts=True)
    order = np.argsort(-count, kind="stable")[:FACETS]
    return [(each[at].item() if hasattr(each[at], "item") else each[at], int(count[at])) for at in order]

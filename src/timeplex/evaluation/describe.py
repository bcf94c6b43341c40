"""Queries as a table of names and dates, with the groups that figures are broken down by."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from timeplex.evaluation.queries import DIRECTIONS
from timeplex.kb import dates, spans
from timeplex.kb.dates import Ints
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.relation_classes import INSTANTS_A_YEAR, relation_classes

Texts = NDArray[np.str_]

GROUPS = ("relation", "span", "class", "seen", "frequency")
"""What figures can be broken down by."""

FEW, MANY = 10, 100
"""The bounds between rare, middling and frequent answers, in training facts."""

YEARS = 5
"""Spans longer than this many years are long."""


def describe_queries(kb: TemporalKB, facts: Facts) -> pl.DataFrame:
    """A row for each subject query, then one for each object query: the fact, and what it can be grouped by.

    fact       position in the split
    span       instant, up to 5 years, over 5 years, or open
    class      of the relation: instant, short or long (`kb.relation_classes`)
    seen       whether the triple stands in train at another time
    frequency  of the gold answer in train: unseen, rare (< 10 facts), middling (< 100), frequent
    """
    frame = describe_facts(kb, facts)
    occurrences = np.bincount(np.concatenate([kb.train.s, kb.train.o]), minlength=len(kb.entities))
    golds = {"subject": facts.s, "object": facts.o}
    return pl.concat(
        frame.with_columns(
            direction=pl.lit(direction), frequency=pl.Series(_frequency(occurrences[golds[direction]]), dtype=pl.String)
        )
        for direction in DIRECTIONS
    )


def describe_facts(kb: TemporalKB, facts: Facts) -> pl.DataFrame:
    """A row a fact, with names and dates as text and the groups that do not depend on the direction."""
    begin_open, end_open = spans.is_open(facts.span)
    begin, end = (pl.Series(dates.write(side, kb.granularity), dtype=pl.String) for side in facts.span)
    return pl.DataFrame(
        {
            "fact": np.arange(len(facts)),
            "subject": kb.entities.names.gather(facts.s),
            "relation": kb.relations.names.gather(facts.r),
            "object": kb.entities.names.gather(facts.o),
            "begin": begin.zip_with(pl.Series(~begin_open), pl.Series([None], dtype=pl.String)),
            "end": end.zip_with(pl.Series(~end_open), pl.Series([None], dtype=pl.String)),
            "span": pl.Series(_span_length(kb, facts), dtype=pl.String),
            "class": pl.Series(relation_classes(kb)[facts.r], dtype=pl.String),
            "seen": pl.Series(np.where(_in_train(kb, facts), "seen triple", "new triple"), dtype=pl.String),
        }
    )


def _span_length(kb: TemporalKB, facts: Facts) -> Texts:
    instants = spans.volume(facts.span)
    years = instants / INSTANTS_A_YEAR[kb.granularity]
    kinds = ["open", "instant", f"up to {YEARS} years"]
    return np.select([np.isinf(instants), instants <= 1, years <= YEARS], kinds, f"over {YEARS} years")


def _in_train(kb: TemporalKB, facts: Facts) -> NDArray[np.bool_]:
    columns = ["s", "r", "o"]
    train, asked = (pl.DataFrame({name: getattr(part, name) for name in columns}) for part in (kb.train, facts))
    rows = asked.with_row_index().join(train.unique(), on=columns, how="semi")["index"].to_numpy()
    return np.isin(np.arange(len(facts)), rows)


def _frequency(facts: Ints) -> Texts:
    return np.select([facts == 0, facts < FEW, facts < MANY], ["unseen", "rare", "middling"], "frequent")

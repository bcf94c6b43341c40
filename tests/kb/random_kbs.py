"""Random facts and KBs for the tests of the data layer, small enough for slow and literal oracles."""

import numpy as np
import polars as pl
from hypothesis import strategies as st

from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import SPLITS, Facts, TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import Action, Kind, Log, Problems

Row = tuple[int, int, int, int, int]
"""s, r, o, begin, end."""

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@st.composite
def rows(draw: st.DrawFn, entities: int = 5, relations: int = 3, most: int = 15) -> list[Row]:
    """Facts among few entities, so that self loops, mirrored and repeated facts come up."""
    ends = st.tuples(st.integers(-3, 9), st.integers(-3, 9)).map(sorted)

    def fact(s: int, r: int, o: int, known: list[int], is_open: tuple[bool, bool]) -> Row:
        begin, end = known
        return s, r, o, spans.OPEN_BEGIN if is_open[0] else begin, spans.OPEN_END if is_open[1] else end

    entity, relation = st.integers(0, entities - 1), st.integers(0, relations - 1)
    seldom = st.integers(0, 3).map(lambda number: number == 0)
    return draw(st.lists(st.builds(fact, entity, relation, entity, ends, st.tuples(seldom, seldom)), max_size=most))


def facts_of(facts: list[Row]) -> Facts:
    table = np.array(facts, np.int32).reshape(-1, 5)
    return Facts(*table.T)


def kb_of(
    facts: list[Row] | dict[str, list[Row]],
    *,
    granularity: Granularity = Granularity.YEAR,
    problems: Problems | None = None,
) -> TemporalKB:
    """A KB with the entities e0 … e9 and the relations r0 … r9; a plain list of facts is train."""
    splits = facts if isinstance(facts, dict) else {"train": facts}
    entities, relations = (Names(pl.Series([f"{letter}{number}" for number in range(10)])) for letter in "er")
    parts = {split: facts_of(part) for split, part in splits.items()}
    return TemporalKB(entities, relations, granularity, parts, problems or Problems.none(len(facts)), "random")


@st.composite
def labelled(draw: st.DrawFn, size: int) -> Names:
    """Distinct names of any characters, some of which have a label."""
    names = draw(st.lists(TEXTS, min_size=size, max_size=size, unique=True))
    return Names(pl.Series(names, dtype=pl.String), draw(st.dictionaries(st.sampled_from(names), TEXTS, max_size=3)))


def problem(line: int, kind: Kind, action: Action, field: str, reason: str, row: str) -> pl.DataFrame:
    log = Log("a file")
    log.add([line], kind, action, field, reason, [row])
    return log.frames[0]


@st.composite
def some_problems(draw: st.DrawFn) -> Problems:
    found = [
        problem(line, kind, action, field, reason, row)
        for line, kind, action, field, reason, row in draw(
            st.lists(
                st.tuples(
                    st.integers(1, 99), st.sampled_from(Kind), st.sampled_from(Action), st.just("end"), TEXTS, TEXTS
                ),
                max_size=3,
            )
        )
    ]
    read = draw(st.integers(len(found), 100))
    return Problems(pl.concat(found), read) if found else Problems.none(read)


@st.composite
def kbs(draw: st.DrawFn, most: int = 12) -> TemporalKB:
    """KBs with names of any characters, labels, problems, any granularity and one to three splits."""
    present = draw(st.sampled_from([SPLITS, SPLITS[:1], SPLITS[:2], ("train", "test")]))
    return TemporalKB(
        draw(labelled(5)),
        draw(labelled(3)),
        draw(st.sampled_from(Granularity)),
        {split: facts_of(draw(rows(most=most))) for split in present},
        draw(some_problems()),
        draw(TEXTS),
    )


def named(kb: TemporalKB) -> dict[str, list[tuple[str, str, str, int, int]]]:
    """What a KB says, split by split and in sorted order, without its own way to compare."""
    return {
        split: sorted((kb.entities[s], kb.relations[r], kb.entities[o], begin, end) for s, r, o, begin, end in facts)
        for split, facts in kb.splits.items()
    }

"""Filling tables: every kind of hole, every kind of frame; nothing but columns is added."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.answers.small_learned import asked, undated, unseen

from timeplex.answers import fill as fill_module
from timeplex.answers.fill import fill
from timeplex.answers.links import Links
from timeplex.answers.rank import Ranked
from timeplex.answers.resolve import Hole, Reader, Resolver
from timeplex.errors import InputError
from timeplex.kb import spans
from timeplex.kb.names import Names
from timeplex.kb.readers.table import Columns
from timeplex.patterns.base import TimeQueries

ADDED = ["object_predicted", "begin_predicted", "end_predicted", "probability", "still_going_on", "reason"]


def names(row: int = 0, split: str = "train") -> tuple[str, str, str]:
    kb = asked().kb
    facts = kb.splits[split]
    return kb.entities[int(facts.s[row])], kb.relations[int(facts.r[row])], kb.entities[int(facts.o[row])]


def table(*rows: tuple[str | None, ...], columns: str = "subject relation object begin end") -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict.fromkeys(columns.split(), pl.String), orient="row")


def holes() -> pl.DataFrame:
    """A row of each kind, from facts that the model has not seen."""
    kb, rows = asked().kb, []
    for s, r, o, begin, end in unseen():
        if begin == spans.OPEN_BEGIN or end == spans.OPEN_END:
            continue
        s_, r_, o_ = kb.entities[s], kb.relations[r], kb.entities[o]
        rows += [
            (s_, r_, o_, str(begin), str(end)),
            (s_, r_, None, str(begin), str(end)),
            (s_, r_, o_, None, str(end)),
            (s_, r_, o_, str(begin), None),
            (s_, r_, o_, None, None),
            (s_, r_, None, None, None),
            (s_, r_, None, None, str(end)),
            ("Nobody", r_, o_, None, None),
        ]
    return table(*rows)


def by_kind() -> list[dict[str, Any]]:
    """The first row of each kind, filled."""
    return asked().fill(holes()).head(8).to_dicts()


def test_a_row_without_a_hole_and_a_row_that_says_too_little_stay_empty() -> None:
    whole, *_, nothing, _, unknown = by_kind()
    for row in (whole, nothing, unknown):
        assert [row[name] for name in ADDED[:-1]] == [None] * 5
    assert whole["reason"] == "the row has no hole"
    assert nothing["reason"] == "object and dates are both missing: give one of them"
    assert unknown["reason"].startswith("unknown entity 'Nobody'; ")


def test_each_hole_is_filled_and_nothing_else() -> None:
    _, object_, begin, end, both, _, at_end, _ = by_kind()
    filled = {"object_predicted", "begin_predicted", "end_predicted"}
    for row, expected in (
        (object_, {"object_predicted"}),
        (begin, {"begin_predicted"}),
        (end, {"end_predicted"}),
        (both, {"begin_predicted", "end_predicted"}),
        (at_end, {"object_predicted"}),
    ):
        assert {name for name in filled if row[name] is not None} == expected
        assert 0 <= row["probability"] <= 1
        assert row["reason"]
    assert object_["object_predicted"] in asked().kb.entities
    assert int(begin["begin_predicted"]) <= int(begin["end"])
    assert int(end["end_predicted"]) >= int(end["begin"])
    assert int(both["begin_predicted"]) <= int(both["end_predicted"])


def test_still_going_on_and_an_end_share_one_distribution() -> None:
    _, object_, begin, end, both, _, at_end, _ = by_kind()
    assert [row["still_going_on"] for row in (object_, begin, at_end)] == [None] * 3
    found = asked().fill(holes()).filter(pl.col("still_going_on").is_not_null())
    assert found["still_going_on"].is_between(0, 1).all()
    ended = found.filter(pl.col("begin").is_not_null())
    assert (ended["probability"] + ended["still_going_on"] <= 1 + 1e-4).all()
    query = TimeQueries(
        *(np.array([names.id(row)]) for names, row in zip(kinds_of_names(), end.values(), strict=False))
    )
    assert end["still_going_on"] == round(float(asked().ends.going_on(query, np.array([int(end["begin"])]))[0]), 4)
    assert both["still_going_on"] is not None


def kinds_of_names() -> tuple[Names, Names, Names]:
    kb = asked().kb
    return kb.entities, kb.relations, kb.entities


def test_predictions_are_those_of_rank_and_when() -> None:
    for object_ in asked().fill(holes()).filter(pl.col("object").is_null(), pl.col("begin").is_not_null()).to_dicts():
        at = (int(object_["begin"]), int(object_["end"]))
        question = {"subject": object_["subject"], "relation": object_["relation"], "at": at}
        ranked = asked().rank(**question, k=1, hide_known=True)
        if object_["probability"] is not None:
            assert object_["object_predicted"] == ranked["id"][0]
            assert object_["probability"] == round(ranked["probability"][0], 4)
        else:
            stated = asked().rank(**question, k=1)
            assert stated["known"][0] is not None
            assert object_["reason"].startswith("the KB has ")
    both = by_kind()[4]
    when = asked().when(both["subject"], both["relation"], both["object"])
    assert (both["begin_predicted"], both["end_predicted"]) == (when["begin"][0], when["end"][0])
    assert both["probability"] == round(when["probability"][0], 4)


def test_what_is_known_to_hold_then_is_not_proposed() -> None:
    kb = asked().kb
    known = {}
    for s, r, o, begin, end in kb.facts:
        known.setdefault((kb.entities[s], kb.relations[r]), []).append((kb.entities[o], begin, end))
    rows = kb.to_polars().filter(pl.col("split") == "train", pl.col("begin").is_not_null()).head(300).drop("split")
    found = asked().fill(rows.with_columns(object=pl.lit(None, pl.String), end=pl.col("begin")))
    for row in found.to_dicts():
        holds = [o for o, begin, end in known[row["subject"], row["relation"]] if begin <= int(row["begin"]) <= end]
        assert holds
        assert (row["object_predicted"] in holds) == (row["probability"] is None)
        told, _, after = row["reason"].partition(" already")
        assert set(told.removeprefix("the KB has ").split(", ")) == set(holds)
        assert after == "" or after.startswith("; ")


def test_every_prediction_has_a_reason() -> None:
    _, object_, begin, end, both, *_ = by_kind()
    assert all(row["reason"] for row in (object_, begin, end, both))
    told = " ".join(asked().fill(holes())["reason"])
    assert " lasts " in told
    assert " cases" in told


def test_what_the_kb_states_is_the_answer() -> None:
    kb = asked().kb
    row = int(np.flatnonzero(kb.train.closed)[0])
    s, r, o = names(row)
    begin, end = str(kb.train.begin[row]), str(kb.train.end[row])
    said = f"the KB has {asked().asking.span_text(int(begin), int(end))}"
    found = asked().fill(table((s, r, o, begin, None), (s, r, o, None, end), (s, r, o, None, None)))
    assert found["reason"].to_list() == [said] * 3
    assert found["begin_predicted"].to_list() == [None, begin, begin]
    assert found["end_predicted"].to_list() == [end, None, end]
    assert found["probability"].to_list() == found["still_going_on"].to_list() == [None] * 3
    assert asked().fill(table((s, r, o, begin, None)), min_probability=1.0)["end_predicted"].to_list() == [end]
    other = asked().fill(table((s, r, o, str(int(begin) - 1), None)))
    assert other["probability"][0] is not None


def test_rows_that_cannot_be_asked_say_why() -> None:
    s, r, o = names()
    found = asked().fill(
        table(
            (None, r, o, "2000", None),
            (s, " ", o, "2000", None),
            (s, "flewWith", o, "2000", None),
            (s, r, "Nobody", "2000", None),
            (s, r, o, "soon", None),
            (s, r, o, None, "1999-13"),
            (s, r, o, "2001", "1999"),
            (s, r, o, "9999", None),
            (s, r, o, None, "-4000"),
        )
    )
    assert found.select(ADDED[:-1]).null_count().row(0) == (9,) * 5
    expected = [
        "the row has no subject",
        "the row has no relation",
        "unknown relation 'flewWith'",
        "unknown entity 'Nobody'",
        "unreadable date 'soon'",
        "unreadable date '1999-13'",
        "the row ends before it begins",
        "the row lies outside of the timeline, ",
        "the row lies outside of the timeline, ",
    ]
    for reason, beginning in zip(found["reason"], expected, strict=True):
        assert reason.startswith(beginning)


def test_an_entity_without_a_training_fact_is_not_guessed_about() -> None:
    s, r, o = names()
    kb, number = asked().kb, asked().kb.entities.id(o)
    others = kb.train[(kb.train.s != number) & (kb.train.o != number)]
    reader = Reader(Resolver(kb, asked().timeline, others))
    rows = reader.read(table((s, r, o, None, None)))
    assert rows.reason == [f"the entity {o!r} has no training fact"]
    assert rows.hole.tolist() == [Hole.NOTHING]


def test_a_year_of_which_only_the_century_is_known_is_a_hole() -> None:
    s, r, o = names()
    found = asked().fill(table((s, r, o, "19##", "2000")))
    assert found["begin_predicted"][0] is not None


def test_names_are_taken_as_people_write_them() -> None:
    s, r, o = names()
    exact, loose = asked().fill(table((s, r, o, None, None), (s.upper().replace("_", " "), r, o, None, None))).rows()
    assert exact[5:] == loose[5:]


# Kinds of tables


def test_all_kinds_of_frames_come_back_with_the_same_content() -> None:
    frame = holes().head(16).with_columns(note=pl.int_range(16))
    expected = asked().fill(frame)
    assert expected.columns == [*frame.columns, *ADDED]
    assert expected.select(frame.columns).equals(frame)
    from_arrow = asked().fill(frame.to_arrow())
    assert isinstance(from_arrow, pa.Table)
    assert pl.from_arrow(from_arrow).rows() == expected.rows()  # type: ignore[union-attr]
    data = frame.to_pandas()
    data.index = pd.Index(range(100, 116), name="key")
    from_pandas = asked().fill(data)
    assert isinstance(from_pandas, pd.DataFrame)
    assert from_pandas.index.equals(data.index)
    pd.testing.assert_frame_equal(from_pandas[frame.columns], data)
    assert pl.from_pandas(from_pandas).rows() == expected.rows()
    assert list(data.columns) == frame.columns  # the table that was given is as it was


def test_numbers_as_years() -> None:
    s, r, o = names()
    data = pd.DataFrame({"subject": [s, s], "relation": [r, r], "object": [o, o], "begin": [2000.0, np.nan]})
    found = asked().fill(data)
    assert found["begin"].tolist()[0] == 2000.0
    assert found["begin_predicted"].notna().tolist() == [False, True]


def test_events_have_one_date() -> None:
    s, r, o = names()
    frame = table((s, r, o, None), (s, r, None, "2000"), (s, r, o, "2000"), columns="subject relation object date")
    found = asked().fill(frame)
    assert found.columns == [*frame.columns, "object_predicted", "date_predicted", "probability", "reason"]
    assert found["date_predicted"].is_not_null().to_list() == [True, False, False]
    assert found["object_predicted"].is_not_null().to_list() == [False, True, False]
    assert found["reason"][2] == "the row has no hole"


def test_columns_can_be_named_and_there_may_be_no_dates() -> None:
    s, r, o = names()
    frame = table((s, o), columns="wer wen")
    found = asked().fill(frame, subject="wer", object="wen", relation=f"={r}")
    assert found.columns == ["wer", "wen", "wen_predicted", *ADDED[1:]]
    assert found["begin_predicted"][0] is not None
    only_end = asked().fill(table((s, r, o, "2000"), columns="subject relation object until"))
    assert only_end["begin_predicted"][0] is not None
    assert "until_predicted" in only_end.columns


def test_the_answer_for_a_row_does_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = holes().head(40)
    together = asked().fill(frame)
    monkeypatch.setattr(fill_module, "BLOCK", 7)
    assert asked().fill(frame).equals(together)
    alone = pl.concat(asked().fill(frame[row]) for row in range(0, 40, 3))
    assert alone.equals(together[list(range(0, 40, 3))])
    backwards = asked().fill(frame.reverse())
    assert backwards.reverse().equals(together)


def test_what_is_not_likely_enough_stays_empty() -> None:
    frame = holes()
    full = asked().fill(frame)
    least = float(full["probability"].drop_nulls().median())  # type: ignore[arg-type]
    cut = asked().fill(frame, min_probability=least)
    predicted = pl.any_horizontal(pl.col("^.*_predicted$").is_not_null())
    assert cut.filter(predicted)["probability"].min() >= least  # type: ignore[operator]
    left = cut.filter((pl.col("probability") < least - 1e-4) & ~predicted)
    assert len(left)
    assert left["reason"].str.contains(r"^the best answer has a probability of only 0\.\d\d$").all()
    assert cut["probability"].equals(full["probability"])
    assert cut["still_going_on"].count() == full["still_going_on"].count()


def test_a_kb_without_dates_gives_none() -> None:
    row = undated().fill(table((*names(), None, None))).to_dicts()[0]
    assert row["reason"] == "no fact of the KB has a date"
    assert [row[name] for name in ADDED[:-1]] == [None] * 5


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ([1, 2], {}, "list is not a table that can be read."),
        (pl.DataFrame({"subject": []}), {}, "the table is empty."),
        (pl.DataFrame({"x": [1]}), {}, "the table has no column for the subject, the relation, the object."),
        (table(("a", "b", "c", None, None)), {"subject": "wer"}, "the table has no column 'wer'."),
        (table(("a", "b", "c", None, None)), {"min_probability": 1.5}, "1.5 is not a probability."),
        (
            table(("a", "b", "c", "d"), columns="subject relation object probability"),
            {},
            "the table has a column 'probability' already. Rename it first.",
        ),
        (
            pl.DataFrame({"subject": [[1]], "relation": ["r"], "object": ["o"]}),
            {},
            "Column 'subject' of the table holds",
        ),
    ],
)
def test_wrong_tables(frame: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        asked().fill(frame, **options)
    assert str(error.value).startswith(message)


def test_holes_are_read_as_numbers() -> None:
    rows = Reader(asked().asking).read(holes().head(8).select("subject", "relation", "object", "begin", "end"))
    expected = [Hole.NOTHING, Hole.OBJECT, Hole.BEGIN, Hole.END, Hole.BOTH, Hole.NOTHING, Hole.OBJECT, Hole.NOTHING]
    assert rows.hole.tolist() == expected
    assert len(rows) == 8
    assert [bool(reason) for reason in rows.reason] == [hole == Hole.NOTHING for hole in expected]


def test_no_candidate_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> Ranked:
        return Ranked(np.array([[-1]]), np.array([[-np.inf]]), np.array([[0.0]]), np.array([[False]]))

    monkeypatch.setattr(Links, "rank", lambda *_, **__: (none(), np.array([[0.0]])))
    monkeypatch.setattr(fill_module, "COMPANY", 0.0)
    found = fill(asked(), holes()[1], Columns())
    assert found["object_predicted"][0] is None
    assert found["reason"][0] == "no entity is left that is not known already"

"""Names and their numbers against plain Python."""

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kb.random_kbs import TEXTS

from timeplex.errors import UnknownNameError
from timeplex.kb.names import Names, encode

ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(["", " ", "a", "b", "\0", "é"])
NASTY = ["", "é", "e\u0301", "\uffff", "\U0001f600", "a\0", "a", "A", "ß", "٣", "10", "9", "\u00a0a", "a" * 300]


@given(st.lists(st.tuples(ANY, ANY, ANY, ANY), max_size=20))
@example([])
@example([(text, text[::-1], "r", other) for text in NASTY for other in NASTY])
def test_encoding_numbers_the_sorted_texts(rows: list[tuple[str, str, str, str]]) -> None:
    frame = pl.DataFrame(rows, schema=dict.fromkeys("abcd", pl.String), orient="row")
    groups = (("a", "c"), ("b",), ("d", "b", "a"))
    found = encode(frame, ("a", "c"), ("b",))
    found += encode(frame, groups[2])
    for (codes, distinct), group in zip(found, groups, strict=True):
        expected = sorted({text for column in group for text in frame[column]})
        assert distinct.to_list() == expected
        assert len(codes) == len(group)
        for numbers, column in zip(codes, group, strict=True):
            assert numbers.tolist() == [expected.index(text) for text in frame[column]]


def test_encoding_leaves_no_trace_for_the_next() -> None:
    first = encode(pl.DataFrame({"a": ["z", "y"]}), ("a",))
    second = encode(pl.DataFrame({"a": ["x", "z"]}), ("a",))
    assert [first[0][0][0].tolist(), first[0][1].to_list()] == [[1, 0], ["y", "z"]]
    assert [second[0][0][0].tolist(), second[0][1].to_list()] == [[0, 1], ["x", "z"]]


@given(st.lists(TEXTS, max_size=20))
def test_names_and_numbers(texts: list[str]) -> None:
    names = Names(pl.Series(texts, dtype=pl.String))
    expected = sorted(set(texts))
    assert [*names] == expected
    assert len(names) == len(expected)
    assert [names[number] for number in range(len(names))] == expected
    assert [names.id(name) for name in expected] == list(range(len(expected)))
    assert all(name in names for name in texts)
    assert "no such name" not in names
    assert names == Names(pl.Series(expected, dtype=pl.String))


@given(st.lists(TEXTS, min_size=1, unique=True), st.dictionaries(TEXTS, TEXTS))
def test_labels(texts: list[str], labels: dict[str, str]) -> None:
    labels |= {texts[-1]: texts[-1]} | {texts[0]: "a label of its own"}
    names = Names(pl.Series(texts), labels)
    assert [names.label(number) for number in range(len(names))] == [labels.get(name, name) for name in sorted(texts)]
    # What is equal for every reader is equal, whatever else the given labels held.
    told = {name: label for name, label in labels.items() if name in texts and name != label}
    assert names.labels == told
    assert names == Names(pl.Series(texts), told)
    assert names != Names(pl.Series(texts))


def test_names_that_differ() -> None:
    assert Names(pl.Series(["a"])) != Names(pl.Series(["b"]))
    assert Names(pl.Series(["a"])) != Names(pl.Series(["a", "b"]))
    assert Names(pl.Series(["a"])) != ["a"]
    assert Names(pl.Series(["a"]), {"a": "x"}) != Names(pl.Series(["a"]), {"a": "y"})


def test_an_unknown_name_is_told_with_those_close_to_it() -> None:
    names = Names(pl.Series(["playsFor", "worksFor", "bornIn", "Ada Lovelace"]))
    with pytest.raises(UnknownNameError) as caught:
        names.id("playFor")
    assert caught.value.problem == "Unknown name 'playFor'."
    assert caught.value.hint.startswith("Did you mean 'playsFor'")
    assert "bornIn" not in caught.value.hint
    with pytest.raises(UnknownNameError) as caught:
        names.id("ß")
    assert str(caught.value) == "Unknown name 'ß'."


def test_numbers_out_of_range() -> None:
    names = Names(pl.Series(["a", "b"]))
    assert names[-1] == "b"
    with pytest.raises(IndexError):
        names[2]


PEOPLE = Names(
    pl.Series(["Barack_Obama", "Angela_Merkel", "Q183", "Q31", "Q90", "Q830149", "a b", "A_B", "São_Paulo"]),
    {"Q183": "Germany", "Q31": "Belgium", "Q90": "Paris", "Q830149": "Paris"},
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Barack_Obama", "Barack_Obama"),
        ("barack obama", "Barack_Obama"),
        (" BARACK__OBAMA ", "Barack_Obama"),
        ("Germany", "Q183"),
        ("gerMANY", "Q183"),
        ("q31", "Q31"),
        ("a b", "a b"),
        ("A_B", "A_B"),
        ("são paulo", "São_Paulo"),
    ],
)
def test_names_are_found_as_people_write_them(text: str, name: str) -> None:
    assert PEOPLE[PEOPLE.find(text)] == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Barak_Obama", "unknown entity 'Barak_Obama'; did you mean 'Barack_Obama'?"),
        ("angela merkl", "unknown entity 'angela merkl'; did you mean 'Angela_Merkel'?"),
        ("Belgum", "unknown entity 'Belgum'; did you mean 'Belgium'?"),
        ("xyzzy", "unknown entity 'xyzzy'; no name is near it. There are: A_B, Angela_Merkel, "),
        ("", "unknown entity ''; no name is near it."),
        ("Paris", "'Paris' may be 2 of the names: 'Q830149', 'Q90'. Write one of them."),
        ("A B", "'A B' may be 2 of the names: 'A_B', 'a b'."),
        (7, "7 is no name. Names are texts."),
    ],
)
def test_names_that_are_not_clear(text: str, message: str) -> None:
    with pytest.raises(UnknownNameError) as error:
        PEOPLE.find(text, "entity")
    assert message in str(error.value)


def test_many_that_are_meant_are_not_all_listed() -> None:
    names = Names(
        pl.Series([f"Q{number}" for number in range(8)]), {f"Q{number}": "Springfield" for number in range(8)}
    )
    with pytest.raises(UnknownNameError, match=r"may be 8 of the names: 'Q0', .*'Q4' and 3 more"):
        names.find("springfield")


@given(st.lists(TEXTS, min_size=1, unique=True))
def test_every_name_is_found_as_itself(texts: list[str]) -> None:
    names = Names(pl.Series(texts))
    for name in texts:
        assert names.find(name) == names.id(name)
    assert names.many(np.arange(len(names))) == sorted(texts)
    with pytest.raises(UnknownNameError):
        names.find("no such name at all, whatever was drawn")


def test_an_exact_label_comes_before_those_that_read_alike() -> None:
    names = Names(pl.Series(["X1", "X2", "X3"]), {"X1": "Rome", "X2": "ROME", "X3": "x1"})
    assert names.find("Rome") == 0
    assert names.find("ROME") == 1
    assert names.find("X1") == 0  # an id comes before any label
    assert names.find("x1") == 2
    with pytest.raises(UnknownNameError, match="may be 2 of the names"):
        names.find("rome")


def test_labels_of_many() -> None:
    numbers = np.array([PEOPLE.id("Q90"), PEOPLE.id("A_B")])
    assert PEOPLE.many_labels(numbers) == ["Paris", "A_B"]
    assert PEOPLE.many(numbers) == ["Q90", "A_B"]


def test_the_closest_of_many_names_are_found_quickly() -> None:
    names = Names(pl.Series([f"name_{number}_{number * 7919 % 9973}" for number in range(30_000)] + ["Barack_Obama"]))
    with pytest.raises(UnknownNameError, match="did you mean 'Barack_Obama'"):
        names.find("Barak_Obama_", "entity")


def test_some_words_of_a_name_are_enough_where_a_person_asks() -> None:
    names = Names(pl.Series(["Anna van Dyk", "Joanna", "Nancy Pelosi", "Paul Pelosi jr"]))
    assert names[names.find("van  DYK", in_part=True)] == "Anna van Dyk"
    assert names[names.find("Anna", in_part=True)] == "Anna van Dyk"  # words, not letters
    with pytest.raises(UnknownNameError, match="may be 2 of the names: 'Nancy Pelosi', 'Paul Pelosi jr'"):
        names.find("pelosi", in_part=True)
    for name, in_part in (("Pelosi", False), ("elosi", True), (" ", True), ("", True)):
        with pytest.raises(UnknownNameError, match="unknown"):
            names.find(name, in_part=in_part)

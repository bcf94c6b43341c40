"""Rules written by a user: what can be meant, and what is told of what cannot."""

from pathlib import Path

import pytest
from tests.auditing.planted import clean, read

from timeplex.auditing.own_rules import TABLES, read_own_rules
from timeplex.errors import InputError, TimeplexError, UnknownNameError
from timeplex.kb.facts import TemporalKB
from timeplex.kb.names import Names

KB = read(clean())


def test_all_that_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(
        '[[dates]]\nfrom = 1800\nto = "2030-05"\n[[dates]]\nfrom = 1800-01-01\nto = 2030\nrelation = "bornIn"\n'
        '[[one-at-a-time]]\nrelation = "headOf"\nper = "object"\n[[duration]]\nrelation = "worksFor"\nat_most = 40\n'
    )
    own = read_own_rules(path, KB)
    born, head = KB.relations.id("bornIn"), KB.relations.id("headOf")
    assert own.of("dates") == [
        {"from": (1800, 1800), "to": (2030, 2030)},
        {"from": (1800, 1800), "to": (2030, 2030), "relation": born},
    ]
    assert own.of("one-at-a-time") == [{"relation": head, "per": "object"}]
    assert own.of("ordering") == []
    assert read_own_rules(None, KB).tables == {}


def test_a_relation_may_be_given_by_its_label() -> None:
    labelled = TemporalKB(
        KB.entities, Names(KB.relations.names, {"bornIn": "place of birth"}), KB.granularity, KB.splits, KB.problems
    )
    own = read_own_rules({"contradiction": [{"relation": "place of birth"}]}, labelled)
    assert own.of("contradiction") == [{"relation": KB.relations.id("bornIn")}]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("x = [", InputError, "is not TOML"),
        ("[[orderings]]", UnknownNameError, r"no rule \[\[orderings\]\] to write. Did you mean 'ordering'"),
        ("[[zzz]]", UnknownNameError, "There are dates, duration"),
        ("[ordering]", InputError, r"ordering is not a list of tables. Write \[\[ordering\]\]"),
        ('[[ordering]]\nfrist = "bornIn"', UnknownNameError, "has no key 'frist'. Did you mean 'first'"),
        ('[[ordering]]\nfirst = "bornIn"', InputError, "lacks the key 'second'. Its keys are first, second"),
        (
            '[[ordering]]\nfirst = "bornIn"\nsecond = "diedAt"',
            UnknownNameError,
            "no relation 'diedAt'. Did you mean 'diedIn'",
        ),
        ('[[ordering]]\nfirst = 3\nsecond = "diedIn"', InputError, "is 3, which is not a relation"),
        ('[[duration]]\nrelation = "bornIn"', InputError, "limits nothing"),
        ('[[duration]]\nrelation = "bornIn"\nat_most = 3.5', InputError, "3.5, which is not a whole number"),
        ('[[duration]]\nrelation = "bornIn"\nat_most = true', InputError, "True, which is not a whole number"),
        (
            '[[one-at-a-time]]\nrelation = "headOf"\nper = "day"',
            InputError,
            '\'day\', which is not "subject" or "object"',
        ),
        ('[[dates]]\nfrom = "soon"\nto = 2000', InputError, "'soon', which is not a date"),
        ("[[dates]]\nfrom = true\nto = 2000", InputError, "True, which is not a date"),
    ],
)
def test_what_cannot_be_meant(tmp_path: Path, text: str, error: type[TimeplexError], words: str) -> None:
    path = tmp_path / "my.toml"
    path.write_text(text)
    with pytest.raises(error, match=words):
        read_own_rules(path, KB)


def test_files_that_are_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_own_rules(tmp_path / "no.toml", KB)
    with pytest.raises(InputError, match="is not a plain file"):
        read_own_rules(tmp_path, KB)
    (tmp_path / "my.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_own_rules(tmp_path / "my.toml", KB)


def test_every_table_has_a_rule_of_its_name() -> None:
    from timeplex.auditing.audit import RULES

    assert {name for name in TABLES if name != "dates"} <= set(RULES)

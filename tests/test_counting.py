"""Numbers of things, in words."""

from timeplex.text import counted


def test_one_thing_is_not_several() -> None:
    assert [counted(number, "fact") for number in (0, 1, 2000)] == ["0 facts", "1 fact", "2,000 facts"]
    assert [counted(number, "entity", "entities") for number in (1, 2)] == ["1 entity", "2 entities"]

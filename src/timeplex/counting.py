"""Numbers of things, in words."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 fact`, `2,000 facts`; `plural` is for nouns that do not just take an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"

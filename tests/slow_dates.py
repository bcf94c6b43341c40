"""A reader of dates that is slow and literal, one text at a time: what the fast one is compared with.

It has its own calendar (Python's, moved by cycles of 400 years) and its own patterns, and shares the tables of words.
"""

import re
from collections.abc import Callable
from datetime import date, timedelta
from itertools import pairwise

from timeplex.kb.date_forms import OPEN_WORDS, ORDINALS, PARTS, SEASONS, WEEKDAYS, month_numbers

Meaning = tuple[str, int | None, int | None, int, bool]
"""(state, first day, last day, precision, approximate); a side without limit is None."""
Days = tuple[int, int, int]
"""(first day, last day, precision)"""

UNREADABLE: Meaning = ("unreadable", 0, 0, 0, False)
EPOCH = date(1970, 1, 1).toordinal()
MONTHS = month_numbers()
BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
BLANKS += "\u205f\u3000"
PLAIN = str.maketrans(
    {
        **{chr(0xFF10 + digit): str(digit) for digit in range(10)},
        **{"／": "/", "．": ".", "－": "-", "？": "?", "～": "~", "−": "-", "‐": "-", "‑": "-", "‒": "-"},
        **{"—": "–", "―": "–", "’": "'", "‘": "'", "`": "'", "´": "'", "≈": "~", "≤": "<=", "≥": ">=", "…": "..."},
        **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff", ""),
    }
)
CLOCK = r"[0-9]{1,2}:[0-9][0-9](:[0-9][0-9]([.,][0-9]+)?)?"


def day(year: int, month: int, of_month: int) -> int | None:
    """The number of a day, if there is one."""
    if not -9999 <= year <= 9999:
        return None
    cycles = 5 - year // 400
    try:
        return date(year + 400 * cycles, month, of_month).toordinal() - EPOCH - 146_097 * cycles
    except ValueError:
        return None


def covered(year: int, month: int = 0, of_month: int = 0) -> Days | None:
    if month == 0:
        of_month = 0
    first = day(year, month or 1, of_month or 1)
    if first is None:
        return None
    if month == 0:
        return first, first + (365 if day(year, 2, 29) is not None else 364), 1
    if of_month:
        return first, first, 3
    length = next(length for length in (31, 30, 29, 28) if day(year, month, length) is not None)
    return first, first + length - 1, 2


def years(first: int, last: int) -> Days | None:
    begin, end = covered(first), covered(last)
    return (begin[0], end[1], 1) if begin and end and first <= last else None


def as_in_files(text: str) -> Meaning:
    """ISO 8601 and its relatives."""
    if re.fullmatch(r"(?i)null|none|nan|nat|n/?a|\+?0000-?00-?00([t ].*)?", text) or not text.strip("#?-" + BLANKS):
        return "open", 0, 0, 0, False
    zone = r"( ?UTC)? ?(Z|[+-][0-9][0-9]:?([0-9][0-9])?)?"
    unknown = "(?P<{}>[0-9]{{1,2}}|##|XX)"
    month, of_month = unknown.format("m"), unknown.format("d")
    forms = [
        rf"(?P<y>[+-]?[0-9]{{1,4}})(-{month}(-{of_month}([T ]{CLOCK}{zone})?)?)?",
        rf"(?P<y>[0-9]{{4}})/(?P<m>[0-9]{{1,2}})(/(?P<d>[0-9]{{1,2}})([T ]{CLOCK}{zone})?)?",
        r"(?P<y>[0-9]{4})(?P<m>[0-9][0-9])(?P<d>[0-9][0-9])",
        r"(?P<y>[+-]?[0-9]{1,4})\.0*",
    ]
    for form in forms:
        found = re.fullmatch(form, text)
        if found:
            parts = [re.sub("##|XX", "0", found.groupdict().get(name) or "0") for name in "ymd"]
            return known(covered(*map(int, parts)))
    if re.fullmatch(r"[+-]?[0-9]{0,3}#{1,4}(-([0-9][0-9]|##)){0,2}", text):
        return "unknown year", 0, 0, 0, False
    return UNREADABLE


def known(days: Days | None, approximate: bool = False) -> Meaning:
    return ("known", *days, approximate) if days else UNREADABLE


def slow_date(text: str, dayfirst: bool | None = None) -> Meaning:
    """What a text means as a date."""
    text = text.strip(BLANKS)
    plain = as_in_files(text)
    if plain != UNREADABLE:
        return plain
    text = " ".join(part for part in re.split(f"[{BLANKS}]+", text.translate(PLAIN).lower()) if part)
    for era, form in (("bc", r"b\. ?c\. ?e\.?|b\. ?c\.?|bce|bc"), ("ad", r"a\. ?d\.?|c\. ?e\.?|anno domini|ad|ce")):
        text = re.sub(rf"(^|[0-9 ]) ?(?:{form})( |$)", rf"\1 {era}\2", text, count=1)
    text = re.sub(" +", " ", text.strip(" "))
    if text in OPEN_WORDS:
        return "open", 0, 0, 0, False
    for read in (point, limited, between):
        found = read(text, dayfirst)
        if found != UNREADABLE:
            return found
    return UNREADABLE


def point(text: str, dayfirst: bool | None) -> Meaning:
    about = False
    if len(text) > 2 and text[0] == "[" and text[-1] == "]":
        text, about = text[1:-1], True
    words = "circa|about|around|approx\\.?|approximately|roughly|probably|possibly|perhaps|maybe|prob\\.?|est\\.?"
    for form in (rf"(?:{words}|estimated|cca\.?|ca\.?|c\.?) (.+)", r"(?:ca\.|c\.|~) ?(.+)", r"ca?([0-9].+)"):
        found = re.fullmatch(form, text)
        if found:
            text, about = found[1], True
            break
    found = re.fullmatch(r"(.+?) ?([?~%]+|\((?:\?|approx\.?|circa|c\.|ca\.|uncertain|estimated)\)|approx\.?)", text)
    if (
        found
        and not set("?~%") & set(found[1])
        and (re.fullmatch("[0-9]{4}", found[1]) or found[1].strip("0123456789 "))
    ):
        text, about = found[1], True
    return known(part(text, dayfirst), about)


def part(text: str, dayfirst: bool | None) -> Days | None:
    after = re.fullmatch(r"([0-9]{4})[ \-/]?([qh][1-4])", text)
    found = (after[2], after[1]) if after else None
    for name in sorted(PARTS, key=len, reverse=True):
        if text.startswith(name) and text[len(name) : len(name) + 1] in (" ", "-", "/") and len(text) > len(name) + 1:
            rest = text[len(name) + 1 :]
            for word in ("of ", "the "):
                rest = rest.removeprefix(word) if len(rest) > len(word) else rest
            found = name, rest
            break
    if found is None or found[0] not in PARTS:
        return one(text, dayfirst)
    whole = one(found[1], dayfirst)
    return whole and cut(whole, *PARTS[found[0]])


def civil(number: int) -> tuple[int, int]:
    """Year and month of a day."""
    cycles = 5 - (number // 146_097 + 5)
    moved = date(1970, 1, 1) + timedelta(number + 146_097 * (cycles + 1))
    return moved.year - 400 * (cycles + 1), moved.month


def cut(whole: Days, k: int, of: int) -> Days | None:
    (year, month), (last_year, last_month) = civil(whole[0]), civil(whole[1])
    if year < last_year and (month, last_month) == (1, 12):
        units: list[Days | None] = [covered(at) for at in range(year, last_year + 1)]
    elif (year, month) != (last_year, last_month):
        months = range(year * 12 + month - 1, last_year * 12 + last_month)
        units = [covered(at // 12, at % 12 + 1) for at in months]
    elif whole[0] == whole[1]:
        return None
    else:
        units = [(at, at, 3) for at in range(whole[0], whole[1] + 1)]
    chosen = [unit for at, unit in enumerate(units) if -(-len(units) * (k - 1) // of) <= at < -(-len(units) * k // of)]
    if not chosen or chosen[0] is None or chosen[-1] is None:
        return None
    return chosen[0][0], chosen[-1][1], chosen[0][2]


def limited(text: str, dayfirst: bool | None) -> Meaning:
    forms = {
        "before": r"(?:(?:before|bef\.?|prior to|earlier than|pre) |pre-|< ?)(.+)",
        "until": r"(?:(?:until|till|til|up to|by|to|no later than|not after) |<= ?|\.\./?)(.+)",
        "after": r"(?:(?:after|aft\.?|later than|post) |post-|> ?)(.+)",
        "since": r"(?:(?:since|from|as of|starting|no earlier than|not before) |>= ?)(.+)",
        "or later": r"(.+?)(?: (?:onwards?|or later|and later|and after|to date|and counting)|\+|/?\.\.| ?[-–])",
        "or earlier": r"(.+?) (?:or|and) (?:earlier|before)",
    }
    for name, form in forms.items():
        found = re.fullmatch(form, text)
        base = point(found[1], dayfirst) if found else UNREADABLE
        if base == UNREADABLE:
            continue
        _, first, last, precision, about = base
        assert first is not None
        assert last is not None
        if name in ("before", "until", "or earlier"):
            last -= (last - first + 1) * (name == "before")
            return ("known", None, last, precision, about) if last >= DAYS[0] else UNREADABLE
        first += (last - first + 1) * (name == "after")
        return ("known", first, None, precision, about) if first <= DAYS[1] else UNREADABLE
    return UNREADABLE


def between(text: str, dayfirst: bool | None) -> Meaning:
    short = re.fullmatch("([0-9]{4}) ?([-–/]) ?([0-9]{2})", text)
    if short:
        year, two = int(short[1]), int(short[3])
        end = next(later for later in range(year + 1, year + 101) if later % 100 == two)
        if (end // 100 == year // 100 or end == year + 1) and (short[2] == "–" or two > 12):
            return known(years(year, end))
    month = "(?:" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\.?"
    shared = (
        r"([0-9]{1,4}) ?[-–] ?([0-9]{1,4}) (bc)",
        rf"([0-9]{{1,2}}) ?[-–] ?([0-9]{{1,2}}) ({month} [0-9]{{3,4}})",
        rf"((?:[0-9]{{1,2}} )?{month}) ?(?:[-–/]|to|and) ?((?:[0-9]{{1,2}} )?{month}) ([0-9]{{3,4}})",
    )
    two = (
        r"(?:between|from) (.+?) (?:and|to|until|till|through|-|–) (.+)",
        r"(.+?) ?(?: - | to | until | till | through | or |\.\.|--| ?– ?) ?(.+)",
        r"([^/]*[^/ ]) ?/ ?([^/]+)",
        r"([^-]*[^- ])-([^-]+)",
    )
    for form in (*shared, *two):
        found = re.fullmatch(form, text)
        if not found:
            continue
        begin, end = found[1].strip(" "), found[2].strip(" ")
        if form in shared:
            begin, end = f"{begin} {found[3]}", f"{end} {found[3]}"
        bare = all(re.fullmatch("[0-9]+", side) for side in (found[1], found[2]))
        if form in two[1:] and bare and not (len(found[1]) == len(found[2]) >= 3):
            continue
        one_end, other = point(begin, dayfirst), point(end, dayfirst)
        if one_end == UNREADABLE:
            continue
        _, first, _, precision, about = one_end
        if end in OPEN_WORDS:
            return "known", first, None, precision, about
        if other != UNREADABLE and other[2] is not None and first is not None and first <= other[2]:
            return "known", first, other[2], min(precision, other[3]), about or other[4]
    return UNREADABLE


def one(text: str, dayfirst: bool | None) -> Days | None:
    timed = re.fullmatch(
        rf"(.*[^ ,t])(?:,? at |, ?|[ t]){CLOCK} ?(?:[ap]\.?m\.?)? ?(?:z|utc|gmt|c?e[sd]?t|[cmp][sd]t|bst)? ?"
        r"(?:[+-][0-9][0-9]:?(?:[0-9][0-9])?)?",
        text,
    )
    if timed:
        text = timed[1]
    before, after = text.startswith("ad "), text.endswith((" bc", " ad"))
    if before and after:
        return None
    era = "ad" if before else text[-2:] if after else ""
    text = text.removeprefix("ad ") if before else text[:-3] if after else text
    found = dated(text, era, dayfirst)
    return None if timed and found and found[2] != 3 else found


def dated(text: str, era: str, dayfirst: bool | None) -> Days | None:
    sign = -1 if era == "bc" else 1
    if not era:
        plain = as_in_files(text.upper())
        if plain[0] == "known":
            return plain[1], plain[2], plain[3]  # type: ignore[return-value]
    numeric = re.fullmatch(r"([0-9]{1,2}) ?([/.\- ]) ?([0-9]{1,2}) ?([/.\- ]) ?([0-9]{3,4})", text)
    if numeric and numeric[2] == numeric[4]:
        a, b, year = int(numeric[1]), int(numeric[3]), sign * int(numeric[5])
        if 1 <= a <= 31 and 1 <= b <= 31 and (a <= 12 or b <= 12):
            first = (numeric[2] == "." or None) if dayfirst is None else dayfirst
            if a > 12 or b > 12 or a == b:
                first = a > 12 or a == b
            made = None if first is None else covered(year, b, a) if first else covered(year, a, b)
            if made:
                return made
    return in_numbers(text, era) or in_words(text, era)


def stated(year: str, month: int | None, of_month: str | None, era: str) -> Days | None:
    """A date whose year is not too short to be clear, and none of whose numbers is 0."""
    number = int(year)
    if number < 1 or (number < 100 and not era) or month == 0 or (of_month is not None and int(of_month) == 0):
        return None
    return covered(-number if era == "bc" else number, month or 0, int(of_month or 0))


def in_numbers(text: str, era: str) -> Days | None:
    def ymd(y: int, m: int, d: int) -> Callable[[re.Match[str]], Days | None]:
        return lambda found: stated(found[y], int(found[m]) if m else None, found[d] if d else None, era)

    def week(year: int, number: int, weekday: int) -> Days | None:
        try:
            start = date.fromisocalendar(year + 400, number, 1).toordinal() - 146_097 - EPOCH
        except ValueError:
            return None
        first, last = (start + weekday - 1,) * 2 if weekday else (start, start + 6)
        return (first, last, 3) if DAYS[0] <= first and last <= DAYS[1] else None

    def of_year(found: re.Match[str]) -> Days | None:
        whole, number = covered(int(found[1])), int(found[2])
        at = whole[0] + number - 1 if whole else 0
        return (at, at, 3) if whole and number >= 1 and at <= whole[1] else None

    def decade(found: re.Match[str]) -> Days | None:
        year = int(found[1])
        last = year + (99 if year % 100 == 0 and year % 1000 else 9)
        return years(-last, -year) if era == "bc" else years(year, last)

    def century(number: int) -> Days | None:
        if not 1 <= number <= 21:
            return None
        return years(-100 * number, 99 - 100 * number) if era == "bc" else years(100 * number - 99, 100 * number)

    forms: list[tuple[str, Callable[[re.Match[str]], Days | None]]] = [
        (r"([0-9]{4}) ?[./ ] ?([0-9]{1,2}) ?[./ ] ?([0-9]{1,2})\.?", ymd(1, 2, 3)),
        ("([0-9]{4})年([0-9]{1,2})月([0-9]{1,2})日", ymd(1, 2, 3)),
        ("([0-9]{4})年([0-9]{1,2})月", ymd(1, 2, 0)),
        ("([0-9]{4})年", ymd(1, 0, 0)),
        ("([0-9]{1,2}) ?[/-] ?([0-9]{4})", ymd(2, 1, 0)),
        (r"(0[1-9]|1[0-2])\.([0-9]{4})", ymd(2, 1, 0)),
        ("([0-9]{4})-([0-9]{3})", of_year),
        ("([0-9]{4})-?w([0-9]{2})(?:-?([1-7]))?", lambda f: week(int(f[1]), int(f[2]), int(f[3] or 0))),
        ("week ([0-9]{1,2}),? (?:of )?([0-9]{4})", lambda f: week(int(f[2]), int(f[1]), 0)),
        ("(?:the )?([0-9]{2,3}0)'?s", decade),
        (r"(?:the )?([0-9]{1,2})(?:st|nd|rd|th)[ -](?:century|cent\.?|c\.?)", lambda f: century(int(f[1]))),
        (f"(?:the )?({'|'.join(ORDINALS)})[ -]century", lambda f: century(ORDINALS.index(f[1]) + 1)),
        ("([0-9]{1,4})", ymd(1, 0, 0)),
        ("([0-9]{3})[xu]", lambda f: years(10 * int(f[1]), 10 * int(f[1]) + 9)),
        ("([0-9]{2})(?:xx|uu)", lambda f: years(100 * int(f[1]), 100 * int(f[1]) + 99)),
    ]
    for form, read in forms:
        found = re.fullmatch(form, text)
        made = read(found) if found else None
        if made:
            return made
    return None


def in_words(text: str, era: str) -> Days | None:
    text = re.sub(rf"^(?:{WEEKDAYS})\.?,? ", "", text)
    text = re.sub(r"([0-9])(?:st|nd|rd|th)([ ,]|$)", r"\1\2", text)
    glued = re.fullmatch(r"([0-9]{1,2})([a-z]+)\.?([0-9]{4})", re.sub(r"[,./\- ]+", " ", text).strip())
    words = [word for word in re.split(r"[,./\- ]+", text) if word]
    if any(one in ("of", "the") == other for one, other in pairwise(words)):
        return None
    words = [word for word in words if word not in ("of", "the")]
    kinds = "".join(
        "m" if word in MONTHS else "s" if word in SEASONS else "n" if re.fullmatch("[0-9]{1,4}", word) else "?"
        for word in words
    )
    if glued and glued[2] in MONTHS and len(words) == 1:
        return stated(glued[3], MONTHS[glued[2]], glued[1], era)
    if kinds in ("sn", "ns"):
        season, year = words if kinds == "sn" else words[::-1]
        months = [
            covered((int(year) * 12 + SEASONS[season] - 1 + at) // 12, (SEASONS[season] - 1 + at) % 12 + 1)
            for at in range(3)
        ]
        return (months[0][0], months[2][1], 2) if len(year) == 4 and all(months) else None  # type: ignore[index]
    month = MONTHS[words[kinds.index("m")]] if kinds.count("m") == 1 else 0
    numbers = [word for word in words if word not in MONTHS]
    orders = {"nmn": ((1, 0), (0, 1)), "mnn": ((1, 0),), "mn": ((0, None),), "nm": ((0, None),)}
    for year, of_month in orders.get(kinds, ()):
        if of_month is not None and len(numbers[of_month]) > 2:
            continue
        made = stated(numbers[year], month, None if of_month is None else numbers[of_month], era)
        if made:
            return made
    return None


DAYS = day(-9999, 1, 1) or 0, day(9999, 12, 31) or 0

"""Words that dates are written with: months in seven languages, and what stands for "still going on" or "not known".

Each language is turned into English before the rules of `kb.spellings` are applied. All words are lower case.
"""

MONTHS = {
    "en": "january february march april may june july august september october november december",
    "de": "januar februar märz april mai juni juli august september oktober november dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
}
"""The twelve months of each language that `--date-language` knows."""

SHORT = {
    "en": "jan=1 feb=2 febr=2 mar=3 apr=4 jun=6 jul=7 aug=8 sep=9 sept=9 oct=10 nov=11 dec=12",
    "de": "jänner=1 jan=1 jän=1 feb=2 febr=2 mär=3 mrz=3 maerz=3 apr=4 jun=6 jul=7 aug=8 sep=9 sept=9 okt=10 nov=11"
    " dez=12",
    "fr": "janv=1 févr=2 fév=2 fevrier=2 avr=4 juil=7 aout=8 sept=9 oct=10 nov=11 déc=12 decembre=12 dec=12",
    "es": "ene=1 feb=2 mar=3 abr=4 may=5 jun=6 jul=7 ago=8 sep=9 sept=9 setiembre=9 oct=10 nov=11 dic=12",
    "it": "gen=1 feb=2 mar=3 apr=4 mag=5 giu=6 lug=7 ago=8 set=9 sett=9 ott=10 nov=11 dic=12",
    "pt": "jan=1 fev=2 mar=3 abr=4 mai=5 jun=6 jul=7 ago=8 set=9 out=10 nov=11 dez=12",
    "nl": "jan=1 feb=2 febr=2 mrt=3 apr=4 jun=6 jul=7 aug=8 sep=9 sept=9 okt=10 nov=11 dec=12",
}
"""Short forms and other spellings of months."""

OTHERS = {
    "de": {"heute": "today", "jetzt": "now", "unbekannt": "unknown", "um": "about", "etwa": "about", "vor": "before"}
    | {"nach": "after", "bis": "until", "seit": "since", "ab": "since", "ungefähr": "about", "v. chr.": "bc"},
    "fr": {"aujourd'hui": "today", "présent": "present", "inconnu": "unknown", "vers": "about", "environ": "about"}
    | {"avant": "before", "après": "after", "jusqu'à": "until", "depuis": "since", "1er": "1", "av. j.-c.": "bc"},
    "es": {"hoy": "today", "actualidad": "present", "presente": "present", "desconocido": "unknown", "hacia": "about"}
    | {"antes de": "before", "después de": "after", "hasta": "until", "desde": "since", "de": "of", "a. c.": "bc"},
    "it": {"oggi": "today", "presente": "present", "sconosciuto": "unknown", "verso": "about", "prima del": "before"}
    | {"dopo il": "after", "fino al": "until", "dal": "since", "1º": "1", "a.c.": "bc"},
    "pt": {"hoje": "today", "presente": "present", "desconhecido": "unknown", "cerca de": "about", "antes de": "before"}
    | {"depois de": "after", "até": "until", "desde": "since", "de": "of", "1º": "1", "a.c.": "bc"},
    "nl": {"heden": "present", "vandaag": "today", "nu": "now", "onbekend": "unknown", "omstreeks": "about"}
    | {"rond": "about", "voor": "before", "na": "after", "tot": "until", "sinds": "since", "v. chr.": "bc"},
}
"""The other words of each language, in English."""

GOING_ON = "present|the present|today|ongoing|on-going|now|current|currently|to date|to present|incumbent|in progress"
GOING_ON += "|continuing|still|still going on|active|...|..|–"
NOT_KNOWN = "unknown|not known|date unknown|undated|no date|n.d.|n. d.|n.d|nd|s.d.|tbd|tba|tbc|to be determined|missing"
NOT_KNOWN += "|open|not stated|not available|unspecified|pending|n.a.|n. a.|unk|unk."

OPEN_WORDS = frozenset([*GOING_ON.split("|"), *NOT_KNOWN.split("|")])
"""What stands for an end that is going on or for a date that is not known: both are open."""

WEEKDAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday|mon|tues|tue|wed|thurs|thur|thu|fri|sat|sun"

SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The month in which a season of three months begins, on the northern half of the earth."""

_IN_WORDS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth"
    " sixteenth seventeenth eighteenth nineteenth twentieth twenty-first"
)
ORDINALS = _IN_WORDS.split()
"""The centuries in words."""


def month_numbers(language: str = "en") -> dict[str, int]:
    """The number of each name and short form of a month."""
    named = {name: number for number, name in enumerate(MONTHS[language].split(), start=1)}
    short = (entry.split("=") for entry in SHORT[language].split())
    return named | {name: int(number) for name, number in short}


def to_english(language: str) -> dict[str, str]:
    """English for each word of another language."""
    english = MONTHS["en"].split()
    return {name: english[number - 1] for name, number in month_numbers(language).items()} | OTHERS[language]


def _parts() -> dict[str, tuple[int, int]]:
    halves = {"early": (1, 3), "beginning": (1, 3), "start": (1, 3), "mid": (2, 3), "middle": (2, 3)}
    found = halves | {"late": (3, 3), "end": (3, 3)} | {f"q{k}": (k, 4) for k in range(1, 5)} | {"h1": (1, 2)}
    found |= {"h2": (2, 2)}
    for word, of in (("half", 2), ("third", 3), ("quarter", 4)):
        for k, names in enumerate((("first", "1st"), ("second", "2nd"), ("third", "3rd"), ("fourth", "4th")), 1):
            found |= {f"{name} {word}": (k, of) for name in names if k <= of}
        found[f"last {word}"] = (of, of)
    return found


PARTS = _parts()
"""`late` is the third of three parts, `q2` the second of four, `second half` the second of two."""

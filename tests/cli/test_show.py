"""What reaches the terminal: names as they are, nothing that it would act upon, a bar only where one looks."""

import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.cli.conftest import COMMAND, Timeplex

from timeplex.cli.show import percent, print_json, print_table, say, visible

ESCAPE = "\x1b[31mred\x1b]0;title\x07"
ODD = f"[bold]x[/bold] [/] {ESCAPE} \x9b2J \u202eabc"
SHOWN = r"[bold]x[/bold] [/] \x1b[31mred\x1b]0;title\x07 \x9b2J \u202eabc"
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
NEEDED = set("\u200c\u200d")  # Cf, but no Persian and no emoji is written without them
VISIBLE_CF = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440)}


@given(st.text(st.characters(codec=None)))
def test_visible_text_holds_nothing_that_acts_and_can_be_printed(text: str) -> None:
    shown = visible(text)
    assert not RAW.search(shown)
    assert "\n" not in shown
    shown.encode()  # no lone surrogates
    assert visible(shown) == shown


def test_every_character_without_a_shape_is_written_out() -> None:
    # The oracle is the Unicode database: controls, formats, surrogates, separators of lines and paragraphs.
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        kind = unicodedata.category(char)
        if kind in ("Cc", "Cs", "Zl", "Zp") or (kind == "Cf" and char not in NEEDED and code not in VISIBLE_CF):
            assert visible(f"a{char}b").isascii(), hex(code)


def test_joiners_and_selectors_stand_only_after_what_is_seen() -> None:
    assert visible("\u200da") == r"\u200da"
    assert visible("a" + "\u200d" * 3 + "b") == "a\u200d" + r"\u200d" * 2 + "b"
    assert visible("a" + "\ufe0f\U000e0100\U000e0101") == "a\ufe0f" + r"\U000e0100\U000e0101"


def test_visible_leaves_ordinary_names_alone() -> None:
    for name in (
        "❤\ufe0f\u200d🔥",
        "葛\U000e0100城",
        "\u0600١",
        "ᠠ\u180b",
        "Åsa Öberg",
        "日本",
        "سعدی",
        "می\u200cخواهم",
        "a\u00a0b",
        r"back\slash",
        "[bold]",
        "👩\u200d🔬",
    ):
        assert visible(name) == name


def test_percent() -> None:
    assert [percent(share) for share in (0, 0.001, 0.01, 0.5, 1)] == ["0 %", "< 1 %", "1 %", "50 %", "100 %"]


def test_sentences_and_cells_are_literal(capsys: pytest.CaptureFixture[str]) -> None:
    say(ODD)
    print_table("", ["name", "n"], [[ODD, 1234], ["b", None]])
    said, *table = capsys.readouterr().out.splitlines()
    assert said == SHOWN
    assert any(f" {SHOWN} " in line and line.rstrip().endswith("1,234") for line in table)
    assert any(line.split() == ["b", "–"] for line in table)


def test_titles_and_headers_are_literal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(ODD, [f"{ODD}1"], [[1]])
    printed = capsys.readouterr().out
    assert not RAW.search(printed)
    assert SHOWN in printed
    assert f"{SHOWN}1" in printed


def test_a_long_sentence_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("word " * 100 + "end")
    assert capsys.readouterr().out == "word " * 100 + "end\n"


@given(value=st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
@example(value={"\U000e0041\u061c\ufeff": "\U000e007f😀\xad\U0001d173"})
def test_json_says_the_same_without_acting(value: dict[str, object]) -> None:
    from contextlib import redirect_stdout
    from io import StringIO

    with redirect_stdout(StringIO()) as out:
        print_json(value)
    assert not RAW.search(out.getvalue())
    assert json.loads(out.getvalue()) == value


@pytest.fixture
def odd_file() -> Path:
    """A file with odd names in every role, whose own name is odd too."""
    path = Path(f"[bold]{ESCAPE}.csv")
    good = "".join(f"a,r,b,{year},\n" for year in range(1990, 1999))  # with one bad date in ten it is still read
    path.write_text(f'subject,relation,object,begin,end\n"{ODD}","{ODD}","{ODD} too",nonsense{ESCAPE},\n{good}')
    return path


def test_odd_names_go_through_every_verb(timeplex: Timeplex, odd_file: Path) -> None:
    answers = [
        timeplex("import", odd_file, "-o", f"{ESCAPE}.kb"),
        timeplex("stats", odd_file),
        timeplex("problems", odd_file),
        timeplex("split", odd_file, "-o", f"{ESCAPE}.kb"),
        timeplex("stats", odd_file, "--json"),
        timeplex("stats", f"absent {ODD}"),
        timeplex("import", odd_file, "-o", "x.kb", "--subject", ODD),
    ]
    assert [answer.code for answer in answers] == [0, 0, 0, 0, 0, 2, 2]
    Path("bad.csv").write_text(f"subject,relation,object,begin\na,r,b,nonsense{ESCAPE}\n")
    answers.append(timeplex("import", "bad.csv", "-o", "x.kb"))
    assert answers[-1].code == 3
    for answer in answers:
        assert not RAW.search(answer.out + answer.err)
    imported, described, problems, *_ = answers
    assert r"Saved in \x1b[31mred\x1b]0;title\x07.kb" in imported.out
    for line in SHOWN.rsplit(" ", 1):  # the relation, on two lines of its cell
        assert f" {line} " in described.out
    assert "[bold]" in described.out.splitlines()[0]  # the KB is named after its file
    assert "[bold]x[/bold] [/]" in problems.out


def on_terminal(*arguments: str | Path) -> tuple[str, str]:
    """Standard output (a pipe) and standard error (a terminal) of the installed command."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    with subprocess.Popen([COMMAND, *arguments], stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        assert process.stdout is not None
        seen = b""
        try:
            while block := os.read(ours, 4096):
                seen += block
        except OSError:  # Linux says so when the other side is closed
            pass
        out = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == 0
    return out, seen.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a matter of POSIX")
def test_progress_is_for_terminals_only(installed: Timeplex) -> None:
    path = Path("[bold]\x1b]0;facts.csv")
    path.write_text("subject,relation,object,begin\na,r,b,1990\n")
    out, err = on_terminal("stats", path)
    assert r"reading [bold]\x1b]0;facts.csv" in err
    assert "━" in err
    assert "facts: 1 fact" in out
    assert installed("stats", path).err == ""
    assert "importing" in on_terminal("import", path, "-o", "facts.kb")[1]
    assert installed("import", path, "-o", "facts.kb").err == ""

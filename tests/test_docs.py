"""The documents: each command in them does what they say, each link leads somewhere."""

import re
from pathlib import Path

import pytest
from tests.documents import NOT_RUN, ROOT, Block, DocumentError, Runner, blocks, commands, matches

DOCUMENTS = [
    path
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.is_file()
]
LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)|(?:src|href)=\"([^\"]+)\"|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.document
@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_command_does_what_the_document_says(path: Path, tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    runner.run(path.read_text())
    print("not run:", *runner.left_out, sep="\n")


OLD_PROCESSOR = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


def trained_output(markdown: str, most: int) -> str:
    """The part of a document that trains a model and shows what it says, up to so many answers."""
    all_commands = [each for block in blocks(markdown) if block.language == "console" for each in commands(block)]
    made = [each for each in all_commands if each.command.startswith(("timeplex import", "timeplex train"))]
    told = [each for each in all_commands if each.compared == "about"][:most]
    kept = sorted([*(each for each in made if each.line < told[-1].line), *told], key=lambda each: each.line)
    return "".join(console("\n".join([f"$ {each.command}", *each.shown]), f" {each.compared}") for each in kept)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most", "variables"),
    [
        ("README.md", 9, {"TIMEPLEX_BFLOAT16": "1", **OLD_PROCESSOR}),
        ("docs/quickstart.md", 1, {"TIMEPLEX_BFLOAT16": "0", "OMP_NUM_THREADS": "2"}),
    ],
)
def test_what_a_trained_model_says_does_not_depend_on_the_processor(
    name: str, most: int, variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without units for bfloat16, with two threads, and with the kernels of an older processor."""
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    shown = trained_output((ROOT / name).read_text(), most)
    assert "timeplex train" in shown
    assert " about\n" in shown
    Runner(tmp_path).run(shown)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_no_command_hides_from_this_test(path: Path) -> None:
    assert hidden_commands(path.read_text()) == []


def hidden_commands(markdown: str) -> list[int]:
    """Lines of blocks that a reader takes for commands, but that are not run because of their language."""
    return [
        block.line
        for block in blocks(markdown)
        if block.language in ("sh", "bash", "shell", "zsh", "pycon", "py")
        or (
            block.language not in ("console", "python")
            and re.search(r"^\s*(\$ |>>> |(timeplex|make|pip|git|python3?) )", block.text, re.MULTILINE)
        )
    ]


def prose(markdown: str) -> str:
    """The document without its code."""
    for block in blocks(markdown):
        markdown = markdown.replace(block.text, "") if block.text else markdown
    return re.sub(r"`[^`\n]*`", "", markdown)


def links(path: Path) -> list[tuple[Path, str]]:
    """Targets of the relative links of a document: file and fragment."""
    found = ("".join(groups) for groups in LINK.findall(prose(path.read_text())))
    local = [target for target in found if not re.match(r"[a-z]+:", target)]
    pairs = (target.partition("#")[::2] for target in local)
    return [((path.parent / file).resolve() if file else path, fragment) for file, fragment in pairs]


def anchors(markdown: str) -> set[str]:
    """The fragments that GitHub makes of headings."""
    headings = re.findall(r"^#+\s+(.*?)\s*$", re.sub(r"(?ms)^ *```.*?^ *```", "", markdown), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    for target, fragment in links(path):
        assert target.exists(), f"{name_of(path)} links to {target.name}, which is not there"
        assert target.is_relative_to(ROOT), f"{name_of(path)} links out of the repository"
        if fragment and target.suffix == ".md":
            assert fragment in anchors(target.read_text()), f"{name_of(path)}: {target.name} has no #{fragment}"


def test_every_document_is_linked_from_another() -> None:
    linked = {target for path in DOCUMENTS for target, _ in links(path) if target != path}
    assert {name_of(path) for path in DOCUMENTS if path.name != "README.md" and path not in linked} == set()


# The collector itself.

DOCUMENT = """\
# Title

```console
$ timeplex --version
timeplex 0.0.0, which is not compared
$ timeplex import examples/careers.csv \\
>     -o careers.kb --object organisation
```

Some prose, $ not a command, and an indented block:

  ```console check
  $ timeplex problems careers.kb --most 0 | head -1
  24 rows read = 21 facts + 3 rows set aside
  $ timeplex stats yago
  error: 'yago' is neither a known KB nor a path that exists. Did you mean 'yago11k'?
  ```

```python
from pathlib import Path
facts = 21
```
~~~~python
>>> import timeplex
>>> Path("careers.kb").is_dir(), len(timeplex.read("careers.kb")) == facts
(True, True)
>>> later = 3
~~~~
```python
assert later == 3
```
```text
$ rm -rf everything
```
"""


def test_blocks_and_commands_are_found() -> None:
    found = blocks(DOCUMENT)
    assert [block.language for block in found] == ["console", "console", "python", "python", "python", "text"]
    assert [block.marks for block in found[:2]] == [(), ("check",)]
    first = commands(found[0])
    assert [command.command for command in first] == [
        "timeplex --version",
        "timeplex import examples/careers.csv -o careers.kb --object organisation",
    ]
    assert (first[0].line, first[0].shown, first[0].compared) == (4, ["timeplex 0.0.0, which is not compared"], "")
    assert [len(command.shown) for command in commands(found[1])] == [1, 1]


def test_a_document_that_tells_the_truth(tmp_path: Path) -> None:
    before = Path.cwd()
    Runner(tmp_path).run(DOCUMENT)
    assert (tmp_path / "careers.kb").is_dir()
    assert Path.cwd() == before


def console(text: str, mark: str = "") -> str:
    return f"```console{mark}\n{text}\n```\n"


@pytest.mark.parametrize(
    ("markdown", "complaint"),
    [
        (console("$ timeplex stats absent"), "exit code 2, not 0"),
        (console("$ timeplex --version\nerror: no"), "exit code 0, not 2"),
        (console("$ timeplex stats absent | head -1"), "exit code 2, not 0"),
        (console("$ timeplex --version\ntimeplex 99", " check"), "something else than is shown"),
        (console("$ timeplex --version\ntimeplex 99.9.9", " about"), "something else than is shown"),
        (console("$ rm -rf x"), "rm: not a kind of command"),
        (console("$ timeplex --version; wget x"), "wget: not a kind of command"),
        (console("$ cat examples/careers.csv | sort"), "sort: not a kind of command"),
        (console("$ cd x; timeplex bogus"), "nothing else may hide in it"),
        (console("$ cd x && timeplex bogus"), "exit code 2, not 0"),
        (console("$ make nonsense"), "exit code 2, not 0"),
        (console("$ make test PYTHON=x"), "name the targets"),
        (console("output"), "without a command"),
        ("```console\n$ timeplex --version\n", "never closed"),
        ("```python\n>>> 1 + 1\n3\n```\n", "Expected:"),
    ],
)
def test_a_document_that_does_not(tmp_path: Path, markdown: str, complaint: str) -> None:
    with pytest.raises(DocumentError, match=re.escape(complaint)):
        Runner(tmp_path).run(markdown)


def test_an_error_in_python_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        Runner(tmp_path).run("Text.\n\n```python\nx = 1\nx / 0\n```\n")
    assert raised.traceback[-1].lineno == 4  # counted from 0
    with pytest.raises(DocumentError, match='File "document", line 5'):
        Runner(tmp_path).run("Text.\n\n```python\n>>> x = 1\n>>> x\n2\n```\n")


def test_what_is_not_run_is_told(tmp_path: Path) -> None:
    runner = Runner(tmp_path, data=None)
    parts = [f"{start} x" for start in NOT_RUN]
    runner.run(console("$ " + " && ".join(parts) + "\n$ timeplex stats icews14") + "```python\nyago11k = 1 / 0\n```\n")
    assert runner.left_out == [*parts, "timeplex stats icews14", "yago11k = 1 / 0"]


def test_make_is_asked_for_its_targets(tmp_path: Path) -> None:
    Runner(tmp_path).run(console("$ make test\n$ make quick lint"))


@pytest.mark.parametrize(
    ("shown", "printed", "right"),
    [
        (["a  ", "b", ""], ["a", "b   "], True),
        (["a", "…", "d"], ["a", "b", "c", "d"], True),
        (["a", "...", "d"], ["a", "d"], True),
        (["…", "d"], ["a", "d", "e"], False),
        (["a"], ["a", "b"], False),
        (["a."], ["ab"], False),
        ([], [], True),
        ([], ["a"], False),
        (["a… b"], ["a c b"], False),
    ],
)
def test_what_counts_as_the_same_output(shown: list[str], printed: list[str], right: bool) -> None:
    assert matches(shown, printed) is right


@pytest.mark.parametrize(
    ("shown", "printed", "right"),
    [
        (["Rocard   0.833  1988–1991"], ["Rocard 0.791  1989–1990"], True),
        (["Rocard   0.833"], ["Rocard   0.779"], False),
        (["in 1988"], ["in 1991"], False),
        (["in 1988"], ["in 1988.0"], False),
        (["  ▁▃█  a bar"], ["  ▁▁▂▆█▂ a bar"], True),
        (["who 1", "─────"], ["who  1", "──────"], True),
        (["who 1", "─────"], ["who 1", "-----"], False),
        (["a 1 (b.)"], ["a 1 (bc)"], False),
        (["a 1", "…", "b 2"], ["a 1", "x 7", "b 2"], True),
        (["Rocard 1"], ["Cresson 1"], False),
    ],
)
def test_what_is_about_the_same_output(shown: list[str], printed: list[str], right: bool) -> None:
    assert matches(shown, printed, about=True) is right


def test_hidden_commands_are_found() -> None:
    texts = (
        "```sh\nls\n```",
        "```\n$ ls\n```",
        "```text\ntimeplex stats x\n```",
        "```\na → b\n```",
        "```toml\na = 1\n```",
    )
    assert [len(hidden_commands(text)) for text in texts] == [1, 1, 1, 0, 0]


def test_links_are_found_outside_of_code_only(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text(
        '[x](b.md#c) ![i](<p.png> "t") `[no](no.md)` [w](https://example.org) <img src="q.svg">\n'
        "[ref]: r.md\n[here](#top)\n```text\n[no](no.md)\n```\n"
    )
    assert [(target.name, fragment) for target, fragment in links(path)] == [
        ("b.md", "c"), ("p.png", ""), ("q.svg", ""), ("r.md", ""), ("a.md", "top"),
    ]  # fmt: skip


def test_anchors_are_those_of_github() -> None:
    assert anchors("# What is *in* a KB?\n```text\n# no\n```\n## `import` – files\n") == {
        "what-is-in-a-kb",
        "import--files",
    }


def test_a_block_knows_its_place() -> None:
    assert blocks("a\n````text\n```\n````\n") == [Block("text", (), "```", 3)]

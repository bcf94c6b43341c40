"""The explorer in a real browser: what one does with it, by mouse, by keyboard and without JavaScript."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from tests.serve.explorer import HOSTILE, TURNED, Server, Watched, browser, make_kb

from timeplex.decisions.applying import stated
from timeplex.decisions.journal import Decision, Decisions, read
from timeplex.kb.facts import TemporalKB

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PAGES = {
    "home": "/",
    "search": "/search?q=mer",
    "nothing": "/search?q=Angla+Merkle",
    "entity": "/entity?id=France",
    "proposals": "/entity?id=Abiy+Ahmed&proposals=1",
    "hostile": "/entity?id=%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E",
    "who-empty": "/who",
    "who": "/who?relation=headOfGovernment&object=France&at=1990",
    "when-empty": "/when",
    "when": "/when?subject=Willy+Brandt&relation=bornIn&object=Germany",
    "findings": "/findings",
    "review": "/review",
    "holes": "/review?kind=hole",
    "missing": "/review?kind=proposal",
    "decisions": "/decisions",
}


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_kb(tmp_path_factory.mktemp("kb"))


@pytest.fixture(scope="module")
def server(kb: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that all look at; facts with hostile names are decided, all else is decided elsewhere."""
    file, loaded = tmp_path_factory.mktemp("decisions") / "decisions.csv", TemporalKB.load(kb)
    opened = Decisions(loaded, file)
    for name in HOSTILE:
        row = int(loaded.facts.of_entity(loaded.entities.id(name))[0])
        opened.add(Decision("finding", "reject", stated(loaded, row), note=name))
    opened.close()
    started = Server(kb, file).start()
    started.find_missing()
    yield started
    assert started.stop() == 0


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def watched(chromium: Browser) -> Iterator[Watched]:
    """A page in which nothing may go wrong."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    opened = Watched.of(context)
    opened.page.set_default_timeout(30_000)
    yield opened
    context.close()
    assert opened.wrong == []


def test_from_search_to_the_evidence(server: Server, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url)
    page.get_by_label("Search an entity").fill("willy br")
    expect(page.get_by_role("option")).to_contain_text("Willy Brandt")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Willy Brandt")
    assert page.url == f"{server.url}/entity?id=Willy%20Brandt"
    page.get_by_role("link", name="when? Willy Brandt headOfGovernment Germany").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("When?")
    expect(page.locator("dl.facts")).to_contain_text("The KB states")
    page.get_by_label("Relation").select_option("bornIn")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("dl.facts strong")).to_contain_text("19")
    mark = page.locator(".tp-curve a.mark").first
    sentence = page.locator(mark.get_attribute("href") or "")
    assert "lit" not in (sentence.get_attribute("class") or "")
    mark.hover()
    expect(sentence).to_have_class("lit")
    mark.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == mark.get_attribute("href")
    page.locator(".tp-curve > svg").hover(position={"x": 200, "y": 60})
    expect(page.locator("[data-readout]")).to_contain_text("%")


def test_who_with_a_probability_and_its_evidence(server: Server, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{server.url}/entity?id=France")
    page.get_by_role("link", name="? headOfGovernment France").click()
    page.get_by_label("When").fill("1990")
    page.get_by_label("only what is new").check()
    page.get_by_role("button", name="Ask").click()
    answers = page.locator("ol.answers > li")
    expect(answers.first.locator(".probability")).to_contain_text("%")
    assert page.locator("ol.answers .stated").count() == 0
    second = answers.nth(1).locator(".name").inner_text()
    answers.nth(1).get_by_role("link", name="why?").click()
    expect(page.get_by_role("heading", name=f"Why {second}?")).to_be_visible()
    tracks = page.locator("#why ol.tp-tracks > li:not(.axis)")
    assert tracks.count() >= 2
    expect(tracks.first).to_contain_text("1990")


def test_a_decision_by_key_survives_the_server_and_makes_a_new_kb(
    kb: Path, chromium: Browser, watched: Watched, tmp_path: Path
) -> None:
    shutil.copytree(kb, tmp_path / "my.kb")
    before = TemporalKB.load(tmp_path / "my.kb")
    file = tmp_path / "decisions.csv"
    page = watched.page
    with Server(tmp_path / "my.kb", file) as server:
        facts, old, new = decide_by_key(page, server)
        server.kill()
    taken = read(file, before).decisions
    assert [each.verdict for each in taken] == ["accept", "reject", "skip", "accept", "undo"]
    assert taken[0].note == "every five years"
    with Server(tmp_path / "my.kb", file) as again:
        page.goto(f"{again.url}/decisions")
        expect(page.get_by_text("1 accepted, 1 rejected, 1 skipped.")).to_be_visible()
        page.goto(f"{again.url}/review")
        assert page.locator("article.item h2").inner_text() == facts[3], "what was undone comes first again"
        assert again.stop() == 0
    done = run("apply", str(tmp_path / "my.kb"), str(file), "-o", str(tmp_path / "new.kb"))
    assert "2,186 facts → 2,186 facts" in done
    after = TemporalKB.load(tmp_path / "new.kb")
    gone, came = (set(map(tuple, one.to_polars().rows())) for one in (before, after))
    fact = ("train", "António Ramalho Eanes", "wonElection", "Portugal")
    assert (gone - came, came - gone) == ({(*fact, old, old)}, {(*fact, new, new)})


def decide_by_key(page: Page, server: Server) -> tuple[list[str], str, str]:
    """Accept, reject, skip, remove and undo; the facts that were shown, and the first one's date before and after."""
    page.goto(f"{server.url}/review")
    facts = [page.locator("article.item h2").inner_text()]
    old, new = "1980", page.get_by_label("from").input_value()
    assert facts[0] == f"António Ramalho Eanes wonElection Portugal {old}"
    page.keyboard.press("n")
    page.keyboard.type("every five years")
    page.keyboard.press("Escape")
    with page.expect_navigation():
        page.keyboard.press("a")
    expect(page.get_by_text("Last: accept, change")).to_be_visible()
    for key, word in (("r", "reject"), ("s", "skip"), ("d", "accept, remove"), ("u", "skip")):
        facts.append(page.locator("article.item h2").inner_text())
        with page.expect_navigation():
            page.keyboard.press(key)
        expect(page.locator("form.undo strong")).to_have_text(word)
    return facts, old, new


def run(*arguments: str) -> str:
    from typer.testing import CliRunner

    from timeplex.cli.main import app

    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_all_works_without_javascript(kb: Path, chromium: Browser, tmp_path: Path) -> None:
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 800})
    watched = Watched.of(context)
    with Server(kb, tmp_path / "decisions.csv") as server:
        look_without_javascript(watched.page, server)
        context.close()
        assert server.stop() == 0
    assert [each.verdict for each in read(tmp_path / "decisions.csv").decisions] == ["reject", "undo"]
    assert watched.wrong == []


def look_without_javascript(page: Page, server: Server) -> None:
    page.goto(server.url)
    page.get_by_label("Search an entity").fill("Willy Brandt")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Willy Brandt")
    page.get_by_role("link", name="1970s").click()
    page.get_by_role("link", name="when? Willy Brandt").first.click()
    expect(page.locator("dl.facts strong")).to_be_visible()
    page.locator("a.mark").first.click()
    assert page.locator("ol.evidence li:target").count() == 1
    page.goto(f"{server.url}/who")
    page.get_by_label("Relation").select_option("headOfState")
    page.get_by_label("Object").fill("france")
    page.get_by_label("When").fill("1990")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".probability").first).to_contain_text("%")
    page.goto(f"{server.url}/review")
    page.get_by_role("button", name="It is right").click()
    expect(page.get_by_text("Last: reject")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("form.undo strong")).to_have_count(0)


FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
NUMBERED = """(selector) => {
    const seen = [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility());
    seen.forEach((each, at) => { each.dataset.at = at; });
    return seen.length;
}"""


@pytest.mark.parametrize("name", PAGES)
def test_the_keyboard_alone_reaches_everything(name: str, server: Server, watched: Watched) -> None:
    page = watched.page
    page.goto(server.url + PAGES[name])
    number, reached = page.evaluate(NUMBERED, FOCUSABLE), set[int]()
    page.evaluate("document.body.focus()")
    for _ in range(number + 3):
        page.keyboard.press("Tab")
        at = page.evaluate("document.activeElement.dataset.at")
        if at is not None:
            reached.add(int(at))
    missed = page.evaluate(
        "(reached) => [...document.querySelectorAll('[data-at]')].filter((each) => !reached.includes(+each.dataset.at))"
        ".map((each) => each.outerHTML.slice(0, 200))",
        sorted(reached),
    )
    assert missed == []
    assert number > 10


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_each_page_is_accessible_and_fits(
    scheme: Any, width: int, server: Server, chromium: Browser, tmp_path: Path
) -> None:
    """By axe-core, with all its rules, in both schemes; and a picture of each page is left to be looked at."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    watched, faults = Watched.of(context), dict[str, Any]()
    page = watched.page
    for name, path in PAGES.items():
        page.goto(server.url + path)
        if (scheme, width) in (("light", 1280), ("dark", 390)):
            faults |= {f"{name}: {fault}": where for fault, where in axe(page).items()}
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            faults[f"{name}: wider than the screen"] = path
        picture = tmp_path / f"{name}-{scheme}-{width}.png"
        page.screenshot(path=picture, full_page=True)
        assert picture.stat().st_size > 10_000
    context.close()
    assert faults == {}
    assert watched.wrong == []


def axe(page: Page) -> dict[str, list[str]]:
    """What axe-core finds to be wrong, and where."""
    found = Axe().run(page).response["violations"]
    return {f"{each['id']} ({each['impact']})": [node["html"][:200] for node in each["nodes"]] for each in found}


def test_axe_would_see_a_fault(server: Server, watched: Watched) -> None:
    watched.page.goto(server.url)
    watched.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<button></button>')")
    assert "button-name (critical)" in axe(watched.page)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text(name: str, server: Server, watched: Watched) -> None:
    """Wherever they are shown: as heading, in tracks, neighbours, suggestions and forms."""
    from urllib.parse import quote

    page = watched.page
    page.goto(f"{server.url}/entity?id={quote(name, safe='')}")
    shown = page.get_by_role("heading", level=1).inner_text()
    assert shown == {TURNED: "Mara\\u202edlareG\\u202c Fitz", "a\nb": "a\\nb"}.get(name, name)
    for path in ("", "/who?relation=headOfGovernment&object=", "/who?relation=bornIn&subject=", "/search?q="):
        page.goto(f"{server.url}{path}{quote(name, safe='') if path else ''}")
        assert page.locator("img, script:not([src]), b").count() == 0
    page.goto(server.url)
    page.get_by_label("Search an entity").press_sequentially(name.split("\n")[0][:4])
    expect(page.get_by_role("listbox")).to_be_visible()
    assert page.locator("img, script:not([src])").count() == 0


def test_decisions_on_hostile_names_are_text(server: Server, watched: Watched) -> None:
    watched.page.goto(f"{server.url}/decisions")
    expect(watched.page.locator("tbody tr")).to_have_count(len(HOSTILE))
    assert watched.page.locator("img, script:not([src])").count() == 0


def test_what_is_not_there_is_said_on_a_page(server: Server, chromium: Browser) -> None:
    context = chromium.new_context()
    page = context.new_page()
    answer = page.goto(f"{server.url}/entity?id=Angla+Merkel")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("alert")).to_contain_text("did you mean 'Angela Merkel'")
    assert axe(page) == {}
    context.close()

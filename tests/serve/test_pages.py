"""The pages as a program sees them: addresses, JSON, CSV, decisions, and what cannot be asked."""

import csv
import io
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from fastapi.testclient import TestClient
from tests.builders import csv_kb
from tests.patience import patience

import timeplex
from timeplex.decisions.journal import Decisions, read
from timeplex.kb.facts import TemporalKB
from timeplex.kb.store import harmless
from timeplex.serve.app import create_app
from timeplex.serve.rendering import KIND_NAMES, link
from timeplex.serve.review import KINDS
from timeplex.serve.service import Service

ODD = "<img src=x onerror=alert(1)>"
FORMULA = "=1+1"
PAGES = ("/index", "/search", "/entity", "/who", "/when", "/findings", "/review", "/decisions")


def lines() -> list[str]:
    """Lives of forty people; two are born after they work, one does not say when he stopped, two births are missing."""
    made = []
    for at in range(40):
        name = f'"{ODD}"' if at == 3 else FORMULA if at == 4 else f"p{at}"
        born = 1990 if at in (5, 6) else 1900 + at
        made += [] if at in (20, 30) else [f"{name},bornIn,town{at % 3},{born},{born}"]
        made.append(f"{name},worksIn,town{at % 3},{1925 + at},{1950 + at}")
        made.append(f"{name},diedIn,town{at % 3},{1975 + at},{1975 + at}")
    return [*made, "p7,livesIn,town1,1950,", "p8,livesIn,town1,1951,1960"]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> TemporalKB:
    return csv_kb(tmp_path_factory.mktemp("kb"), {"train": lines()})


@pytest.fixture(scope="module")
def service(kb: TemporalKB) -> Service:
    """One whose patterns are learned, and that has looked for what is wrong or missing."""
    made = Service(timeplex.learn(kb).learn())
    made.findings()
    made.discover()
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "decisions.csv"


@pytest.fixture
def client(service: Service, file: Path) -> Iterator[TestClient]:
    opened = Decisions(service.kb, file)
    with TestClient(create_app(service, decisions=opened), base_url="http://localhost") as client:
        yield client
    opened.close()


def asked(path: str) -> str:
    """An address of each page that has something to show."""
    query = {
        "/search": {"q": "p"},
        "/entity": {"id": "p7", "proposals": "1"},
        "/who": {"relation": "worksIn", "object": "town1", "at": "1950"},
        "/when": {"subject": "p7", "relation": "bornIn", "object": "town1"},
    }
    return f"?{urlencode(query[path])}" if path in query else ""


@pytest.mark.parametrize("path", PAGES)
def test_each_page_has_three_forms(path: str, client: TestClient) -> None:
    page = client.get(path + asked(path))
    told = client.get(f"{path}.json{asked(path)}")
    table = client.get(f"{path}.csv{asked(path)}")
    assert [each.status_code for each in (page, told, table)] == [200, 200, 200]
    assert "<h1" in page.text
    assert isinstance(told.json(), dict)
    assert told.json()
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert bool(rows) == (path != "/decisions")
    for form in ("json", "csv"):  # each page tells where its other forms are
        assert f'href="{path}.{form}{asked(path).replace("&", "&amp;").replace("+", "%20")}"' in page.text


def test_an_empty_page_asks_for_what_is_missing(client: TestClient) -> None:
    for path in ("/who", "/when", "/search"):
        assert client.get(path).status_code == 200
    both = client.get("/who?relation=worksIn&subject=p1&object=town1")
    assert "Both a subject and an object are given" in both.text


def test_no_csv_starts_a_formula(client: TestClient) -> None:
    for path in (f"/entity.csv?id={quote(FORMULA)}", f"/search.csv?q={quote(FORMULA)}"):
        cells = [cell for row in csv.reader(io.StringIO(client.get(path).text)) for cell in row]
        assert "'=1+1" in cells
        assert all(harmless(cell) == cell for cell in cells)


def test_names_are_text_wherever_they_are(client: TestClient) -> None:
    for path in (
        link("/entity", id=ODD, proposals=1),
        link("/who", relation="worksIn", subject=ODD),
        link("/when", subject=ODD, relation="bornIn", object="town0"),
        link("/search", q="img"),
        link("/search", q=ODD + "nobody"),
        link("/who", relation=ODD, object=ODD),
        link("/findings", rule=ODD, at="1950"),
    ):
        page = client.get(path)
        assert page.status_code in (200, 303, 404)
        assert "<img" not in page.text
        assert ODD not in page.text


def test_what_cannot_be_asked_is_an_error_of_the_user(client: TestClient) -> None:
    for path, status in (
        ("/entity?id=nobody", 404),
        ("/entity", 404),
        ("/entity?id=p1&from=soon", 422),
        ("/entity?id=p1&offset=-1", 422),
        ("/entity?id=p1&offset=9999999999999", 422),
        ("/search?q=" + "x" * 600, 422),
        ("/findings?severity=101", 422),
        ("/findings?at=soon", 422),
        ("/review?item=x", 422),
        ("/review?kind=finding&item=0", 404),
        ("/review?kind=hole&item=99999999", 404),
        ("/review?kind=proposal&item=99999999", 404),
        ("/static/../pages.py", 404),
        ("/static/pages.py", 404),
        ("/who?relation=worksIn&object=town1&k=101", 422),
    ):
        answer = client.get(path)
        assert answer.status_code == status, path
        assert set(answer.json()) >= {"error"} or answer.json()["detail"] == "Not Found"
        as_page = client.get(path, headers={"accept": "text/html"})
        assert as_page.status_code == status
        assert "Traceback" not in as_page.text


def test_no_name_in_an_address_is_special(client: TestClient) -> None:
    """What is not known is passed over, whatever it is called."""
    more = urlencode(
        dict.fromkeys(("path", "self", "name", "kwargs", "shown", "json", "to", "title", "query", "_"), ODD)
    )
    as_page = {"accept": "text/html"}
    for path in PAGES:
        plain = asked(path)
        answer = client.get(f"{path}{plain}{'&' if plain else '?'}{more}", headers=as_page)
        assert answer.status_code in (200, 422), path  # `to` is a time of an entity
        assert "<img" not in answer.text
        missing = client.get(f"{path}?id=nobody&rule=x&item=99999999&{more}", headers=as_page)
        assert missing.status_code < 500, path


def test_json_holds_no_pictures(client: TestClient) -> None:
    for path in PAGES:
        assert "<svg" not in client.get(f"{path}.json{asked(path)}").text


def test_a_whole_name_leads_to_its_entity(client: TestClient) -> None:
    answer = client.get("/search?q=P7", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/entity?id=p7")
    assert client.get("/search.json?q=p7").json()["found"]["items"][0]["id"] == "p7"
    assert "Did you mean" in client.get("/search?q=townn").text


def test_an_entity_is_zoomed_and_told_by_relation(client: TestClient) -> None:
    def shown(**query: str) -> list[str]:
        told = client.get("/entity.json?" + urlencode({"id": "p7", **query})).json()
        return [each["relation"]["id"] for each in told["facts"]["items"]]

    assert shown() == ["bornIn", "worksIn", "livesIn", "diedIn"]
    assert shown(**{"from": "1940", "to": "1949"}) == ["worksIn"]
    assert shown(relation="livesIn") == ["livesIn"]
    proposed = client.get("/entity.json?id=p7&proposals=1").json()["proposed"]
    assert (proposed[0]["relation"]["id"], proposed[0]["begin"]) == ("livesIn", "1950")
    assert proposed[0]["end"] > "1950"


def tags(page: str) -> list[tuple[str, dict[str, str]]]:
    """The tags of a page, as a browser reads them."""
    found: list[tuple[str, dict[str, str]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, {name: value or "" for name, value in attrs}))

    Reader().feed(page)
    assert ("main", {"id": "main", "tabindex": "-1"}) in found
    assert "img" not in dict(found)
    return found


# The queue


def test_while_missing_facts_are_looked_for_the_page_says_so(kb: TemporalKB, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Service(timeplex.learn(kb).learn())
    monkeypatch.setattr("timeplex.serve.pages.PATIENCE", 0.0)
    with TestClient(create_app(fresh), base_url="http://localhost") as client:
        page = client.get("/review?kind=proposal")
        assert page.status_code == 200
        assert "Missing facts are being looked for" in page.text
        assert client.get("/review.json?kind=proposal").json()["searching"] is True
    fresh.close()


def item(client: TestClient, kind: str = "finding", **query: object) -> dict[str, Any]:
    end = time.monotonic() + patience(60)
    while True:  # missing facts are looked for in the background
        found: dict[str, Any] = client.get("/review.json?" + urlencode({"kind": kind, **query})).json()
        if not found.get("searching") or time.monotonic() > end:
            return found
        time.sleep(0.2)


def decide(client: TestClient, do: str, shown: dict[str, Any], **more: str) -> Any:
    page = client.get(f"/review?kind={shown['kind']}&item={shown['number']}").text
    key = re.search(r'name="key" value="([0-9a-f]{16})"', page)
    assert key is not None
    form = {"kind": shown["kind"], "item": shown["number"], "key": key[1], "do": do, **more}
    return client.post("/review", data=form, follow_redirects=False)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_item_can_be_accepted_and_undone(
    kind: str, client: TestClient, file: Path, kb: TemporalKB
) -> None:
    told = item(client, kind)
    left, shown = told["left"], told["item_json"]
    assert shown is not None, KIND_NAMES[kind]  # type: ignore[index]
    dates = {"begin": "1901", "end": "1999"}
    answer = decide(client, "dates", shown, note="by hand", **dates)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/review?kind={kind}&after={shown['number']}")
    (taken,) = read(file, kb).decisions
    assert (taken.verdict, taken.action, taken.note) == ("accept", "add" if kind == "proposal" else "change", "by hand")
    assert taken.new is not None
    assert (taken.new.begin, taken.new.end) == ("1901", "1999")
    again = item(client, kind)
    assert again["left"] == left - 1
    assert again["item_json"] is None or again["item_json"]["number"] != shown["number"]
    back = client.post("/review", data={"do": "undo", "kind": kind}, follow_redirects=False)
    assert back.headers["location"] == f"/review?kind={kind}&item={shown['number']}"
    assert item(client, kind)["left"] == left
    assert [each.verdict for each in read(file, kb).decisions] == ["accept", "undo"]


def test_what_accepting_does_is_offered_and_done(client: TestClient, kb: TemporalKB, file: Path) -> None:
    shown = item(client)["item_json"]
    assert shown["fact"]["subject"] in ("p5", "p6")
    decide(client, "remove", shown)
    other = item(client)["item_json"]
    decide(client, "reject", other)
    done = client.get("/decisions.json").json()
    assert done["outcome"]["removed"] == 1
    assert done["outcome"]["facts"] == len(kb) - 1
    assert timeplex.apply(kb, file).count("removed") == 1
    decided = client.get("/findings").text
    assert "<strong>accepted</strong>" in decided
    assert "<strong>rejected</strong>" in decided


def test_wrong_decisions_are_refused_and_leave_no_line(client: TestClient, file: Path) -> None:
    shown = item(client)["item_json"]
    before = file.read_bytes()
    fact = shown["fact"]
    for do, more in (
        ("dates", {"begin": "soon", "end": ""}),
        ("dates", {"begin": "1990", "end": "1980"}),
        ("dates", {"begin": fact["begin"], "end": fact["end"]}),
        ("accept-99", {}),
        ("", {}),
        ("reject", {"note": "x" * 3000}),
    ):
        assert decide(client, do, shown, **more).status_code == 422, do
    form = {"kind": "finding", "item": shown["number"], "key": "0" * 16, "do": "reject"}
    assert client.post("/review", data=form).status_code == 422
    assert client.post("/review", data={**form, "kind": "nothing"}).status_code == 404
    assert client.post("/review", data={**form, "item": "x"}).status_code == 422
    assert client.post("/review", data={"do": "undo"}).status_code == 422
    assert client.post("/review", content=b"\xff" * 100).status_code == 404
    assert client.post("/review", content=b"&".join([b"a=b"] * 100)).status_code == 422
    elsewhere = client.post("/review", data=form, headers={"origin": "http://evil.example"})
    assert elsewhere.status_code == 403
    assert file.read_bytes() == before


def test_without_a_file_the_queue_is_read_only(service: Service) -> None:
    with TestClient(create_app(service), base_url="http://localhost") as client:
        page = client.get("/review").text
        assert "This queue can only be read" in page
        assert "<button name" not in page
        form = {"kind": "finding", "item": "0", "key": "0", "do": "undo"}
        assert client.post("/review", data=form).status_code == 422


def test_all_that_is_linked_is_there(client: TestClient) -> None:
    """Every address in every page, one step deep."""
    seen = set[str]()
    for path in PAGES:
        page = client.get(path + asked(path)).text
        for tag, given in tags(page):
            assert tag != "script" or given["src"].startswith("/static/")
            assert not any(name == "style" or name.startswith("on") for name in given)
            for name in {"href", "src", "action"} & given.keys():
                assert given[name].startswith(("/", "#")), "only addresses of our own"
                assert not given[name].startswith("//")
                seen.add(given[name].partition("#")[0])
    seen -= {""}
    for each in sorted(seen):
        assert client.get(each).status_code in (200, 307), each


def test_what_the_browser_loads_is_in_the_package(client: TestClient) -> None:
    for name, kind in (("explorer.css", "text/css"), ("drawing.css", "text/css"), ("suggest.js", "text/javascript")):
        answer = client.get(f"/static/{name}")
        assert answer.headers["content-type"].startswith(kind)
    assert client.get("/favicon.ico").headers["content-type"] == "image/svg+xml"

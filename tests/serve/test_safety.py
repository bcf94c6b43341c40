"""Who may ask: the token on every route, names of hosts, pages elsewhere; and what every answer carries."""

import re
from collections.abc import Iterator

import httpx
import pytest
from starlette.routing import BaseRoute, Mount, Route
from tests.serve.asked import client, service, serving

from timeplex.serve.app import create_app
from timeplex.serve.safety import HEADERS

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    with serving(create_app(service(), token=TOKEN, hosts=["kb.example"])) as url:
        yield url


@pytest.fixture(scope="module")
def open_() -> Iterator[str]:
    with serving(create_app(service())) as url:
        yield url


def every_route() -> list[tuple[str, str]]:
    """(method, path) of every route of the application, mounted ones included, with something for each parameter."""
    found: list[tuple[str, str]] = []

    def walk(routes: list[BaseRoute], prefix: str = "") -> None:
        for route in routes:
            inner = getattr(getattr(route, "original_router", None), "routes", None)
            if isinstance(route, Route):
                path = prefix + re.sub(r"\{[^}]*\}", "x", route.path)
                found.extend((method, path) for method in sorted(route.methods or {"GET", "POST"}))
            elif isinstance(route, Mount):
                found.append(("GET", f"{prefix}{route.path}/x"))
                walk(route.routes, prefix + route.path)
            elif inner is not None:
                walk(inner, prefix)
            else:
                raise AssertionError(f"a kind of route that this test does not know: {route!r}")

    walk(create_app(service(), token=TOKEN).router.routes)
    return found


def test_every_route_is_known_to_the_test_below() -> None:
    paths = {path for _, path in every_route()}
    assert {"/healthz", "/openapi.json", "/mcp", "/v1/kb", "/v1/rank", "/v1/entities/x"} <= paths
    described = create_app(service()).openapi()["paths"]
    assert {re.sub(r"\{[^}]*\}", "x", path) for path in described} <= paths


@pytest.mark.parametrize(("method", "path"), every_route())
def test_every_route_refuses_without_the_token(guarded: str, method: str, path: str) -> None:
    wrong = [{}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}, {"cookie": "timeplex=wrong"}]
    wrong += [{"authorization": "Bearer"}, {"cookie": f"timeplex={TOKEN}"}, {"cookie": '"; ='}]
    with client(guarded) as asking:
        if path == "/healthz":
            assert asking.request(method, path).json()["status"] == "ok"
            return
        for headers in wrong:
            answer = asking.request(method, path, headers=headers)
            assert answer.status_code == 401, headers
            if method != "HEAD":
                assert answer.json() == {
                    "error": "This server asks for a token.",
                    "hint": "Send it as Authorization: Bearer TOKEN, or open the page once with ?token=TOKEN.",
                }
        assert asking.request(method, path, params={"token": "wrong"}).status_code == 401
        answer = asking.request(method, path, headers={"authorization": f"Bearer {TOKEN}"})
        assert answer.status_code not in (401, 500, 503)


@pytest.mark.parametrize("path", ["/", "/nothing", "//v1/kb", "/v1/kb/", "/healthz/", "/HEALTHZ", "/healthz/../v1/kb"])
def test_what_is_no_route_tells_nothing_without_the_token(guarded: str, path: str) -> None:
    with client(guarded) as asking:
        raw = asking.build_request("GET", guarded)
        raw.url = httpx.URL(guarded).copy_with(raw_path=path.encode())
        assert asking.send(raw).status_code == 401


def test_a_browser_gives_the_token_once(guarded: str) -> None:
    with client(guarded) as browser:
        answer = browser.get("/v1/entities", params={"token": TOKEN, "q": "person 0&7"})
        assert answer.status_code == 303
        assert TOKEN not in answer.headers["location"] + answer.headers["set-cookie"]
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert answer.headers["location"] == "/v1/entities?q=person+0%267"
        assert browser.get(answer.headers["location"]).status_code == 200
        assert browser.get("/v1/kb").status_code == 200
    with client(guarded) as browser:  # it is no way around asking for changes
        assert browser.post("/v1/rank", params={"token": TOKEN}, json={}).status_code == 401


@pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", "/%5cevil.example", "///evil.example"])
def test_the_token_leads_to_no_other_site(guarded: str, path: str) -> None:
    with client(guarded) as browser:
        request = browser.build_request("GET", guarded)
        request.url = httpx.URL(guarded).copy_with(raw_path=f"{path}?token={TOKEN}".encode())
        location = browser.send(request).headers["location"]
    assert re.match(r"/[^/\\]", location)


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1", True),
        ("localhost:80", True),
        ("LocalHost", True),
        ("[::1]:8765", True),
        ("kb.example:8765", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("kb.example.evil.example", False),
        ("192.168.1.5", False),
        ("", False),
        (":80", False),
        ("localhost:80:80", False),
        ("localhost:x", False),
        ("[::1", False),
        ("user@localhost", False),
    ],
)
def test_only_names_of_ours_are_answered(guarded: str, host: str, known: bool) -> None:
    with client(guarded) as asking:
        answer = asking.get("/healthz", headers={"host": host})
        assert answer.status_code == (200 if known else 400)


def test_a_server_on_all_addresses_is_reached_by_any_address_but_no_name() -> None:
    with serving(create_app(service(), token=TOKEN, hosts=["0.0.0.0"])) as url, client(url) as asking:
        for host, known in (("192.168.1.5:80", True), ("[fe80::1]:80", True), ("evil.example", False)):
            assert asking.get("/healthz", headers={"host": host}).status_code == (200 if known else 400)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 422),
        ({"origin": "{url}"}, 422),
        ({"origin": "{url}", "sec-fetch-site": "same-origin"}, 422),
        ({"sec-fetch-site": "none"}, 422),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_pages_elsewhere_cannot_ask_for_changes(open_: str, headers: dict[str, str], status: int) -> None:
    sent = {name: value.format(url=open_) for name, value in headers.items()}
    with client(open_) as asking:
        assert asking.post("/v1/rank", json={}, headers=sent).status_code == status
        assert asking.post("/mcp", json={}, headers=sent).status_code != 403 or status == 403


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *[("GET", "/v1/kb", 200), ("GET", "/nothing", 404), ("POST", "/v1/rank", 422), ("DELETE", "/v1/kb", 405)],
        *[("GET", "/openapi.json", 200), ("GET", "/mcp", 405), ("OPTIONS", "/v1/kb", 405)],
    ],
)
def test_every_answer_carries_the_policy_and_none_lets_other_sites_read(
    open_: str, method: str, path: str, status: int
) -> None:
    with client(open_) as asking:
        answer = asking.request(method, path, headers={"origin": open_})
    assert answer.status_code == status
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert not [name for name in answer.headers if name.startswith("access-control")]
    if status >= 400 and path != "/mcp":
        assert answer.json()["error"]


def test_what_a_fault_of_ours_tells_is_one_sentence() -> None:
    app = create_app(service())

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("a secret")

    with serving(app) as url, client(url) as asking:
        answer = asking.get("/broken")
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert asking.get("/v1/kb").status_code == 200

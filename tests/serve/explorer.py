"""A server of the explorer in a process of its own, and a real browser to look at it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from tests.patience import patience

import timeplex

ROOT = Path(__file__).parents[2]
SECONDS = 120
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

IMAGE = "<img src=x onerror=alert(1)>"
TURNED = "Mara\u202edlareG\u202c Fitz"
FORMULA = '=HYPERLINK("http://127.0.0.1:9/","x")'
BREAKING = "</script><script>alert(2)</script>"
HOSTILE = (IMAGE, TURNED, FORMULA, BREAKING, "a\nb", "'\"`onload=alert(3)", "אנגלה מרקל", "&amp;", "../../etc/passwd")
"""Names that a page must show as nothing but text."""


def make_kb(folder: Path) -> Path:
    """The leaders, with what has hostile names, as a KB folder whose patterns are learned."""
    import csv

    table = folder / "leaders.csv"
    shutil.copy(ROOT / "examples" / "leaders.csv", table)
    with table.open("a", newline="") as file:
        rows = csv.writer(file)
        for at, name in enumerate(HOSTILE):
            rows.writerow([name, "bornIn", "Germany", 1930 + at, 1930 + at])
            rows.writerow([name, "headOfGovernment", IMAGE, 1970 + 3 * at, 1972 + 3 * at])
    kb = replace(timeplex.read(table, object="place"), name="leaders <b>")
    kb.save(folder / "leaders.kb")
    timeplex.learn(str(folder / "leaders.kb")).learn()
    return folder / "leaders.kb"


@dataclass
class Server:
    """`timeplex serve` of a KB, at an address of its own."""

    kb: Path
    decisions: Path | None = None
    options: tuple[str, ...] = ()
    process: "subprocess.Popen[str] | None" = None
    url: str = ""

    def start(self) -> "Server":
        """Start it, and wait until it answers all questions."""
        options = ["--decisions", str(self.decisions)] if self.decisions else []
        command = [sys.executable, "-m", "timeplex.cli.main", "serve", str(self.kb), "--port", "0", *options]
        self.process = subprocess.Popen(
            [*command, *self.options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = re.search(r"http://127\.0\.0\.1:\d+/", line)
            if found:
                self.url = found[0].rstrip("/")
                break
        else:
            raise AssertionError("the server ended before it told its address")
        os.set_blocking(self.process.stdout.fileno(), False)
        end = time.monotonic() + patience(SECONDS)
        while '"ready":true' not in self.get("/healthz"):
            assert time.monotonic() < end, "the patterns are not learned"
            time.sleep(0.1)
        self.get("/findings.json")
        return self

    def find_missing(self) -> None:
        """Wait until missing facts have been looked for."""
        end = time.monotonic() + patience(SECONDS)
        while '"searching": true' in self.get("/review.json?kind=proposal"):
            assert time.monotonic() < end, "the search does not end"

    def get(self, path: str) -> str:
        """What it answers."""
        with urllib.request.urlopen(self.url + path, timeout=patience(SECONDS)) as answer:
            text: str = answer.read().decode()
            return text

    def __enter__(self) -> "Server":
        return self.start()

    def __exit__(self, *error: object) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a power failure would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> int:
        """End it as Ctrl-C does."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(patience(30))
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.returncode


def chromium() -> str:
    """Where the browser is; the test is skipped where there is none."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip("There is no Chromium: apt-get install chromium (tools/setup.sh does it for root).")
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """A real one."""
    path = chromium()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        try:
            yield opened
        finally:
            opened.close()


@dataclass
class Watched:
    """A page, and all that went wrong in it."""

    page: Page
    wrong: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, context: BrowserContext) -> "Watched":
        """A new page of a browser."""
        watched = cls(context.new_page())
        page, wrong = watched.page, watched.wrong
        page.on("console", lambda told: wrong.append(told.text) if told.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        # What the next page interrupts has not failed.
        page.on(
            "requestfailed",
            lambda it: None if "ABORTED" in f"{it.failure}" else wrong.append(f"{it.url}: {it.failure}"),
        )
        page.on("response", lambda answer: wrong.append(answer.url) if answer.status >= 400 else None)
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        return watched

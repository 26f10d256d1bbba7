"""Pages of the site of docs/ in a real browser, from a server of this machine: `make site` runs this.

`ATCPY_SCREENSHOTS` names a folder for what the pages look like.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import Page, browser, need_chromium
from tests.sources import REPO

pytestmark = need_chromium

SITE = REPO / "build" / "site"
PAGES = ("index", "tutorial", "api", "options")
AXE = files("axe_core_python").joinpath("axe.min.js")
SERIOUS = ("serious", "critical")


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files, and writes no log."""

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=SITE)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module", params=[False, True], ids=["light", "dark"])
def dark(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


@pytest.fixture(scope="module")
def page(dark: bool) -> Iterator[Page]:
    """A browser for each scheme: the theme notes that of the first page that it shows."""
    with browser() as opened:
        yield opened


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_an_error(page: Page, address: str, name: str, dark: bool) -> None:
    width = 400 if dark else 1400
    page.problems.clear()
    page.requests.clear()
    page.open(f"{address}/{name}.html", dark=dark, width=width)
    assert page.problems == []
    assert [url for url in page.requests if not url.startswith((address, "data:", "about:"))] == []
    assert page.run("[...document.images].filter((i) => !i.naturalWidth).map((i) => i.src)") == []
    assert page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    scheme = page.run("document.body.getAttribute('data-md-color-scheme')")
    assert scheme == ("slate" if dark else "default")
    if folder := os.environ.get("ATCPY_SCREENSHOTS"):
        page.screenshot(Path(folder) / f"{name}-{width}.png")
    page.run(AXE.read_text(encoding="utf-8") + "; 1")
    # The colours of links in code on a dark ground are the theme's.
    rules = "{rules: {'color-contrast': {enabled: false}}}"
    found = page.run(f"axe.run({rules}).then((r) => r.violations.map((v) => [v.id, v.impact, v.nodes[0].html]))")
    assert [violation for violation in found if violation[1] in SERIOUS] == []


def test_the_search_finds_a_page(page: Page, address: str, dark: bool) -> None:
    page.open(f"{address}/index.html", dark=dark)
    page.run("document.querySelector('[data-md-component=search-query]').focus()")
    page.type("insert_op_conf")
    found = "document.querySelector('.md-search-result__link') !== null"
    page.wait(found)
    links = page.run("[...document.querySelectorAll('.md-search-result__link')].map((a) => a.pathname)")
    assert "/aipp.html" in links

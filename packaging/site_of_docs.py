"""Hooks of MkDocs for the site of docs/: `make site`.

The navigation is that of docs/README.md: a section for each of its headings, a page for each link behind it. Links that
leave docs/ are text: the files that they name are in the repository, not on the site.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

_HEADING = re.compile(r"^## (.+)$")
_PAGE = re.compile(r"\]\(([\w/-]+\.md)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def navigation(index: str) -> list[dict[str, list[str]]]:
    """The sections of an index with the pages that they link to; its first section begins with the index itself."""
    sections: list[tuple[str, list[str]]] = []
    for line in index.splitlines():
        if heading := _HEADING.match(line):
            sections.append((heading[1], [] if sections else ["README.md"]))
        elif sections and line.startswith("|"):
            sections[-1][1].extend(page for page in _PAGE.findall(line) if page not in sections[-1][1])
    return [{title: pages} for title, pages in sections if pages]


def links_within(text: str, page: str) -> str:
    """A page of docs/ whose links to files outside are their text alone."""

    def kept(link: re.Match[str]) -> str:
        target = PurePosixPath(page).parent / link[2]
        depth = 0
        for part in target.parts:
            depth += -1 if part == ".." else 1
            if depth < 0:
                return link[1]
        return link[0] if target.suffix else link[1]

    return _LINK.sub(kept, text)


def on_config(config: Any) -> Any:
    """MkDocs: the configuration was read."""
    with open(f"{config.docs_dir}/README.md", encoding="utf-8") as file:
        config.nav = navigation(file.read())
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """MkDocs: a page was read."""
    return links_within(markdown, page.file.src_uri)


def on_post_page(output: str, **_: Any) -> str:
    """Name the dialog of the search, which the theme does not, for those who hear a page."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')

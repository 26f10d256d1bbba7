"""Hooks of MkDocs for the site of docs/: `make site`.

The navigation is that of docs/README.md: a section for each of its headings, a page for each link behind it. The
notebooks of examples/ are pages, too. Other links that leave docs/ are text: the files that they name are in the
repository, not on the site.
"""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

_NOTEBOOKS = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
_HEADING = re.compile(r"^## (.+)$")
_PAGE = re.compile(r"\]\(([\w/-]+\.md|\.\./examples/notebooks/\w+\.ipynb)\)")
_NOTEBOOK = re.compile(r"(?:\.\./)+examples/notebooks/(\w+)\.ipynb")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def navigation(index: str) -> list[dict[str, list[str]]]:
    """The sections of an index with the pages that they link to; its first section begins with the index itself."""
    sections: list[tuple[str, list[str]]] = []
    for line in index.splitlines():
        if heading := _HEADING.match(line):
            sections.append((heading[1], [] if sections else ["README.md"]))
        elif sections and line.startswith("|"):
            pages = map(_page_of_notebook, _PAGE.findall(line))
            sections[-1][1].extend(page for page in pages if page not in sections[-1][1])
    return [{title: pages} for title, pages in sections if pages]


def _page_of_notebook(link: str) -> str:
    """The page that shows a notebook, or the link as it is."""
    return _NOTEBOOK.sub(r"notebooks/\1.md", link)


def notebook_page(notebook: dict[str, Any]) -> str:
    """The cells of a notebook as Markdown."""
    texts = (("".join(cell["source"]), cell["cell_type"] == "code") for cell in notebook["cells"])
    return "\n\n".join(f"```python\n{text}\n```" if is_code else text for text, is_code in texts) + "\n"


def links_within(text: str, page: str) -> str:
    """A page of docs/ whose links to files outside, but for notebooks, are their text alone."""

    def kept(link: re.Match[str]) -> str:
        if _NOTEBOOK.fullmatch(link[2]):
            up = "../" * page.count("/")
            return f"[{link[1]}]({up}{_page_of_notebook(link[2])})"
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


def on_files(files: Any, *, config: Any) -> Any:
    """MkDocs: the files of docs/ were listed."""
    from mkdocs.structure.files import File

    for path in sorted(_NOTEBOOKS.glob("*.ipynb")):
        page = notebook_page(json.loads(path.read_text(encoding="utf-8")))
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """MkDocs: a page was read."""
    return links_within(markdown, page.file.src_uri)


def on_post_page(output: str, **_: Any) -> str:
    """Name the dialog of the search, which the theme does not, for those who hear a page."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')

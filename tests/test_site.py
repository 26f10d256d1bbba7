"""The site of docs/: its navigation and its links."""

import pkgutil
import re

import pytest
import site_of_docs

from tests.sources import REPO

DOCS = REPO / "docs"
INDEX = """
# T
| [lost](lost.md) |
## A
| [x.md](x.md) | [y](y/z.md), [x](x.md) |
[w](w.md)
## B
## C
| [v](v.md) | [n](../examples/notebooks/n.ipynb), [o](../examples/o.py) |
"""


def test_sections_are_headings_and_pages_are_rows() -> None:
    assert site_of_docs.navigation(INDEX) == [{"A": ["README.md", "x.md", "y/z.md"]}, {"C": ["v.md", "notebooks/n.md"]}]


def test_every_page_is_in_the_navigation_once() -> None:
    sections = site_of_docs.navigation((DOCS / "README.md").read_text(encoding="utf-8"))
    pages = [page for section in sections for names in section.values() for page in names]
    notebooks = [f"notebooks/{path.stem}.md" for path in (REPO / "examples" / "notebooks").glob("*.ipynb")]
    assert sorted(pages) == sorted([*notebooks, *(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))])


@pytest.mark.parametrize(
    ("page", "text", "kept"),
    [
        ("a.md", "[b](b.md#c)", "[b](b.md#c)"),
        ("a.md", "[b](../b.md)", "b"),
        ("a.md", "[b](../docs/b.md)", "b"),
        ("d/a.md", "[b](../b.md)", "[b](../b.md)"),
        ("d/a.md", "[b](../../b.md)", "b"),
        ("a.md", "[b](adr/)", "b"),
        ("a.md", "[b](../examples/notebooks/b.ipynb)", "[b](notebooks/b.md)"),
        ("d/a.md", "[b](../../examples/notebooks/b.ipynb)", "[b](../notebooks/b.md)"),
        ("a.md", "[b](https://b.md) [c](#c) ![d](d.svg)", "[b](https://b.md) [c](#c) ![d](d.svg)"),
    ],
)
def test_links_that_leave_the_folder_are_text(page: str, text: str, kept: str) -> None:
    assert site_of_docs.links_within(text, page) == kept


def test_a_notebook_is_a_page_of_its_cells() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# T\n", "\n", "text"]},
        {"cell_type": "code", "source": ["a = 1\n", "a"], "outputs": []},
    ]
    assert site_of_docs.notebook_page({"cells": cells}) == "# T\n\ntext\n\n```python\na = 1\na\n```\n"


def test_the_reference_names_what_there_is() -> None:
    named = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert "atcpy.runtime.session.InferenceSession" in named
    for name in named:
        assert pkgutil.resolve_name(name)

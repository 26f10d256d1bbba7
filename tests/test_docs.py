import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def generated_pages() -> dict[Path, str]:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: dict[Path, str] = module.pages()
    return pages


@pytest.mark.parametrize("path", generated_pages(), ids=lambda path: path.name)
def test_generated_page_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generated_pages()[path], "run `make docs`"

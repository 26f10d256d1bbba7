"""READMEs inside the package say why a part of narrow scope is there, and which tests hold it: these must exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_readmes_of_folders_name_files_that_exist() -> None:
    readmes = sorted((ROOT / "atcpy").rglob("README.md"))
    assert readmes
    for readme in readmes:
        text = readme.read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^)#]+)\)", text)
        paths = re.findall(r"`((?:tests|models|docs)/[^` ]+)`", text)
        missing = [link for link in links if not (readme.parent / link).exists()]
        missing += [path for path in paths if not (ROOT / path).exists()]
        assert missing == [], readme
        assert any(path.startswith("tests/") for path in paths), f"{readme} names no test"

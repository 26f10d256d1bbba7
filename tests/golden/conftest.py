"""`--golden=rewrite` writes what the compiler prints now into the golden files; the diff is the review."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", choices=["compare", "rewrite"], default="compare")

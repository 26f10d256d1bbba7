"""Settings for tests of the runtime."""

import pytest


@pytest.fixture(autouse=True)
def settings(few_variants: None) -> None:
    """Of models of unknown sizes."""

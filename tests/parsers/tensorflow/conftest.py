"""Settings for tests of TensorFlow graphs."""

import pytest


@pytest.fixture(autouse=True)
def settings(few_variants: None) -> None:
    """Of models of unknown sizes."""

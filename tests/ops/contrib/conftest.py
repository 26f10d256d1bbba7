"""Settings for tests of ops of ONNX Runtime."""

import pytest


@pytest.fixture(autouse=True)
def settings(few_variants: None) -> None:
    """Of models of unknown sizes."""

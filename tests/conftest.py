"""Settings for every test: examples are drawn the same way each time, and no test is timed."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("atcpy", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("atcpy")


@pytest.fixture
def no_custom_ops() -> Iterator[None]:
    """What a test registers is gone afterwards."""
    from atcpy.ops.custom import forget_all

    forget_all()
    yield
    forget_all()

"""Each test starts and ends without an engine."""

from collections.abc import Iterator

import pytest

from atcpy import ge
from atcpy.errors import UsageError


def end_engine() -> None:
    try:
        ge.GEFinalize()
    except UsageError as error:
        assert error.code == "G0001"


@pytest.fixture
def no_engine() -> Iterator[None]:
    end_engine()
    yield
    end_engine()


@pytest.fixture
def session(no_engine: None) -> ge.Session:
    ge.GEInitialize()
    return ge.Session({"threads": 1})

"""What the tests of `atcpy.jit` share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import atcpy
from atcpy.jit import config


@pytest.fixture(autouse=True)
def own_context(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins with the context that a process begins with."""
    monkeypatch.setattr(config, "_contexts", [config.Context(jit_config=atcpy.JitConfig(jit_syntax_level="STRICT"))])
    yield

"""How many examples a test tries: few in `make test`, as many as it names in `make test-all`."""

from __future__ import annotations

from hypothesis import settings

THOROUGH = settings(deadline=None, derandomize=True, max_examples=60)
FAST = settings(THOROUGH, max_examples=10)


def is_thorough() -> bool:
    return settings.get_current_profile_name() == "thorough"


def trials(count: int) -> int:
    """Return how many examples to try of those that the thorough profile tries."""
    return count if is_thorough() else -(-count // 6)

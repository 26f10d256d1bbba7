"""Where the system has no sandbox, tests of it say so."""

import pytest

from atcpy.errors import Unsupported
from atcpy.runtime.sandbox import require_sandbox


def need_sandbox() -> None:
    """Skip the test where there is none, with the reason that users are shown."""
    try:
        require_sandbox()
    except Unsupported as error:
        pytest.skip(error.what)

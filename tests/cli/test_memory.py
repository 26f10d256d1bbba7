"""What the system lets a process have is a limit, whatever runs out first."""

import resource
from pathlib import Path

import pytest

from tests.sanitizers import limits_memory

from .conftest import finish, spawn

DIGITS = Path(__file__).parents[2] / "models" / "digits" / "digits.onnx"


@limits_memory
@pytest.mark.parametrize(
    ("limit", "megabytes", "code"),
    [
        (resource.RLIMIT_AS, 60, 6),
        pytest.param(resource.RLIMIT_AS, 200, 6, marks=pytest.mark.slow),
        pytest.param(resource.RLIMIT_AS, 290, 6, marks=pytest.mark.slow),
        pytest.param(resource.RLIMIT_AS, 600, 0, marks=pytest.mark.slow),
        pytest.param(resource.RLIMIT_DATA, 70, 6, marks=pytest.mark.slow),
        pytest.param(resource.RLIMIT_DATA, 300, 0, marks=pytest.mark.slow),
    ],
)
def test_a_limit_of_the_process_ends_with_6(limit: int, megabytes: int, code: int, tmp_path: Path) -> None:
    nbytes = megabytes << 20
    ran = finish(
        spawn(
            *("convert", "--model", DIGITS, "-o", tmp_path / "digits", "-q"),
            preexec_fn=lambda: resource.setrlimit(limit, (nbytes, nbytes)),
        )
    )
    assert ran.code == code, ran.err
    assert ran.err.startswith("error[R0001] ") or code == 0
    assert [path.name for path in tmp_path.iterdir()] == (["digits.om"] if code == 0 else [])

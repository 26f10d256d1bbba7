"""What is committed in models/ stays small: large nets are generated."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_BYTES = 500_000


def test_no_committed_model_file_is_large() -> None:
    listing = subprocess.run(["git", "ls-files", "-z", "models"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    assert ROOT / "models" / "digits" / "digits.onnx" in paths
    assert {path: path.stat().st_size for path in paths if path.stat().st_size > LIMIT_BYTES} == {}

"""The scripts in benchmarks/ import their neighbours, as scripts do: the folder is on the path here too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

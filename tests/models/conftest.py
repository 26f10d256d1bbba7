"""The scripts in models/ import their neighbours, as scripts do: their folders are on the path here too."""

from __future__ import annotations

import sys
from pathlib import Path

MODELS = Path(__file__).parents[2] / "models"
sys.path[:0] = [str(MODELS), str(MODELS / "digits")]

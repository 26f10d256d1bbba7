"""Passes of the stage split: engine placement, clusters, the cut."""

from atcpy.passes.split import assign_engines

__all__ = ["assign_engines"]

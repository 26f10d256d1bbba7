"""The stage split: engine placement, clusters, the cut."""

from atcpy.passes.split import assign_engines, cluster, cut, insert_cast

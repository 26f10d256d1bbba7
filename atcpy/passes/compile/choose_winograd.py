"""Convolutions of 3x3 by Winograd's F(4x4, 3x3), where the cost model says that it is faster.

    conv2d(x, w, …)  →  winograd2d(x, w, …)

Not with `--op_select_implmode=high_precision`: sums of products of sums round more often.
"""

from __future__ import annotations

from dataclasses import replace

from atcpy.ir import Graph, PassRecord, Reject
from atcpy.ops.conv.winograd import SMALLEST_GAIN, as_winograd, gain, takes_winograd
from atcpy.options import ImplMode
from atcpy.passes.base import graph_pass
from atcpy.passes.compile.buffer_assignment import LoweredGraph
from atcpy.passes.phase import Phase

NAME = "WinogradPass"


@graph_pass(NAME, Phase.KERNELS, is_neutral=False)
def choose_winograd(graph: Graph, record: PassRecord, lowered: LoweredGraph) -> None:
    """Compute convolutions of 3x3 by Winograd's algorithm where it is faster."""
    if lowered.options.impl_mode is ImplMode.HIGH_PRECISION:
        return
    for number, launch in enumerate(lowered.launches):
        if launch is None or not takes_winograd(launch.call):
            continue
        record.matched += 1
        estimate = gain(launch.call)
        if estimate < SMALLEST_GAIN:
            record.reject(Reject("slower", launch.node.name, f"{estimate:.2f} times as fast"))
        elif record.may_apply():
            lowered.launches[number] = replace(launch, call=as_winograd(launch.call))
            record.fire([launch.node])
            launch.node.passes = (*launch.node.passes, record.name)

"""Convolutions of 3x3 by Winograd's F(4x4, 3x3), where the cost model says that it is faster.

    conv2d(x, w, …)  →  winograd2d(x, w, …)

Not with `--op_select_implmode=high_precision`: sums of products of sums round more often. With `--auto_tune_mode` the
times of both kernels on this CPU decide.
"""

from __future__ import annotations

from dataclasses import replace

from atcpy.ir import Graph, PassRecord, Reject
from atcpy.ir.symbolic import is_symbolic
from atcpy.ops import KernelCall
from atcpy.ops.conv.winograd import SMALLEST_GAIN, as_winograd, gain, takes_winograd
from atcpy.options import CompileOptions, ImplMode
from atcpy.passes.base import graph_pass
from atcpy.passes.compile.buffer_assignment import LoweredGraph
from atcpy.passes.compile.measured_kernels import microseconds
from atcpy.passes.phase import Phase

NAME = "WinogradPass"
SMALLEST_MEASURED_GAIN = 1.05  # less is within the noise of two measurements


def _gain(call: KernelCall, options: CompileOptions) -> tuple[float, float]:
    """How many times faster Winograd is, as measured or as estimated, and how many it has to be at least."""
    times = options.kernel_times
    if times is None or any(map(is_symbolic, call.params.values())):
        return gain(call), SMALLEST_GAIN
    direct, winograd = (microseconds(each, times, options.threads) for each in (call, as_winograd(call)))
    return direct / winograd, SMALLEST_MEASURED_GAIN


@graph_pass(NAME, Phase.KERNELS, is_neutral=False)
def choose_winograd(graph: Graph, record: PassRecord, lowered: LoweredGraph) -> None:
    """Compute convolutions of 3x3 by Winograd's algorithm where it is faster."""
    if lowered.options.impl_mode is ImplMode.HIGH_PRECISION:
        return
    for number, launch in enumerate(lowered.launches):
        if launch is None or not takes_winograd(launch.call):
            continue
        record.matched += 1
        found, least = _gain(launch.call, lowered.options)
        if found < least:
            record.reject(Reject("slower", launch.node.name, f"{found:.2f} times as fast"))
        elif record.may_apply():
            lowered.launches[number] = replace(launch, call=as_winograd(launch.call))
            record.fire([launch.node])
            launch.node.passes = (*launch.node.passes, record.name)

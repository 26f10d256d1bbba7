"""Convolutions of 3x3 by Winograd's F(4x4, 3x3) or F(2x2, 3x3), where the cost model says that one of them is faster.

    conv2d(x, w, …)  →  winograd2d(x, w, …)

Not with `--op_select_implmode=high_precision`: sums of products of sums round more often. With `--auto_tune_mode` the
times of both kernels on this CPU decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from atcpy.ir import Graph, PassRecord, Reject
from atcpy.ir.symbolic import is_symbolic
from atcpy.ops import KernelCall
from atcpy.ops.conv.winograd import (
    LARGE,
    SMALL_GAIN,
    SMALLEST_GAIN,
    STRIDED_GAIN,
    as_winograd,
    gain,
    stride_of,
    tiles_of,
)
from atcpy.options import CompileOptions, ImplMode
from atcpy.passes.base import graph_pass
from atcpy.passes.compile.buffer_assignment import LoweredGraph
from atcpy.passes.compile.measured_kernels import microseconds
from atcpy.passes.phase import Phase

NAME = "WinogradPass"
SMALLEST_MEASURED_GAIN = 1.05  # less is within the noise of two measurements


def _best(call: KernelCall, tiles: Sequence[int], options: CompileOptions) -> tuple[float, float, int]:
    """How many times faster Winograd is, as measured or as estimated, how many it has to be at least, and with which
    tiles: small ones, which round to bfloat16, have to be faster than large ones by as much again.
    """
    times = options.kernel_times
    if times is None or any(map(is_symbolic, call.params.values())):
        gains, smallest = {tile: gain(call, tile) for tile in tiles}, SMALL_GAIN
        least = SMALLEST_GAIN if stride_of(call) == 1 else STRIDED_GAIN
    else:
        direct = microseconds(call, times, options.threads)
        gains = {tile: direct / microseconds(as_winograd(call, tile), times, options.threads) for tile in tiles}
        least = smallest = SMALLEST_MEASURED_GAIN
    best = max(tiles, key=lambda tile: gains[tile] * (smallest if tile == LARGE else 1))
    return gains[best], least, best


@graph_pass(NAME, Phase.KERNELS, is_neutral=False)
def choose_winograd(graph: Graph, record: PassRecord, lowered: LoweredGraph) -> None:
    """Compute convolutions of 3x3 by Winograd's algorithm where it is faster."""
    if lowered.options.impl_mode is ImplMode.HIGH_PRECISION:
        return
    for number, launch in enumerate(lowered.launches):
        if launch is None or not (tiles := tiles_of(launch.call)):
            continue
        record.matched += 1
        found, least, tile = _best(launch.call, tiles, lowered.options)
        if found < least:
            record.reject(Reject("slower", launch.node.name, f"{found:.2f} times as fast"))
        elif record.may_apply():
            lowered.launches[number] = replace(launch, call=as_winograd(launch.call, tile))
            record.fire([launch.node])
            launch.node.passes = (*launch.node.passes, record.name)

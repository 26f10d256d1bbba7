"""Convolutions of 3x3 by Winograd's algorithm, where the cost model says that it is faster.

    conv2d(x, w, …)  →  winograd2d(x, w, …)     by F(4x4, 3x3), F(2x2, 3x3), or F(2, 2) at stride 2
    qgemm(x, w, …)   →  qwinograd2d(x, w, …)    by F(4x4, 3x3) on integers

Those of floats are left alone with `--op_select_implmode=high_precision`: sums of products of sums round more often.
Those of integers are exact. With `--auto_tune_mode` the times of the kernels on this CPU decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from atcpy.ir import Graph, PassRecord, Reject
from atcpy.ir.symbolic import is_symbolic
from atcpy.ops import KernelCall
from atcpy.ops.conv import winograd
from atcpy.ops.quant import qwinograd
from atcpy.options import CompileOptions, ImplMode
from atcpy.passes.base import graph_pass
from atcpy.passes.compile.buffer_assignment import LoweredGraph
from atcpy.passes.compile.measured_kernels import microseconds
from atcpy.passes.phase import Phase

NAME = "WinogradPass"
SMALLEST_MEASURED_GAIN = 1.05  # less is within the noise of two measurements


@dataclass(frozen=True, slots=True)
class _Way:
    """A launch that computes the same as one of the definition.

    gain: how many times faster it is, by the estimate. least: how many times it has to be.
    lead: how many times faster than this one a way that rounds more has to be.
    """

    call: KernelCall
    gain: float
    least: float
    lead: float = 1.0


def _ways(call: KernelCall, mode: ImplMode) -> Sequence[_Way]:
    """The ways by Winograd's algorithm. Small tiles at stride 1 round to bfloat16."""
    if qwinograd.computes(call):
        return [_Way(qwinograd.as_winograd(call), qwinograd.gain(call), qwinograd.LEAST_GAIN)]
    if mode is ImplMode.HIGH_PRECISION:
        return []
    return [
        _Way(
            winograd.as_winograd(call, tile),
            winograd.gain(call, tile),
            winograd.SMALLEST_GAIN if winograd.stride_of(call) == 1 else winograd.STRIDED_GAIN,
            winograd.SMALL_GAIN if tile == winograd.LARGE else 1.0,
        )
        for tile in winograd.tiles_of(call)
    ]


def _measured(way: _Way, call: KernelCall, options: CompileOptions) -> _Way:
    """The same with the gain that was measured, if times on this CPU are to decide and no size is open."""
    times = options.kernel_times
    if times is None or any(map(is_symbolic, call.params.values())):
        return way
    found = microseconds(call, times, options.threads) / microseconds(way.call, times, options.threads)
    lead = 1.0 if way.lead == 1.0 else SMALLEST_MEASURED_GAIN
    return replace(way, gain=found, least=SMALLEST_MEASURED_GAIN, lead=lead)


@graph_pass(NAME, Phase.KERNELS, is_neutral=False)
def choose_winograd(graph: Graph, record: PassRecord, lowered: LoweredGraph) -> None:
    """Compute convolutions of 3x3 by Winograd's algorithm where it is faster."""
    for number, launch in enumerate(lowered.launches):
        if launch is None or not (ways := _ways(launch.call, lowered.options.impl_mode)):
            continue
        record.matched += 1
        best = max((_measured(way, launch.call, lowered.options) for way in ways), key=lambda way: way.gain * way.lead)
        if best.gain < best.least:
            record.reject(Reject("slower", launch.node.name, f"{best.gain:.2f} times as fast"))
        elif record.may_apply():
            lowered.launches[number] = replace(launch, call=best.call)
            record.fire([launch.node])
            launch.node.passes = (*launch.node.passes, record.name)

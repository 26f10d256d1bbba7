"""Times of launches on this CPU, out of the file of `--auto_tune_mode` or measured and noted there."""

from __future__ import annotations

from atcpy import __version__
from atcpy.ir import Value
from atcpy.kernels import _kernels
from atcpy.kernels.cpu import cpu_model
from atcpy.kernels.timing import time_kernel
from atcpy.ops import KernelCall
from atcpy.options import KernelTimes
from atcpy.options.kernel_times import TimedLaunch


def microseconds(call: KernelCall, times: KernelTimes, threads: int) -> float:
    """What a launch whose sizes are known takes on so many threads."""
    isa, _, _ = _kernels.cpu()
    launch = TimedLaunch(cpu_model(), isa, threads, __version__, call.family, _text(call))
    if launch not in times.microseconds:
        src = [None if value is None else value.desc for value in call.src]
        seconds = time_kernel(call.family, src, [value.desc for value in call.dst], call.params, threads)
        times.add(launch, 1e6 * seconds)
    return times.microseconds[launch]


def _text(call: KernelCall) -> str:
    """What the time of a launch depends on: its arguments, and the types and sizes of its operands."""
    arguments = " ".join(f"{name}={value}" for name, value in sorted(call.params.items()))
    sources = " ".join("-" if value is None else _operand(value) for value in call.src)
    return f"{arguments}: {sources} -> {' '.join(map(_operand, call.dst))}"


def _operand(value: Value) -> str:
    dims = ",".join(map(str, value.desc.memory_shape))
    return f"{value.desc.dtype.short}[{dims}]"

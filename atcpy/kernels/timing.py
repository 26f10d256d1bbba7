"""How long kernels take on this CPU, measured one launch at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.kernels.table import ParamValue, pack_params, pack_task

_LEAST_LAUNCHES: Final = 5
_SECONDS: Final = 0.03  # to measure for, if more launches than the least fit


def time_kernel(
    family: str, src: Sequence[TensorDesc | None], dst: Sequence[TensorDesc], params: Mapping[str, ParamValue],
    threads: int,
) -> float:  # fmt: skip
    """The shortest time of a launch in seconds, with all operands in memory of their own: ones, but for bytes.

    Raises `_kernels.Refused` for a launch that the family does not compute.
    """
    ports = [_filled(desc) for desc in (*(desc for desc in src if desc is not None), *dst)]
    inputs: list[_kernels.Buffer] = [*ports[: len(ports) - len(dst)]]
    outputs: list[_kernels.Buffer] = [*ports[len(ports) - len(dst) :]]
    numbers = iter(range(len(inputs)))
    sources = [None if desc is None else _slot(Region.INPUT, next(numbers), desc) for desc in src]
    record = pack_task(
        family, sources, [_slot(Region.OUTPUT, *item) for item in enumerate(dst)], pack_params(family, params)
    )
    plan = _kernels.Plan(record, None, 0, [len(port) for port in inputs], [len(port) for port in outputs], threads)
    best, begin = float("inf"), time.perf_counter()
    launches = 0
    while launches < _LEAST_LAUNCHES or time.perf_counter() - begin < _SECONDS:
        start = time.perf_counter()
        plan.start(inputs, outputs).execute(0, 1)
        best = min(best, time.perf_counter() - start)
        launches += 1
    return best


def _filled(desc: TensorDesc) -> Array:
    """Memory for a tensor: ones where elements are of a type that numpy knows, which no kernel takes longer for. Bytes
    are what the zero points of weights are in most models, 0 or, unsigned, 128: products by others take longer.
    """
    memory = np.full(desc.nbytes, 128 if desc.dtype is DType.UINT8 else 0, np.uint8)
    if desc.dtype.bits > 8:
        memory.view(desc.dtype.numpy)[:] = 1
    return memory


def _slot(region: Region, index: int, desc: TensorDesc) -> Slot:
    return Slot(region, 0, desc.nbytes, desc, index)

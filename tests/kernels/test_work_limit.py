"""Records whose work is out of proportion to their operands are refused: a small package cannot run for hours."""

from __future__ import annotations

import pytest

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.kernels import _kernels, table

F32 = TensorDesc.plain(DType.FLOAT32, (1,))


def slot(region: Region, nbytes: int) -> Slot:
    return Slot(region, 0, nbytes, F32, 0)


def load(family: str, params: dict[str, table.ParamValue], src: int, dst: int) -> _kernels.Plan:
    record = table.pack_task(
        family, [slot(Region.INPUT, src)], [slot(Region.OUTPUT, dst)], table.pack_params(family, params)
    )
    return _kernels.Plan(record, None, 0, [src], [dst], 1)


def pool(taps: int) -> dict[str, table.ParamValue]:
    """One window of taps × taps over a single pixel; all other taps lie in the padding."""
    window = {"kh": taps, "kw": taps, "pt": taps - 1, "pl": taps - 1}
    pads = {"pb": 0, "pr": 0} if any(f.name == "pb" for f in table.families()["pool2d"]) else {}
    return {
        "planes": 1,
        "c0": 1,
        "h": 1,
        "w": 1,
        "oh": 1,
        "ow": 1,
        "sh": 1,
        "sw": 1,
        "dh": 1,
        "dw": 1,
        **window,
        **pads,
    }


def test_a_window_of_2_to_the_40_taps_over_padding_is_refused() -> None:
    load("pool2d", pool(31), 4, 4)
    with pytest.raises(_kernels.Refused, match="more work than its operands can ask for"):
        load("pool2d", pool(2**20), 4, 4)

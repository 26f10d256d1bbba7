"""transdata: every row packs and unpacks like the Format class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.formats import find_format
from atcpy.ir import DType, Format, FormatKind, Graph, TensorDesc, Value
from atcpy.ir.tensor import Array
from atcpy.ops.core.structural import lower_transdata
from tests.harness import run_call
from tests.isa import ISAS

ITEMS = [np.uint8, np.float16, np.float32, np.int64]


@pytest.mark.parametrize("isa", ISAS)
@given(n=st.integers(0, 2), c=st.sampled_from([0, 1, 3, 8, 15, 16, 17, 33, 64]), h=st.integers(0, 19),
       w=st.integers(1, 31), c0=st.sampled_from([16, 16, 32]), dtype=st.sampled_from(ITEMS))  # fmt: skip
def test_packs_and_unpacks_like_the_format(isa: str, n: int, c: int, h: int, w: int, c0: int, dtype: type) -> None:
    plain = np.arange(1, n * c * h * w + 1).astype(dtype).reshape(n, c, h, w)
    form = find_format(Format(FormatKind.NC1HWC0, c0))
    packed = form.pack(plain)
    np.testing.assert_array_equal(transdata(plain, packed.shape, c0, isa, to_blocked=True), packed)
    packed[form.pack(np.ones((n, c, h, w))) == 0] = 99  # padding may hold anything
    np.testing.assert_array_equal(transdata(plain, packed.shape, c0, isa, to_blocked=False, packed=packed), plain)


def transdata(
    plain: Array, storage: tuple[int, ...], c0: int, isa: str, *, to_blocked: bool, packed: Array | None = None
) -> Array:
    """Run TransData in either direction."""
    graph = Graph("test")
    desc = TensorDesc.plain(DType.from_numpy(plain.dtype), plain.shape)
    blocked = desc.stored_as(Format(FormatKind.NC1HWC0, c0), storage)
    x = graph.append("Data", (), {"index": 0}, outputs=("x",)).output
    x.desc = desc if to_blocked else blocked
    y = graph.append("TransData", (x,), outputs=("y",)).output
    y.desc = blocked if to_blocked else desc
    result = np.full(y.desc.memory_shape, 77, plain.dtype)
    memory: dict[Value, Array] = {x: plain if packed is None else packed, y: result}
    for call in lower_transdata(y.producer):
        run_call(call, memory, isa=isa, threads=2)
    return result

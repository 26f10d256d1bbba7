"""Trilu, bit for bit as the ONNX reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from tests.harness import make_node, run_call, run_op
from tests.isa import ISAS
from tests.ops.exact import ITEMS, arange, check_exact, shapes


@pytest.mark.parametrize("isa", ISAS)
@given(
    shape=st.integers(2, 4).flatmap(shapes), k=st.none() | st.integers(-6, 20), upper=st.sampled_from([0, 1, None]),
    dtype=st.sampled_from(ITEMS),
)  # fmt: skip
def test_agrees_with_the_reference(
    isa: str, shape: tuple[int, ...], k: int | None, upper: int | None, dtype: type
) -> None:
    arrays: list[Array | None] = [arange(shape, dtype)]
    if k is not None:
        arrays.append(np.array(k, np.int64))
    check_exact("Trilu", arrays, {} if upper is None else {"upper": upper}, isa=isa)


@pytest.mark.parametrize("k", [-(2**63), 2**63 - 1])
@pytest.mark.parametrize("upper", [0, 1])
def test_any_diagonal_is_defined(k: int, upper: int) -> None:
    arrays = [np.ones((3, 4), np.float32), np.array([k])]
    kept = (k < 0) == bool(upper)
    np.testing.assert_array_equal(run_op(make_node("Trilu", arrays, {"upper": upper}), arrays)[0], arrays[0] * kept)


def test_may_run_in_place() -> None:
    x = np.ones((40, 50), np.float32)
    node = make_node("Trilu", [x])
    opdef = find_opdef(node)
    assert opdef is not None
    assert opdef.lower is not None
    [call] = opdef.lower(node)
    memory = {node.operand(0): x, node.output: x}
    run_call(call, memory, threads=2)
    np.testing.assert_array_equal(x, np.triu(np.ones((40, 50))))


@pytest.mark.parametrize("arrays", [[np.ones(3, "f4")], [np.ones((3, 3), "f4"), np.array([1, 2])]])
def test_what_onnx_forbids_is_refused(arrays: list[Array]) -> None:
    with pytest.raises(ModelInvalid, match=r"must be|not a matrix"):
        make_node("Trilu", arrays)

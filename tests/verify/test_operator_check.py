"""`atcpy.check_operator` accepts correct operators and reports faults in others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from tests.ops.custom.test_kernel import HEAD, build

pytestmark = pytest.mark.usefixtures("no_custom_ops")
X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


def square(**others: Any) -> type:
    """Register an operator x², with some of its functions replaced."""
    functions = {
        "infer": lambda ctx, x: x,
        "forward": lambda ctx, x: (ctx.save(x), x * x)[1],
        "backward": lambda ctx, grad: 2 * grad * ctx.saved[0],
        "decompose": lambda ops, x: ops.Mul(x, x),
        **others,
    }
    attributes = {name: staticmethod(value) if callable(value) else value for name, value in functions.items() if value}
    return atcpy.register_operator("Square")(type("Square", (), {"__module__": __name__, **attributes}))


def test_a_correct_operator_passes() -> None:
    atcpy.check_operator(square(), X)
    atcpy.check_operator("Square", X[:0])
    atcpy.check_operator("custom::Square", X.astype(np.float64))
    atcpy.check_operator("Square", np.arange(3))


WRONG = {
    "infer": ({"infer": lambda ctx, x: x.with_shape((3, 2))}, "C0002", "infer promised f32[3,2]"),
    "forward": ({"forward": lambda ctx, x: 1 / 0}, "C0001", "ZeroDivisionError"),
    "decompose": ({"decompose": lambda ops, x: ops.Mul(x, 2.0)}, "C0002", "decompose does not compute what forward"),
    "backward": ({"backward": lambda ctx, grad: grad * ctx.saved[0]}, "C0002", "backward is not the slope"),
    "backward's shape": ({"backward": lambda ctx, grad: grad[:1]}, "C0002", "backward gives (1, 3)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_each_fault_is_reported(case: str) -> None:
    functions, code, message = WRONG[case]
    with pytest.raises(AtcError) as caught:
        atcpy.check_operator(square(**functions), X)
    assert caught.value.code == code
    assert message in caught.value.what


def test_omitted_attributes_and_inputs() -> None:
    @atcpy.register_operator("Scale", outputs=2)
    class Scale:
        @staticmethod
        def infer(ctx: Any, x: Any, shift: Any = None, table: Any = None) -> Any:
            return x, x

        @staticmethod
        def forward(ctx: Any, x: Any, shift: Any = None, table: Any = None) -> Any:
            y = x * np.float32(ctx.attrs["factors"][0]) + np.float32(ctx.attrs["t"][1])
            return y, y if table is None else y + table

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return (first + second) * np.float32(ctx.attrs["factors"][0]), None, second

    t = np.array([1, 2], np.float32)
    atcpy.check_operator(Scale, X, None, X, factors=[2.5, 1.0], t=t)


def test_an_unregistered_operator_is_refused() -> None:
    square()
    for unknown in ("Squar", int):
        with pytest.raises(AtcError, match="E10016"):
            atcpy.check_operator(unknown, X)


KERNEL = """
int square(const atcpy_call *c)
{{
    const float *x = c->inputs[0].data;
    float *y = c->outputs[0].data;
    {}
    return 0;
}}
"""
LOOP = "for (int64_t i = 0; i < c->outputs[0].bytes / 4; i++)"
KERNELS = {
    "right": (f"{LOOP} y[i] = x[i] * x[i];", ""),
    "another result": (f"{LOOP} y[i] = x[i] + x[i];", "the kernel does not compute what forward does"),
    "beside its output": (f"{LOOP} y[i + 1] = x[i] * x[i];", "writes beside its output 0"),
    "into its input": (f"((float *)c->inputs[0].data)[0] = 3; {LOOP} y[i] = x[i] * x[i];", "changes its input 0"),
}


@pytest.mark.skipif(not (shutil.which("gcc") or shutil.which("cc")), reason="there is no C compiler on this machine")
@pytest.mark.parametrize("case", KERNELS)
def test_each_fault_of_a_kernel_is_reported(tmp_path: Path, case: str) -> None:
    body, message = KERNELS[case]
    build(tmp_path, HEAD + KERNEL.format(body), "square")
    cls = square(kernel=str(tmp_path / "square.so:square"))
    if not message:
        atcpy.check_operator(cls, X)
        return
    with pytest.raises(AtcError, match=f"C0002.*{message}"):
        atcpy.check_operator(cls, X)

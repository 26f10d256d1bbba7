"""Kernels of a user's C library, which the tests compile."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from atcpy.ir.tensor import Array
from tests.ops.custom.models import model, module

COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = [
    pytest.mark.usefixtures("no_custom_ops"),
    pytest.mark.skipif(COMPILER is None, reason="there is no C compiler on this machine"),
]

OPS = """
@atcpy.register_operator("Echo", outputs=2)
class Echo:
    kernel = "echo.so:echo"

    @staticmethod
    def infer(ctx, x, y=None):
        return x, atcpy.TensorType(np.int64, (8,))

    @staticmethod
    def forward(ctx, x, y=None):
        raise RuntimeError("the kernel must run instead of forward")
"""
# Output 0 is a copy of the input, output 1 reports what the kernel sees.
ECHO = """
int echo(const atcpy_call *call)
{
    const atcpy_tensor *x = call->inputs;
    int64_t *seen = call->outputs[1].data;
    if (call->n_attrs > 0 && call->attrs[0].kind == ATCPY_TEXT) {
        strncpy(call->message, call->attrs[0].text, (size_t)call->message_bytes - 1);
        return 1;
    }
    memcpy(call->outputs[0].data, x->data, (size_t)x->bytes);
    const int64_t found[8] = {call->abi, call->n_inputs, x->rank, x->dtype, x->rank > 0 ? x->shape[x->rank - 1] : -1,
        x->bytes, call->n_inputs > 1 && call->inputs[1].data == NULL, call->n_attrs > 0 ? call->attrs[0].ints[1] : -1};
    memcpy(seen, found, sizeof found);
    return 0;
}
"""
HEAD = '#include "atcpy_custom.h"\n#include <string.h>\nconst int32_t atcpy_custom_abi = ATCPY_CUSTOM_ABI;\n'


def build(folder: Path, code: str = HEAD + ECHO, name: str = "echo") -> None:
    source = folder / f"{name}.c"
    source.write_text(code, encoding="utf-8")
    assert COMPILER
    command = [COMPILER, "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-I", atcpy.include_dir()]
    subprocess.run([*command, "-o", str(folder / f"{name}.so"), str(source)], check=True)


Run = Callable[..., list[Array]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def convert_and_run(graph: str, **feeds: Array) -> list[Array]:
        path = module(tmp_path, OPS)
        report = atcpy.convert(model(graph), tmp_path / "m.om", custom_ops=path)
        assert not report.host_cpu_ops
        session = atcpy.InferenceSession(tmp_path / "m.om", custom_ops=path, threads=1)
        results: list[Array] = session.run(None, feeds)
        return results

    return convert_and_run


def test_a_kernel_sees_pointers_shapes_types_and_attributes(tmp_path: Path, run: Run) -> None:
    build(tmp_path)
    graph = "g (float[2,3] x) => (float[2,3] y, int64[8] s) { a = Abs(x) b, s = my.dom.Echo<k = [7, 9]>(a) y = Neg(b) }"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y, seen = run(graph, x=x)
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(seen, [1, 1, 2, 1, 3, 24, 0, 9])


@pytest.mark.parametrize(("dtype", "number"), [("float16", 10), ("bool", 9), ("int64", 7), ("double", 11)])
def test_every_dtype_of_whole_bytes(tmp_path: Path, run: Run, dtype: str, number: int) -> None:
    build(tmp_path)
    x = np.array([0, 1, 1], np.dtype("float64" if dtype == "double" else dtype))
    y, seen = run(f"g ({dtype}[3] x) => ({dtype}[3] y, int64[8] s) {{ y, s = my.dom.Echo(x) }}", x=x)
    np.testing.assert_array_equal(y, x)
    assert list(seen[2:6]) == [1, number, 3, x.nbytes]


@pytest.mark.parametrize("shape", [(0, 3), ()], ids=str)
def test_shapes_without_elements_and_without_dims(tmp_path: Path, run: Run, shape: tuple[int, ...]) -> None:
    build(tmp_path)
    dims = f"[{','.join(map(str, shape))}]" if shape else ""
    x = np.ones(shape, np.float32)
    y, seen = run(f"g (float{dims} x) => (float{dims} y, int64[8] s) {{ y, s = my.dom.Echo(x) }}", x=x)
    np.testing.assert_array_equal(y, x)
    assert seen[2] == len(shape)


def test_open_sizes_and_several_threads(tmp_path: Path) -> None:
    build(tmp_path)
    path = module(tmp_path, OPS)
    graph = "g (float[n] x) => (float[n] y, int64[8] s) { a = Abs(x) y, s = my.dom.Echo(a) }"
    atcpy.convert(model(graph), tmp_path / "m.om", custom_ops=path)
    session = atcpy.InferenceSession(tmp_path / "m.om", custom_ops=path, threads=1)
    with ThreadPoolExecutor(4) as pool:
        for count, (y, _) in enumerate(pool.map(lambda n: session.run(None, {"x": np.ones(n, np.float32)}), range(40))):
            assert y.shape == (count,)
            assert np.all(y == 1)


def test_a_kernel_works_directly_on_plan_memory(tmp_path: Path) -> None:
    code = """
    int same_memory(const atcpy_call *call)
    {
        *(int64_t *)call->outputs[0].data = call->inputs[0].data == call->outputs[0].data;
        return 0;
    }
    """
    build(tmp_path, HEAD + code)
    source = (
        OPS.replace(", outputs=2", "%s").replace(':echo"', ':same_memory"').replace("return x, atcpy", "return atcpy")
    )
    source = source.replace("(8,))", "x.shape)")
    graph = "g (int64[1] x) => (int64[1] y) { a = Abs(x) b = my.dom.Echo(a) y = Neg(b) }"
    for flag, same in (("", 0), (", inplace=(0,)", 1)):
        path = module(tmp_path, source % flag)
        atcpy.convert(model(graph), tmp_path / "m.om", custom_ops=path)
        session = atcpy.InferenceSession(tmp_path / "m.om", custom_ops=path, threads=1)
        assert session.run(None, {"x": np.ones(1, np.int64)})[0] == -same


def test_sub_byte_dtypes_fall_back_to_forward(tmp_path: Path) -> None:
    build(tmp_path)
    source = OPS.replace('raise RuntimeError("the kernel must run instead of forward")', "return x, np.arange(8)")
    path = module(tmp_path, source)
    report = atcpy.convert(
        model("g (int4[3] x) => (int4[3] y, int64[8] s) { y, s = my.dom.Echo(x) }"), tmp_path / "m.om", custom_ops=path
    )
    assert [count.op for count in report.host_cpu_ops] == ["Echo"]
    session = atcpy.InferenceSession(tmp_path / "m.om", custom_ops=path)
    x = np.array([1, -2, 3]).astype(session.get_inputs()[0].dtype.numpy)
    y, seen = session.run(None, {"x": x})
    np.testing.assert_array_equal(y.astype(int), [1, -2, 3])
    np.testing.assert_array_equal(seen, np.arange(8))


def test_a_failing_kernel_reports_its_message(tmp_path: Path, run: Run) -> None:
    build(tmp_path)
    with pytest.raises(AtcError) as caught:
        run('g (float[3] x) => (float[3] y) { y, s = my.dom.Echo<t = "no room">(x) }', x=np.ones(3, np.float32))
    assert (caught.value.code, caught.value.exit_code) == ("C0001", 4)
    assert "echo.so:echo failed: no room" in caught.value.what


REFUSED = {
    "no symbol": (HEAD, "undefined symbol"),
    "no version": ('#include "atcpy_custom.h"\nint echo(const atcpy_call *c) { return c->abi; }', "atcpy_custom_abi"),
    "other version": (
        HEAD.replace("ATCPY_CUSTOM_ABI", "99") + "int echo(const atcpy_call *c) { return c->abi; }",
        "version 99",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_incompatible_library_is_refused(tmp_path: Path, run: Run, case: str) -> None:
    code, message = REFUSED[case]
    build(tmp_path, code)
    with pytest.raises(AtcError) as caught:
        run("g (float[3] x) => (float[3] y) { y, s = my.dom.Echo(x) }", x=np.ones(3, np.float32))
    assert (caught.value.code, caught.value.exit_code) == ("E13029", 2)
    assert message in caught.value.what


def test_the_header_is_plain_c_and_cpp(tmp_path: Path) -> None:
    for language, standard in (("c", "c99"), ("c++", "c++17")):
        command = [str(COMPILER), "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        header = Path(atcpy.include_dir()) / "atcpy_custom.h"
        ran = subprocess.run([*command, "-fsyntax-only", str(header)], capture_output=True, text=True, check=False)
        if "cannot execute" in ran.stderr:
            pytest.skip(f"the compiler knows no {language}")
        assert ran.returncode == 0, ran.stderr

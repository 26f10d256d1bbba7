"""Random numbers that seeds decide: the same ones that TensorFlow draws."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.ops.stateless import DOMAIN
from atcpy.parsers.tensorflow.op import OpBuilder, maps

_PHILOX = 1
_ALGORITHMS = (_PHILOX, 3)  # 3 leaves the choice, which is Philox on CPUs


@maps("StatelessRandomGetKeyCounter")
def key_counter(b: OpBuilder) -> list[Value]:
    """Key and counter of Philox, made of the seeds on the host"""
    return _key_counter(b, 0)


@maps("StatelessRandomGetKeyCounterAlg")
def key_counter_algorithm(b: OpBuilder) -> list[Value]:
    """Key and counter of Philox, made of the seeds on the host"""
    return [*_key_counter(b, 0), b.const(_PHILOX, DType.INT32)]


@maps("StatelessRandomGetAlg")
def algorithm(b: OpBuilder) -> Value:
    """Philox, which is that of CPUs"""
    return b.const(_PHILOX, DType.INT32)


@maps(
    "StatelessRandomUniform", "StatelessRandomNormal", "StatelessRandomUniformInt",
    "StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessRandomUniformIntV2",
)  # fmt: skip
def draw(b: OpBuilder) -> Value:
    """The numbers that TensorFlow draws on a CPU, by Philox on the host"""
    op, is_new = b.node.op, b.node.op.endswith("V2")
    key, counter = b.inputs[1:3] if is_new else _key_counter(b, 1)
    if is_new and b.number(3, "algorithm") not in _ALGORITHMS:
        raise b.unsupported(f"algorithm {b.number(3, 'algorithm')}", "draw by Philox: alg='philox'")
    kinds = {"Normal": "normal", "UniformInt": "integers", "Uniform": "uniform"}
    kind = kinds[op.removeprefix("StatelessRandom").removesuffix("V2")]
    bounds = [b.input(-2), b.input(-1)] if kind == "integers" else []
    dtype = bounds[0].desc.dtype if bounds else DType.FLOAT32 if b.attr("dtype") is None else b.dtype_attr("dtype")
    if dtype not in ((DType.INT32, DType.INT64) if bounds else (DType.FLOAT32, DType.FLOAT64)):
        raise b.unsupported(f"random numbers of {dtype.long}", "draw float32 or int32, and cast them")
    return b.op(f"{DOMAIN}::PhiloxDraw", b.int64_input(0), key, counter, *bounds, kind=kind, dtype=dtype.onnx)


def _key_counter(b: OpBuilder, index: int) -> list[Value]:
    return b.ops(f"{DOMAIN}::SeedKey", b.int64_input(index), outputs=2)

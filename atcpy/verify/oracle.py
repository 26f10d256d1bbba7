"""The oracles: ONNX Runtime, and the ONNX reference evaluator where that cannot run a model."""

import hashlib
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from atcpy.errors import ModelInvalid, UsageError, Where
from atcpy.ops.custom import CustomOps
from atcpy.parsers.onnx.order import bodies_of
from atcpy.verify.custom import with_custom_ops
from atcpy.verify.float64 import evaluate_in_float64
from atcpy.verify.inputs import Array, Feeds
from atcpy.verify.ort import load_onnxruntime, oracle_options

ORT_MAX_OPSET = 26
ORT_MAX_IR = 13
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


@dataclass(frozen=True)
class Oracle:
    """The implementation that a package is compared with. `run` computes the values of these names with the oracle's
    optimiser off, `run_optimised` with it on, as its users have it; `exact`, if set, computes the outputs in float64.
    """

    name: str
    run: Callable[[Feeds, Sequence[str]], list[Any]]
    run_optimised: Callable[[Feeds, Sequence[str]], list[Any]]
    exact: Callable[[Feeds], dict[str, Array] | None] | None = None


@dataclass(frozen=True)
class OracleRequest:
    """The model in the file `path`, the values to compute, and the oracle to use: `ort`, `ref`, or None for the first
    that can run the model. The reference evaluator runs `forward` for nodes of `custom` operators.
    """

    path: Path
    model: onnx.ModelProto
    outputs: Sequence[str]
    choice: str | None
    threads: int
    custom: CustomOps = CustomOps()  # noqa: RUF009


def find_oracle(request: OracleRequest) -> Oracle:
    """Return ONNX Runtime if it can open the model, else the reference evaluator. The file is not changed: values that
    are no outputs of the model become outputs in memory.
    """
    path, choice = request.path, request.choice
    require_oracle(choice)
    if choice != "ref":
        why = too_new(request.model)
        if not why:
            try:
                return _onnxruntime(path, request.model, request.outputs, request.threads)
            except ModelInvalid:
                if choice == "ort":
                    raise
        elif choice == "ort":
            raise _cannot(path, why)
    return _reference(path, request.custom)


def require_oracle(choice: str | None) -> None:
    """Raise UsageError unless `choice` is that of an OracleRequest, and Unsupported if its oracle is not installed."""
    if choice not in (None, "ort", "ref"):
        raise UsageError("E10001", f'--oracle: "{choice}" is not ort or ref', where=Where(option="oracle"))
    if choice != "ref":
        load_onnxruntime(without="--oracle ref")


FindOracle = Callable[[OracleRequest], Oracle]


class RememberingOracles:
    """`find_oracle` that computes each result of a model once, however often it is requested."""

    def __init__(self) -> None:
        self._oracles: dict[tuple[Path, tuple[str, ...], str | None], Oracle] = {}
        self._results: dict[bytes, Any] = {}

    def __call__(self, request: OracleRequest) -> Oracle:
        key = (request.path, tuple(request.outputs), request.choice)
        if key not in self._oracles:
            self._oracles[key] = find_oracle(request)
        found = self._oracles[key]
        return replace(
            found,
            run=lambda feeds, names: self._once("run", feeds, names, lambda: found.run(feeds, names)),
            run_optimised=lambda feeds, names: self._once(
                "optimised", feeds, names, lambda: found.run_optimised(feeds, names)
            ),
            exact=lambda feeds: self._once(
                "exact", feeds, (), lambda: evaluate_in_float64(request.path, feeds, request.custom)
            ),
        )

    def _once(self, kind: str, feeds: Feeds, names: Sequence[str], compute: Callable[[], Any]) -> Any:
        digest = hashlib.sha256("\n".join((kind, *names)).encode("utf-8", "surrogatepass"))
        for name, array in sorted(feeds.items()):
            digest.update(f"{name}{array.dtype}{array.shape}".encode("utf-8", "surrogatepass"))
            digest.update(repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes())
        key = digest.digest()
        if key not in self._results:
            self._results[key] = compute()
        return self._results[key]


def too_new(model: onnx.ModelProto) -> str:
    """Why ONNX Runtime would not read a model, or nothing."""
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if opset > ORT_MAX_OPSET:
        return f"opset {opset} is newer than {ORT_MAX_OPSET}"
    return f"IR version {model.ir_version} is newer than {ORT_MAX_IR}" if model.ir_version > ORT_MAX_IR else ""


def ort_errors() -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises: its errors share no base."""
    state = load_onnxruntime().capi.onnxruntime_pybind11_state
    return (
        state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NoSuchFile,
        state.NotImplemented, state.RuntimeException,
    )  # fmt: skip


def _onnxruntime(path: Path, model: onnx.ModelProto, outputs: Sequence[str], threads: int) -> Oracle:
    onnxruntime = load_onnxruntime()
    own = {value.name for value in model.graph.output}

    def open_at(level: Any) -> Any:
        return open_onnxruntime(path, oracle_options(level, threads), [name for name in outputs if name not in own])

    def run(session: Any, feeds: Feeds, names: Sequence[str]) -> list[Any]:
        try:
            return [_as_value(result) for result in session.run(list(names), feeds)]
        except ort_errors() as error:
            raise _cannot(path, first_line(error)) from error

    # As the model is written: what an optimiser changes is not the truth.
    session = open_at(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)

    def run_optimised(feeds: Feeds, names: Sequence[str]) -> list[Any]:
        try:
            optimised = open_at(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
        except ModelInvalid:  # its optimiser breaks some models of 16 bits
            optimised = session
        return run(optimised, feeds, names)

    return Oracle(f"onnxruntime {onnxruntime.__version__}", partial(run, session), run_optimised)


def _as_value(result: Any) -> Any:
    """Numbers as an array; sequences, maps and empty optionals stay what they are."""
    return result if result is None or isinstance(result, list | dict) else np.asarray(result)


def open_onnxruntime(path: Path, options: Any, more_outputs: Sequence[str] = ()) -> Any:
    """An `onnxruntime.InferenceSession` of a model, with these of its values as outputs, too."""
    onnxruntime = load_onnxruntime()
    source: str | bytes = str(path)
    if more_outputs:
        whole = onnx.load(str(path))
        whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more_outputs)
        source = whole.SerializeToString()
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except ort_errors() as error:
        raise _cannot(path, first_line(error)) from error


def cannot_open(why: str) -> ModelInvalid:
    """The error that says that ONNX Runtime does not open a model in memory."""
    return ModelInvalid("V0003", f"ONNX Runtime cannot run it: {why}")


def _cannot(path: Path, why: str) -> ModelInvalid:
    return ModelInvalid("V0003", f"ONNX Runtime cannot run {path.name}: {why}", hint="--oracle ref")


def _reference(path: Path, custom: CustomOps) -> Oracle:
    from onnx.reference import ReferenceEvaluator

    whole, own_ops = with_custom_ops(onnx.load(str(path)), custom)

    def run(feeds: Feeds, names: Sequence[str]) -> list[Array]:
        own = {value.name for value in whole.graph.output}
        whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in own)
        try:
            found = ReferenceEvaluator(whole, new_ops=own_ops).run(list(names), feeds)
        # Its ops raise whatever numpy and Python raise.
        except (
            RuntimeError,
            ValueError,
            TypeError,
            IndexError,
            KeyError,
            NotImplementedError,
            ArithmeticError,
        ) as error:
            what = f"the ONNX reference evaluator cannot run {path.name}: {first_line(error)}"
            raise ModelInvalid("V0003", what) from error
        return [_as_value(result) for result in found]

    forwards = "".join(f" + {name}.forward" for name in dict.fromkeys(op.__name__ for op in own_ops))
    return Oracle(f"onnx {onnx.__version__} reference evaluator{forwards}", run, run)


def first_line(error: Exception) -> str:
    """What an error says first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def behind_random(model: onnx.ModelProto, custom: CustomOps = CustomOps()) -> frozenset[str]:  # noqa: B008
    """The values that depend on an op that draws numbers."""
    tainted: set[str] = set()
    for node in model.graph.node:  # in topological order, as the standard asks
        if _draws(node, custom) or tainted.intersection(node.input):
            tainted.update(node.output)
    return frozenset(tainted)


def _draws(node: onnx.NodeProto, custom: CustomOps) -> bool:
    pending = [node]
    while pending:
        node = pending.pop()
        own = custom.find(node.domain, node.op_type)
        if node.op_type in RANDOM or (own is not None and own.random):
            return True
        pending.extend(inner for body in bodies_of(node) for inner in body.node)
    return False


def missing_inputs(model: onnx.ModelProto, feeds: Container[str]) -> list[str]:
    """Inputs of the model without a feed and without a default."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in defaults and value.name not in feeds]

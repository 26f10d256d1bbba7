"""Is an optimised model equal to its source? Both run in ONNX Runtime, as they are written, on the same inputs.

Large constants are handed to ONNX Runtime where they lie, mapped from the source's file or made by a pass: neither
model is written for this, and no weight is copied.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from atcpy.errors import AtcError, ModelInvalid, VerifyFailed, group
from atcpy.exporters.onnx import Constant, Rewritten
from atcpy.ir import DType
from atcpy.ir.origin import ModelWords
from atcpy.options import default_threads
from atcpy.parsers.onnx import ParsedModel
from atcpy.stages.optimize_onnx import RewriteOptions, Verdict
from atcpy.verify import stepwise
from atcpy.verify.arbiter import evaluate_in_float64, is_as_right
from atcpy.verify.compare import OutputReport, Tolerance, compare, compare_kind, paired
from atcpy.verify.inputs import Feeds, Fill, Port, integer_bounds, make_feeds
from atcpy.verify.oracle import RANDOM, behind_random, cannot_open, first_line, ort_errors, too_new
from atcpy.verify.quantization import quantization_steps
from atcpy.verify.sizes import describe, is_open, trials
from atcpy.verify.stepwise import Stepwise, stepwise_errors

_SHARED = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.INT64, DType.INT32, DType.INT8, DType.UINT8, DType.BOOL)


def check_rewritten(
    model: Path | onnx.ModelProto, parsed: ParsedModel, rewritten: Rewritten, options: RewriteOptions
) -> Verdict:
    """Compares the outputs; `error` is set if they differ, `why` if they could not be compared."""
    words = parsed.words
    assert words is not None
    import onnxruntime

    name = f"onnxruntime {onnxruntime.__version__}"
    why = too_new(words.model) or too_new(rewritten.model) or _not_fed(rewritten.model)
    if why:
        return Verdict(verified=False, why=why)
    threads = options.shared.threads or default_threads()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        (Path(folder) / "weights").touch()
        if (run := _in_steps(words, rewritten, folder)) is not None:
            with suppress(_NotInSteps):
                return replace(_compare(model, words, rewritten, run, options), oracle=name)
        source = pool.submit(_open_source, model, words, folder, threads)
        result = pool.submit(_open, rewritten.model, rewritten.constants, folder, threads)
        try:
            oracle = source.result()
        except ModelInvalid as error:
            return Verdict(verified=False, why=error.what)
        try:
            ours = result.result()
        except ModelInvalid as error:
            raise VerifyFailed("V0001", f"the result cannot be opened: {error.what}") from error
        return replace(_compare(model, words, rewritten, _both(oracle, ours), options), oracle=name)


# Runs source and result on the same inputs.
RunBoth = Callable[[list[str], Feeds], tuple[list[Any], list[Any]]]


class _Refused(Exception):
    """Why the source does not run on these inputs."""


class _NotInSteps(Exception):
    """One of the models does not run node by node: whether it runs at all, only the whole tells."""


def _both(oracle: Any, ours: Any) -> RunBoth:
    def run(names: list[str], feeds: Feeds) -> tuple[list[Any], list[Any]]:
        refusals: tuple[type[Exception], ...] = (ModelInvalid, *ort_errors())
        try:
            expected = oracle.run(names, feeds)
        except refusals as error:
            raise _Refused(first_line(error)) from error
        try:
            return expected, ours.run(names, feeds)
        except refusals as error:
            what = f"the result fails where the source does not: {first_line(error)}"
            raise VerifyFailed("V0001", what) from error

    return run


def _in_steps(words: ModelWords, rewritten: Rewritten, folder: str) -> RunBoth | None:
    """Runs both node by node; None if they are small, or cannot be run so."""
    if len(words.model.graph.node) < stepwise.LARGE:
        return None

    def opened(model: bytes) -> Any:
        return _session(model, {}, folder, 1)

    source = Stepwise(words.model, _constants_of(words), opened)
    ours = Stepwise(rewritten.model, {each.proto.name: each for each in rewritten.constants}, opened)
    if not (source.can_run and ours.can_run):
        return None

    def run(names: list[str], feeds: Feeds) -> tuple[list[Any], list[Any]]:
        try:
            return source.run(names, feeds), ours.run(names, feeds)
        except stepwise_errors() as error:
            raise _NotInSteps from error

    return run


def _constants_of(words: ModelWords) -> dict[str, Constant]:
    found: dict[str, Constant] = {}
    for index, proto in enumerate(words.model.graph.initializer):
        is_external = proto.data_location == onnx.TensorProto.EXTERNAL
        found[proto.name] = Constant(proto, words.read(proto) if is_external else words.inline.get(index))
    return found


def _compare(
    model: Path | onnx.ModelProto,
    words: ModelWords,
    rewritten: Rewritten,
    run: RunBoth,
    options: RewriteOptions,
) -> Verdict:
    names = [info.name for info in words.model.graph.output]
    # Each of these walks the model: where no op of it asks for that, it is spared.
    random = behind_random(words.model) if RANDOM.intersection(words.ops) else frozenset()
    steps = quantization_steps(words.model) if "DequantizeLinear" in words.ops else {}
    ports = _ports(rewritten)
    has_integers = words.model.metadata_props or not all(port.dtype.is_float for port in ports)
    bounds = integer_bounds(words.model) if has_integers else {}
    tried: list[str] = []
    worst = 0.0
    refused = ""
    for sized in _sizes(ports, options.checks):
        feeds = make_feeds(sized, Fill("random", len(tried)), bounds)
        try:
            expected, actual = run(names, feeds)
        except _Refused as error:
            refused = str(error)
            continue
        pairs = list(paired(names, actual, expected))
        outputs = [
            compare_kind(name, a, e)
            if name.partition("[")[0] in random
            else compare(name, a, e, Tolerance(step=steps.get(name, 0.0)))
            for name, a, e in pairs
        ]
        problems = [problem for output in _arbitrated(outputs, pairs, model, feeds) if (problem := output.problem())]
        if problems:
            return Verdict(verified=False, error=group(problems))
        worst = max([worst, *(output.max_abs for output in outputs)])
        tried.append(describe(sized))
        if len(tried) == options.checks:
            break
    if not tried:
        hint = "; name sizes: --input_shape" if any(map(is_open, ports)) else ""
        return Verdict(verified=False, why=f"ONNX Runtime does not run the source: {refused}{hint}")
    return Verdict(verified=True, shapes=tuple(tried), max_abs=worst)


def _sizes(ports: Sequence[Port], checks: int) -> Iterator[list[Port]]:
    """As `verify` sizes open dims; ports that are sized are fed as often as is asked for."""
    tried = list(trials(ports))
    yield from tried * checks if len(tried) == 1 else tried


def _arbitrated(
    outputs: Sequence[OutputReport],
    pairs: Sequence[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]],
    model: Path | onnx.ModelProto,
    feeds: Feeds,
) -> list[OutputReport]:
    """Outputs that differ too much, judged once more against float64."""
    if all(output.passed or output.code != "V0001" or not output.is_float32 for output in outputs):
        return list(outputs)
    try:
        exact = evaluate_in_float64(model, feeds)
    except AtcError:
        exact = None
    if exact is None:
        return list(outputs)
    return [
        replace(output, passed=True, arbitrated=True)
        if not output.passed and name in exact and is_as_right(ours, [theirs], exact[name], output.atol)
        else output
        for output, (name, ours, theirs) in zip(outputs, pairs, strict=True)
    ]


# --------------------------------------------------------------------------------------------------------------------
# Sessions


def _open_source(model: Path | onnx.ModelProto, words: ModelWords, folder: str, threads: int) -> Any:
    if isinstance(model, Path) and words.is_external:
        return _session(str(model), {}, folder, threads)  # ONNX Runtime maps the data files itself
    initializers = words.model.graph.initializer
    arrays = {initializers[index].name: (initializers[index], data) for index, data in words.inline.items()}
    return _session_of(words.model, arrays, folder, threads)


def _open(model: onnx.ModelProto, constants: Sequence[Constant], folder: str, threads: int) -> Any:
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    large = {}
    for constant in constants:
        whole.graph.initializer.append(constant.proto)
        if constant.data is not None:
            large[constant.proto.name] = (constant.proto, constant.data)
    return _session_of(whole, large, folder, threads)


def _session_of(
    model: onnx.ModelProto, large: Mapping[str, tuple[onnx.TensorProto, memoryview]], folder: str, threads: int
) -> Any:
    """A session of a model whose large constants are not in the message."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    shared: dict[str, np.ndarray[Any, Any]] = {}
    for tensor in whole.graph.initializer:
        if tensor.name not in large:
            continue
        proto, data = large[tensor.name]
        dtype = DType.from_onnx(proto.data_type)
        if dtype in _SHARED:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="weights")
            shared[tensor.name] = np.frombuffer(data, dtype.numpy).reshape(tuple(proto.dims))
        else:
            tensor.raw_data = bytes(data)
    return _session(whole.SerializeToString(), shared, folder, threads)


def _session(source: str | bytes, shared: Mapping[str, np.ndarray[Any, Any]], folder: str, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_mem_pattern = False  # a plan for memory pays off from the second run on
    options.add_session_config_entry("session.disable_prepacking", "1")  # it copies the weights
    if isinstance(source, bytes):
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    held = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in shared.items()}
    for name, value in held.items():
        options.add_initializer(name, value)
    try:
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except ort_errors() as error:
        raise cannot_open(first_line(error)) from error
    session.atcpy_weights = (held, shared)  # they must live as long as the session
    return session


# --------------------------------------------------------------------------------------------------------------------
# Inputs


def _fed(rewritten_model: onnx.ModelProto, defaults: frozenset[str]) -> list[onnx.ValueInfoProto]:
    return [info for info in rewritten_model.graph.input if info.name not in defaults]


def _not_fed(model: onnx.ModelProto) -> str:
    """Why the inputs of a model cannot be made, or nothing."""
    for info in model.graph.input:
        if info.type.WhichOneof("value") != "tensor_type":
            return f'input "{info.name}" is no tensor'
    return ""


def _ports(rewritten: Rewritten) -> list[Port]:
    defaults = frozenset(constant.proto.name for constant in rewritten.constants)
    return [
        Port(info.name, DType.from_onnx(info.type.tensor_type.elem_type), tuple(_dims(info)))
        for info in _fed(rewritten.model, defaults)
    ]


def _dims(info: onnx.ValueInfoProto) -> list[int | str | None]:
    return [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or None
        for dim in info.type.tensor_type.shape.dim
    ]

"""The sides of a benchmark: a package in our runtime, a model in ONNX Runtime or OpenVINO."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from atcpy import InferenceSession, __version__
from atcpy.errors import AtcError, ModelInvalid, Where
from atcpy.om.signature import PublicKeys
from atcpy.runtime.on_demand import ShapeCache

Feeds = Mapping[str, np.ndarray[Any, Any]]
Run = Callable[[], Sequence[Any]]
OpenSession = Callable[[Path, Any], Any]
OURS = "atcpy"
MODEL_ENGINES = {"ort": "onnxruntime", "openvino": "openvino"}  # the modules of engines that run the model itself


@dataclass(frozen=True)
class Side:
    """A loaded engine, and how long it took to load; `run` computes all outputs of `feeds` once. `engine` is what it is
    called in any version: `atcpy`, `ort`, `openvino`, or the file name of another package. `shape_cache` counts the
    graphs that a package of unknown shapes compiled, and found compiled.
    """

    engine: str
    version: str
    load_seconds: float
    feeds: Feeds
    run: Run
    shape_cache: ShapeCache | None = None

    @property
    def name(self) -> str:
        """The engine, and the release of one that is not ours."""
        release = ".".join(self.version.split(".")[:2])
        return f"{self.engine} {release}" if self.engine in MODEL_ENGINES else self.engine


def atcpy_side(
    package: Path, threads: int, feeds: Feeds, engine: str = OURS, require_signature: PublicKeys | None = None
) -> Side:
    """Load a package as a user's program loads it."""
    started = time.perf_counter()
    session = InferenceSession(package, threads=threads, require_signature=require_signature)
    seconds = time.perf_counter() - started
    return Side(engine, __version__, seconds, feeds, lambda: session.run(None, feeds), session.shape_cache)


def onnxruntime_side(onnxruntime: Any, model: Path, threads: int, feeds: Feeds, open_session: OpenSession) -> Side:
    """A model in the module `onnxruntime` with all its optimisations; `open_session` opens it and knows its errors.

    Its workers may spin while it runs and stop when it ends (`force_spinning_stop`), so that they do not disturb the
    other sides.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    started = time.perf_counter()
    session = open_session(model, options)
    seconds = time.perf_counter() - started
    own = _feeds_of(feeds, (argument.name for argument in session.get_inputs()))

    def run() -> Sequence[Any]:
        outputs: Sequence[Any] = session.run(None, own)
        return outputs

    return Side("ort", onnxruntime.__version__, seconds, own, _guarded(run, "ONNX Runtime", model))


def open_openvino(model: Path, threads: int, precision: str = "f32") -> Any:
    """Compile a model in OpenVINO for one request at a time in all threads, in float32 unless another type is named:
    by itself, it takes bfloat16 where the CPU has it.
    """
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": precision,
    }
    core = openvino.Core()
    return core.compile_model(core.read_model(str(model)), "CPU", settings)


def openvino_side(model: Path, threads: int, feeds: Feeds) -> Side:
    """A model in OpenVINO. Inputs are not copied and outputs are, as in ONNX Runtime."""
    import openvino

    started = time.perf_counter()
    try:
        compiled = open_openvino(model, threads)
        request = compiled.create_infer_request()
    except Exception as error:
        raise _cannot_run("OpenVINO", model, error) from error
    seconds = time.perf_counter() - started
    own = _feeds_of(feeds, (name for port in compiled.inputs for name in port.get_names()))

    def run() -> Sequence[Any]:
        return list(request.infer(own, share_inputs=True, share_outputs=False).values())

    return Side("openvino", openvino.__version__.partition("-")[0], seconds, own, _guarded(run, "OpenVINO", model))


def _feeds_of(feeds: Feeds, names: Iterable[str]) -> Feeds:
    """The feeds that are inputs of a model: a package may have more."""
    return {name: feeds[name] for name in names if name in feeds}


def _guarded(run: Run, engine: str, model: Path) -> Run:
    """A run whose failure is that engine's: it has exceptions of its own, of no common base."""

    def guarded() -> Sequence[Any]:
        try:
            return run()
        except (AtcError, MemoryError):  # a limit
            raise
        except Exception as error:
            raise _cannot_run(engine, model, error) from error

    return guarded


def _cannot_run(engine: str, model: Path, error: Exception) -> ModelInvalid:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    what = f"{engine} cannot run {model.name}: {(lines or [type(error).__name__])[-1]}"
    return ModelInvalid("V0003", what, where=Where(file=str(model)), hint="leave this engine out of --vs")

"""The engines that can be timed: how each prepares a model's file and opens it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from feeds import Array, Feeds

Run = Callable[[Feeds], list[Array]]


@dataclass(frozen=True)
class Engine:
    """`prepare` converts the ONNX file to the file that `open` reads, in the given folder if it writes one. `modules`
    are those that it imports, first of all its package; their import is not timed.
    """

    modules: tuple[str, ...]
    prepare: Callable[[Path, Path], Path]
    open: Callable[[Path, int], Run]
    precision: str = "float32"

    @property
    def is_installed(self) -> bool:
        """Whether the engine's package can be imported."""
        return find_spec(self.modules[0]) is not None

    @property
    def version(self) -> str:
        """The version of the engine's package."""
        version: str = importlib.import_module(self.modules[0]).__version__
        return version.partition("-")[0]  # OpenVINO adds the build


def _convert(model: Path, folder: Path, precision: str = "origin") -> Path:
    import atcpy

    om = folder / f"{model.stem}.om"
    atcpy.convert(str(model), str(om), soc="Ascend910", precision_mode_v2=precision)
    return om


def _open_atcpy(om: Path, threads: int) -> Run:
    import atcpy

    session = atcpy.InferenceSession(str(om), threads=threads)

    def run(feeds: Feeds) -> list[Array]:
        results: list[Array] = session.run(None, feeds)
        return results

    return run


def _open_onnxruntime(model: Path, threads: int) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Its worker threads may spin: the process is stopped while it is not measured.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def run(feeds: Feeds) -> list[Array]:
        results: list[Array] = session.run(None, feeds)
        return results

    return run


def _open_openvino(model: Path, threads: int, precision: str = "f32") -> Run:
    from atcpy.bench.sides import open_openvino

    request = open_openvino(model, threads, precision).create_infer_request()

    def run(feeds: Feeds) -> list[Array]:
        return list(request.infer(feeds, share_inputs=True, share_outputs=False).values())

    return run


ENGINES: Final = {
    "atcpy": Engine(("atcpy", "atcpy.runtime.session"), _convert, _open_atcpy),
    "onnxruntime": Engine(("onnxruntime",), lambda model, folder: model, _open_onnxruntime),
    "openvino": Engine(("openvino", "atcpy.bench.sides"), lambda model, folder: model, _open_openvino),
    "atcpy-bf16": Engine(
        ("atcpy", "atcpy.runtime.session"), partial(_convert, precision="mixed_bfloat16"), _open_atcpy, "bfloat16"
    ),
    "openvino-bf16": Engine(
        ("openvino", "atcpy.bench.sides"),
        lambda model, folder: model,
        partial(_open_openvino, precision="bf16"),
        "bfloat16",
    ),
}

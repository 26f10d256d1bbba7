"""The engines that can be timed: how each prepares a model's file and opens it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from feeds import Array, Feeds

Run = Callable[[Feeds], list[Array]]


@dataclass(frozen=True)
class Engine:
    """`prepare` converts the ONNX file to the file that `open` reads, in the given folder if it writes one."""

    package: str
    prepare: Callable[[Path, Path], Path]
    open: Callable[[Path, int], Run]


def _convert(model: Path, folder: Path) -> Path:
    import atcpy

    om = folder / f"{model.stem}.om"
    atcpy.convert(str(model), str(om), soc="Ascend910")
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


ENGINES: Final = {
    "atcpy": Engine("atcpy", _convert, _open_atcpy),
    "onnxruntime": Engine("onnxruntime", lambda model, folder: model, _open_onnxruntime),
}

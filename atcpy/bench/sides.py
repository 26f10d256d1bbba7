"""The two sides of a benchmark: a package in our runtime, a model in ONNX Runtime."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from atcpy import InferenceSession
from atcpy.om.signature import PublicKeys
from atcpy.runtime.on_demand import ShapeCache

Feeds = Mapping[str, np.ndarray[Any, Any]]
OpenSession = Callable[[Path, Any], Any]


@dataclass(frozen=True)
class Side:
    """A loaded engine, and how long it took to load; `run` computes all outputs once. `shape_cache` counts the graphs
    that a package of unknown shapes compiled, and found compiled.
    """

    name: str
    load_seconds: float
    run: Callable[[Feeds], object]
    shape_cache: ShapeCache | None = None


def atcpy_side(
    package: Path,
    threads: int,
    name: str = "atcpy",
    require_signature: PublicKeys | None = None,
    feeds: Feeds | None = None,
) -> Side:
    """Load a package as a user's program loads it. `feeds`, if there are some, are those of all its runs."""
    started = time.perf_counter()
    session = InferenceSession(package, threads=threads, require_signature=require_signature)
    seconds = time.perf_counter() - started
    return Side(name, seconds, lambda fed: session.run(None, fed if feeds is None else feeds), session.shape_cache)


def onnxruntime_side(model: Path, threads: int, open_session: OpenSession, feeds: Feeds) -> Side:
    """A model in ONNX Runtime with all its optimisations; `open_session` opens it and knows its errors. It runs on
    `feeds`, which are those of the package but where that takes pictures.

    Its workers may spin while it runs and stop when it ends (`force_spinning_stop`), so that they do not disturb the
    other side.
    """
    import onnxruntime

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
    name = "ort " + ".".join(onnxruntime.__version__.split(".")[:2])
    names = {argument.name for argument in session.get_inputs()}
    own = {name: array for name, array in feeds.items() if name in names}
    return Side(name, seconds, lambda _: session.run(None, own))

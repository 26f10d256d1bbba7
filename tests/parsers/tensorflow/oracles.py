"""What OpenVINO and TensorFlow make of a graph: run in a process of another interpreter, if the tests' own lacks them.

ATCPY_OPENVINO_PYTHON and ATCPY_TENSORFLOW_PYTHON name interpreters that have them. The other half of this file runs
there and needs numpy alone: `python oracles.py openvino FOLDER` reads k.pb and k.npz, and writes k.out.npz.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.parsers.tensorflow.random_graphs import RandomGraph


def interpreter(oracle: str) -> str:
    """The interpreter that has the oracle; "" if there is none."""
    named = os.environ.get(f"ATCPY_{oracle.upper()}_PYTHON", "")
    return named or (sys.executable if importlib.util.find_spec(oracle) else "")


def ask(oracle: str, graphs: Sequence[RandomGraph]) -> dict[int, list[str]]:
    """Where the oracle gives other numbers than expected, or cannot say, by seed."""
    with tempfile.TemporaryDirectory() as folder:
        for graph in graphs:
            Path(folder, f"{graph.seed}.pb").write_bytes(graph.builder.graph.SerializeToString())
            np.savez(Path(folder, f"{graph.seed}.npz"), **graph.feeds)
            Path(folder, f"{graph.seed}.txt").write_text("\n".join(graph.expected))
        assert interpreter(oracle), f"no interpreter has {oracle}"
        command = [interpreter(oracle), __file__, oracle, folder]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
        opinions = {}
        for graph in graphs:
            with np.load(Path(folder, f"{graph.seed}.out.npz")) as made:
                if "error" in made:
                    opinions[graph.seed] = [f"seed {graph.seed}, {oracle} refuses: {made['error']}"]
                else:
                    found = graph.differences([made[str(index)] for index in range(len(graph.expected))])
                    opinions[graph.seed] = [f"{oracle}: {problem}" for problem in found]
        return opinions


def _by_openvino(path: Path, feeds: dict[str, Any], outputs: list[str]) -> list[Any]:
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    # A constant graph has no inputs; any other calls them by the name of the node or of its tensor.
    by_port = {port: array for port in compiled.inputs for name, array in feeds.items() if _is_called(port, name)}
    results = compiled(by_port)
    named = {name: results[port] for port in compiled.outputs for name in port.get_names()}
    return [named[name if ":" in name else f"{name}:0"] for name in outputs]


def _is_called(port: Any, name: str) -> bool:
    return bool({name, f"{name}:0"} & set(port.get_names()))


def _by_tensorflow(path: Path, feeds: dict[str, Any], outputs: list[str]) -> list[Any]:
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
        tf.import_graph_def(definition, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            names = [name if ":" in name else f"{name}:0" for name in outputs]
            return list(session.run(names, {f"{name}:0": array for name, array in feeds.items()}))


def main(oracle: str, folder: str) -> None:
    """Answers for all graphs of a folder."""
    run = _by_openvino if oracle == "openvino" else _by_tensorflow
    for path in sorted(Path(folder).glob("*.pb")):
        with np.load(path.with_suffix(".npz")) as feeds:
            try:
                made = run(path, dict(feeds), path.with_suffix(".txt").read_text().split("\n"))
                answer = {str(index): np.asarray(array) for index, array in enumerate(made)}
            except Exception as error:  # noqa: BLE001 an answer, too
                answer = {"error": np.array(str(error)[:2000])}
        np.savez(path.with_suffix(".out.npz"), **answer)


if __name__ == "__main__":
    os.environ.update(TF_ENABLE_ONEDNN_OPTS="0", CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
    main(sys.argv[1], sys.argv[2])

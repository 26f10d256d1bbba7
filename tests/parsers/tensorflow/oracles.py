"""Runs graphs in OpenVINO or TensorFlow, in a process of another interpreter if the tests' own lacks them.

ATCPY_OPENVINO_PYTHON and ATCPY_TENSORFLOW_PYTHON name interpreters that have them. The second half of this file runs
there and needs only numpy: `python oracles.py openvino FOLDER` reads k.pb and k.npz, and writes k.out.npz.
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


TOGETHER, ONE_BY_ONE = "together", "one_by_one"


def interpreter(oracle: str) -> str:
    """The Python interpreter that has the oracle installed; "" if there is none."""
    named = os.environ.get(f"ATCPY_{oracle.upper()}_PYTHON", "")
    return named or (sys.executable if importlib.util.find_spec(oracle) else "")


def compare_with(oracle: str, graphs: Sequence[RandomGraph]) -> dict[int, list[str]]:
    """By seed, the differences between the oracle and the expected results, or the oracle's error.

    OpenVINO sometimes gives wrong results for several outputs together and right ones for each alone: such graphs are
    run again output by output. Graphs on which the oracle crashed, about one in 300, have no entry.
    """
    opinions = _opinions(oracle, graphs, TOGETHER)
    if oracle == "openvino" and (doubtful := [graph for graph in graphs if opinions.get(graph.seed)]):
        opinions |= _opinions(oracle, doubtful, ONE_BY_ONE)
    return opinions


def _opinions(oracle: str, graphs: Sequence[RandomGraph], mode: str) -> dict[int, list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        for graph in graphs:
            Path(folder, f"{graph.seed}.pb").write_bytes(graph.builder.graph.SerializeToString())
            np.savez(Path(folder, f"{graph.seed}.npz"), **graph.feeds)
            Path(folder, f"{graph.seed}.txt").write_text("\n".join(graph.expected))
        assert interpreter(oracle), f"no interpreter has {oracle}"
        command = [interpreter(oracle), __file__, oracle, folder, mode]
        while subprocess.run(command, check=False, capture_output=True, timeout=600).returncode:
            died = next(path for path in _questions(folder) if not _answer(path).exists())
            np.savez(_answer(died), died=np.array(True))
        opinions = {}
        for graph in graphs:
            with np.load(Path(folder, f"{graph.seed}.out.npz")) as answer:
                if "died" in answer:
                    continue
                if "error" in answer:
                    opinions[graph.seed] = [f"seed {graph.seed}, {oracle} refuses: {answer['error']}"]
                else:
                    found = graph.differences([answer[str(index)] for index in range(len(graph.expected))])
                    opinions[graph.seed] = [f"{oracle}: {problem}" for problem in found]
        return opinions


def _questions(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("*.pb"))


def _answer(question: Path) -> Path:
    return question.with_suffix(".out.npz")


def _by_openvino(path: Path, feeds: dict[str, Any], outputs: list[str]) -> list[Any]:
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    ports = {name: port for port in model.outputs for name in port.get_names()}
    requested = [ports[name if ":" in name else f"{name}:0"] for name in outputs]
    part = openvino.Model([port.get_node() for port in requested], model.get_parameters())
    compiled = core.compile_model(part, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    # A constant graph has no inputs; otherwise inputs are named by node or by tensor.
    by_port = {port: array for port in compiled.inputs for name, array in feeds.items() if _is_called(port, name)}
    results = compiled(by_port)
    return [results[index] for index in range(len(requested))]


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


def main(oracle: str, folder: str, mode: str) -> None:
    """Run all graphs of a folder, with all outputs together or one by one."""
    run = _by_openvino if oracle == "openvino" else _by_tensorflow
    for path in _questions(folder):
        if _answer(path).exists():
            continue
        with np.load(path.with_suffix(".npz")) as feeds:
            try:
                outputs = path.with_suffix(".txt").read_text().split("\n")
                parts = [outputs] if mode == TOGETHER else [[name] for name in outputs]
                arrays = [array for part in parts for array in run(path, dict(feeds), part)]
                answer = {str(index): np.asarray(array) for index, array in enumerate(arrays)}
            except Exception as error:  # noqa: BLE001 recorded as the answer
                answer = {"error": np.array(str(error)[:2000])}
        np.savez(_answer(path), **answer)


if __name__ == "__main__":
    os.environ.update(TF_ENABLE_ONEDNN_OPTS="0", CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
    main(*sys.argv[1:])

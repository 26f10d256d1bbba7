"""Damaged models and configuration files: what reads them must succeed or refuse them by a documented error.

    python -m tests.fuzz.importers --runs 100000 --seed 1
    python -m tests.fuzz.importers --only onnx --seed 4711 --runs 1

An input is decided by its target and a number. It is changed in its structure (fields of protobuf messages, values of
JSON) or byte by byte, then read as a command reads it: a model is converted, and the package that results is loaded.
It must succeed, or end with an AtcError whose exit code is that of a refused input, within ten seconds of processor
time and a bound on memory: all else is a finding.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from google.protobuf import text_format
from onnx import external_data_helper

from atcpy import InferenceSession
from atcpy.cli import arrays
from atcpy.debug.bisect import Applied, Outcome, Trial
from atcpy.debug.trials import TrialMemory
from atcpy.errors import AtcError, as_known_error
from atcpy.ir import DType
from atcpy.om import writer
from atcpy.om.signature import read_public_keys, read_signing_key
from atcpy.options import convert_options
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import GraphDef, SavedModel
from atcpy.runtime.distributed.groups import read_groups
from atcpy.stages.pipeline import compile_model
from atcpy.verify.inputs import Port
from tests.conformance.cases import SLOW_MODULES, load_cases
from tests.fuzz.changes import NESTED, Vocabulary, change_bytes, change_json, change_message, change_text
from tests.gate.workers import Lost, call_each
from tests.golden.golden import FILES, parse_text, read_golden
from tests.parsers.tensorflow.mutants import mutant as tensorflow_mutant
from tests.parsers.tensorflow.random_graphs import random_graph
from tests.parsers.tensorflow.scores import write_scores
from tests.test_options import EFFECTS

SECONDS = 10.0  # of processor time, for one input
PATIENCE = 60.0  # seconds until a process is ended, on a machine that others use, too
MAX_GROWTH = 1 << 30  # bytes of memory beside what the process had
EXITS = frozenset({2, 3, 4, 6})  # of a command that refuses its input
MAX_SOURCE = 1 << 16  # bytes of a model: larger ones are as good, and slower
GRAPHS = 40  # random ones of TensorFlow
_ODD_PATHS = ("", ".", "..", "../w.bin", "/etc/passwd", "w.bin/x", "a\0b", "w" * 5000, "ü.bin", "sub/../w.bin")
_ONNX = Vocabulary(
    ("", "x", "y", "x:0", "ai.onnx", "ai.onnx.ml", "com.microsoft", "a b", "\0", "x" * 3000, *_ODD_PATHS),
    (b"", b"\xff", b"\xff\xfe", b"NOTSET", b"SAME_UPPER", b"linear", b"ij,jk->ik", b"...", b"\0" * 64, b"x" * 3000),
)
_TENSORFLOW = Vocabulary(
    ("", "x", "x:0", "^x", "x:99", "serve", "value", "T", "N", "dtype", "Const", "Placeholder", "While", "x" * 3000),
    (b"", b"\xff", b"NHWC", b"NCHW", b"SAME", b"VALID", b"EXPLICIT", b"\0" * 64, b"x" * 3000),
)
_TEXTS = (
    "", "node {", "}", ":", ";", ",", "~", "-1", "-2", "1~", "0", "99999999999999999999", "1e400", "nan", "x", "x:",
    ":on", '"', "\\", "\n", "#", "\0", "ü", "\u2028", "[", "{", "ALL:off", "²", "٣", "\ud800", "x" * 3000, "on", "off",
)  # fmt: skip
_OUTCOME = Outcome(True, "", {"A": Applied(1, 0, ((("Relu", "y"),),))})
_PORT = Port("x", DType.FLOAT32, (3, 4))
_PICTURE_PORT = Port("x", DType.FLOAT32, (1, 3, 8, 8))
_SWITCHES = {
    "Switch": {"GraphFusion": {"A": "on", "ALL": "off"}, "UBFusion": {"B": "off"}},
    "Priority": {"GraphFusion": {"Top": {"A": "1"}, "Main": {"B": "1000"}, "Down": {"C": "2999"}}},
}
# Not read as text, or of files that other targets damage.
_UNREAD = frozenset({"custom_ops", "sign", "dump_graph", "dump_stages", "export_compile_stat", "timeout", "debug"})


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _convert(model: Path | onnx.ModelProto, values: Mapping[str, object] | None = None) -> None:
    """Convert a model, and load what comes of it."""
    options = {"memory_limit": "1G", "timeout": PATIENCE, **(values or {})}
    compiled, _ = compile_model(model, convert_options(options))
    InferenceSession(writer.to_bytes(compiled))


# --------------------------------------------------------------------------------------------------------------------
# ONNX


@cache
def _onnx_models() -> Sequence[bytes]:
    """Models of all ops and of all passes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case.model() for case in load_cases(without=SLOW_MODULES) if case.kind in ("node", "simple")]
    golden = [parse_text(read_golden(path).model_text) for path in FILES]
    models = [model.SerializeToString() for model in (*cases, *golden)]
    return [model for model in models if len(model) <= MAX_SOURCE]


def onnx_messages(rng: random.Random, folder: Path) -> None:
    """Fields of a model, which is read from a file or comes from memory."""
    model = onnx.ModelProto.FromString(rng.choice(_onnx_models()))
    change_message(model, rng, _ONNX)
    if rng.random() < 0.2:
        _convert(model)
    else:
        _convert(_written(folder / "m.onnx", model.SerializeToString()))


def onnx_bytes(rng: random.Random, folder: Path) -> None:
    """Bytes of the file of a model."""
    data = rng.choice(_onnx_models())
    for _ in range(rng.choice([1, 1, 2, 5])):
        data = change_bytes(data, rng)
    _convert(_written(folder / "m.onnx", data))


def onnx_external(rng: random.Random, folder: Path) -> None:
    """A model whose weights lie in another file: where they lie, that file, or other fields."""
    model = onnx.ModelProto.FromString(rng.choice(_onnx_models()))
    external_data_helper.convert_model_to_external_data(model, location="w.bin", size_threshold=0)
    onnx.save(model, folder / "m.onnx")
    if rng.random() < 0.3 and (folder / "w.bin").exists():
        _written(folder / "w.bin", change_bytes((folder / "w.bin").read_bytes(), rng))
    model = onnx.load(folder / "m.onnx", load_external_data=False)
    tensors = [tensor for tensor in model.graph.initializer if tensor.external_data]
    if tensors and rng.random() < 0.7:
        change_message(rng.choice(tensors), rng, _ONNX)
    else:
        change_message(model, rng, _ONNX)
    _convert(_written(folder / "m.onnx", model.SerializeToString()))


def options(rng: random.Random, folder: Path) -> None:
    """Options as texts, with a model."""
    values = {}
    for name in rng.sample(sorted(EFFECTS.keys() - _UNREAD), rng.choice([1, 1, 2, 3])):
        text = str(EFFECTS[name][0])
        values[name] = change_text(text, rng, _TEXTS) if rng.random() < 0.8 else text
    _convert(_written(folder / "m.onnx", rng.choice(_onnx_models())), values)


# --------------------------------------------------------------------------------------------------------------------
# TensorFlow


@cache
def _graphs() -> Sequence[GraphDef]:
    return [random_graph(seed).builder.graph for seed in range(GRAPHS)]


def tensorflow_messages(rng: random.Random, folder: Path) -> None:
    """Nodes, attributes and other fields of a graph, in binary or in text form."""
    graph = tensorflow_mutant(rng.choice(_graphs()), rng)
    if rng.random() < 0.7:
        change_message(graph, rng, _TENSORFLOW)
    if rng.random() < 0.3:
        _convert(_written(folder / "g.pbtxt", text_format.MessageToString(graph).encode()), {"framework": "3"})
    else:
        _convert(_written(folder / "g.pb", graph.SerializeToString()), {"framework": "3"})


def tensorflow_bytes(rng: random.Random, folder: Path) -> None:
    """Bytes of a graph, or characters of its text form."""
    graph = rng.choice(_graphs())
    if rng.random() < 0.5:
        text = change_text(text_format.MessageToString(graph), rng, _TEXTS)
        _convert(_written(folder / "g.pbtxt", text.encode("utf-8", "surrogatepass")), {"framework": "3"})
    else:
        _convert(_written(folder / "g.pb", change_bytes(graph.SerializeToString(), rng)), {"framework": "3"})


@cache
def _saved_model() -> Mapping[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        write_scores(Path(name))
        return {str(path.relative_to(name)): path.read_bytes() for path in Path(name).rglob("*") if path.is_file()}


def saved_models(rng: random.Random, folder: Path) -> None:
    """A SavedModel: fields of its graph, or bytes of a file."""
    files = dict(_saved_model())
    name = rng.choice(sorted(files))
    if name.endswith(".pb") or rng.random() < 0.4:
        model = SavedModel.FromString(files["saved_model.pb"])
        change_message(model, rng, _TENSORFLOW)
        files["saved_model.pb"] = model.SerializeToString()
    elif rng.random() < 0.1:
        del files[name]
    else:
        files[name] = change_bytes(files[name], rng)
    for name, data in files.items():
        (folder / "saved" / name).parent.mkdir(parents=True, exist_ok=True)
        _written(folder / "saved" / name, data)
    _convert(folder / "saved")


# --------------------------------------------------------------------------------------------------------------------
# Configuration, and what is fed


def _json_file(path: Path, value: object, rng: random.Random) -> Path:
    """Write a JSON value that is changed: in itself, or in its text."""
    for _ in range(rng.choice([0, 1, 1, 2])):
        value = change_json(value, rng, _TEXTS)
    data = json.dumps(value).encode("utf-8", "surrogatepass")
    match rng.randrange(6):
        case 0:
            data = change_bytes(data, rng)
        case 1:
            data = change_text(data.decode(), rng, _TEXTS).encode("utf-8", "surrogatepass")
        case 2:
            at = rng.randrange(len(data) + 1)
            data = data[:at] + rng.choice(NESTED) + data[at:]
    return _written(path, data)


def switch_files(rng: random.Random, folder: Path) -> None:
    """Switches of passes: JSON, or a line for each."""
    path = folder / "switches"
    if rng.random() < 0.7:
        _json_file(path, _SWITCHES, rng)
    else:
        text = change_text("ALL:off\nA:on # why\nB:off\n", rng, _TEXTS)
        _written(path, text.encode("utf-8", "surrogatepass"))
    convert_options({"fusion_switch_file": str(path)})


def groups(rng: random.Random, folder: Path) -> None:
    """The members of groups of ranks."""
    read_groups(str(_json_file(folder / "groups.json", {"tp": [0, 1], "pp": [2, 3]}, rng)), 4)


def bisect_states(rng: random.Random, folder: Path) -> None:
    """What `passes bisect --resume` continues from."""
    trial, identity = Trial(("A",), {}), {"model": "m"}
    memory = TrialMemory(folder, identity, resume=False)
    memory.keep(trial, _OUTCOME)
    state = next(folder.iterdir())
    _json_file(state, json.loads(state.read_text()), rng)
    TrialMemory(folder, identity, resume=True).find(trial)


@cache
def _array_files() -> Mapping[str, bytes]:
    one, several = io.BytesIO(), io.BytesIO()
    np.save(one, np.arange(12, dtype=np.float32).reshape(3, 4))
    np.savez_compressed(several, x=np.arange(5), y=np.float32([1.5]))
    return {"a.npy": one.getvalue(), "a.npz": several.getvalue()}


def array_files(rng: random.Random, folder: Path) -> None:
    """Arrays of numpy that are fed."""
    name, data = rng.choice(sorted(_array_files().items()))
    path = _written(folder / name, change_bytes(data, rng))
    arrays.read_input(_PORT, str(path))


@cache
def _pictures() -> Sequence[bytes]:
    from PIL import Image

    found = []
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"):
        file = io.BytesIO()
        Image.new("RGB", (8, 8), (10, 200, 30)).save(file, kind)
        found.append(file.getvalue())
    return found


def pictures(rng: random.Random, folder: Path) -> None:
    """Pictures that are fed."""
    path = _written(folder / "picture", change_bytes(rng.choice(_pictures()), rng))
    arrays.read_image(_PICTURE_PORT, str(path), mean=None, std=None, layout="NCHW")


@cache
def _keys() -> Sequence[bytes]:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    return [private, public]


def keys(rng: random.Random, folder: Path) -> None:
    """Keys that sign packages, or prove who signed."""
    path = _written(folder / "key", change_bytes(rng.choice(_keys()), rng))
    rng.choice([read_signing_key, read_public_keys])(path)


# --------------------------------------------------------------------------------------------------------------------
# Runs

Target = Callable[[random.Random, Path], None]
# How many of the inputs are of a target.
TARGETS: Mapping[str, tuple[Target, int]] = {
    "onnx": (onnx_messages, 40),
    "onnx-bytes": (onnx_bytes, 8),
    "onnx-external": (onnx_external, 8),
    "options": (options, 8),
    "tensorflow": (tensorflow_messages, 16),
    "tensorflow-bytes": (tensorflow_bytes, 6),
    "saved-models": (saved_models, 6),
    "switch-files": (switch_files, 2),
    "groups": (groups, 2),
    "bisect-states": (bisect_states, 1),
    "arrays": (array_files, 1),
    "pictures": (pictures, 1),
    "keys": (keys, 1),
}

SOURCES = (_onnx_models, _graphs, _saved_model, _array_files, _pictures, _keys)


@dataclass(frozen=True)
class Input:
    """The target that makes an input and reads it, and the number that decides what is changed."""

    target: str
    number: int


def inputs(runs: int, seed: int, only: Sequence[str] = ()) -> list[Input]:
    """Inputs of the targets by their shares; of those named where there are some."""
    rng, names = random.Random(seed), list(only or TARGETS)
    if len(names) == 1:
        return [Input(names[0], seed + number) for number in range(runs)]
    chosen = rng.choices(names, [TARGETS[name][1] for name in names], k=runs)
    return [Input(name, rng.randrange(2**40)) for name in chosen]


def judge(each: Input) -> tuple[str, str]:
    """How an input ends, "ok" or the code of a refusal, and what is wrong with that."""
    target, _ = TARGETS[each.target]
    rng = random.Random(f"{each.target} {each.number}")
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        end, fault = _end_of(lambda: target(rng, Path(folder)))
    seconds, growth = time.process_time() - start, _memory("VmHWM") - before
    if not fault and seconds > SECONDS:
        fault = f"{seconds:.0f} seconds"
    if not fault and growth > MAX_GROWTH:
        fault = f"{growth >> 20} MiB of memory"
    if growth > MAX_GROWTH // 4:
        gc.collect()
    return end, fault


def _end_of(call: Callable[[], None]) -> tuple[str, str]:
    try:
        call()
    except AtcError as error:
        str(error), error.as_dicts()
        fault = "" if error.exit_code in EXITS else f"exit {error.exit_code}: {error}"
        return error.code, fault
    except MemoryError as error:
        return as_known_error(error).code, ""
    except Exception as error:  # noqa: BLE001  any other exception is a finding
        return type(error).__name__, f"{type(error).__name__}: {str(error)[:300]}{_origin(error)}"
    return "ok", ""


def _origin(error: Exception) -> str:
    """Return the last place in this project that an exception passed."""
    place, at = "", error.__traceback__
    while at is not None:
        name = at.tb_frame.f_code.co_filename
        if "/atcpy/" in name:
            place = f" at {name[name.rindex('/atcpy/') + 1 :]}:{at.tb_lineno}"
        at = at.tb_next
    return place


def _memory(field: str) -> int:
    """Return a number of bytes that the system knows of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) << 10


def run(chosen: Sequence[Input]) -> tuple[Counter[str], list[str]]:
    """How inputs end, and the findings."""
    ends: Counter[str] = Counter()
    findings: list[str] = []
    for read in SOURCES:
        read()  # before the processes are started
    for each, result in call_each(judge, chosen, seconds=PATIENCE):
        end, fault = (result.value, result.value) if isinstance(result, Lost) else result
        ends[end] += 1
        if fault:
            findings.append(f"--only {each.target} --seed {each.number}: {fault}")
            print(findings[-1], flush=True)
    return ends, findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Try inputs and print how they end; 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="targets by name, with commas: " + ", ".join(TARGETS))
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    start = time.monotonic()
    ends, findings = run(inputs(given.runs, given.seed, [name for name in given.only.split(",") if name]))
    print(", ".join(f"{end} {number}" for end, number in ends.most_common()))
    print(f"{given.runs} models and configuration files, {len(findings)} findings, {time.monotonic() - start:.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

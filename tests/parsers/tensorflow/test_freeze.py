"""`atcpy freeze`: the frozen graph computes the same as the model and has no variables."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import atcpy
from atcpy.cli.app import execute
from atcpy.errors import AtcError, ResourceLimit
from atcpy.parsers.tensorflow import frozen
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import (
    DataType,
    FunctionDef,
    GraphDef,
    OpDef,
    TrackableObjectGraph,
)
from tests.parsers.tensorflow.checkpoints import signature, tensor_info, write_checkpoint, write_saved_model
from tests.parsers.tensorflow.graphs import Function, TfBuilder, Type, node
from tests.parsers.tensorflow.scores import write_scores
from tests.parsers.tensorflow.test_saved import (
    TENSORS,
    B,
    W,
    X,
    new_graph,
    old_graph,
    restore_function,
    run,
    serving,
    variable,
    write_old,
)

INTS = Type("int32")


def read(path: Path) -> GraphDef:
    graph = GraphDef.FromString(path.read_bytes())
    ops = {item.op for item in graph.node} | {
        item.op for function in graph.library.function for item in function.node_def
    }
    assert not ops & {"VariableV2", "VarHandleOp", "ReadVariableOp", "ResourceGather", "RestoreV2", "Assign"}
    return graph


def test_a_checkpoint_with_ref_resource_and_partitioned_variables(tmp_path: Path) -> None:
    whole, long = np.arange(10, dtype=np.float32).reshape(5, 2), np.arange(4, dtype=np.float32)
    g = old_graph(("net/w", "net/b"), ("5 2 1,3:-", "4 2,2"))
    for node_def in g.graph.node:
        node_def.device = "/job:ps/task:0"
        node_def.attr["_class"].list.s.append(b"loc:@w")
        node_def.attr["_output_shapes"].list.shape.add()
    prefix = write_old(
        tmp_path, g, {"net/w": whole, "net/b": long}, parts={"net/w": [[(0, 2), (0, 2)], [(2, 3), (0, 2)]]}
    )
    report = atcpy.freeze(prefix, tmp_path / "f.pb")
    assert (report.kind, report.variables, report.inputs, report.outputs) == ("checkpoint", 2, ("x",), ("y:0",))
    assert report.bytes == (tmp_path / "f.pb").stat().st_size
    graph = read(tmp_path / "f.pb")
    assert not any(item.device or {"_class", "_output_shapes"} & set(item.attr) for item in graph.node)
    assert not any(item.name.startswith("save") for item in graph.node)
    (y,) = run(tmp_path / "f.pb", tmp_path, {"x": X}).values()
    assert np.array_equal(y, X @ whole[1:4] + long[2:])


def test_a_saved_model_keeps_the_names_of_its_signature(tmp_path: Path) -> None:
    graphs = {"serve": (new_graph(), {"serving_default": serving()}, "call_1")}
    folder = write_saved_model(tmp_path / "m", graphs, TENSORS)
    report = atcpy.freeze(folder, tmp_path / "f.pb")
    assert (report.inputs, report.outputs) == (("also", "image"), ("act:0", "sum:0"))
    results = run(tmp_path / "f.pb", tmp_path, {"image": X}, out_nodes="sum:0;act:0")
    assert np.array_equal(results["sum:0"], X @ W - B)
    assert not read(tmp_path / "f.pb").library.function
    report = atcpy.freeze(folder, tmp_path / "f.pb", out_nodes="call:1")
    assert report.outputs == ("call_1:0",)


def function(name: str, arguments: list[str], results: dict[str, str], *nodes: Any) -> FunctionDef:
    definition = FunctionDef(signature=OpDef(name=name))
    for argument in arguments:
        definition.signature.input_arg.add(
            name=argument, type=DataType.DT_RESOURCE if argument == "h" else DataType.DT_INT32
        )
    for result, ref in results.items():
        definition.signature.output_arg.add(
            name=result, type=DataType.DT_RESOURCE if result == "h" else DataType.DT_INT32
        )
        definition.ret[result] = ref
    definition.node_def.extend(nodes)
    return definition


def test_resource_handles_passed_to_functions_become_values(tmp_path: Path) -> None:
    """A loop passes its handle on, and its body reads and gathers: all use the variable's value."""
    g = TfBuilder()
    variable(g, "v", (3,), "VarHandleOp", "int32")
    n = g.input("n", "int32", ())
    types = [INTS, INTS, INTS]
    loop = {"cond": Function("less"), "body": Function("step"), "T": types}
    g.add("While", g.const(0, "int32"), n, "v", name="loop", **loop)
    g.graph.node[-1].attr["T"].list.type[2] = DataType.DT_RESOURCE
    g.add("ReadVariableOp", "loop:2", name="read", dtype=INTS)
    g.add("ResourceGather", "loop:2", g.const([2, 0], "int32"), name="rows", dtype=INTS, Tindices=INTS)
    less = node("Less", "l", "i", "n", T=INTS)
    g.graph.library.function.append(function("less", ["i", "n", "h"], {"o": "l:z:0"}, less))
    g.graph.library.function.append(
        function(
            "step",
            ["i", "n", "h"],
            {"i": "s:z:0", "n": "n", "h": "same:output:0"},
            node("Identity", "same", "h"),
            node("ReadVariableOp", "r", "same:output:0", dtype=INTS),
            node("ResourceGather", "g", "h", "zero:output:0", dtype=INTS, Tindices=INTS),
            node("Const", "zero", dtype=INTS),
            node("DisableCopyOnRead", "d", "h"),
            node("AddV2", "s", "i", "g:output:0", "^d", T=INTS),
        )
    )
    g.graph.library.function.append(restore_function("key"))
    g.add("Placeholder", name="file")
    g.add("StatefulPartitionedCall", "file", "v", name="back", f=Function("restore"))
    inputs = {"n": tensor_info("n:0", "int32", ())}
    graphs = {"serve": (g, {"s": signature(inputs, {"rows": "rows:0", "i": "loop:0", "all": "read:0"})}, "back")}
    folder = write_saved_model(tmp_path / "m", graphs, {"key": np.array([5, 6, 7], np.int32)})
    atcpy.freeze(folder, tmp_path / "f.pb")
    graph = read(tmp_path / "f.pb")
    nodes = {item.name: item for item in graph.node}
    assert [nodes[name].op for name in ("v", "read", "rows", "loop")] == ["Const", "Identity", "GatherV2", "While"]
    assert list(nodes["loop"].attr["T"].list.type) == [DataType.DT_INT32] * 3
    bodies = {item.signature.name: item for item in graph.library.function}
    assert list(bodies) == ["less_frozen", "step_frozen"]
    step = bodies["step_frozen"]
    assert [item.type for item in (*step.signature.input_arg, *step.signature.output_arg)] == [DataType.DT_INT32] * 6
    inner = {item.name: item for item in step.node_def}
    assert [inner[name].op for name in ("r", "g", "d", "same")] == ["Identity", "GatherV2", "NoOp", "Identity"]
    assert list(inner["g"].input) == ["h", "zero:output:0", "g/axis:output:0"]


def refused(path: Path, target: Path, **options: Any) -> AtcError:
    with pytest.raises(AtcError) as caught:
        atcpy.freeze(path, target, **options)
    assert not target.exists() or target.read_bytes() == b"old"
    return caught.value


def test_refusals_leave_the_target_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "f.pb"
    target.write_bytes(b"old")
    prefix = write_old(tmp_path, old_graph(), {"net/w": W, "net/b": B})
    assert 'no node "nowhere"' in str(refused(prefix, target, out_nodes="nowhere"))
    graphs = {"serve": (new_graph(), {"s": serving()}, "call_1")}
    folder = write_saved_model(tmp_path / "m", graphs, {"_all/0": W})
    assert 'the checkpoint has no "_all/1"' in str(refused(folder, target))
    assert "a file of the model itself" in str(_error(folder, folder / "saved_model.pb", TENSORS, tmp_path))
    monkeypatch.setattr(frozen, "MAX_BYTES", 100)
    error = refused(prefix, target, out_nodes="y")
    assert isinstance(error, ResourceLimit)
    assert "a .pb holds 2 GB at most" in str(error)


def _error(folder: Path, target: Path, tensors: dict[str, Any], tmp_path: Path) -> AtcError:
    write_saved_model(folder, {"serve": (new_graph(), {"s": serving()}, "call_1")}, tensors)
    with pytest.raises(AtcError) as caught:
        atcpy.freeze(folder, target)
    return caught.value


def test_a_model_that_writes_a_variable_is_refused(tmp_path: Path) -> None:
    g = old_graph()
    g.add("ResourceApply", "b", name="odd")
    prefix = write_old(tmp_path, g, {"net/w": W, "net/b": B})
    assert 'the model writes the variable "b"' in str(refused(prefix, tmp_path / "f.pb", out_nodes="odd"))


def test_control_inputs_of_constants_in_v1_branches_are_kept(tmp_path: Path) -> None:
    g = old_graph()
    pred = g.input("p", "bool", ())
    g.add("Switch", pred, pred, name="cond/Switch")
    g.add("Identity", "cond/Switch:1", name="cond/switch_t")
    one = g.const(W, name="cond/one")
    next(item for item in g.graph.node if item.name == one).input.append("^cond/switch_t")
    other = g.add("Switch", "w/read", pred, name="cond/other")
    g.add("Merge", other, one, name="merged")
    prefix = write_old(tmp_path, g, {"net/w": W, "net/b": B})
    atcpy.freeze(prefix, tmp_path / "f.pb", out_nodes="merged")
    nodes = {item.name: item for item in read(tmp_path / "f.pb").node}
    assert "cond/switch_t" in nodes
    assert list(nodes["cond/one"].input) == ["^cond/switch_t"]


def test_weights_are_not_loaded_into_memory(tmp_path: Path) -> None:
    big = np.ones((1 << 20, 2), np.float32)
    g = TfBuilder()
    x = g.input("x", "float32", (1, 2))
    g.add("AddV2", x, g.add("Identity", variable(g, "v", big.shape)), name="y")
    prefix = write_old(tmp_path, g, {"v": big})
    tracemalloc.start()
    atcpy.freeze(prefix, tmp_path / "f.pb")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < big.nbytes / 4
    nodes = {item.name: item for item in read(tmp_path / "f.pb").node}
    assert nodes["v"].attr["value"].tensor.tensor_content == big.tobytes()


def test_the_documented_model_is_what_its_script_writes(tmp_path: Path) -> None:
    write_scores(tmp_path)
    there = Path(__file__).parents[3] / "models" / "scores"
    files = sorted(path.relative_to(there) for path in there.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    for file in files:
        assert (there / file).read_bytes() == (tmp_path / file).read_bytes()


# --- object-based checkpoints of TensorFlow 2 ------------------------------------------------------------------------


def objects_of(names: Sequence[tuple[str, str]]) -> list[bytes]:
    """The graph of objects that says the full name and the key of each variable."""
    objects = TrackableObjectGraph()
    for full_name, key in names:
        objects.nodes.add().attributes.add(name="VARIABLE_VALUE", full_name=full_name, checkpoint_key=key)
    return [objects.SerializeToString()]


KEYS = ("model/layers/0/_k/.ATTRIBUTES/VARIABLE_VALUE", "model/layers/0/_b/.ATTRIBUTES/VARIABLE_VALUE")
NAMES = [("kernel", KEYS[0]), ("bias", KEYS[1]), ("Adam/m/kernel", "optimizer/_variables/1/.ATTRIBUTES/VARIABLE_VALUE")]


def write_trained(folder: Path, names: Sequence[tuple[str, str]] = NAMES, **others: Any) -> Path:
    """What `tf.train.Checkpoint(model=…).save` leaves: W and B doubled, and no graph."""
    tensors = {KEYS[0]: 2 * W, KEYS[1]: 2 * B, "_CHECKPOINTABLE_OBJECT_GRAPH": objects_of(names), **others}
    write_checkpoint(folder / "ckpt-7", tensors)
    (folder / "checkpoint").write_text('model_checkpoint_path: "ckpt-7"\n')
    return folder / "ckpt-7"


def saved_model(folder: Path) -> Path:
    graphs = {"serve": (new_graph(), {"serving_default": serving()}, "call_1")}
    return write_saved_model(folder, graphs, TENSORS)


@pytest.mark.parametrize("name", ["ckpt-7", "ckpt-7.index", "ckpt-7.data-00000-of-00001", ""])
def test_a_saved_model_with_the_variables_of_an_object_based_checkpoint(tmp_path: Path, name: str) -> None:
    """Keys of the SavedModel mean nothing in another checkpoint, even where it has them."""
    folder = saved_model(tmp_path / "m")
    write_trained(tmp_path / "training", **{"_all/0": -W, "_all/1": -B})
    report = atcpy.freeze(folder, tmp_path / "f.pb", checkpoint=tmp_path / "training" / name)
    assert (report.kind, report.variables) == ("SavedModel", 2)
    (y,) = run(tmp_path / "f.pb", tmp_path, {"image": X}, out_nodes="sum:0").values()
    assert np.array_equal(y, X @ (2 * W) + 2 * B)


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt"])
@pytest.mark.parametrize("is_object_based", [False, True])
def test_a_graph_with_the_variables_of_a_checkpoint(tmp_path: Path, suffix: str, is_object_based: bool) -> None:
    graph = old_graph().graph
    path = tmp_path / f"g{suffix}"
    path.write_bytes(graph.SerializeToString() if suffix == ".pb" else text_format.MessageToString(graph).encode())
    prefix = tmp_path / "elsewhere" / "m"
    if is_object_based:
        prefix = write_trained(tmp_path / "elsewhere", [("w", KEYS[0]), ("b", KEYS[1])])
    else:
        write_checkpoint(prefix, {"net/w": 2 * W, "net/b": 2 * B})
    report = atcpy.freeze(path, tmp_path / "f.pb", checkpoint=prefix)
    assert (report.kind, report.inputs, report.outputs) == ("checkpoint", ("x",), ("y:0",))
    (y,) = run(tmp_path / "f.pb", tmp_path, {"x": X}).values()
    assert np.array_equal(y, X @ (2 * W) + 2 * B)


def test_keys_that_a_saver_restores_are_full_names_of_an_object_based_checkpoint(tmp_path: Path) -> None:
    """As tf.train.Saver restores it: also slices of what has the full name."""
    long = np.arange(4, dtype=np.float32)
    tensors = {KEYS[0]: W, KEYS[1]: long}
    objects = objects_of([("net/w", KEYS[0]), ("net/b", KEYS[1]), ("w", "odd"), ("b", "odd")])
    g = old_graph(slices=("", "4 2,2"))
    prefix = write_old(tmp_path, g, {**tensors, "_CHECKPOINTABLE_OBJECT_GRAPH": objects})
    atcpy.freeze(prefix, tmp_path / "f.pb")
    (y,) = run(tmp_path / "f.pb", tmp_path, {"x": X}).values()
    assert np.array_equal(y, X @ W + long[2:])


def test_full_names_are_those_of_the_checkpoint_that_the_graph_was_saved_with(tmp_path: Path) -> None:
    """Keras 3 calls the handles of its SavedModels otherwise: kernel_1."""
    own = objects_of([("net/kernel", "_all/0"), ("net/bias", "_all/1")])
    graphs = {"serve": (new_graph(), {"serving_default": serving()}, "call_1")}
    folder = write_saved_model(tmp_path / "m", graphs, {**TENSORS, "_CHECKPOINTABLE_OBJECT_GRAPH": own})
    names = [("net/kernel", KEYS[0]), ("net/bias", KEYS[1]), ("kernel", "odd"), ("bias", "odd")]
    atcpy.freeze(folder, tmp_path / "f.pb", checkpoint=write_trained(tmp_path / "training", names))
    (y,) = run(tmp_path / "f.pb", tmp_path, {"image": X}, out_nodes="sum:0").values()
    assert np.array_equal(y, X @ (2 * W) + 2 * B)
    error = refused(folder, tmp_path / "g.pb", checkpoint=write_trained(tmp_path / "training", names[1:]))
    assert 'no variable in it has the full name "net/kernel"' in str(error)


def test_names_that_do_not_match_are_reported_together(tmp_path: Path) -> None:
    folder, target = saved_model(tmp_path / "m"), tmp_path / "f.pb"
    prefix = write_trained(tmp_path / "training", [("net/kernel", KEYS[0]), ("biass", KEYS[1])])
    text = str(refused(folder, target, checkpoint=prefix))
    for name in ("kernel", "bias"):
        assert f'the checkpoint is object-based, and no variable in it has the full name "{name}"' in text
    assert 'did you mean "biass"' in text
    prefix = write_trained(tmp_path / "training", [*NAMES, ("kernel", KEYS[1])])
    text = str(refused(folder, target, checkpoint=prefix))
    assert f'2 variables of the checkpoint have the full name "kernel": {KEYS[1]}, {KEYS[0]}' in text
    prefix = write_trained(tmp_path / "training", [("kernel", KEYS[1]), ("bias", KEYS[0])])
    text = str(refused(folder, target, checkpoint=prefix))
    assert f'"kernel" is float32[3, 2], "{KEYS[1]}" in the checkpoint is float32[2]' in text


@pytest.mark.parametrize("graph", [[b"\xff"], [b"", b""], np.zeros(1, np.float32)])
def test_a_damaged_graph_of_objects_is_refused(tmp_path: Path, graph: Any) -> None:
    prefix = write_trained(tmp_path / "training", _CHECKPOINTABLE_OBJECT_GRAPH=graph)
    error = refused(saved_model(tmp_path / "m"), tmp_path / "f.pb", checkpoint=prefix)
    assert error.code == "E13015"
    assert "the graph of its objects, _CHECKPOINTABLE_OBJECT_GRAPH, cannot be read" in str(error)


def test_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    folder = saved_model(tmp_path / "m")
    assert "nowhere.index is missing" in str(refused(folder, tmp_path / "f.pb", checkpoint=tmp_path / "nowhere"))
    prefix = write_trained(tmp_path / "training")
    error = refused(prefix, tmp_path / "f.pb")  # it alone has no graph
    assert "ckpt-7.meta is missing: a checkpoint alone has no graph" in str(error)
    assert "--checkpoint" in error.hint


def test_the_option_checkpoint(tmp_path: Path) -> None:
    folder, prefix = saved_model(tmp_path / "m"), write_trained(tmp_path / "training")
    assert execute(["freeze", str(folder), str(tmp_path / "f.pb"), "--checkpoint", str(prefix)]) == 0
    atcpy.freeze(folder, tmp_path / "g.pb", checkpoint=prefix)
    assert (tmp_path / "f.pb").read_bytes() == (tmp_path / "g.pb").read_bytes()

"""Selection of graph and signature in SavedModels and checkpoints, and restoring of variables."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from atcpy.options import ParseOptions
from atcpy.parsers.tensorflow import import_tensorflow
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import (
    DataType,
    FunctionDef,
    MetaGraphDef,
    OpDef,
    SavedModel,
    SignatureDef,
    TrackableObjectGraph,
)
from tests.parsers.tensorflow.checkpoints import (
    Array,
    Box,
    signature,
    table,
    tensor_info,
    write_checkpoint,
    write_saved_model,
)
from tests.parsers.tensorflow.graphs import Function, TfBuilder, Type, node, shape_proto

W = np.arange(6, dtype=np.float32).reshape(3, 2)
B = np.array([10, 20], np.float32)
X = np.array([[1, 2, 3]], np.float32)


def variable(g: TfBuilder, name: str, shape: tuple[int, ...], op: str = "VariableV2", dtype: str = "float32") -> str:
    return g.add(op, name=name, dtype=Type(dtype), shape=shape_proto(shape))


def old_graph(keys: tuple[str, str] = ("net/w", "net/b"), slices: tuple[str, str] = ("", "")) -> TfBuilder:
    """x · w + b with a ref variable w, a resource variable b and the ops that save and restore them."""
    g = TfBuilder()
    x = g.input("x", "float32", (None, 3))
    read = g.add("Identity", variable(g, "w", (3, 2)), name="w/read")
    handle = variable(g, "b", (2,), "VarHandleOp")
    bias = g.add("ReadVariableOp", handle, name="b/Read", dtype=Type("float32"))
    g.add("BiasAdd", g.add("MatMul", x, read, name="product"), bias, name="y")
    file = g.add("PlaceholderWithDefault", g.strings("model", name="save/Const"), name="save/file")
    names, slice_specs = g.strings(*keys, name="save/names"), g.strings(*slices, name="save/slices")
    restored = g.add("RestoreV2", file, names, slice_specs, name="save/RestoreV2")
    first = g.add("Assign", "w", restored, name="save/Assign")
    second = g.add("Identity", f"{restored}:1", name="save/Identity")
    g.add("AssignVariableOp", handle, second, name="save/AssignVariableOp")
    g.add("NoOp", f"^{first}", "^save/AssignVariableOp", name="save/restore_all")
    return g


def write_old(folder: Path, g: TfBuilder, tensors: dict[str, Any], **how: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    meta = MetaGraphDef(graph_def=g.graph)
    meta.saver_def.restore_op_name = "save/restore_all"
    (folder / "m.ckpt.meta").write_bytes(meta.SerializeToString())
    write_checkpoint(folder / "m.ckpt", tensors, **how)
    (folder / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/m.ckpt"\n')
    return folder / "m.ckpt"


def run(path: Path, folder: Path, feeds: dict[str, Array], **options: Any) -> dict[str, Array]:
    atcpy.convert(str(path), str(folder / "p.om"), **options)
    session = atcpy.InferenceSession(str(folder / "p.om"))
    assert [item.name for item in session.get_inputs()] == list(feeds)
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def refused(path: Path, folder: Path, **options: Any) -> AtcError:
    with pytest.raises(AtcError) as caught:
        atcpy.convert(str(path), str(folder / "p.om"), **options)
    return caught.value


@pytest.mark.parametrize("name", ["m.ckpt", "m.ckpt.meta", "m.ckpt.index", "m.ckpt.data-00000-of-00001", ""])
def test_a_checkpoint_is_found_by_any_of_its_files(tmp_path: Path, name: str) -> None:
    write_old(tmp_path, old_graph(), {"net/w": W, "net/b": B})
    (y,) = run(tmp_path / name, tmp_path, {"x": X}, out_nodes="y:0").values()
    assert np.array_equal(y, X @ W + B)


def test_only_outputs_that_depend_on_a_placeholder_are_selected(tmp_path: Path) -> None:
    prefix = write_old(tmp_path, old_graph(), {"net/w": W, "net/b": B})
    assert list(run(prefix, tmp_path, {"x": X})) == ["y:0"]


def test_a_variable_restored_from_a_slice(tmp_path: Path) -> None:
    g = old_graph(("net/w", "net/b"), ("5 2 1,3:-", "4 2,2"))
    whole, long = np.arange(10, dtype=np.float32).reshape(5, 2), np.arange(4, dtype=np.float32)
    boxes: list[Box] = [[(0, 1), (0, 2)], [(1, 3), (0, 2)], [(4, 1), (0, 2)]]
    prefix = write_old(tmp_path, g, {"net/w": whole, "net/b": long}, parts={"net/w": boxes}, shards=3)
    (y,) = run(prefix, tmp_path, {"x": X}).values()
    assert np.array_equal(y, X @ whole[1:4] + long[2:])


def test_variables_without_a_restore_op_are_matched_by_name(tmp_path: Path) -> None:
    g = old_graph()
    for node_def in list(g.graph.node):
        if node_def.name.startswith("save/"):
            g.graph.node.remove(node_def)
    g.graph.node[[n.name for n in g.graph.node].index("b")].attr["shared_name"].s = b"shared"
    objects = TrackableObjectGraph()
    objects.nodes.add().attributes.add(full_name="w", checkpoint_key="model/w/.ATTRIBUTES/VARIABLE_VALUE")
    tensors = {
        "model/w/.ATTRIBUTES/VARIABLE_VALUE": W,
        "shared": B,
        "_CHECKPOINTABLE_OBJECT_GRAPH": [objects.SerializeToString()],
    }
    (y,) = run(write_old(tmp_path, g, tensors), tmp_path, {"x": X}).values()
    assert np.array_equal(y, X @ W + B)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"net/w": W}, 'the checkpoint has no "net/b"'),
        ({"net/w": W.T, "net/b": B}, '"w" is float32[3, 2], "net/w" in the checkpoint is float32[2, 3]'),
        ({"net/w": W, "net/b": B.astype(np.float64)}, '"b" is float32[2], "net/b" in the checkpoint is float64[2]'),
    ],
)
def test_an_inconsistent_checkpoint_is_refused(tmp_path: Path, tensors: dict[str, Array], message: str) -> None:
    assert message in str(refused(write_old(tmp_path, old_graph(), tensors), tmp_path))


def test_missing_files_are_reported_by_name(tmp_path: Path) -> None:
    prefix = write_old(tmp_path, old_graph(), {"net/w": W, "net/b": B}, shards=2)
    (tmp_path / "m.ckpt.data-00001-of-00002").unlink()
    assert "m.ckpt.data-00001-of-00002 is missing" in str(refused(prefix, tmp_path))
    (tmp_path / "m.ckpt.index").unlink()
    assert "m.ckpt.index is missing" in str(refused(tmp_path, tmp_path))
    write_checkpoint(prefix, {"net/w": W, "net/b": B})
    (tmp_path / "m.ckpt.meta").unlink()
    assert "m.ckpt.meta is missing" in str(refused(prefix, tmp_path))
    frozen = tmp_path / "g.pb"
    frozen.write_bytes(old_graph().graph.SerializeToString())
    assert "the graph is not frozen: it has variables" in str(refused(frozen, tmp_path, out_nodes="y"))


def test_old_checkpoints_and_other_files(tmp_path: Path) -> None:
    path = tmp_path / "old.ckpt"
    path.write_bytes(table({b"": b"\x0a"}))
    assert "the checkpoint is of version 1" in str(refused(path, tmp_path, framework=3))
    for name, content, message in [
        ("a.pb", b"version https://git-lfs.github.com/spec/v1\n", "a git-lfs pointer"),
        ("b.pb", b"", "b.pb is empty"),
        ("c.pb", old_graph().graph.SerializeToString()[:-7], "no TensorFlow graph, or a part of one"),
        ("d.pb", b"\x08\x0a\x12\x04test", "an ONNX model"),
        ("e.pbtxt", b"node {\n  name: 3\n}\n", "2:9"),
    ]:
        (tmp_path / name).write_bytes(content)
        error = refused(tmp_path / name, tmp_path, framework=3)
        assert message in str(error)
        assert name in error.where.file
    assert refused(tmp_path / "missing.pb", tmp_path, framework=3).code == "E10410"


def test_a_graph_in_text_form(tmp_path: Path) -> None:
    from google.protobuf import text_format

    g = TfBuilder()
    g.add("Relu", g.input("x", "float32", (1, 3)), name="y")
    (tmp_path / "g.pbtxt").write_text(text_format.MessageToString(g.graph))
    assert list(run(tmp_path / "g.pbtxt", tmp_path, {"x": X})) == ["y:0"]


# --- SavedModels -----------------------------------------------------------------------------------------------------


def new_graph() -> TfBuilder:
    """A served function with two resource handles, and a restore function whose keys differ from their names."""
    g = TfBuilder()
    for name, shape in (("kernel", (3, 2)), ("bias", (2,))):
        variable(g, name, shape, "VarHandleOp")
    x = g.input("serve_x", "float32", (None, 3))
    unused = g.input("serve_unused", "float32", (2,))
    types = [Type("float32"), Type("float32")]
    g.add("StatefulPartitionedCall", x, unused, "kernel", "bias", name="call", f=Function("served"), Tout=types)
    g.add("Placeholder", name="file")
    g.add("StatefulPartitionedCall", "file", "kernel", "bias", name="call_1", f=Function("restore"))
    served = FunctionDef(signature=OpDef(name="served"))
    for name in ("x", "unused", "k", "b"):
        served.signature.input_arg.add(name=name)
    served.node_def.extend(
        [
            node("ReadVariableOp", "rk", "k", dtype=Type("float32")),
            node("ReadVariableOp", "rb", "b", dtype=Type("float32")),
            node("MatMul", "product", "x", "rk:value:0"),
            node("BiasAdd", "sum", "product:product:0", "rb:value:0"),
            node("Relu", "relu", "sum:output:0"),
        ]
    )
    for name, ref in (("raw", "sum:output:0"), ("act", "relu:activations:0")):
        served.signature.output_arg.add(name=name)
        served.ret[name] = ref
    g.graph.library.function.append(served)
    g.graph.library.function.append(restore_function("_all/0", "_all/1"))
    return g


def restore_function(*keys: str) -> FunctionDef:
    definition = FunctionDef(signature=OpDef(name="restore"))
    parts = TfBuilder()
    parts.strings(*keys, name="names")
    parts.strings(*[""] * len(keys), name="slices")
    definition.signature.input_arg.add(name="file")
    definition.node_def.extend(parts.graph.node)
    definition.node_def.append(node("RestoreV2", "restored", "file", "names:output:0", "slices:output:0"))
    definition.node_def[-1].attr["dtypes"].list.type.extend([DataType.DT_FLOAT] * len(keys))
    for index in range(len(keys)):
        definition.signature.input_arg.add(name=f"v{index}")
        definition.node_def.append(node("Identity", f"i{index}", f"restored:tensors:{index}"))
        definition.node_def.append(node("AssignVariableOp", f"a{index}", f"v{index}", f"i{index}:output:0"))
    return definition


def serving() -> SignatureDef:
    inputs = {
        "image": tensor_info("serve_x:0", "float32", (None, 3)),
        "also": tensor_info("serve_unused:0", "float32", (2,)),
    }
    return signature(inputs, {"sum": "call:0", "act": "call:1"})


TENSORS: dict[str, Any] = {"_all/0": W, "_all/1": -B}
ALSO = np.zeros(2, np.float32)


def test_a_saved_model_has_the_names_of_its_signature(tmp_path: Path) -> None:
    folder = write_saved_model(
        tmp_path / "m", {"serve": (new_graph(), {"serving_default": serving()}, "call_1")}, TENSORS
    )
    for path in (folder, folder / "saved_model.pb"):
        results = run(path, tmp_path, {"also": ALSO, "image": X})
        assert list(results) == ["act", "sum"]
        assert np.array_equal(results["sum"], X @ W - B)
        assert np.array_equal(results["act"], np.maximum(X @ W - B, 0))
    assert list(run(folder, tmp_path, {"image": X}, out_nodes="sum")) == ["sum"]
    assert list(run(folder, tmp_path, {"image": X}, out_nodes="call:1;sum")) == ["call:1", "sum"]


def test_a_saved_model_in_text_form(tmp_path: Path) -> None:
    from google.protobuf import text_format

    graphs = {"serve": (new_graph(), {"serving_default": serving()}, "call_1")}
    folder = write_saved_model(tmp_path / "m", graphs, TENSORS)
    binary = folder / "saved_model.pb"
    model = SavedModel.FromString(binary.read_bytes())
    binary.unlink()
    model.meta_graphs[0].saver_def.version = 2
    text = text_format.MessageToString(model)
    assert "version: V2" in text
    (folder / "saved_model.pbtxt").write_text(text)
    assert np.array_equal(run(folder, tmp_path, {"also": ALSO, "image": X})["sum"], X @ W - B)


def test_signatures_and_tags_are_selected_by_name(tmp_path: Path) -> None:
    g = new_graph()
    g.add("Neg", "call:0", name="negative")
    inputs = {"image": tensor_info("serve_x:0", "float32", (None, 3))}
    negated = signature(inputs, {"y": "negative:0"})
    gpu = TfBuilder()
    gpu.add("Neg", gpu.input("x", "float32", (1, 3)), name="y")
    graphs = {
        "serve": (g, {"first": serving(), "second": negated}, "call_1"),
        "gpu,serve": (gpu, {"only": signature({"x": tensor_info("x:0", "float32", (1, 3))}, {"y": "y:0"})}, ""),
    }
    folder = write_saved_model(tmp_path / "m", graphs, TENSORS)
    results = run(folder, tmp_path, {"image": X}, signature="second")
    assert np.array_equal(results["y"], B - X @ W)
    assert np.array_equal(run(folder, tmp_path, {"x": X}, tag_set="serve,gpu")["y"], -X)
    assert 'it has "first", "second"' in str(refused(folder, tmp_path))
    assert 'did you mean "second"?' in str(refused(folder, tmp_path, signature="secnd"))
    assert '"gpu,serve" or "serve"' in str(refused(folder, tmp_path, tag_set="train"))


def test_a_saved_model_without_its_variables_is_refused(tmp_path: Path) -> None:
    folder = write_saved_model(tmp_path / "m", {"serve": (new_graph(), {"s": serving()}, "call_1")}, TENSORS)
    (folder / "variables" / "variables.index").unlink()
    error = refused(folder, tmp_path)
    assert error.code == "E13015"
    assert "variables.index is missing" in str(error)


def test_an_input_with_a_default_and_an_input_returned_as_output(tmp_path: Path) -> None:
    g = TfBuilder()
    default = g.add("PlaceholderWithDefault", g.const(X), name="p", dtype=Type("float32"), shape=shape_proto((1, 3)))
    g.add("Neg", default, name="n")
    inputs = {"x": tensor_info("p:0", "float32", (1, 3))}
    graphs = {"serve": (g, {"s": signature(inputs, {"x": "n:0", "same": "p:0", "again": "n:0"})}, "")}
    folder = write_saved_model(tmp_path / "m", graphs, {})
    atcpy.convert(folder, tmp_path / "p.om")
    session = atcpy.InferenceSession(tmp_path / "p.om")
    assert [port.name for port in session.get_outputs()] == ["again", "same", "x"]
    assert [port.name for port in session.get_overridable_initializers()] == ["x"]
    for fed, expected in (({"x": 2 * X}, 2 * X), ({}, X)):
        for result, sign in zip(session.run(None, fed), (-1, 1, -1), strict=True):
            np.testing.assert_array_equal(result, sign * expected)


def test_a_placeholder_with_a_default(tmp_path: Path) -> None:
    """A fed value must replace the default."""
    g = TfBuilder()
    x = g.input("x", "float32", (1, 3))
    factor = g.add("PlaceholderWithDefault", g.const(np.float32(3)), name="factor", dtype=Type("float32"))
    doubled = g.add("AddV2", g.const(np.float32(1)), factor)
    computed = g.add("PlaceholderWithDefault", doubled, name="computed", dtype=Type("float32"))
    g.add("Mul", g.add("Mul", x, factor), computed, name="y")
    (tmp_path / "m.pb").write_bytes(g.graph.SerializeToString())
    for fold, listed in ((False, ["factor"]), (True, [])):
        atcpy.convert(tmp_path / "m.pb", tmp_path / "p.om", fold_default_inputs=fold)
        session = atcpy.InferenceSession(tmp_path / "p.om")
        assert [port.name for port in session.get_inputs()] == ["x"]
        assert [port.name for port in session.get_overridable_initializers()] == listed
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * 12)
    atcpy.convert(tmp_path / "m.pb", tmp_path / "p.om")
    fed = {"x": X, "factor": np.float32(2)}
    np.testing.assert_array_equal(atcpy.InferenceSession(tmp_path / "p.om").run(None, fed)[0], X * 6)


def test_corrupted_models_are_read_or_refused(tmp_path: Path) -> None:
    """Any truncation or corruption gives an AtcError, or the model is read."""
    chance = random.Random(9)
    source = Path(__file__).parents[3] / "models" / "scores"
    shutil.copytree(source, tmp_path / "m")
    files = [path for path in sorted((tmp_path / "m").rglob("*")) if path.is_file()]
    codes = set()
    for trial in range(120):
        path = files[min(trial % 4, 2)]
        good = path.read_bytes()
        data = bytearray(good)
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        else:
            for _ in range(chance.choice([1, 1, 3])):
                data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        path.write_bytes(data)
        for work in (lambda: import_tensorflow(tmp_path / "m", ParseOptions()), lambda: freeze(tmp_path)):
            try:
                work()
            except AtcError as error:
                codes.add(error.code)
                assert error.where.file or error.where.option
        path.write_bytes(good)
    assert {"E10041", "E13015"} <= codes


def freeze(folder: Path) -> None:
    atcpy.freeze(folder / "m", folder / "f.pb")


@pytest.mark.parametrize("target", ["seen", "calls"])
def test_variables_written_before_outputs_are_refused(tmp_path: Path, target: str) -> None:
    g, body = TfBuilder(), TfBuilder()
    x = g.input("x", "float32", (2,))
    handles = [g.add("VarHandleOp", name=name, dtype=Type("float32"), shape=shape_proto((2,))) for name in ("s", "n")]
    f32 = {"dtype": Type("float32")}
    value = body.add("ReadVariableOp", "seen", name="value", **f32)
    body.add("AddV2", "x", f"{value}:value:0", name="sum")
    body.add("AssignVariableOp", target, "sum:z:0", name="keep", **f32)
    arguments = {"x": "float32", "seen": "resource", "calls": "resource"}
    function = g.function("f", body, arguments)
    definition = g.graph.library.function[-1]
    definition.signature.output_arg.add(name="y", type=DataType.DT_FLOAT)
    definition.ret["y"] = "sum:z:0"
    y = g.add("StatefulPartitionedCall", x, *handles, f=function, Tout=[Type("float32")])
    path = write_saved_model(
        tmp_path / "m",
        {"serve": (g, {"serving_default": signature({"x": tensor_info("x:0", "float32", (2,))}, {"y": f"{y}:0"})}, "")},
        {"s": B, "n": B},
    )
    if target == "calls":
        assert np.array_equal(run(path, tmp_path, {"x": B})["y"], B + B)
    else:
        error = refused(path, tmp_path)
        assert (error.code, error.where and error.where.op) == ("E10055", "AssignVariableOp")
        assert 'writes the variable "s", on which its outputs depend' in str(error)
        with pytest.raises(AtcError, match='writes the variable "s"'):
            atcpy.freeze(str(path), str(tmp_path / "frozen.pb"))

"""Writer and reader together: what was compiled comes back, the same bytes each time, and no bytes do harm."""

import hashlib
import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

from atcpy.errors import PackageCorrupt
from atcpy.ir import Tensor, TensorDesc, walk
from atcpy.ir.dump import dump
from atcpy.kernels.table import families
from atcpy.om import writer
from atcpy.om.container import FORMAT_VERSION, Partition, Verify
from atcpy.om.inout import TensorInfo
from atcpy.om.reader import Package, PackagedModel, parse_package, read_model, read_package
from atcpy.om.schema.ge_ir_pb2 import ModelDef, OpDef
from atcpy.om.schema.task_pb2 import KernelDef, ModelTaskDef
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests import models_in_text
from tests.effort import trials
from tests.om import sample
from tests.om.mutator import mutate_message
from tests.ops.custom import models as custom_models


@pytest.fixture(scope="module")
def small() -> bytes:
    return writer.to_bytes(sample.small())


def model_of(package: Package) -> ModelDef:
    return ModelDef.FromString(bytes(package.container.partition(Partition.MODEL_DEF)))


@pytest.mark.parametrize("make", [sample.small, sample.odd])
def test_graph_comes_back(make: object) -> None:
    compiled = make()  # type: ignore[operator]
    found = read_model(parse_package(writer.to_bytes(compiled)))
    assert dump(found.graph) == dump(compiled.graph)
    for before, after in zip(compiled.graph.nodes, found.graph.nodes, strict=True):
        assert (after.name, after.sources, after.passes, after.domain, after.engine) == (
            before.name, before.sources, before.passes, before.domain, before.engine,
        )  # fmt: skip
        assert [v.desc for v in after.outputs] == [v.desc for v in before.outputs]
        if before.op_type == "Const":
            np.testing.assert_array_equal(after.output.array, before.output.array)
            assert after.output.array.dtype == before.output.array.dtype


def test_what_is_known_of_the_model_comes_back(small: bytes) -> None:
    compiled = sample.small()
    found: PackagedModel = read_model(parse_package(small))
    assert (found.soc, found.cmdline, found.version) == (compiled.soc, compiled.cmdline, compiled.version)
    assert found.source == compiled.source
    assert found.memory == compiled.memory
    assert found.task_nodes == ("x_5d", "conv", "relu", "y_4d")
    assert found.graph.decisions.removed == {"Identity_3": "identity"}
    (record,) = found.graph.decisions.passes
    (expected,) = compiled.graph.decisions.passes
    assert (record.name, record.stage, record.matched, record.applied, record.rejects, record.seconds) == (
        expected.name, expected.stage, 2, 1, expected.rejects, 0.0,
    )  # fmt: skip
    assert found.graph.node_count_before == 5
    assert found.attrs["framework_type"] == "Onnx"
    sizes = {e.partition: e.size for e in parse_package(small).container.extents}
    assert found.attrs["om_info_list"] == (sizes[Partition.WEIGHTS_DATA], 0, 0, sizes[Partition.TASK_INFO], 0)


@pytest.mark.parametrize("checks_status", [False, True])
def test_whether_runs_check_what_nodes_compute_comes_back(checks_status: bool) -> None:
    compiled = replace(sample.small(), checks_status=checks_status)
    assert parse_package(writer.to_bytes(compiled)).checks_status is checks_status


def test_reasons_that_are_no_utf_8_come_back() -> None:
    """A pass quotes what the model has: bytes of an attribute, with surrogate escapes."""
    compiled = sample.small()
    compiled.graph.decisions.removed["a \udcff, é"] = "identity"
    found = read_model(parse_package(writer.to_bytes(compiled)))
    assert found.graph.decisions.removed == compiled.graph.decisions.removed


def test_what_runs_comes_back(small: bytes) -> None:
    compiled = sample.small()
    package = parse_package(small)
    assert package.inputs == (TensorInfo("x", 768, 0, 0, (1, 3, 8, 8), (1, 3, 8, 8)),)
    assert package.outputs == (TensorInfo("y", 1024, 0, 0, (1, 4, 8, 8), (1, 4, 8, 8)),)
    assert [(t.kernel, t.op_index) for t in package.tasks] == [
        ("transdata", 3), ("conv2d", 4), ("relu", 5), ("transdata", 6),
    ]  # fmt: skip
    assert {len(t.record) for t in package.tasks} == {640}
    assert package.tasks[1].record[:7] == b"conv2d\0"
    assert (package.arena_bytes, package.stream_count, package.event_count) == (8192, 1, 0)
    w, b = compiled.weights
    packed = np.frombuffer(package.weights, np.float32, w.nbytes // 4, w.offset)
    np.testing.assert_array_equal(sample.find_format(sample.FRACTAL_Z).pack(w.tensor.array).reshape(-1), packed)
    assert bytes(package.weights[b.offset : b.offset + 16]) == b.tensor.array.astype("<f4").tobytes()
    assert package.container.extent(Partition.WEIGHTS_DATA).offset % 64 == 0
    assert len(package.weights) % 512 == 0 and not any(package.weights[:512])


@pytest.mark.parametrize("name", ["n" * length for length in range(1, 66, 3)])
def test_weights_are_aligned_whatever_stands_before(name: str) -> None:
    compiled = sample.small()
    compiled.graph.name = name
    package = parse_package(writer.to_bytes(compiled))
    assert package.container.extent(Partition.WEIGHTS_DATA).offset % 64 == 0
    pad = model_of(package).attr["_atcpy_pad"].s
    assert len(pad) < 64 and not pad.strip()


def test_partitions_are_genuine_messages(small: bytes) -> None:
    package = parse_package(small)
    tasks = ModelTaskDef.FromString(bytes(package.container.partition(Partition.TASK_INFO)))
    assert [t.id for t in tasks.task] == [0, 1, 2, 3]
    assert tasks.memory_size == 8192 and tasks.weight_size == len(package.weights)
    model = model_of(package)
    (graph,) = model.graph
    conv = graph.op[4]
    assert (conv.type, list(conv.input)) == ("Conv2D", ["x_5d:0", "w:0", "b:0"])
    assert conv.attr["_datadump_original_op_names"].list.s[:] == [b"Conv_1", b"BatchNormalization_2"]
    assert conv.attr["_lxfusion_engine_name"].s == b"AIcoreEngine"
    (out,) = conv.output_desc
    assert (out.layout, list(out.shape.dim), out.attr["origin_format"].s) == ("NC1HWC0", [1, 1, 8, 8, 16], b"NCHW")
    assert list(out.attr["origin_shape"].list.i) == [1, 4, 8, 8]
    assert out.attr["format_for_int"].i == 3 | 5 << 24
    assert out.size == 4096 + 32
    assert list(conv.input_i) == [0, 512, 512 + 9 * 16 * 16 * 4] and list(conv.output_i) == [4096]
    weight = next(op for op in graph.op if op.name == "w").attr["value"].t
    assert (weight.desc.layout, weight.desc.data_offset, weight.desc.weight_size) == ("FRACTAL_Z", 512, 9 * 16 * 16 * 4)
    assert not weight.data


def test_operands_are_noted_where_they_are_those_of_the_node() -> None:
    compiled = sample.small()
    whole = compiled.tasks[1]
    part = replace(whole, src=whole.src[:2], dst=whole.dst * 2)
    for task, operands in ((whole, (3, 1)), (part, (0, 0))):
        changed = replace(compiled, tasks=(compiled.tasks[0], task, *compiled.tasks[2:]))
        op = conv(model_of(parse_package(writer.to_bytes(changed))))
        assert (len(op.input_i), len(op.output_i)) == operands


def test_equal_constants_share_their_bytes() -> None:
    compiled = sample.small()
    w, b = compiled.weights
    twin = sample.Weight("b2", b.tensor, b.desc, b.offset, b.nbytes)
    assert len(b"".join(writer.weights.partition_buffers([w, b, twin]))) == writer.weights.partition_bytes([w, b])


def test_written_file_is_the_package_in_memory(small: bytes, tmp_path: Path) -> None:
    writer.write(tmp_path / "m.om", sample.small())
    assert (tmp_path / "m.om").read_bytes() == small
    for mmap in (True, False):
        assert read_package(tmp_path / "m.om", mmap=mmap).tasks == parse_package(small).tasks
    assert os.listdir(tmp_path) == ["m.om"]


SHA = "import hashlib, sys; from atcpy.om import writer; from tests.om import sample; \
print(hashlib.sha256(writer.to_bytes(sample.small()) + writer.to_bytes(sample.odd())).hexdigest())"


@pytest.mark.slow
def test_same_bytes_with_another_hash_seed_folder_and_time() -> None:
    root = Path(__file__).parents[2]
    digests = {
        subprocess.run(
            [sys.executable, "-c", SHA],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root), "TZ": zone},
            cwd=folder, capture_output=True, check=True, text=True,
        ).stdout
        for seed, zone, folder in (("1", "UTC", root), ("2", "Asia/Tokyo", "/"))
    }  # fmt: skip
    assert len(digests) == 1


def test_seconds_of_passes_are_not_written(small: bytes) -> None:
    compiled = sample.small()
    compiled.graph.decisions.passes[0].seconds = 99.0
    assert writer.to_bytes(compiled) == small


# ---- hostile bytes


def outcome(package: bytes, verify: Verify = Verify.FULL) -> str:
    """`ok` or the code of the refusal; anything else that is raised fails the test."""
    try:
        graph = read_model(parse_package(package, verify=verify)).graph
        for node in walk(graph):
            if node.op_type == "Const":
                _ = node.output.array
    except PackageCorrupt as error:
        return error.code
    return "ok"


def test_every_truncation_is_refused(small: bytes) -> None:
    assert {outcome(small[:n]) for n in range(1, len(small), 7)} == {"P0004"}
    assert outcome(small[:-1]) == "P0004"


def test_changed_bytes_are_refused(small: bytes) -> None:
    rng = random.Random(1)
    for at in [*range(360), *(rng.randrange(len(small)) for _ in range(trials(2000)))]:
        mutant = bytearray(small)
        mutant[at] ^= 1 << rng.randrange(8)
        assert outcome(bytes(mutant)) != "ok", at


@pytest.mark.parametrize("make", [sample.small, sample.odd])
@pytest.mark.parametrize("seed", range(4))
def test_resealed_mutants_are_read_or_refused(make: object, seed: int) -> None:
    whole = writer.to_bytes(make())  # type: ignore[operator]
    rng = random.Random(seed)
    extents = parse_package(whole).container.extents
    seen: set[str] = set()
    for _ in range(trials(700)):
        mutant = bytearray(whole)
        extent = rng.choice([e for e in extents if e.partition is not Partition.WEIGHTS_DATA])
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            at = extent.offset + rng.randrange(extent.size - 8)
            match rng.randrange(4):
                case 0:
                    mutant[at] ^= 1 << rng.randrange(8)
                case 1:
                    mutant[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
                case 2:
                    mutant[at : at + 4] = struct.pack("<I", rng.choice([0, 1, 2**31, 2**32 - 1]))
                case 3:
                    source = extent.offset + rng.randrange(extent.size - 8)
                    mutant[at : at + 8] = mutant[source : source + 8]
        seen.add(outcome(writer.reseal(bytes(mutant))))
    assert seen <= {"ok", "P0002", "P0004", "P0005"}
    assert {"ok", "P0005"} <= seen


def mutate(package: bytes, partition: Partition, change: object) -> bytes:
    """The package with a message changed, and table, padding and checksum made to fit."""
    opened = parse_package(package).container
    message = (ModelDef if partition is Partition.MODEL_DEF else ModelTaskDef).FromString(
        bytes(opened.partition(partition))
    )
    change(message)  # type: ignore[operator]
    parts = {e.partition: bytes(opened.partition(e.partition)) for e in opened.extents}
    parts[partition] = message.SerializeToString() or b"\0"
    sizes = {p: len(payload) for p, payload in parts.items()}
    parts[Partition.MODEL_DEF] += writer._padding(-writer.container.weights_offset(sizes))
    sizes[Partition.MODEL_DEF] = len(parts[Partition.MODEL_DEF])
    head, order = writer.container.frame(sizes, name="m", platform_version="1")
    return writer.reseal(head + b"".join(parts[p] for p in order))


def conv(model: ModelDef) -> OpDef:
    return next(op for op in model.graph[0].op if op.name == "conv")


@pytest.mark.parametrize("make", [sample.small, sample.odd])
@pytest.mark.parametrize("partition", [Partition.MODEL_DEF, Partition.TASK_INFO])
def test_mutated_messages_are_read_or_refused(make: object, partition: Partition) -> None:
    whole = writer.to_bytes(make())  # type: ignore[operator]
    rng = random.Random(7)
    seen = set()
    for _ in range(trials(1000)):
        mutant = mutate(whole, partition, lambda message: mutate_message(message, rng))
        seen.add(outcome(mutant))
    assert seen <= {"ok", "P0002", "P0005"}
    assert {"ok", "P0005"} <= seen


def set_precision(record: dict[str, object], m: ModelDef) -> None:
    """Say in a package what was lowered."""
    m.attr["_atcpy_decisions"].s = json.dumps({"removed": {}, "passes": [], "precision": record}).encode()


HOSTILE = {
    "constant past the weights": lambda m: setattr(m.graph[0].op[0].attr["value"].t.desc, "data_offset", 2**62),
    "constant before the weights": lambda m: setattr(m.graph[0].op[0].attr["value"].t.desc, "data_offset", -512),
    "constant of negative size": lambda m: setattr(m.graph[0].op[0].attr["value"].t.desc, "weight_size", -16),
    "shape whose size wraps": lambda m: (
        m.graph[0].op[0].attr["value"].t.desc.attr["origin_shape"].list.i.extend([4194305, 4194305, 211106198978564])
    ),
    "rank above the limit": lambda m: conv(m).output_desc[0].shape.dim.extend([1] * 64),
    "dim above the limit": lambda m: conv(m).output_desc[0].shape.dim.append(2**40 + 1),
    "operand that nobody makes": lambda m: m.graph[0].op[-1].input.append("ghost:0"),
    "operand past the outputs": lambda m: m.graph[0].op[-1].input.append("conv:7"),
    "operand with a negative index": lambda m: m.graph[0].op[-1].input.append("conv:-1"),
    "operand made later": lambda m: conv(m).input.append("relu:0"),
    "itself as operand": lambda m: conv(m).input.append("conv:0"),
    "output of another name": lambda m: setattr(conv(m).output_desc[0], "name", "x_5d"),
    "constant without a value": lambda m: m.graph[0].op[0].attr.pop("value"),
    "constant of another type": lambda m: setattr(m.graph[0].op[0].output_desc[0], "dtype", 3),
    "two nodes of one name": lambda m: m.graph[0].op.add(name="conv", type="Relu"),
    "unknown engine": lambda m: setattr(conv(m).attr["_lxfusion_engine_name"], "s", b"os.system"),
    "unknown format": lambda m: setattr(conv(m).output_desc[0], "layout", "NCHW2"),
    "format without blocks": lambda m: conv(m).output_desc[0].attr["format_for_int"].__setattr__("i", 3),
    "graph of no node": lambda m: m.graph.add(name="stray"),
    "no graph": lambda m: m.ClearField("graph"),
    "body that does not exist": lambda m: [
        setattr(conv(m).attr["auto_pad"], "s", b"1.b"),
        conv(m).attr["_atcpy_graphs"].list.__setattr__("val_type", 1),
        conv(m).attr["_atcpy_graphs"].list.s.append(b"auto_pad"),
    ],
    "deep json": lambda m: setattr(m.attr["_atcpy_decisions"], "s", b"[" * 100_000),
    "json of no record": lambda m: setattr(m.attr["_atcpy_source"], "s", b"[]"),
    "a list in place of a text": lambda m: m.attr["soc_version"].list.i.append(1),
    "a text in place of a number": lambda m: setattr(
        m.attr["_atcpy_memory"], "s", b'{"lower_bound":"1","unshared_bytes":1}'
    ),
    "a truth in place of a number": lambda m: setattr(
        m.attr["_atcpy_memory"], "s", b'{"lower_bound":true,"unshared_bytes":1}'
    ),
    "a number in place of a list": lambda m: setattr(conv(m).attr["_atcpy_passes"], "i", 1),
    "plans of collectives without seconds": lambda m: setattr(
        m.attr["_atcpy_decisions"],
        "s",
        b'{"removed":{},"passes":[],"allreduce":{"allreduces":1,"collectives":1,"ranks":2,"seconds":1}}',
    ),
    **{
        f"precision of {name}": partial(set_precision, record)
        for name, record in {
            "no known type": {"mode": "fp16", "outputs": {"y": "float15"}},
            "a type that no mode lowers to": {"mode": "fp16", "outputs": {"y": "int8"}},
            "an unknown field": {"mode": "fp16", "outputs": {}, "tolerance": ["1"]},
            "numbers": {"mode": "fp16", "outputs": {}, "lowered": [1]},
            "no mode": {"outputs": {}},
        }.items()
    },
    "json of another kind": lambda m: setattr(m.attr["_atcpy_decisions"], "s", b'{"passes":[1],"removed":{}}'),
    "name that is no text": lambda m: setattr(m.attr["soc_version"], "s", b"\xff"),
    "attribute of an unknown kind": lambda m: conv(m).attr["pads"].func.SetInParent(),
    "nothing after the output": lambda m: m.graph[0].op.add(name="late", type="Relu"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_model_behind_a_right_checksum(change: object, small: bytes) -> None:
    mutant = mutate(small, Partition.MODEL_DEF, change)
    assert outcome(mutant) == ("ok" if change is HOSTILE["format without blocks"] else "P0005")


def test_the_format_follows_the_arguments_of_kernels() -> None:
    """A package of other arguments would be refused by its numbers, or read as other ones: change both together."""
    digest = hashlib.sha256(repr(sorted(families().items())).encode()).hexdigest()
    assert (FORMAT_VERSION, digest[:16]) == (5, "45a02a4458ad789b")


HOSTILE_TASKS = {
    "tasks though shapes are unknown": (lambda m: m.attr.update({"atcpy_shapes": "unknown"}), "P0005"),
    "default of an input that there is not": (lambda m: m.attr.update({"atcpy_default_inputs": "1"}), "P0005"),
    "default of a name": (lambda m: m.attr.update({"atcpy_default_inputs": "x"}), "P0005"),
    "gears of a model that has none": (lambda m: m.attr.update({"atcpy_gears": "[]"}), "P0005"),
    "plans that are no list": (lambda m: m.attr.update({"atcpy_clusters": "{}"}), "P0005"),
    "newer records": (lambda m: m.attr.update({"atcpy_format": str(FORMAT_VERSION + 1)}), "P0002"),
    "older records": (lambda m: m.attr.update({"atcpy_format": str(FORMAT_VERSION - 1)}), "P0005"),
    "records of no version": (lambda m: m.attr.clear(), "P0005"),
    "version with a huge number": (lambda m: m.attr.update({"atcpy_format": "9" * 5000}), "P0005"),
    "version in other digits": (lambda m: m.attr.update({"atcpy_format": "\u0661"}), "P0005"),
    "version in no digits": (lambda m: m.attr.update({"atcpy_format": "\u00b2"}), "P0005"),
    "size of a record off by one": (lambda m: setattr(m.task[1].kernel, "args_size", 641), "P0005"),
    "empty records": (
        lambda m: [setattr(t.kernel, name, empty) for t in m.task for name, empty in (("args", b""), ("args_size", 0))],
        "P0005",
    ),
    "record cut": (lambda m: setattr(m.task[1].kernel, "args", b"x" * 639), "P0005"),
    "record of another size": (
        lambda m: [setattr(m.task[1].kernel, "args", b"x" * 8), setattr(m.task[1].kernel, "args_size", 8)],
        "P0005",
    ),
    "task without record": (lambda m: m.task.add(), "P0005"),
    "program of a plan of fixed sizes": (lambda m: m.task.add(private_def=b"x"), "P0005"),
    "weights of another size": (lambda m: setattr(m, "weight_size", 0), "P0005"),
}


def test_a_task_belongs_to_a_node_of_the_graph(small: bytes) -> None:
    nodes = len(model_of(parse_package(small)).graph[0].op)
    for op_index, result in ((0, "ok"), (nodes - 1, "ok"), (nodes, "P0005")):
        for task in range(4):
            change = lambda m: _move(m.task[task].kernel, op_index)  # noqa: B023, E731
            assert outcome(mutate(small, Partition.TASK_INFO, change)) == result, (task, op_index)


def _move(kernel: KernelDef, op_index: int) -> None:
    """Give a task another node, in its record as well."""
    kernel.context.op_index = op_index
    kernel.args = kernel.args[:40] + op_index.to_bytes(4, "little") + kernel.args[44:]


MAP_KEYS = {
    '[""]': "ok", '["[4,7]"]': "ok", '["[\\"a\\"]"]': "ok", "[]": "ok",
    '["[1,2.5]"]': "P0005",
    '["[1,\\"a\\"]"]': "P0005", '["[true]"]': "P0005", '["[[1]]"]': "P0005", '["","[1]"]': "P0005",
    '["5"]': "P0005", "[7]": "P0005", "3": "P0005", "{}]": "P0005",
}  # fmt: skip


@pytest.mark.parametrize(("text", "code"), MAP_KEYS.items(), ids=repr)
def test_keys_of_maps_are_int64s_or_strings(text: str, code: str, small: bytes) -> None:
    change = lambda m: m.attr.update({"atcpy_map_keys": text})  # noqa: E731
    assert outcome(mutate(small, Partition.TASK_INFO, change)) == code


def test_a_partition_that_is_no_message_is_refused(small: bytes) -> None:
    opened = parse_package(small).container
    for partition in (Partition.MODEL_DEF, Partition.TASK_INFO):
        extent = opened.extent(partition)
        mutant = small[: extent.offset] + b"\xff" * extent.size + small[extent.offset + extent.size :]
        assert outcome(writer.reseal(mutant)) == "P0005"


TYPED = """m (float[2,3] x) => (float[2,3] y, optional(float[2]) o) {
    y = Exp(x) o = Optional<type: type_proto = float[2]>() }"""


def test_attributes_may_be_types() -> None:
    found = read_model(parse_package(models_in_text.package(TYPED))).graph
    [optional] = [node for node in found.nodes if node.op_type == "Optional"]
    assert optional.attrs["type"] == onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [2])


def test_defaults_maps_and_custom_operators_are_listed(tmp_path: Path, no_custom_ops: None) -> None:
    with_default = models_in_text.model("m (float[2,3] x, float[3] b) => (float[2,3] y) { y = Add(x, b) }")
    with_default.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(3, np.float32), "b"))
    maps = models_in_text.model("m (float[2,2] x) => (y) { y = ai.onnx.ml.ZipMap<classlabels_int64s = [4, 7]>(x) }")
    maps.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    map_type = onnx.helper.make_map_type_proto(onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(1, []))
    maps.graph.output[0].type.CopyFrom(onnx.helper.make_sequence_type_proto(map_type))
    default, keys, custom = (
        parse_package(writer.to_bytes(compile_model(source, convert_options(options))[0]))
        for source, options in (
            (with_default, {}),
            (maps, {}),
            (custom_models.model(custom_models.ONE_NODE), {"custom_ops": str(custom_models.module(tmp_path))}),
        )
    )
    assert default.default_inputs == {1}
    assert keys.map_keys == {0: (4, 7)}
    assert custom.custom_ops == (("custom", "Double"),)


def test_values_of_maps_are_float32() -> None:
    integers = models_in_text.package("m (int64[2] x) => (int64[2] y) { y = Neg(x) }")
    for text, code in (('[""]', "ok"), ('["[1]"]', "P0005")):
        change = lambda m: m.attr.update({"atcpy_map_keys": text})  # noqa: B023, E731
        assert outcome(mutate(integers, Partition.TASK_INFO, change)) == code


@pytest.mark.parametrize(("change", "code"), HOSTILE_TASKS.values(), ids=HOSTILE_TASKS.keys())
def test_hostile_tasks_behind_a_right_checksum(change: object, code: str, small: bytes) -> None:
    assert outcome(mutate(small, Partition.TASK_INFO, change)) == code


def test_a_constant_lies_within_the_weights(small: bytes) -> None:
    blob = len(parse_package(small).weights)
    weight = next(op for op in model_of(parse_package(small)).graph[0].op if op.name == "w").attr["value"].t.desc
    last = blob - weight.weight_size

    def move(offset: int) -> Callable[[ModelDef], None]:
        def change(model: ModelDef) -> None:
            op = next(op for op in model.graph[0].op if op.name == "w")
            op.attr["value"].t.desc.data_offset = offset

        return change

    for offset, result in ((0, "ok"), (last, "ok"), (last + 1, "P0005"), (blob, "P0005"), (-1, "P0005")):
        assert outcome(mutate(small, Partition.MODEL_DEF, move(offset))) == result, offset


def test_nesting_has_a_limit(small: bytes) -> None:
    def nest(model: ModelDef) -> None:
        for depth in range(200):
            op = model.graph[depth].op.add(name=f"n{depth}", type="If")
            op.attr["body"].s = f"{depth + 1}.b".encode()
            op.attr["_atcpy_graphs"].list.val_type = 1
            op.attr["_atcpy_graphs"].list.s.append(b"body")
            model.graph.add(name=f"{depth + 1}.b")

    assert outcome(mutate(small, Partition.MODEL_DEF, nest)) == "P0005"


def test_loading_does_not_read_the_model(small: bytes) -> None:
    broken = mutate(small, Partition.MODEL_DEF, HOSTILE["no graph"])
    assert len(parse_package(broken).tasks) == 4


def test_reader_needs_neither_onnx_nor_the_compiler() -> None:
    code = (
        "import sys, atcpy.om.reader; print([m for m in ('onnx', 'atcpy.ops', 'atcpy.om.writer') if m in sys.modules])"
    )
    root = str(Path(__file__).parents[2])
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, capture_output=True, check=True, text=True
    )
    assert run.stdout == "[]\n"


def test_weights_are_packed_one_at_a_time() -> None:
    """`write` streams: what was packed for one constant is gone before the next is asked for."""
    read: list[str] = []

    def constant(name: str) -> Tensor:
        return Tensor(sample.F32, (4,), lambda: read.append(name) or np.zeros(4, np.float32))  # type: ignore[func-returns-value]

    desc = TensorDesc.plain(sample.F32, (4,))
    parts = writer.weights.partition_buffers(
        [sample.Weight(name, constant(name), desc, 512 + 16 * i, 16) for i, name in enumerate("abc")]
    )
    counts = [len(read) for part in parts if part.nbytes == 16]
    assert counts == [1, 2, 3]

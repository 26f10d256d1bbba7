"""Sink mode in a package: a model becomes a Loop over itself, which one run of the package goes through.

    h2, y = model(x, h)   →   h2, y = Loop(n, h) { h2, y = model(x[i], h) }

The nodes stand for those that GE's FlowCtrlPass adds, and have their names: the variable
`npu_runconfig/iterations_per_loop` is the trip count, `npu_runconfig/loop_cond` the counter that the body reads, and
the Loop `IteratorCtrl_StreamSwitch`; its task compares and counts, which takes GE a StreamSwitch, an ASSIGNADD, an
ASSIGN and a StreamActive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from atcpy.errors import AtcError, Unsupported, UsageError, Where, did_you_mean, raise_all
from atcpy.ir import DType, Engine, Graph, Node, Tensor, TensorDesc, Value, walk
from atcpy.ir.clone import copy_nodes
from atcpy.ir.shape import format_shape
from atcpy.ops import find_opdef
from atcpy.options import IterationsPerLoop

PASS = "FlowCtrlPass"
TRIP_COUNT = "npu_runconfig/iterations_per_loop"
COUNTER = "npu_runconfig/loop_cond"
LOOP = "IteratorCtrl_StreamSwitch"


def iterate(graph: Graph, asked: IterationsPerLoop) -> Graph:
    """A graph that runs a prepared one again and again. Its outputs are those of the last iteration; an input that is
    stepped through has an axis more, in front. Raises UsageError for states that are none, Unsupported where a shape
    is not known.
    """
    inputs = {data.output.name: data.output for data in graph.inputs}
    names = graph.net_output.attrs["names"]
    assert isinstance(names, tuple)
    outputs = dict(zip(names, graph.outputs, strict=True))
    raise_all([*_problems(graph, asked, inputs, outputs)])
    outer = Graph(graph.name)
    outer.decisions, outer.node_count_before = graph.decisions, graph.node_count_before
    twins = {name: _input(outer, value, asked) for name, value in inputs.items()}
    starts = [twins[asked.states[name]] if name in asked.states else _zeros(outer, outputs[name]) for name in names]
    captured = [name for name in inputs if name not in asked.states.values()]
    operands = [
        outer.add_const(Tensor.of(np.array(asked.count, np.int64)), TRIP_COUNT),
        outer.add_const(Tensor.of(np.array(True)), f"{LOOP}_entered"),
        *starts,
        *(twins[name] for name in captured),
    ]
    body = _body(graph, outer, asked, outputs, captured)
    loop = outer.append("Loop", operands, {"body": body}, name=LOOP, outputs=names)
    loop.passes = (PASS,)
    for value, name in zip(loop.outputs, names, strict=True):
        value.desc = outputs[name].desc
    end = graph.net_output
    outer.append("NetOutput", loop.outputs, end.attrs, name=end.name, outputs=())
    return outer


def _problems(
    graph: Graph, asked: IterationsPerLoop, inputs: Mapping[str, Value], outputs: Mapping[str, Value]
) -> Iterator[AtcError]:
    for name in asked.stepped:
        if name not in inputs:
            yield _unknown("stepped", "input", name, [*inputs])
        elif name in asked.states.values():
            what = f'--stepped: "{name}" is a state, which each iteration gets from the one before'
            yield UsageError("E10001", what, where=Where(option="stepped"))
    for new, old in asked.states.items():
        if new not in outputs or old not in inputs:
            kind, name, names = ("output", new, [*outputs]) if new not in outputs else ("input", old, [*inputs])
            yield _unknown("state", kind, name, names)
        elif _differ(a := outputs[new].desc, b := inputs[old].desc):
            types = " and ".join(f"{desc.dtype.long} {format_shape(desc.shape)}" for desc in (a, b))
            what = f'--state: output "{new}" is no next value of input "{old}": {types}'
            yield UsageError("E10001", what, where=Where(option="state"), hint="a state keeps its type and shape")
    for name, value in (*inputs.items(), *outputs.items()):
        if not value.desc.is_static:
            what = f'--iterations_per_loop needs known shapes: "{name}" is {format_shape(value.desc.shape)}'
            hint = "fix them with --input_shape, or leave the iterations to run --iterations"
            yield Unsupported("E10055", what, where=Where(value=name), hint=hint)
    collective = next(filter(_is_collective, walk(graph)), None)
    if collective is not None:
        what = "--iterations_per_loop: a loop of a package has no collectives, which Python runs"
        yield Unsupported("E10055", what, where=collective, hint="leave the iterations to run --iterations")


def _differ(a: TensorDesc, b: TensorDesc) -> bool:
    """Are two types known to be others?"""
    return a.dtype is not b.dtype or (a.is_static and b.is_static and a.shape != b.shape)


def _is_collective(node: Node) -> bool:
    opdef = find_opdef(node)
    return opdef is not None and Engine.HCCL in opdef.engines


def _unknown(option: str, kind: str, name: str, names: Sequence[str]) -> UsageError:
    hint = did_you_mean(name, names) or f"the {kind}s are {', '.join(names)}"
    return UsageError("E10001", f'--{option}: no {kind} "{name}"', where=Where(option=option), hint=hint)


def _input(outer: Graph, value: Value, asked: IterationsPerLoop) -> Value:
    attrs = value.producer.attrs
    data = outer.append("Data", (), attrs, name=value.producer.name, outputs=(value.name,))
    data.output.desc = value.desc
    if value.name in asked.stepped:
        data.output.desc = TensorDesc.plain(value.desc.dtype, (asked.count, *value.desc.static_shape))
    return data.output


def _zeros(outer: Graph, value: Value) -> Value:
    """What an output that is no state is before the first iteration: nobody reads it."""
    shape = outer.add_const(Tensor.of(np.array(value.desc.static_shape, np.int64)), f"{value.name}_shape")
    zero = Tensor.of(np.zeros(1, value.desc.dtype.numpy), value.desc.dtype)
    node = outer.append("ConstantOfShape", [shape], {"value": zero}, name=f"{value.name}_start")
    node.output.desc, node.passes = value.desc, (PASS,)
    return node.output


def _body(
    graph: Graph, outer: Graph, asked: IterationsPerLoop, outputs: Mapping[str, Value], captured: Sequence[str]
) -> Graph:
    """The model as the body of the Loop: the counter, the condition, what is carried, and the other inputs."""
    body = Graph(f"{graph.name}_iteration", names=outer.names)
    inputs = {data.output.name: data.output for data in graph.inputs}
    counter = _data(body, COUNTER, TensorDesc.plain(DType.INT64, ()), 0)
    _data(body, f"{LOOP}_condition", TensorDesc.plain(DType.BOOL, ()), 1)
    values: dict[Value, Value] = {}
    for index, (name, value) in enumerate(outputs.items(), 2):
        carried = _data(body, asked.states.get(name, f"{name}_before"), value.desc, index)
        if name in asked.states:
            values[inputs[asked.states[name]]] = carried
    for index, name in enumerate(captured, 2 + len(outputs)):
        value, is_stepped = inputs[name], name in asked.stepped
        desc = value.desc
        if is_stepped:
            desc = TensorDesc.plain(desc.dtype, (asked.count, *desc.static_shape))
        values[value] = _data(body, name, desc, index, is_captured=True)
        if is_stepped:
            row = body.append("Gather", [values[value], counter], {"axis": 0}, name=f"{name}_of_iteration")
            row.output.desc, row.passes = value.desc, (PASS,)
            values[value] = row.output
    copy_nodes((node for node in graph.nodes if node.op_type not in ("Data", "NetOutput")), body, values)
    true = body.add_const(Tensor.of(np.array(True)), f"{LOOP}_goes_on")
    results = [true, *(values[value] for value in outputs.values())]
    names = tuple(value.name for value in results)
    body.append("NetOutput", results, {"names": names}, name=f"{body.name}_NetOutput", outputs=())
    return body


def _data(body: Graph, name: str, desc: TensorDesc, index: int, *, is_captured: bool = False) -> Value:
    attrs = {"index": index, "captured": 1} if is_captured else {"index": index}
    data: Node = body.append("Data", (), attrs, name=name, outputs=(name,))
    data.output.desc = desc
    return data.output

"""Runs a large model node by node: the time that ONNX Runtime takes to open a model grows faster than its nodes.

A session computes one node, and serves all nodes that differ from it only by names: of 50 000 nodes a few dozen are
different. A stretch of nodes that occurs often, as layers do, has a session of its own. The inputs of a node are fed to
it, constants like the results of other nodes; a value that no later node reads is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from atcpy.errors import ModelInvalid
from atcpy.exporters.onnx.types import type_from_text
from atcpy.ir import DType
from atcpy.parsers.onnx.order import captured_names
from atcpy.rewrite.export import Constant
from atcpy.verify.inputs import Feeds
from atcpy.verify.oracle import cannot_open, ort_errors

WIDE = 200  # inputs; the time that ONNX Runtime takes grows with their square
_FOLDS = frozenset({"Sum", "Max", "Min", "Concat"})  # they work through their inputs from the first to the last
LARGE = 4000  # nodes; a smaller model is opened as a whole
SHORTEST, LONGEST = 12, 64  # nodes of a stretch
OFTEN = 4  # to open a session takes as long as to run each of its nodes several times
_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
# Opens a model in memory.
Open = Callable[[bytes], Any]


@dataclass(slots=True)
class Step:
    """What one session computes: a node, or the `parts` of a stretch. `input_names` are the names of its inputs in the
    session, `reads` those in the model. Steps with the same `form` share a session, if the types of their inputs agree.
    """

    form: int
    input_names: tuple[str, ...]
    reads: list[str]
    writes: list[str]
    proto: onnx.NodeProto | None = None
    captures: bool = False  # graphs in its attributes read what is around them
    parts: list[Step] = field(default_factory=list)
    last: list[str] = field(default_factory=list)  # the values that no later step reads


class Stepwise:
    """Runs a model like a session of ONNX Runtime."""

    def __init__(
        self, model: onnx.ModelProto, constants: Mapping[str, Constant], opened: Open, *, joins: bool = True
    ) -> None:
        """`joins`: stretches that occur often get sessions of their own, and their inner values are not computed."""
        self._model = model
        self._constants = {**constants}
        self._open = opened
        self._forms: dict[object, int] = {}
        self._sessions: dict[object, tuple[Any, list[str], list[str]]] = {}
        self._apart: set[object] = set()  # stretches that do not run as one
        self._outputs = [info.name for info in model.graph.output]
        self._declared = {info.name: info.type.tensor_type.elem_type for info in model.graph.value_info}
        nodes = [
            self._step(part) for proto in model.graph.node if not self._is_constant(proto) for part in _parts(proto)
        ]
        self._find_last(nodes)
        self.steps = self._stretched(nodes) if joins else nodes
        self._header = onnx.ModelProto(ir_version=model.ir_version)
        self._header.opset_import.extend(model.opset_import)
        self._header.functions.extend(model.functions)

    @cached_property
    def _can_run(self) -> bool:
        """Whether every value is computed before it is read, as ONNX requires."""
        known = {info.name for info in self._model.graph.input} | self._constants.keys()
        for step in self.steps:
            if not known.issuperset(step.reads):
                return False
            known.update(step.writes)
        return known.issuperset(self._outputs)

    def run(self, names: Sequence[str], feeds: Feeds) -> list[Any]:
        """The outputs of these names."""
        if not self._can_run:
            raise cannot_open("it reads values before they are computed")
        values: dict[str, Any] = dict(feeds)
        kinds = {info.name: tensor_type(info.type.tensor_type.elem_type) for info in self._model.graph.input}
        for step in self.steps:
            self.compute(step, values, kinds)
            for name in step.last:
                values.pop(name, None)
        for name in names:
            if name not in values:
                values[name], kinds[name] = _read(self._constants[name])
        self._check_types(kinds)
        return [values[name] for name in names]

    @property
    def constant_names(self) -> Collection[str]:
        """The names of the constants of the main graph."""
        return self._constants.keys()

    def constant(self, name: str) -> Any:
        """The elements of a constant."""
        return _read(self._constants[name])[0]

    def _is_constant(self, proto: onnx.NodeProto) -> bool:
        """Whether a node is a Constant; if so, add it to the constants."""
        constant = _constant_of(proto) if proto.op_type == "Constant" else None
        if constant is not None:
            self._constants[proto.output[0]] = constant
        return constant is not None

    def _step(self, proto: onnx.NodeProto) -> Step:
        reads, writes, captures = list(proto.input), list(proto.output), []
        key: list[object] = [proto.op_type, proto.domain]
        for attr in proto.attribute:
            key.append(attr.SerializeToString())
            if attr.type in _GRAPHS:
                captures = sorted(captured_names(proto))
        input_names = _input_names(len(reads))
        if "" in reads:
            input_names = tuple([input_name for input_name, name in zip(input_names, reads, strict=True) if name])
            reads = [name for name in reads if name]
        if captures:
            input_names, reads = (*input_names, *captures), reads + captures
        if "" in writes:
            key.append(tuple(map(bool, writes)))
            writes = [name for name in writes if name]
        key += (input_names, len(writes))
        return Step(self._form(tuple(key)), input_names, reads, writes, proto, bool(captures))

    def _form(self, key: object) -> int:
        return self._forms.setdefault(key, len(self._forms))

    def _find_last(self, steps: Sequence[Step]) -> None:
        seen = set(self._outputs)
        for step in reversed(steps):
            step.last = [name for name in {*step.reads, *step.writes} if name not in seen]
            seen.update(step.last)

    def _stretched(self, steps: Sequence[Step]) -> list[Step]:
        """The steps; those of a stretch that occurs often are joined."""
        stretches = [(stretch, tuple([step.form for step in stretch])) for stretch in _cut_stretches(steps)]
        often = Counter(forms for _, forms in stretches)
        joined = [self._joined(stretch) if often[forms] >= OFTEN else None for stretch, forms in stretches]
        counts = Counter(step.form for step in joined if step is not None)
        found: list[Step] = []
        for (stretch, _), step in zip(stretches, joined, strict=True):
            found += stretch if step is None or counts[step.form] < OFTEN else (step,)
        return found

    def _joined(self, parts: Sequence[Step]) -> Step | None:
        """One step that does what these do; None if it would have no result, or has bodies that capture values."""
        known: dict[str, int] = {}  # by value: negative for those that are only read
        reads: list[str] = []
        writes: list[str] = []
        gone: set[str] = set()
        key: list[object] = []
        for part in parts:
            if part.captures:
                return None
            key.append(part.form)
            for name in part.reads:
                number = known.get(name)
                if number is None:
                    number = known[name] = ~len(reads)
                    reads.append(name)
                key.append(number)
            for name in part.writes:
                known[name] = len(writes)
                writes.append(name)
            gone.update(part.last)
        left = [name for name in writes if name not in gone]
        key += map(self._declared.get, writes) if self._declared else ()
        key.append(tuple([known[name] for name in left]))
        last = [name for name in reads if name in gone]
        step = Step(self._form(tuple(key)), _input_names(len(reads)), reads, left, parts=[*parts], last=last)
        return step if left else None

    def _check_types(self, kinds: Mapping[str, str]) -> None:
        """Check the types that the model declares: ONNX Runtime would refuse to open it as a whole."""
        for info in (*self._model.graph.output, *self._model.graph.value_info):
            declared = info.type.tensor_type.elem_type
            if declared and (kind := kinds.get(info.name)) is not None and kind != tensor_type(declared):
                raise cannot_open(f'"{info.name}" is {kind}, the model says {tensor_type(declared)}')

    def compute(self, step: Step, values: dict[str, Any], kinds: dict[str, str]) -> None:
        """Add the results of a step to the values, and the types of these. Raises one of `stepwise_errors`."""
        for name in step.reads:
            if name not in values:
                values[name], kinds[name] = _read(self._constants[name])
        key = (step.form, *[kinds[name] for name in step.reads])
        if key in self._apart or not self._compute(step, key, values, kinds):
            self._apart.add(key)
            for part in step.parts:
                self.compute(part, values, kinds)
                for name in part.last:
                    values.pop(name, None)

    def _compute(self, step: Step, key: object, values: dict[str, Any], kinds: dict[str, str]) -> bool:
        """Run a step in one session; False if its parts cannot run as one."""
        fed = dict(zip(step.input_names, [values[name] for name in step.reads], strict=True))
        try:
            entry = self._sessions.get(key)
            if entry is None:
                entry = self._sessions[key] = self._session(step, kinds, ())
            session, names, types = entry
            results = session.run(names, fed)
        except stepwise_errors():
            if step.parts:
                return False
            # Some ops need a constant when the session is opened.
            inside = [name for name in step.reads if name in self._constants]
            if not inside:
                raise
            session, names, types = self._session(step, kinds, inside)
            for input_name, name in zip(step.input_names, step.reads, strict=True):
                if name in inside:
                    del fed[input_name]
            results = session.run(names, fed)
        for name, kind, result in zip(step.writes, types, results, strict=True):
            values[name] = result
            kinds[name] = kind
        return True

    def _session(
        self, step: Step, kinds: Mapping[str, str], inside: Collection[str]
    ) -> tuple[Any, list[str], list[str]]:
        """Open a session of a step; return it with the names and types of its results. Constants `inside` are not
        fed.
        """
        model = onnx.ModelProto()
        model.CopyFrom(self._header)
        graph = model.graph
        graph.name = "step"
        for input_name, name in zip(step.input_names, step.reads, strict=True):
            if name not in inside:
                graph.input.add(name=input_name).type.CopyFrom(type_from_text(kinds[name]))
                continue
            constant = self._constants[name]
            tensor = graph.initializer.add()
            tensor.CopyFrom(constant.proto)
            if constant.data is not None:
                tensor.ClearField("data_location")
                tensor.ClearField("external_data")
                tensor.raw_data = bytes(constant.data)
            tensor.name = input_name
        results = step.writes
        if step.proto is not None:
            names = step.proto.input
            inputs = [
                input_name if name else "" for input_name, name in zip(_input_names(len(names)), names, strict=True)
            ]
            _add_node(graph, step.proto, inputs, step.proto.output)
        else:
            results = self._add_parts(graph, step)
        graph.output.extend([onnx.ValueInfoProto(name=name) for name in results])
        session = self._open(model.SerializeToString())
        return session, results, [info.type for info in session.get_outputs()]

    def _add_parts(self, graph: onnx.GraphProto, step: Step) -> list[str]:
        """Add the nodes of a stretch, under names of the session; return those of its results."""
        names = dict(zip(step.reads, step.input_names, strict=True))
        for part in step.parts:
            assert part.proto is not None
            inputs = [names[name] if name else "" for name in part.proto.input]
            for name in part.writes:
                names[name] = f"<v{len(names)}>"
                declared = self._declared.get(name)
                if declared and name not in step.writes:
                    graph.value_info.add(name=names[name]).type.tensor_type.elem_type = declared
            _add_node(graph, part.proto, inputs, [names[name] if name else "" for name in part.proto.output])
        return [names[name] for name in step.writes]


def _cut_stretches(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Cut the steps into stretches. The nodes decide where one ends, so that equal layers are cut alike."""
    start = 0
    for at in range(1, len(steps)):
        length = at - start
        may_end = length >= SHORTEST and hash((steps[at - 1].form, steps[at].form)) % SHORTEST == 0
        if may_end or length >= LONGEST:
            yield steps[start:at]
            start = at
    yield steps[start:]


def _add_node(graph: onnx.GraphProto, proto: onnx.NodeProto, inputs: Iterable[str], outputs: Iterable[str]) -> None:
    """A copy of a node under other names."""
    node = graph.node.add()
    node.CopyFrom(proto)
    del node.input[:], node.output[:]
    node.input.extend(inputs)
    node.output.extend(outputs)


def _parts(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """The node; or several that reduce its inputs one after the other, if it has very many."""
    if node.op_type not in _FOLDS or len(node.input) <= WIDE:
        yield node
        return
    names, result = list(node.input), node.output[0]
    folded: list[str] = []
    while names:
        count = WIDE - len(folded)
        taken, names = folded + names[:count], names[count:]
        folded = [f"{result}<{len(names)}>" if names else result]
        part = onnx.NodeProto(op_type=node.op_type, domain=node.domain, input=taken, output=folded)
        part.attribute.extend(node.attribute)
        yield part


def stepwise_errors() -> tuple[type[Exception], ...]:
    """The errors of a model that cannot run node by node. For types that numpy does not have, ONNX Runtime has no
    error of its own.
    """
    return (ModelInvalid, RuntimeError, *ort_errors())


@cache
def _input_names(count: int) -> tuple[str, ...]:
    """The names of inputs in the session of one node."""
    return tuple([f"<{index}>" for index in range(count)])


@cache
def tensor_type(elem_type: int) -> str:
    """The type of a tensor as ONNX Runtime writes it."""
    return f"tensor({onnx.TensorProto.DataType.Name(elem_type).lower()})"


@cache
def _numpy_of(elem_type: int) -> np.dtype[Any] | None:
    """The numpy type of the raw bytes of a constant; None if they must be unpacked."""
    dtype = DType.from_onnx(elem_type)
    return None if dtype.bits < 8 else np.dtype(dtype.numpy)


def _read(constant: Constant) -> tuple[Any, str]:
    """The elements of a constant, and its type."""
    proto, data = constant.proto, constant.data
    elem_type = proto.data_type
    raw = proto.raw_data if data is None else data
    dtype = _numpy_of(elem_type)
    if dtype is None or not len(raw):
        return numpy_helper.to_array(proto), tensor_type(elem_type)
    return np.frombuffer(raw, dtype).reshape(tuple(proto.dims)), tensor_type(elem_type)


def _constant_of(node: onnx.NodeProto) -> Constant | None:
    """The value of a Constant node, if that is a tensor."""
    if node.domain not in ("", "ai.onnx"):
        return None
    return next((Constant(attr.t) for attr in node.attribute if attr.name == "value"), None)

"""onnx.ModelProto → ir.Graph at the canonical opset, with every problem of the model reported at once.

Graphs in attributes wait in a queue until the graph that holds them is complete, and calls of the
model's functions are frames on a stack: nothing recurses, and the main graph's names come first.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from sys import intern

import onnx

from atcpy.errors import AtcError, AtcWarning, ModelInvalid, ResourceLimit, Unsupported, Where, did_you_mean
from atcpy.ir import DType, Graph, Node, Tensor, TensorDesc, Value
from atcpy.ir.shape import Shape, fits_limits, format_shape
from atcpy.ops.core.infer import check_declared
from atcpy.ops.core.opdef import OpDef, find_signed
from atcpy.ops.custom import CustomOps
from atcpy.options import ParseOptions
from atcpy.parsers.choices import NamedGraph, set_input_shapes
from atcpy.parsers.onnx import gradient, normalize, optimizers  # register normalizers
from atcpy.parsers.onnx.attributes import PLAIN, read_attribute
from atcpy.parsers.onnx.contrib_rules import extra_rule
from atcpy.parsers.onnx.external import ExternalData
from atcpy.parsers.onnx.functions import MAX_NODES, Functions
from atcpy.parsers.onnx.inference import TypeInference
from atcpy.parsers.onnx.op_rule import FREE, OpRule
from atcpy.parsers.onnx.order import Item, location_of, ordered_items
from atcpy.parsers.onnx.recorder import Recorder
from atcpy.parsers.onnx.rules import check_node, custom_rule, find_rule, value_of
from atcpy.parsers.onnx.tensors import read_sparse, read_tensor
from atcpy.parsers.onnx.text import are_texts, as_text, not_text
from atcpy.parsers.onnx.upgrade import Upgrade, needs_upgrade, op_key
from atcpy.parsers.onnx.value_types import declared_dtype, read_desc, type_text

assert gradient and normalize and optimizers
MAX_NESTING = 64
_ELEMENT_TYPES = frozenset(dtype.onnx for dtype in DType)
_GRAPH, _GRAPHS = onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS
_CONSTANT_LISTS = {"value_int": "INT64", "value_ints": "INT64", "value_float": "FLOAT32", "value_floats": "FLOAT32"}
Bindings = Mapping[str, onnx.AttributeProto]


@dataclass(slots=True)
class _Constant:
    """An initializer that nobody has read yet."""

    proto: onnx.TensorProto | onnx.SparseTensorProto
    inline: memoryview | None = None


@dataclass(slots=True)
class _Op:
    """What the nodes of one op in one scope have in common; `domain` is that of the IR's nodes."""

    rule: OpRule
    opset: int
    domain: str
    must_change: bool
    opdef: OpDef | None = None  # with a signature: the standard says nothing of the op, or not at each opset
    error: AtcError | None = None
    unknown: bool = False  # a barrier's op, of which nothing is known


@dataclass(slots=True)
class _Scope:
    """What names mean in one graph, or in one call of a function (whose nodes go into the caller's graph)."""

    graph: Graph
    opsets: Mapping[str, int]
    path: str
    parent: "_Scope | None" = None
    depth: int = 0
    prefix: str = ""
    bindings: Bindings = field(default_factory=dict)
    renames: dict[str, str] = field(default_factory=dict)
    values: dict[str, Value | None] = field(default_factory=dict)  # None: an input that the caller left out
    constants: dict[str, _Constant] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    ops: dict[tuple[str, str], _Op] = field(default_factory=dict)
    where: Where = field(init=False)

    def __post_init__(self) -> None:
        self.where = Where(graph=self.path)

    def final_name(self, name: str) -> str:
        """The name that a value of this scope has in the IR."""
        return self.renames.get(name) or self.prefix + name


@dataclass(slots=True)
class _Body:
    """A graph that waits to be read."""

    graph: Graph
    proto: onnx.GraphProto
    scope: _Scope | None
    path: str
    depth: int


@dataclass(slots=True)
class _Frame:
    """Nodes that are being read: a graph's, or those of a function that is being called."""

    items: Iterator[Item]
    scope: _Scope
    function: onnx.FunctionProto | None = None
    call: Item | None = None
    caller: _Scope | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """The imported graph and the warnings collected while importing it."""

    named: NamedGraph
    warnings: tuple[AtcWarning, ...]
    was_sorted: bool
    has_bodies: bool
    misfits: Sequence[AtcError]  # the nodes whose inputs do not fit them
    is_plain: bool  # all ops are the standard's own and spelled so, and no data lie in other files


class Importer:
    """Reads one model. `problems` collects what is wrong with it, `shape_problems` what is wrong with --input_shape.
    A `recorder` takes part in reading a graph that is to be written as ONNX again.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        external: ExternalData,
        custom: CustomOps,
        options: ParseOptions,
        recorder: Recorder | None = None,
    ) -> None:
        self.problems: list[AtcError] = []
        self.shape_problems: list[AtcError] = []
        self._options = options
        self._model = model
        self._custom = custom
        self._external = external
        self._recorder = recorder
        self._bodies: deque[_Body] = deque()
        self._first_ops: dict[Graph, Node] = {}
        self._seen_names: dict[str, int] = {}
        self._node_outputs: dict[str, list[str]] = {}
        self._updated: list[tuple[Value, Value]] = []
        self._sorted = True
        self._is_plain = True
        self._has_bodies = False
        self._node_count = 0

    def run(self) -> Imported:
        """The graph, which is complete only while there are no problems."""
        proto = self._model.graph
        graph = Graph(as_text(proto.name) or "main")
        opsets = self._read_opsets(self._model.opset_import, "the model")
        if not opsets and self._model.ir_version < 3:
            opsets = {"": 1}
        if not proto.output:
            self.problems.append(ModelInvalid("E16001", "the model has no outputs", where=Where(graph=graph.name)))
        self._functions = Functions(self._model)
        self._inference = TypeInference(graph, chain(proto.value_info, proto.output))
        root = _Scope(graph, opsets, graph.name)
        self._read_graph(_Body(graph, proto, None, graph.name, 0), root)
        graph.node_count_before = sum(1 for _ in proto.node)
        while self._bodies:
            body = self._bodies.popleft()
            assert body.scope is not None
            above = body.scope
            scope = _Scope(body.graph, above.opsets, body.path, above, body.depth, above.prefix, above.bindings)
            scope.ops = above.ops
            self._read_graph(body, scope)
        self._inference.drop_preliminary()
        graph.inferred = self._inference.inferred
        self.problems.extend(self._external.problems())
        return Imported(
            NamedGraph(graph, root.values, self._node_outputs),
            tuple(self._warnings()),
            was_sorted=self._sorted,
            has_bodies=self._has_bodies,
            misfits=self._inference.problems,
            is_plain=self._is_plain and not self._model.functions and not self._external.is_used,
        )

    # --- one graph ---------------------------------------------------------------------------

    def _read_graph(self, body: _Body, scope: _Scope) -> None:
        if body.depth > MAX_NESTING:
            what = f"graphs are nested {body.depth} deep, the limit is {MAX_NESTING}"
            self.problems.append(ResourceLimit("R0001", what, where=Where(graph=body.path)))
            return
        if not are_texts(_own_names(body.proto)):
            self.problems.append(not_text("the name of an input, an output or a constant", Where(graph=body.path)))
            return
        self._note_constants(body, scope)
        self._read_inputs(body.proto.input, scope)
        if body.depth == 0:
            self.shape_problems = set_input_shapes(scope.graph, self._options)
        self._node_count += len(body.proto.node)
        if self._node_count > MAX_NODES:
            what = f"the model has more than {MAX_NODES} nodes"
            raise ResourceLimit("R0001", what, where=Where(graph=body.path))
        items = ordered_items(body.proto.node, body.path, self.problems)
        self._sorted = self._sorted and all(item.index == index for index, item in enumerate(items))
        if body.depth == 0:
            for item in items:
                self._node_outputs.setdefault(item.name, item.outputs)
        self._read_items(items, scope)
        outputs = [self._find(info.name, scope, Where(graph=body.path, value=info.name)) for info in body.proto.output]
        self._note_declared(body.proto, scope)
        types = tuple(type_text(info.type) for info in body.proto.output)
        if body.depth == 0 and self._updated:
            outputs += [new for _, new in self._updated]
            types += tuple(str(old.producer.attrs.get("type", "")) for old, _ in self._updated)
        net_output = scope.graph.append("NetOutput", outputs, name="NetOutput", outputs=())
        if body.depth == 0 and any(types):
            net_output.attrs["types"] = types

    def _note_declared(self, proto: onnx.GraphProto, scope: _Scope) -> None:
        """Note the types that a graph declares for its values: prepare compares them with those that it infers."""
        for info in chain(proto.value_info, proto.output):
            value, declared = scope.values.get(info.name), declared_dtype(info.type)
            if value is None or declared is None:
                continue
            if not value.producer.is_source:
                self._inference.inferred.declared[value] = declared
                continue
            try:
                check_declared(value, declared)
            except AtcError as error:
                self.problems.append(error.located(graph=scope.path, value=info.name))

    def _note_constants(self, body: _Body, scope: _Scope) -> None:
        inline = self._external.inline if body.depth == 0 else {}
        for index, tensor in enumerate(body.proto.initializer):
            self._note_constant(tensor.name, _Constant(tensor, inline.get(index)), scope)
        for sparse in body.proto.sparse_initializer:
            self._note_constant(sparse.values.name, _Constant(sparse), scope)

    def _note_constant(self, name: str, constant: _Constant, scope: _Scope) -> None:
        if name in scope.constants:
            self._duplicate(f'two constants are named "{name}"', scope)
        scope.constants[name] = constant

    def _read_inputs(self, infos: Iterable[onnx.ValueInfoProto], scope: _Scope) -> None:
        index = 0
        seen: set[str] = set()
        for info in infos:
            if info.name in seen:
                self._duplicate(f'two inputs are named "{info.name}"', scope)
            seen.add(info.name)
            if info.name in scope.constants and not self._is_default(info.name, scope):
                continue  # models of IR 3 list their constants among the inputs
            name = scope.final_name(info.name)
            node = scope.graph.append("Data", (), {"index": index}, name=name, outputs=(name,))
            node.output.desc = read_desc(info)
            if info.name in scope.constants:
                self._set_default(node, scope, info.name)
            what, hint, shape = "", "", node.output.desc.shape
            if scope.parent is None and _is_untyped(info.type):
                what, hint = "no type", "export the model again"
            elif info.type.HasField("tensor_type") and info.type.tensor_type.elem_type not in _ELEMENT_TYPES:
                what = f"elements of type {info.type.tensor_type.elem_type}, which is none"
            elif shape is not None and not fits_limits(shape):
                what = f"the shape {format_shape(shape)}, which is out of bounds"
                self._inference.give_up(node)
            elif text := type_text(info.type):
                node.attrs["type"] = text
            if what:
                where = Where(graph=scope.path, value=info.name)
                self.problems.append(ModelInvalid("E13014", f'input "{info.name}" has {what}', where=where, hint=hint))
            scope.values[info.name] = node.output
            index += 1

    def _is_default(self, name: str, scope: _Scope) -> bool:
        """Is a constant the default of an input? It is what the caller says then."""
        if self._options.fold_default_inputs or scope.parent is not None or self._model.ir_version < 4:
            return False
        return isinstance(scope.constants[name].proto, onnx.TensorProto)

    def _set_default(self, node: Node, scope: _Scope, name: str) -> None:
        """The input gets the shape of its default where it does not say one itself."""
        default = self._read_stored(scope.constants.pop(name), scope, name)
        if default is None:
            return
        node.attrs["default"] = default
        desc = node.output.desc
        if desc.shape is None:
            node.output.desc = desc = TensorDesc.plain(default.dtype, default.shape)
        if default.dtype is not desc.dtype or not _may_be(default.shape, desc.shape):
            own = TensorDesc.plain(default.dtype, default.shape)
            what = f'the default of input "{name}" is {own}, the input is {desc}'
            self.problems.append(ModelInvalid("E13014", what, where=Where(graph=scope.path, value=name)))

    def _duplicate(self, what: str, scope: _Scope) -> None:
        self.problems.append(ModelInvalid("E13009", what, where=Where(graph=scope.path)))

    # --- nodes -------------------------------------------------------------------------------

    def _read_items(self, items: list[Item], scope: _Scope) -> None:
        frames = [_Frame(iter(items), scope)]
        has_functions = bool(self._model.functions)
        while frames:
            frame = frames[-1]
            item = next(frame.items, None)
            if item is None:
                frames.pop()
                self._return(frame)
                continue
            function = self._functions.find(item.proto) if has_functions else None
            # An operator that the user registered wins over the model's function of that name.
            if function is not None and self._custom.find(item.domain, item.op_type) is None:
                frames.append(self._call(item, function, frame.scope))
            else:
                self._read_node(item, frame.scope)

    def _read_node(self, item: Item, scope: _Scope) -> None:
        problems_before = len(self.problems)
        op = scope.ops.get((item.domain, item.op_type))
        if op is None:
            op = scope.ops[item.domain, item.op_type] = self._find_op(item, scope)
        inputs = self._find_inputs(item, scope)
        if op.error is not None:
            self._report(op.error, item, scope)
        node = self._read_known(item, scope, inputs, op)
        if node is None:
            return
        results: list[Value | None] = [*node.outputs]
        # What breaks the rule of its op cannot be changed by rules.
        is_valid = len(self.problems) == problems_before
        must_change = op.must_change and is_valid
        if self._recorder is not None:
            proto = self._as_inlined(node, item, scope) if scope.prefix else item.proto
            results = self._recorder.node(
                node, proto, op.opset, self._inference, unknown=op.unknown, changes=must_change
            )
        if not is_valid:
            self._inference.give_up(node)
        elif must_change and self._recorder is None:
            results = self._upgrade(node, item, scope, op.opset)
        elif op.opdef is not None and op.opdef.is_contrib:
            self._inference.infer_declared(node)
            self._note_updates(node, item, scope, op.opdef)
        else:
            self._inference.infer(node)
        for name, value in zip(item.outputs, results, strict=False):
            if name and value is not None:
                scope.values[name] = value

    def _as_inlined(self, node: Node, item: Item, scope: _Scope) -> onnx.NodeProto:
        proto = onnx.NodeProto(name=node.name, op_type=item.op_type, domain=item.domain)
        proto.input.extend(item.inputs)
        proto.attribute.extend(self._bound(item, scope))
        return proto

    def _read_known(self, item: Item, scope: _Scope, inputs: list[Value | None], op: _Op) -> Node | None:
        """The node of an op that is known; None for a Constant, which is one already."""
        graph, outputs = scope.graph, item.outputs
        # How many outputs a variadic op has is part of its meaning, whether they have names or not.
        while outputs and not outputs[-1] and not op.rule.has_variadic_outputs:
            outputs = outputs[:-1]
        attrs = self._read_attrs(item, scope, op.rule, len(inputs), len(outputs))
        if item.op_type == "Constant" and not op.domain:
            self._read_constant(item, scope, attrs)
            return None
        source = scope.prefix + (item.name or next(filter(None, outputs), item.op_type))
        if item.name:
            self._seen_names[source] = self._seen_names.get(source, 0) + 1
        names = outputs
        if scope.prefix or scope.renames:
            names = [scope.final_name(name) if name else "" for name in outputs]
        signature = None if op.opdef is None else op.opdef.signature
        if op.rule.first_variadic is not None:
            self._check_present(item, scope, inputs, range(op.rule.first_variadic, len(inputs)))
        if signature is not None:
            variadic = range(len(signature.inputs), len(inputs)) if signature.is_variadic else ()
            self._check_present(item, scope, inputs, (*signature.required_inputs, *variadic), signature.inputs)
            if self._recorder is None:
                names = [*names, *[""] * (max(signature.updates, default=-1) + 1 - len(names))]
        node = graph.append(item.op_type, inputs, attrs, name=source, outputs=names, domain=op.domain)
        node.sources = (source,)
        self._first_ops.setdefault(graph, node)
        if attrs and None in attrs.values():
            self._queue_bodies(node, item, scope)
        return node

    def _upgrade(self, node: Node, item: Item, scope: _Scope, opset: int) -> list[Value | None]:
        state = Upgrade(node, self._inference)
        try:
            state.run(opset)
        except AtcError as error:
            self.problems.append(error.located(graph=scope.path, index=item.index))
            self._inference.give_up(node)
            return [*node.outputs]
        for changed in (node, *state.appended):
            if changed.graph is not None:
                self._inference.infer(changed)
        if node.graph is None and self._first_ops[scope.graph] is node:
            self._first_ops[scope.graph] = next(iter(state.created))
        self._has_bodies = self._has_bodies or any(added.has_subgraphs for added in state.created)
        for index, why in state.gone.items():
            scope.gone[item.outputs[index]] = f"{item.op_type} does not make it: {why}"
        return state.results

    def _check_present(
        self,
        item: Item,
        scope: _Scope,
        inputs: Sequence[Value | None],
        required: Iterable[int],
        names: Sequence[str] = (),
    ) -> None:
        """Report each required input that is left out; how many there are is checked with the attributes."""
        for index in required:
            if index < len(inputs) and inputs[index] is None:
                name = names[index] if index < len(names) else index
                what = f"{item.op_type}: input {name} is missing"
                self.problems.append(ModelInvalid("E13014", what, where=location_of(item, scope.path)))

    def _note_updates(self, node: Node, item: Item, scope: _Scope, opdef: OpDef) -> None:
        """ONNX Runtime writes some results into the memory of an input. There is no memory from run to run here: unless
        the caller takes such a result anyway, it becomes an output of the model, NAME_next, to be fed back as NAME.
        """
        assert opdef.signature is not None
        for output, index in opdef.signature.updates.items():
            old = node.input(index)
            is_taken = output < len(item.outputs) and item.outputs[output]
            if self._recorder is None and old is not None and not is_taken:
                self._note_update(old, node.outputs[output], item, scope)

    def _note_update(self, old: Value, new: Value, item: Item, scope: _Scope) -> None:
        if old.producer.op_type == "Data" and scope.depth == 0:
            name = f"{old.name}_next"
            named = scope.graph.append("Identity", [new], name=f"{name}/Identity", outputs=(name,))
            named.sources = (item.name,) if item.name else ()
            self._inference.infer(named)
            self._updated.append((old, named.output))
        elif old.producer.is_source:
            kind = "a constant" if old.producer.op_type == "Const" else "a value of the graph around"
            what = f'{item.op_type} changes "{old.name}" in place, {kind}'
            self.problems.append(
                Unsupported("E10055", what, where=location_of(item, scope.path), hint="make it an input")
            )

    def _find_op(self, item: Item, scope: _Scope) -> _Op:
        op_type, domain = item.op_type, "" if item.domain == "ai.onnx" else item.domain
        opset = scope.opsets.get(domain)
        custom = self._custom.find(domain, op_type)
        if item.domain or custom is not None or extra_rule(op_type, domain) is not None:
            self._is_plain = False
        if custom is not None:
            return _Op(custom_rule(custom), opset or 0, custom.node_domain, must_change=False)
        rule = find_rule(op_type, domain, opset)
        if isinstance(rule, AtcError):
            unknown = isinstance(rule, Unsupported) and rule.code == "E19010" and self._recorder is not None
            error = None if unknown else rule
            return _Op(FREE, opset or 0, domain, must_change=False, error=error, unknown=unknown)
        must_change = not rule.is_free and needs_upgrade(op_key(op_type, domain), opset or 0)
        return _Op(rule, opset or 0, domain, must_change, find_signed(op_type, domain))

    def _find_inputs(self, item: Item, scope: _Scope) -> list[Value | None]:
        names = item.inputs
        while names and not names[-1]:
            names = names[:-1]
        known = scope.values
        values: list[Value | None] = []
        for index, name in enumerate(names):
            value = known.get(name)
            if value is None and name:
                value = self._find(name, scope, None, item, index)
            values.append(value)
        while values and values[-1] is None:
            values.pop()
        return values

    def _find(
        self, name: str, scope: _Scope, where: Where | None, item: Item | None = None, index: int = 0
    ) -> Value | None:
        """The value of a name: in this scope, or in those around it."""
        around: _Scope | None = scope
        while around is not None:
            if name in around.values:
                return around.values[name]
            if name in around.constants:
                return self._make_constant(name, around)
            if name in around.gone:
                break
            around = around.parent
        if where is None:
            assert item is not None
            at = location_of(item, scope.path)
            where = Where(
                graph=at.graph, node=at.node, index=at.index, op=at.op, domain=at.domain, input=index, value=name
            )
        if around is not None:
            what, hint = f'"{name}" cannot be had: {around.gone[name]}', "export the model for inference"
            self.problems.append(Unsupported("E10055", what, where=where, hint=hint))
        else:
            hint = did_you_mean(name, [*scope.values, *scope.constants]) or "is this a part cut out of a model?"
            self.problems.append(ModelInvalid("E12009", f'nothing makes the value "{name}"', where=where, hint=hint))
        # Reported once: later readers get a value that stands for it.
        scope.values[name] = scope.graph.append("Data", name=name).output
        return scope.values[name]

    def _make_constant(self, name: str, scope: _Scope) -> Value | None:
        """Create the Const of an initializer when it is first read, in front of all ops: a body may read it later."""
        tensor = self._read_stored(scope.constants[name], scope, name)
        if tensor is None:
            scope.values[name] = scope.graph.append("Data", name=name).output
            return scope.values[name]
        value = self._add_const(tensor, scope.final_name(name), scope, before=self._first_ops.get(scope.graph))
        scope.values[name] = value
        return value

    def _read_stored(self, constant: _Constant, scope: _Scope, name: str) -> Tensor | None:
        """Return the tensor of an initializer; None if it cannot be read, which is reported."""
        try:
            if not isinstance(constant.proto, onnx.TensorProto):
                return read_sparse(constant.proto, self._external, scope.where)
            tensor = read_tensor(constant.proto, self._external, scope.where, inline=constant.inline)
        except AtcError as error:
            self.problems.append(error.located(value=name))
            return None
        if self._recorder is not None:
            self._recorder.constant(tensor, constant.proto, constant.inline)
        return tensor

    def _add_const(self, tensor: Tensor, name: str, scope: _Scope, *, before: Node | None) -> Value:
        # Ops keep the model's names: a constant of the same name gets another.
        node_name = f"{name}.const" if name in self._node_outputs else name
        node = scope.graph.append("Const", (), {"value": tensor}, name=node_name, outputs=(name,), before=before)
        node.output.desc = TensorDesc.plain(tensor.dtype, tensor.shape)
        return node.output

    def _read_constant(self, item: Item, scope: _Scope, attrs: dict[str, object]) -> None:
        """Constant(value…) → Const."""
        name = item.outputs[0] if item.outputs else ""
        tensor = _constant_value(attrs)
        if tensor is None or len(attrs) != 1:
            what = "Constant: exactly one value must be given"
            self.problems.append(ModelInvalid("E13014", what, where=location_of(item, scope.path)))
            scope.values[name] = scope.graph.append("Data", name=name).output
            return
        value = self._add_const(tensor, scope.final_name(name), scope, before=None)
        value.producer.sources = (scope.prefix + (item.name or name),)
        scope.values[name] = value

    # --- attributes --------------------------------------------------------------------------

    def _read_attrs(self, item: Item, scope: _Scope, rule: OpRule, inputs: int, outputs: int) -> dict[str, object]:
        fits = rule.inputs[0] <= inputs <= rule.inputs[1] and rule.outputs[0] <= outputs <= rule.outputs[1]
        protos: Sequence[onnx.AttributeProto] = item.attrs
        if fits and not protos and not rule.required:
            return {}
        has_names = not scope.bindings and not any(attr.ref_attr_name for attr in protos)
        if not has_names:
            protos = self._bound(item, scope)
        attrs: dict[str, object] = {}
        known, is_free = rule.attrs, rule.is_free
        for attr in protos:
            name, kind = attr.name, attr.type
            if not (has_names and name in known) and not are_texts((name, attr.ref_attr_name)):
                self.problems.append(not_text("the name of an attribute", location_of(item, scope.path)))
                continue
            name = intern(name)
            fits = fits and (known.get(name) == kind or is_free) and name not in attrs
            if not is_free and known.get(name) != kind:
                continue  # check_node reports it: nobody is to meet a value of another type
            fits = fits and (name not in rule.values or value_of(attr) in rule.values[name])
            if kind in (_GRAPH, _GRAPHS):
                attrs[name] = None  # keeps the attribute's position; the graphs are queued when the node is there
                continue
            plain = PLAIN.get(kind)
            if plain is not None:
                attrs[name] = plain(attr)
                continue
            try:
                attrs[name] = read_attribute(attr, self._external, location_of(item, scope.path))
            except AtcError as error:
                self.problems.append(error)
        if not (fits and all(required in attrs for required in rule.required)):
            bound = onnx.NodeProto(op_type=item.op_type)
            bound.attribute.extend(protos)
            self.problems.extend(check_node(bound, rule, inputs, outputs, location_of(item, scope.path)))
        return attrs

    def _bound(self, item: Item, scope: _Scope) -> list[onnx.AttributeProto]:
        """Return the attributes of a node of a function, with the values that the call gives."""
        found: list[onnx.AttributeProto] = []
        for attr in item.attrs:
            if not attr.ref_attr_name or not are_texts((attr.name, attr.ref_attr_name)):
                found.append(attr)
            elif attr.ref_attr_name in scope.bindings:
                bound = onnx.AttributeProto()
                bound.CopyFrom(scope.bindings[attr.ref_attr_name])
                bound.name = attr.name
                found.append(bound)
            elif not scope.prefix:
                what = f"{item.op_type}: attribute {attr.name} refers to one of a function, outside of any"
                self.problems.append(ModelInvalid("E13014", what, where=location_of(item, scope.path)))
        return found

    def _queue_bodies(self, node: Node, item: Item, scope: _Scope) -> None:
        protos = self._bound(item, scope) if scope.bindings else item.attrs
        for attr in protos:
            if attr.type == _GRAPH:
                node.attrs[attr.name] = self._queue_body(attr.g, f"{node.name}/{attr.name}", attr.name, scope)
            elif attr.type == _GRAPHS:
                node.attrs[attr.name] = tuple(
                    self._queue_body(graph, f"{node.name}/{attr.name}.{index}", f"{attr.name}.{index}", scope)
                    for index, graph in enumerate(attr.graphs)
                )

    def _queue_body(self, proto: onnx.GraphProto, name: str, step: str, scope: _Scope) -> Graph:
        graph = Graph(name, names=scope.graph.names)
        self._bodies.append(_Body(graph, proto, scope, f"{scope.path}/{step}", scope.depth + 1))
        self._has_bodies = True
        return graph

    # --- functions ---------------------------------------------------------------------------

    def _call(self, item: Item, function: onnx.FunctionProto, caller: _Scope) -> _Frame:
        prefix = caller.prefix + (item.name or next(filter(None, item.outputs), function.name)) + "/"
        path = f"{caller.path}/{function.name}"
        inputs = self._find_inputs(item, caller)
        for word, count, possible in (
            ("takes", len(inputs), len(function.input)),
            ("returns", len(item.outputs), len(function.output)),
        ):
            if count > possible:
                what = f"{function.name}: the function {word} {possible} values, the node has {count}"
                self.problems.append(ModelInvalid("E13014", what, where=location_of(item, caller.path)))
        bindings = {attr.name: attr for attr in function.attribute_proto}
        bindings.update((attr.name, attr) for attr in self._bound(item, caller))
        opsets = {**caller.opsets, **self._read_opsets(function.opset_import, f"function {function.name}")}
        outputs = zip(function.output, item.outputs, strict=False)
        values: list[Value | None] = [*inputs, *[None] * len(function.input)]
        scope = _Scope(
            caller.graph,
            opsets,
            path,
            depth=caller.depth,
            prefix=prefix,
            bindings=bindings,
            renames={formal: caller.final_name(name) for formal, name in outputs if name},
            values=dict(zip(function.input, values, strict=False)),
        )
        items = ordered_items(function.node, path, self.problems)
        return _Frame(iter(items), scope, function, item, caller)

    def _return(self, frame: _Frame) -> None:
        """Gives the caller the results of a function; one that it only passed on gets its name by an Identity."""
        if frame.function is None or frame.call is None or frame.caller is None:
            return
        scope, graph = frame.scope, frame.scope.graph
        for formal, name in zip(frame.function.output, frame.call.outputs, strict=False):
            if not name:
                continue
            value = self._find(formal, scope, Where(graph=scope.path, value=formal))
            if value is not None and value.name != scope.final_name(formal):
                node = graph.append(
                    "Identity", [value], name=f"{scope.prefix}Identity", outputs=(scope.final_name(formal),)
                )
                node.sources = (scope.prefix.removesuffix("/"),)
                self._inference.infer(node)
                value = node.output
            frame.caller.values[name] = value

    # --- the model ---------------------------------------------------------------------------

    def _read_opsets(self, entries: Iterable[onnx.OperatorSetIdProto], owner: str) -> dict[str, int]:
        versions: dict[str, list[int]] = {}
        for entry in entries:
            domain = "" if entry.domain == "ai.onnx" else as_text(entry.domain)
            versions.setdefault(domain, []).append(entry.version)
        for domain, opsets in versions.items():
            if len(set(opsets)) > 1:
                listed = ", ".join(map(str, opsets))
                what = f'{owner} gives the opset of domain "{domain or "ai.onnx"}" {len(opsets)} times: {listed}'
                self.problems.append(ModelInvalid("E16005", what, hint="keep one opset_import of each domain"))
        return {domain: opsets[-1] for domain, opsets in versions.items()}

    def _report(self, error: AtcError, item: Item, scope: _Scope) -> None:
        """A cause that many nodes may share, with the location of this one."""
        where = location_of(item, scope.path)
        self.problems.append(type(error)(error.code, error.what, where=where, why=error.why, hint=error.hint))

    def _warnings(self) -> Iterator[AtcWarning]:
        shared = [(name, count) for name, count in self._seen_names.items() if count > 1]
        if shared:
            listed = ", ".join(f'"{name}" ({count})' for name, count in shared[:3])
            more = f" and {len(shared) - 3} more" if len(shared) > 3 else ""
            yield AtcWarning("W0007", f"several nodes have the same name and got numbers: {listed}{more}")


def _may_be(shape: Shape, declared: Shape | None) -> bool:
    """Whether a shape is one of those that an input declares."""
    return declared is None or (
        len(shape) == len(declared)
        and all(not isinstance(dim, int) or dim == size for size, dim in zip(shape, declared, strict=True))
    )


def _is_untyped(proto: onnx.TypeProto) -> bool:
    """Whether a type says nothing, or leaves the element type of a tensor open."""
    kind = proto.WhichOneof("value")
    return kind is None or (kind == "tensor_type" and proto.tensor_type.elem_type == onnx.TensorProto.UNDEFINED)


def _own_names(graph: onnx.GraphProto) -> Iterator[object]:
    for info in (*graph.input, *graph.output):
        yield info.name
        yield from (dim.dim_param for dim in info.type.tensor_type.shape.dim)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)


def _constant_value(attrs: dict[str, object]) -> Tensor | None:
    for name, value in attrs.items():
        if isinstance(value, Tensor):
            return value
        if name in _CONSTANT_LISTS:
            return Tensor.of(value, DType[_CONSTANT_LISTS[name]])  # type: ignore[arg-type]
        if name in ("value_string", "value_strings"):
            return Tensor.of(value, DType.STRING)  # type: ignore[arg-type]
    return None

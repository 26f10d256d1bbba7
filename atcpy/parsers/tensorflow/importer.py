"""A TensorFlow graph → ir.Graph, by one mapping function a node. All problems are reported at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from atcpy.errors import AtcError, InternalError, ModelInvalid, ResourceLimit, Unsupported, Where, raise_all
from atcpy.ir import DType, Graph, Node, Sym, Tensor, TensorDesc, Value
from atcpy.ir.inferred import Inferred
from atcpy.ir.shape import Shape, fits_limits
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.reference import EVALUATION_ERRORS
from atcpy.parsers.tensorflow import ops as _registers_the_mappings  # noqa: F401
from atcpy.parsers.tensorflow.advice import find_alternative, find_ways_around
from atcpy.parsers.tensorflow.functions import MAX_NODES, Library, function_name, inline_calls
from atcpy.parsers.tensorflow.graph import ARGUMENT, Ref, TfGraph, TfNode
from atcpy.parsers.tensorflow.op import COMPLEX, COMPLEX_PARTS, MAPPINGS, MappingFunction, OpBuilder
from atcpy.parsers.tensorflow.ops.dropout import is_random, of_random, refusal
from atcpy.parsers.tensorflow.patterns import recognized
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import NameAttrList, TensorProto, TensorShapeProto
from atcpy.parsers.tensorflow.signatures import Signature, is_of_kind, plain_attr, registry
from atcpy.parsers.tensorflow.tables import Table, Tables
from atcpy.parsers.tensorflow.tensors import find_dtype, read_shape, read_tensor, type_name
from atcpy.parsers.tensorflow.variables import Variables

MAX_NESTING = 64
PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})
DEFAULT = "default"  # the attribute of an input that holds what it is unless it is fed


@dataclass(slots=True)
class _Scope:
    """One graph while it is read: the values of references, the nodes that were visited, those of them that failed with
    an error that is reported already, and the outputs that are read.
    """

    graph: Graph
    path: str
    depth: int = 0
    values: dict[Ref, Value] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    read: set[Ref] = field(default_factory=set)


class Importer:
    """Reads graphs into the IR; `problems` collects their errors."""

    def __init__(self, library: Library, variables: Variables, tables: Tables) -> None:
        self.problems: list[AtcError] = []
        self.lists: dict[Value, DType] = {}
        self.growing: set[Value] = set()
        self.imaginary: dict[Value, Value] = {}
        self.random: dict[Value, tuple[float, float]] = {}
        self.devices: dict[Hashable, str] = {}
        self._library = library
        self._variables = variables
        self._tables = tables
        self.tables: list[Table] = []
        self._inferred = Inferred()
        self._known = KnownValues(self._inferred.elements)
        self._depth = 0
        self._node_count = 0
        self._unknown: dict[str, list[str]] = {}
        self._text_inputs: list[str] = []

    def read_inputs(self, inputs: Mapping[str, TfNode], graph: Graph) -> dict[str, Value]:
        """Create the inputs of the main graph; return them by the names that users know them by."""
        values: dict[str, Value] = {}
        for index, (name, node) in enumerate(inputs.items()):
            where = Where(node=node.name, op=node.op)
            number = node.attrs.get("dtype")
            dtype = find_dtype(number) if isinstance(number, int) else None
            if dtype is None:
                what = f"an input of type {type_name(number) if isinstance(number, int) else 'unknown'}"
                self.problems.append(Unsupported("E10055", what, where=where))
                dtype = DType.FLOAT32
            if dtype is DType.STRING:
                self._text_inputs.append(f'"{name}"')
            data = graph.append("Data", (), {"index": index}, name=name, outputs=(name,))
            shape = self._input_shape(name, node, where)
            if isinstance(proto := node.attrs.get(DEFAULT), TensorProto):
                default = data.attrs[DEFAULT] = read_tensor(proto, where)
                shape = default.shape if shape is None else shape
            data.output.desc = TensorDesc.plain(dtype, shape)
            values[name] = data.output
        return values

    def _input_shape(self, name: str, node: TfNode, where: Where) -> Shape | None:
        proto = node.attrs.get("shape")
        sizes = read_shape(proto) if isinstance(proto, TensorShapeProto) else None
        if sizes is None:
            return None
        shape = tuple(size if size >= 0 else Sym(f"{name}.{axis}") for axis, size in enumerate(sizes))
        if not fits_limits(shape) or any(size < -1 for size in sizes):
            self.problems.append(ModelInvalid("E13014", f"the input has the shape {list(sizes)}", where=where))
        return shape

    def read_main(self, nodes: TfGraph, values: Mapping[Ref, Value], graph: Graph) -> list[Value | None]:
        """Read the main graph, some of whose nodes have values already; return its outputs."""
        scope = _Scope(graph, graph.name, values=dict(values))
        self._read(nodes, scope)
        if self._unknown:
            self.problems.insert(0, self._unknown_ops())
        results = [scope.values.get(ref) for ref in nodes.outputs]
        for ref, value in zip(nodes.outputs, results, strict=True):
            if value in self.imaginary:
                what = f'the output "{ref.node}:{ref.output}" is complex'
                hint = "take its real and its imaginary part: --out_nodes"
                self.problems.append(Unsupported("E10055", what, where=Where(node=ref.node), hint=hint))
            if value in self.random:
                what = f'the output "{ref.node}:{ref.output}" is a random number'
                self.problems.append(Unsupported("E10055", what, where=Where(node=ref.node)))
        return results

    def inferred(self, graph: Graph) -> Inferred:
        """Return the types inferred in the main graph. Those in bodies hold for what the importer fed the bodies with;
        prepare infers them again.
        """
        elements = {value: known for value, known in self._inferred.elements.items() if value.producer.graph is graph}
        return Inferred(elements, {node: read for node, read in self._inferred.nodes.items() if node.graph is graph})

    # --- what mapping functions ask for --------------------------------------------------------

    def infer(self, node: Node) -> None:
        """Set the types of the outputs of a new node, and record them for prepare."""
        infer_node(node, self._known)
        self._inferred.nodes[node] = node.inputs

    def variable(self, node: TfNode, where: Where) -> Tensor:
        """The content of a variable."""
        return self._variables.find(node, where)

    def find_table(self, node: TfNode, where: Where) -> Table:
        """The content of a lookup table."""
        return self._tables.find(node, where)

    def read_body(
        self, b: OpBuilder, label: str, body: TfGraph, graph: Graph, arguments: Sequence[Value]
    ) -> list[Value]:
        """Reads a graph that a node of control flow runs."""
        if self._depth >= MAX_NESTING:
            raise ResourceLimit("R0001", f"graphs are nested more than {MAX_NESTING} deep", where=b.where)
        if len(body.inputs) != len(arguments):
            what = f"{label} takes {len(body.inputs)} values, not {len(arguments)}"
            raise ModelInvalid("E12009", what, where=b.where)
        values = {Ref(name, 0): value for name, value in zip(body.inputs, arguments, strict=True)}
        before = len(self.problems) + len(self._unknown)
        self._depth += 1
        scope = _Scope(graph, f"{b.graph.name}/{label}", self._depth, values)
        self._read(body, scope)
        self._depth -= 1
        results = [scope.values.get(ref) for ref in body.outputs]
        found = [value for value in results if value is not None]
        if len(found) < len(results):
            if len(self.problems) + len(self._unknown) == before:
                raise ModelInvalid("E12009", f"{label} returns a value that no node of it has", where=b.where)
            raise _AlreadyReported
        if any(value in self.imaginary for value in found):
            raise b.unsupported(f"complex numbers that {label} returns")
        if any(value in self.random for value in found if value not in arguments):
            raise refusal(b)
        return found

    def find_body(self, b: OpBuilder, function: object) -> TfGraph:
        """The graph of a function that an attribute names, its calls put in place, in order."""
        if not isinstance(function, NameAttrList):
            raise b.invalid("it names no function to run")
        bindings = {key: plain_attr(value) for key, value in function.attr.items()}
        body = self._library.body(function_name(function), b.node.called, bindings, b.where)
        problems: list[AtcError] = []
        flat = recognized(inline_calls(body, self._library), problems)
        raise_all(problems)
        return flat

    # --- nodes -----------------------------------------------------------------------------------

    def _read(self, nodes: TfGraph, scope: _Scope) -> None:
        self._node_count += len(nodes.nodes)
        if self._node_count > MAX_NODES:
            what = f"the model has more than {MAX_NODES} nodes, those of its loops and branches counted"
            hint = "take a part of the model: --out_nodes"
            raise ResourceLimit("R0001", what, where=Where(graph=scope.path), hint=hint)
        scope.read = {ref for node in nodes.nodes.values() for ref in node.inputs}.union(nodes.outputs)
        for node in nodes.nodes.values():
            scope.done.add(node.name)
            if Ref(node.name, 0) in scope.values or node.op == ARGUMENT:
                continue
            rule = MAPPINGS.get(node.op)
            if rule is None:
                self._unknown.setdefault(node.op, []).append(node.name)
                scope.failed.add(node.name)
            elif any(ref.node in scope.failed or ref not in scope.values for ref in node.inputs):
                self._fail(node, scope, nodes.nodes)
            else:
                self._read_node(node, scope)

    def _fail(self, node: TfNode, scope: _Scope, nodes: Mapping[str, TfNode]) -> None:
        """Report a node that reads what has no value: an output that the other node does not have, or a cycle."""
        where = Where(graph=scope.path, node=node.name, op=node.op)
        for ref in node.inputs:
            if ref.node in scope.failed or ref in scope.values:
                continue
            if ref.node not in scope.done or ref.node == node.name:  # nodes come after what they read, but in cycles
                what = f'it reads "{ref.node}", which needs it: a cycle, but no loop'
                self.problems.append(ModelInvalid("E13014", what, where=where))
                continue
            op = nodes[ref.node].op if ref.node in nodes else ""
            signature = self._library.signature(op)
            what = f'it reads output {ref.output} of "{ref.node}"' + (f" ({op})" if op else "")
            if signature is not None and signature.output_count is not None and ref.output >= signature.output_count:
                what += f", which has {signature.output_count}"
                self.problems.append(ModelInvalid("E12009", what, where=where))
            else:
                self.problems.append(Unsupported("E10055", f"{what}, which is not converted", where=where))
        scope.failed.add(node.name)

    def _read_node(self, node: TfNode, scope: _Scope) -> None:
        signature = self._library.signature(node.op)
        defaults = signature.defaults if signature is not None else {}
        if signature is not None and (problem := _misfit(node, signature)) is not None:
            self.problems.append(problem.located(graph=scope.path))
            scope.failed.add(node.name)
            return
        inputs = [scope.values[ref] for ref in node.inputs]
        b = OpBuilder(node, inputs, scope.graph, self._known, defaults, self, scope.read)
        try:
            results = self._mapping(b)(b)
        except AtcError as error:
            self.problems.append(error.located(graph=scope.path, node=node.name, op=node.op))
            scope.failed.add(node.name)
            return
        except _AlreadyReported:
            scope.failed.add(node.name)
            return
        except EVALUATION_ERRORS as error:
            raise InternalError(f"{type(error).__name__}: {error}", where=b.where) from error
        for index, value in enumerate([results] if isinstance(results, Value) else results):
            if value is not None:
                scope.values[Ref(node.name, index)] = value
                self._name(value, b, index)

    def _mapping(self, b: OpBuilder) -> MappingFunction:
        """The mapping function of a node, which depends on whether its inputs are complex or random."""
        if is_random(b):
            return of_random
        if not any(value in self.imaginary for value in b.inputs):
            function = MAPPINGS[b.node.op].function
        else:
            function = COMPLEX.get(b.node.op, _refuse_complex)
        return _refuse_complex if any(value.desc.dtype in COMPLEX_PARTS for value in b.inputs) else function

    def _name(self, value: Value, b: OpBuilder, index: int) -> None:
        """Give an output of a node, and the op that computes it, the name of the node."""
        producer = value.producer
        if producer.sources == (b.node.name,) and value not in b.inputs:
            names = b.graph.names
            if producer.name.startswith(f"{b.node.name}/"):
                producer.name = names.fresh_node(b.node.name)
            value.name = names.fresh_value(f"{b.node.name}:{index}")

    def _unknown_ops(self) -> Unsupported:
        counts = Counter({op: len(names) for op, names in self._unknown.items()})
        parts: list[str] = []
        alternatives: dict[str, str] = {}
        for op, count in counts.most_common():
            alternative = alternatives[op] = find_alternative(op, MAPPINGS, registry())
            there = f"; there is {alternative}" if alternative else ""
            parts.append(f'{op} ({count}, as "{self._unknown[op][0]}"{there})')
        what = f"{len(counts)} operators of TensorFlow cannot be converted: " + ", ".join(parts)
        if self._text_inputs:
            what += f"; the input {self._text_inputs[0]} is text, which no operator takes apart"
        first = next(iter(self._unknown.values()))[0]
        ways = find_ways_around(op for op, alternative in alternatives.items() if not alternative)
        hint = "; ".join([*ways, "docs/operators-tensorflow.md lists those that can"])
        return Unsupported("E19010", what, where=Where(node=first), hint=hint)


def _refuse_complex(b: OpBuilder) -> NoReturn:
    raise b.unsupported("complex numbers")


class _AlreadyReported(Exception):
    """An input of a node failed with an error that is among the problems."""


def _misfit(node: TfNode, signature: Signature) -> ModelInvalid | None:
    """What a node has against the signature of its op: other numbers of inputs, or attributes of another kind."""
    count, limit = len(node.inputs), signature.max_inputs
    where = Where(node=node.name, op=node.op)
    if count < signature.min_inputs or (limit is not None and count > limit):
        what = f"it has {count} inputs, {limit or signature.min_inputs} are needed"
        return ModelInvalid("E12009", what, where=where)
    if node.proto is None or node.proto.op != node.op:
        return None
    wrong = [name for name, value in node.proto.attr.items() if not is_of_kind(value, signature.kinds.get(name, ""))]
    if not wrong:
        return None
    return ModelInvalid("E13014", f"attribute {wrong[0]} is no {signature.kinds[wrong[0]]}", where=where)

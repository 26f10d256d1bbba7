"""Give nodes, inputs and outputs the types that the precision mode and the user ask for.

y = op(x), of float32          →  y = Cast(op(Cast(x, float16)), float32)
Cast(Cast(a, float32), float16), made here  →  a: between two such nodes there is no Cast
op(x, constant)                →  op(Cast(x, float16), constant of float16)
y = MatMul(a, b), cube_fp16in_fp32out       →  y = MatMul(Cast(Cast(a, float16), float32), …)

A node is lowered if the mode and the lists say so, and the standard has its op for the type. Graphs inside If, Loop and
Scan, nodes beside quantised ones, arithmetic on shapes and users' operators keep their types.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from atcpy.aipp.config import AIPP
from atcpy.errors import AtcError, Unsupported, UsageError, Where, did_you_mean
from atcpy.ir import DType, Graph, Node, PassRecord, Reject, Tensor, TensorDesc, Value, walk
from atcpy.ir.decisions import Precision
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.ops.core.infer import KnownValues
from atcpy.ops.core.reference import find_schema, infer_by_onnx, type_name, type_problem
from atcpy.ops.move.transpose import permutation
from atcpy.options import OoLevel, PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.casts import PRECISION_MODE, Casts, graph_of
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.precision.choice import Choice, names_of
from atcpy.precision_options import CustomDtypes, PrecisionMode, PrecisionOptions

NAME = PRECISION_MODE
_SPACING = (DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
_NO_NUMBERS = frozenset({DType.UNDEFINED, DType.STRING, DType.COMPLEX64, DType.COMPLEX128})
_FLOATS = {"float16": DType.FLOAT16, "bfloat16": DType.BFLOAT16, "float32": DType.FLOAT32}


@graph_pass(NAME, Phase.PRECISION_MODE, level=OoLevel.O0, is_neutral=False, required=True)
def set_types(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Let nodes compute in the type of the precision mode."""
    if not options.precision.changes_nothing:
        _Lowering(graph, record, options.precision).run()


class _Lowering:
    """The nodes of one graph, and in which types their values are at hand."""

    def __init__(self, graph: Graph, record: PassRecord, options: PrecisionOptions) -> None:
        self._graph = graph
        self._record = record
        self._options = options
        self._target = None if options.mode.keeps_all else DType[options.mode.dtype.upper()]
        self._choice = Choice(graph, options)
        self._casts: dict[DType, Casts] = {}
        self._lowered: list[str] = []
        self._kept: list[str] = []
        self._clipped: dict[str, None] = {}
        # Of values that depend on nodes of another type: the coarsest of their types.
        self._behind: dict[Value, DType] = {}

    def run(self) -> None:
        """Change the graph, and note what was changed."""
        self._set_inputs()
        for node in self._graph.nodes:
            if node.is_structural:
                continue
            inherited = [self._behind[value] for value in _read_by(node) if value in self._behind]
            if not (node.passes == (NAME,) and node.op_type == "Cast"):
                self._set_node(node)
            for dtype in inherited:
                self._mark(node, dtype)
        outputs, cast = self._set_outputs()
        for casts in self._casts.values():
            casts.drop_unread()
        self._graph.decisions.precision = Precision(
            mode=self._options.mode.value,
            lowered=tuple(dict.fromkeys(self._lowered)),
            kept=tuple(dict.fromkeys(self._kept)),
            outputs=outputs,
            float16_inputs=self._options.fp16_inputs,
            cast_outputs=tuple(cast),
            clipped=tuple(self._clipped),
        )

    def _to(self, dtype: DType) -> Casts:
        if dtype not in self._casts:
            self._casts[dtype] = Casts(NAME, dtype, lambda value: self._constant(value, dtype))
        return self._casts[dtype]

    def _mark(self, node: Node, dtype: DType) -> None:
        """Note that the results of a node are no more exact than a type."""
        for value in node.outputs:
            self._behind[value] = _coarser(self._behind.get(value, dtype), dtype)

    def _constant(self, value: Value, dtype: DType) -> Tensor | None:
        """A constant, transposed or not, in another float type; numbers beyond its range become the largest ones of
        it.
        """
        if not (dtype.is_float and value.desc.dtype.is_float):
            return None  # the fold of Cast rounds as its kernel does
        original = _constant_array(value)
        if original is None:
            return None
        with np.errstate(over="ignore"):
            array = original.astype(dtype.numpy)
        beyond = np.isinf(array)
        if beyond.any() and (beyond := beyond & np.isfinite(original)).any():
            self._clipped[value.name] = None
            if self._options.clip_weights:
                import ml_dtypes

                largest = ml_dtypes.finfo(dtype.numpy).max  # type: ignore[no-untyped-call]
                array[beyond] = np.copysign(largest, array[beyond])
        return Tensor.of(array, dtype)

    # --- nodes --------------------------------------------------------------------------------

    def _set_node(self, node: Node) -> None:
        custom = self._choice.customized(node)
        if custom is not None:
            self._customize(node, custom)
        elif self._target is not None:
            if self._options.mode is PrecisionMode.FP32 and node.op_type == "Cast":
                if not self._choice.is_kept(node):
                    self._raise_cast(node)
            elif self._choice.is_candidate(node):
                self._lower(node, self._target)

    def _lower(self, node: Node, target: DType) -> None:
        from_dtypes = HALF_DTYPES if target is DType.FLOAT32 else frozenset({DType.FLOAT32})
        reads = _float_inputs(node, from_dtypes, target)
        if not all(any(v.desc.dtype in from_dtypes for v in side) for side in (node.operands, node.outputs)):
            return
        casts = self._to(target)
        computed = [value for value in reads if value.tensor is None]
        rejects = list(self._choice.rejects(node, [value in casts for value in computed]))
        results = _results(node, reads, target) if reads and not rejects else None
        if not rejects and results is None:
            rejects = [Reject("no-such-type", node.name, f"{node.op_type} {target.long}")]
        if any(reject.reason in ("kept-by-user", "on-black-list") for reject in rejects):
            self._kept += names_of(node)
        if self._record.accept((node,), *rejects):
            self._lowered += names_of(node)
            if self._options.mode is PrecisionMode.CUBE_FP16IN_FP32OUT:
                self._round_inputs(node, reads, casts)
            else:
                assert results is not None
                self._retype(node, reads, results, casts)

    def _retype(self, node: Node, reads: frozenset[Value], results: Sequence[TensorDesc], casts: Casts) -> None:
        own = functools.reduce(_coarser, (value.desc.dtype for value in reads), casts.dtype)
        for index, value in enumerate(node.inputs):
            if value in reads:
                assert value is not None
                graph_of(node).set_input(node, index, casts.converted(value))
        for value, desc in zip(node.outputs, results, strict=True):
            if value.desc.dtype is not desc.dtype:
                casts.retype(value, desc)
        node.passes = (*node.passes, NAME)
        self._mark(node, own)

    def _round_inputs(self, node: Node, reads: frozenset[Value], casts: Casts) -> None:
        for index, value in enumerate(node.inputs):
            if value in reads:
                assert value is not None
                rounded = self._to(value.desc.dtype).converted(casts.converted(value))
                graph_of(node).set_input(node, index, rounded)
        node.passes = (*node.passes, NAME)
        self._mark(node, casts.dtype)

    def _raise_cast(self, node: Node) -> None:
        """A Cast to 16 bits rounds no more where all is float32, and one of a raised value reads it as it is."""
        if (wide := self._to(DType.FLOAT32).find(node.operand(0))) is not None:
            graph_of(node).set_input(node, 0, wide)
        if (half := node.output.desc.dtype) in HALF_DTYPES and self._record.accept((node,)):
            self._mark(node, half)
            node.attrs["to"] = DType.FLOAT32.onnx
            self._to(DType.FLOAT32).retype(node.output, replace(node.output.desc, dtype=DType.FLOAT32))

    def _customize(self, node: Node, custom: CustomDtypes) -> None:
        """Give a node the types that the user lists: all floats that it reads are of one type, its results of any."""
        if len(custom.inputs) != len(node.operands) or len(custom.outputs) != len(node.outputs):
            what = (
                f"--customize_dtypes: {custom.entry} lists {len(custom.inputs)} inputs and {len(custom.outputs)} "
                f"outputs, {node.op_type} {names_of(node)[0]} has {len(node.operands)} and {len(node.outputs)}"
            )
            raise UsageError("E10001", what, where=node.where)
        reads = frozenset(value for value in node.operands if value.desc.dtype in _FLOATS.values())
        own = {name for value, name in zip(node.operands, custom.inputs, strict=True) if value in reads}
        others = [
            value.name
            for value, name in zip((*node.operands, *node.outputs), (*custom.inputs, *custom.outputs), strict=True)
            if (value.desc.dtype in _FLOATS.values()) != (name in _FLOATS)
            or (name not in _FLOATS and name != value.desc.dtype.long)
        ]
        target = _FLOATS.get(next(iter(own), ""), DType.FLOAT32)
        results: list[TensorDesc] | None = None
        changed = frozenset(value for value in reads if value.desc.dtype is not target)
        if len(own) <= 1 and not others:
            results = _results(node, changed, target) if changed else [value.desc for value in node.outputs]
        if results is None:
            listed = ", ".join(custom.inputs) + " → " + ", ".join(custom.outputs)
            what = f"--customize_dtypes: {node.op_type} cannot compute {listed}"
            raise Unsupported("E10055", what, where=node.where, hint="one type for all floats that a node reads")
        if changed:
            self._retype(node, changed, results, self._to(target))
        rounded = [
            (value, self._to(_FLOATS[name]))
            for value, name in zip(node.outputs, custom.outputs, strict=True)
            if name in _FLOATS and _FLOATS[name] is not value.desc.dtype and _FLOATS[name] in HALF_DTYPES
        ]
        for value, narrow in rounded:
            self._behind[value] = _coarser(narrow.dtype, self._behind.get(value, narrow.dtype))
            self._round_output(value, narrow)
        if changed or rounded:
            self._lowered += names_of(node)
        else:
            self._kept += names_of(node)

    def _round_output(self, value: Value, narrow: Casts) -> None:
        """Let the readers of a value read it rounded to a type of 16 bits."""
        readers = value.uses
        rounded = narrow.converted(value)
        wide = self._to(value.desc.dtype).converted(rounded)
        narrow.stands_for(wide, rounded)
        for use in readers:
            if use.node is not rounded.producer:
                graph_of(use.node).set_input(use.node, use.input_index, wide)

    # --- inputs and outputs -------------------------------------------------------------------

    def _set_inputs(self) -> None:
        inputs = {node.output.name: node for node in self._graph.inputs}
        for name in self._options.fp16_inputs:
            value = inputs[name].output if name in inputs else None
            if value is None or value.desc.dtype is not DType.FLOAT32 or "default" in inputs[name].attrs:
                raise self._no_fp16_input(name, value, inputs)
            desc = replace(value.desc, dtype=DType.FLOAT16)
            self._to(DType.FLOAT16).retype(value, desc, keeps_name=True)

    def _no_fp16_input(self, name: str, value: Value | None, inputs: Mapping[str, Node]) -> AtcError:
        where = Where(option="input_fp16_nodes", value=name)
        listed = "the inputs are " + ", ".join(f'"{known}"' for known in list(inputs)[:10])
        if value is not None and AIPP in value.producer.attrs:
            what = f'--input_fp16_nodes: "{name}" takes pictures of bytes (--insert_op_conf)'
            return UsageError("E10034", what, where=where, hint="drop one")
        if value is not None and value.desc.dtype is DType.FLOAT16:
            return UsageError("E10001", f'--input_fp16_nodes: "{name}" is float16 already', where=where, hint="drop it")
        if value is not None:
            kind = "has a default" if "default" in value.producer.attrs else f"is {value.desc.dtype.long}, not float32"
            return UsageError("E10001", f'--input_fp16_nodes: "{name}" {kind}', where=where, hint="drop it")
        found = next((n for n in self._graph.nodes if name in (n.name, *n.sources) and not n.is_structural), None)
        if found is not None:
            what = f'--input_fp16_nodes: "{name}" is a {found.op_type}, not an input'
            return UsageError("E10017", what, where=where, hint=listed)
        hint = did_you_mean(name, inputs) or listed
        return UsageError("E10016", f'--input_fp16_nodes: no input "{name}" in the model', where=where, hint=hint)

    def _set_outputs(self) -> tuple[dict[str, str], list[str]]:
        """Give the outputs the types of --output_type. Returns those behind lowered values, with the type of these, and
        those that have another type now.
        """
        end, options = self._graph.net_output, self._options
        names = end.attrs.get("names") or tuple(value.name for value in self._graph.outputs)
        assert isinstance(names, tuple)
        by_entry = {item.entry: DType[item.dtype.upper()] for item in options.output_types}
        behind: dict[str, str] = {}
        cast: list[str] = []
        for index, value in enumerate(self._graph.outputs):
            entry = options.out_nodes[index] if index < len(options.out_nodes) else ""
            asked = by_entry.get(entry, by_entry.get(""))
            if value in self._behind and value.desc.dtype in _SPACING:
                behind[str(names[index])] = _coarser(value.desc.dtype, self._behind[value]).long
            if asked is not None and asked is not value.desc.dtype:
                if value.desc.dtype in _NO_NUMBERS:
                    what = f'--output_type: the output "{names[index]}" is no tensor of numbers'
                    hint = 'name the others: --out_nodes="node:0" --output_type="node:0:FP16"'
                    raise UsageError("E10001", what, where=Where(option="output_type"), hint=hint)
                self._graph.set_input(end, index, self._to(asked).converted(value))
                cast.append(str(names[index]))
        return behind, cast


def _constant_array(value: Value) -> Array | None:
    """The elements of a constant, or of a large one that others read as well, so that its transpose was not folded.
    The weights of an embedding are often those of the last product, too.
    """
    if value.tensor is not None:
        return value.array
    maker = value.producer
    if maker.op_type != "Transpose" or maker.operand(0).tensor is None:
        return None
    return maker.operand(0).array.transpose(permutation(maker, len(value.desc.static_shape)))


def _coarser(one: DType, other: DType) -> DType:
    """Of two float types the one whose numbers lie further apart."""
    return max(one, other, key=_SPACING.index)


def _read_by(node: Node) -> Iterator[Value]:
    """What a node reads, and what its bodies read of the graphs around them."""
    yield from node.operands
    for body in node.subgraphs:
        for inner in walk(body):
            yield from inner.operands


def _float_inputs(node: Node, from_dtypes: frozenset[DType], target: DType) -> frozenset[Value]:
    """The values that a node reads in one of these types, at inputs that take the other type, too."""
    schema = find_schema(node.op_type, node.domain)
    formals = [] if schema is None else [frozenset(formal.types) for formal in schema.inputs]
    return frozenset(
        value
        for index, value in enumerate(node.inputs)
        if value is not None and value.desc.dtype in from_dtypes
        if not formals or type_name(target) in formals[min(index, len(formals) - 1)]
    )


def _results(node: Node, reads: frozenset[Value], target: DType) -> list[TensorDesc] | None:
    """The types of the outputs of a node that reads values in another type; None if there is no such node."""
    dtypes = tuple(
        DType.UNDEFINED if value is None else target if value in reads else value.desc.dtype for value in node.inputs
    )
    if type_problem(node.op_type, node.domain, dtypes):
        return None
    opdef = find_opdef(node)
    with _as_type(node, reads, target):
        infer = infer_by_onnx if opdef is None or opdef.infer is None else opdef.infer
        try:
            inferred = [desc.dtype for desc in infer(node, KnownValues())]
        except AtcError:
            return None
    kept = [value.desc for value in node.outputs]
    if len(inferred) < len(kept) or DType.UNDEFINED in inferred:
        return None
    results = [replace(desc, dtype=dtype) for desc, dtype in zip(kept, inferred, strict=False)]
    # A node whose results stay as they are has the type in an attribute.
    changed = any(desc.dtype is not other.dtype for desc, other in zip(kept, results, strict=True))
    return results if changed else None


@contextmanager
def _as_type(node: Node, reads: frozenset[Value], target: DType) -> Iterator[None]:
    """Meanwhile these values, and the outputs of their type, are of another."""
    own = {value.desc.dtype for value in reads}
    changed = {value: value.desc for value in (*reads, *node.outputs) if value in reads or value.desc.dtype in own}
    for value, desc in changed.items():
        value.desc = replace(desc, dtype=target)
    try:
        yield
    finally:
        for value, desc in changed.items():
            value.desc = desc

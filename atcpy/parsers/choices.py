"""--input_shape, --input_format and --out_nodes: what the user asks of the model's inputs and outputs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from atcpy.errors import AtcError, UsageError, Where, did_you_mean
from atcpy.ir import Graph, Node, Sym, TensorDesc, Value
from atcpy.ir.shape import Dim, Shape, format_shape, is_static
from atcpy.options import ANY_SIZE, DimRange, InputDim, InputDims, ParseOptions


@dataclass(frozen=True, slots=True)
class NamedGraph:
    """A graph, and what the names of the model mean in it: the values, and those that each node makes."""

    graph: Graph
    values: Mapping[str, Value | None]
    node_outputs: Mapping[str, list[str]]


def set_input_shapes(graph: Graph, options: ParseOptions) -> list[AtcError]:
    """Give the inputs of a graph the shapes of --input_shape, before any node is inferred from them. Return what is
    wrong with these.
    """
    return list(_set_shapes(graph, options))


def check_inputs(imported: NamedGraph, options: ParseOptions) -> list[AtcError]:
    """Return the names of --input_shape that are no inputs, else the inputs that `static` finds open."""
    inputs = [node.output.name for node in imported.graph.inputs]
    problems: list[AtcError] = [_no_input(name, imported, inputs) for name in options.input_shape if name not in inputs]
    if options.static and options.gears is None and not problems:
        problems.extend(_open_inputs(imported))
    return problems


def input_layout(framework: str, options: ParseOptions) -> str:
    """What the user calls the layout of the inputs; the default is the framework's own."""
    return options.input_format or ("NCHW" if framework == "onnx" else "NHWC")


def choose_format(graph: Graph, framework: str, options: ParseOptions) -> None:
    """Notes on the inputs of four and five dims what the user calls their layout, for the package to say so; `ND` where
    a word does not fit the dims. The default is the framework's own; nothing is computed otherwise for it.
    """
    asked = input_layout(framework, options)
    if framework == "onnx" and asked in ("NHWC", "NDHWC"):
        what = f'--input_format: "{asked}" is no layout of an ONNX model, which is NCHW, ND or NCDHW'
        raise UsageError("E10001", what, where=Where(option="input_format"), hint="leave it out, or NCHW")
    for node in graph.inputs:
        shape = node.output.desc.shape
        if shape is not None:
            fitting = asked if len(asked) == len(shape) else "ND"
            if fitting != node.output.desc.format.kind.name:
                node.attrs["format"] = fitting


def choose_outputs(imported: NamedGraph, options: ParseOptions) -> list[AtcError]:
    """Sets the outputs that are asked for; returns what is wrong with them."""
    return list(_set_outputs(imported, options))


def _set_shapes(graph: Graph, options: ParseOptions) -> Iterator[AtcError]:
    inputs = {node.output.name: node for node in graph.inputs}
    fixed: dict[Sym, set[int]] = {}
    for name, dims in options.input_shape.items():
        node = inputs.get(name)
        if node is None:
            continue
        problem = _misfit(name, node.output.desc.shape, dims)
        if problem is not None:
            yield problem
            continue
        _set_shape(node, dims, fixed)
    # Sizes of one name are equal: what is fixed for one input is fixed for the others, where they agree.
    known = {symbol: next(iter(sizes)) for symbol, sizes in fixed.items() if len(sizes) == 1}
    for name, node in inputs.items():
        shape = node.output.desc.shape
        if name not in options.input_shape and shape is not None:
            node.output.desc = TensorDesc.plain(
                node.output.desc.dtype, tuple(known.get(dim, dim) if isinstance(dim, Sym) else dim for dim in shape)
            )
    if options.gears is not None:
        for name, node in inputs.items():
            yield from _misfits_of_gears(name, node.output.desc.shape, options)


def _misfits_of_gears(name: str, shape: Shape | None, options: ParseOptions) -> Iterator[AtcError]:
    """What an input with these sizes has against gears: one that is open and not listed, one that is not open."""
    where = Where(option="input_shape", value=name)
    dims = options.input_shape.get(name)
    if dims is None:
        if not is_static(shape):
            what = f'--input_shape must list the input "{name}" {format_shape(shape)}, too: it is open'
            yield UsageError("E10004", what, where=where)
        return
    for axis, (size, asked) in enumerate(zip(shape or (), dims, strict=False)):
        if asked == ANY_SIZE and isinstance(size, int):
            what = f"--input_shape: {name} dimension {axis}: the model says {size}, which gears cannot change"
            yield UsageError("E10050", what, where=where, hint="export the model with an open dimension")


def _set_shape(node: Node, dims: InputDims, fixed: dict[Sym, set[int]]) -> None:
    desc = node.output.desc
    old: tuple[Dim | None, ...] = desc.shape if desc.shape is not None else (None,) * len(dims)
    shape: list[Dim] = []
    ranges: list[tuple[int, int]] = []
    for axis, (was, asked) in enumerate(zip(old, dims, strict=True)):
        if isinstance(was, int):
            shape.append(was)
        elif isinstance(asked, int) and asked != ANY_SIZE:
            shape.append(asked)
            if was is not None:
                fixed.setdefault(was, set()).add(asked)
        else:
            shape.append(was if was is not None else Sym(f"{node.output.name}.{axis}"))
        ranges.append(_ends(shape[-1], asked))
    node.output.desc = replace(TensorDesc.plain(desc.dtype, tuple(shape)))
    if any(isinstance(asked, DimRange) for asked in dims):
        node.attrs["shape_range"] = tuple(end for ends in ranges for end in ends)


def _ends(dim: Dim, asked: InputDim) -> tuple[int, int]:
    """GE's shape_range: (low, high), high −1 where there is no end."""
    if isinstance(dim, int):
        return dim, dim
    if isinstance(asked, DimRange):
        return asked.lo, ANY_SIZE if asked.hi is None else asked.hi
    return 0, ANY_SIZE


def _no_input(name: str, imported: NamedGraph, inputs: list[str]) -> UsageError:
    where = Where(option="input_shape")
    listed = "the inputs are " + ", ".join(f'"{known}"' for known in inputs[:10])
    if imported.values.get(name) is not None:
        return UsageError("E10017", f'--input_shape: "{name}" is not an input', where=where, hint=listed)
    hint = did_you_mean(name, inputs) or listed
    return UsageError("E10016", f'--input_shape: no input "{name}" in the model', where=where, hint=hint)


def _misfit(name: str, shape: Shape | None, dims: InputDims) -> UsageError | None:
    if shape is None:
        return None
    where = Where(option="input_shape", value=name)
    if len(shape) != len(dims):
        what = f"--input_shape: {name} has rank {len(shape)} in the model, {len(dims)} given"
        sizes = ",".join(str(dim) if isinstance(dim, int) else "-1" for dim in shape)
        return UsageError("E10049", what, where=where, hint=f'the model says --input_shape="{name}:{sizes}"')
    for axis, (own, asked) in enumerate(zip(shape, dims, strict=True)):
        if isinstance(own, int) and not _contains(asked, own):
            what = f"--input_shape: {name} dimension {axis}: the model says {own}, {_outside(asked)}"
            return UsageError("E10050", what, where=where, hint=f"the model's shape is {format_shape(shape)}")
    return None


def _contains(asked: InputDim, size: int) -> bool:
    if isinstance(asked, DimRange):
        return asked.lo <= size and (asked.hi is None or size <= asked.hi)
    return asked in (size, ANY_SIZE)


def _outside(asked: InputDim) -> str:
    return f"outside {asked}" if isinstance(asked, DimRange) else f"not {asked}"


def _open_inputs(imported: NamedGraph) -> Iterator[AtcError]:
    for node in imported.graph.inputs:
        desc = node.output.desc
        if not desc.is_static and "type" not in node.attrs:
            name = node.output.name
            what = f'input "{name}" {format_shape(desc.shape)} is open and --input_shape does not fix it'
            sizes = ",".join(str(d) if isinstance(d, int) else f"<{d}>" for d in desc.shape or ())
            yield UsageError("E11005", what, where=Where(value=name), hint=f'--input_shape="{name}:{sizes}"')


def _set_outputs(imported: NamedGraph, options: ParseOptions) -> Iterator[AtcError]:
    chosen: list[Value] = []
    failed = False
    for name in options.out_nodes:
        found = _output_of(name, imported)
        if isinstance(found, AtcError):
            failed = True
            yield found
        elif found not in chosen:
            chosen.append(found)
    if chosen and not failed:
        net_output = imported.graph.net_output
        types = net_output.attrs.get("types", ())
        assert isinstance(types, tuple)
        type_of = dict(zip(net_output.operands, types, strict=False))
        imported.graph.set_inputs(net_output, chosen)
        if types:
            net_output.attrs["types"] = tuple(type_of.get(value, "") for value in chosen)


def _output_of(name: str, imported: NamedGraph) -> Value | UsageError:
    """`value`, or ATC's `node:index`."""
    where = Where(option="out_nodes")
    value = imported.values.get(name)
    if value is not None:
        return value
    node, colon, index = name.rpartition(":")
    if not colon or not index.isdigit():
        hint = did_you_mean(name, [*imported.values, *imported.node_outputs])
        if name in imported.node_outputs:
            hint = f'"{name}" is a node: --out_nodes="{name}:0"'
        return UsageError("E11017", f'--out_nodes: no value "{name}" in the model', where=where, hint=hint)
    outputs = imported.node_outputs.get(node)
    if outputs is None:
        nearest_value = did_you_mean(node, imported.values)
        hint = did_you_mean(node, imported.node_outputs) or (
            f"{nearest_value} ONNX outputs are named without an index" if nearest_value else ""
        )
        return UsageError("E10016", f'--out_nodes: no node "{name}" in the model', where=where, hint=hint)
    value = imported.values.get(outputs[int(index)]) if int(index) < len(outputs) else None
    if value is None:
        what = f"--out_nodes: {node} has {len(outputs)} outputs, {index} asked"
        return UsageError("E11016", what, where=where, hint="the first is 0")
    return value

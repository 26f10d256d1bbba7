"""Where a graph begins and ends: its placeholders, and the outputs that are asked for, that the signature names or that
nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from atcpy.errors import AtcError, ModelInvalid, Unsupported, UsageError, Where, did_you_mean, raise_all
from atcpy.options import ParseOptions
from atcpy.parsers.tensorflow.examples import placeholder
from atcpy.parsers.tensorflow.functions import CALLS
from atcpy.parsers.tensorflow.graph import BRANCHES, Ref, TfNode, find_pivots, main_ref
from atcpy.parsers.tensorflow.importer import DEFAULT, PLACEHOLDERS
from atcpy.parsers.tensorflow.locate import Kind
from atcpy.parsers.tensorflow.reader import TfFile
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import TensorInfo, TensorProto, TensorShapeProto
from atcpy.parsers.tensorflow.signatures import find_signature

# Ops at whose end nothing is that a user would ask for.
_NO_RESULT = frozenset(
    {
        "Const", "NoOp", "Assert", "Placeholder", "PlaceholderV2", "PlaceholderWithDefault",
        "HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2",
        "VarHandleOp", "VariableV2", "Variable", "AssignVariableOp", "Assign", "AssignAdd", "AssignSub",
        "AssignAddVariableOp", "AssignSubVariableOp", "DisableCopyOnRead", "VarIsInitializedOp",
        "InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2",
        "IsVariableInitialized", "SaveV2", "RestoreV2", "MergeV2Checkpoints", "ScalarSummary", "HistogramSummary",
        "ImageSummary", "MergeSummary", "Print", "PrintV2", "Enter", "LoopCond",
    }
)  # fmt: skip
_WITH_DEFAULT = "PlaceholderWithDefault"
_FED = PLACEHOLDERS | {_WITH_DEFAULT}


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The inputs and outputs of a graph by the names that users know them by, in order. `all_inputs`: inputs that no
    output depends on stay. `fed`: the inputs that are read instead of outputs of other nodes.
    """

    inputs: Mapping[str, TfNode]
    outputs: Mapping[str, Ref]
    all_inputs: bool = False
    fed: Mapping[Ref, Ref] = field(default_factory=dict)


def find_endpoints(nodes: Mapping[str, TfNode], file: TfFile, options: ParseOptions) -> Endpoints:
    """Those of a frozen graph: `x` for an input, `prob:0` for an output. Those of a signature: its keys, sorted."""
    inputs = {node.name: node for node in nodes.values() if node.op in PLACEHOLDERS}
    defaults = {} if options.fold_default_inputs else _defaults(nodes)
    signed: dict[str, Ref] = {}
    fed: dict[str, TfNode] = {}
    instead: dict[Ref, Ref] = {}
    if file.signature is None:
        inputs.update((name, _with_default(nodes[name], default)) for name, default in defaults.items())
    else:
        signed_defaults = {} if options.fold_default_inputs else file.signature.defaults
        for key, info in sorted(file.signature.inputs.items()):
            ref, node = _signed_input(key, info, nodes)
            default = signed_defaults[key] if key in signed_defaults else defaults.get(node.name)
            fed[key] = node if default is None else _with_default(node, default)
            if ref.node != node.name:
                instead[ref] = Ref(node.name, 0)
        names = {node.name for node in fed.values()}
        inputs = {**fed, **{name: node for name, node in inputs.items() if name not in names and name not in fed}}
        signed = {key: _signed_ref(key, info) for key, info in sorted(file.signature.outputs.items())}
        for key, ref in signed.items():
            if ref.node not in nodes:
                raise _not_there("output", key, file.signature.outputs[key], nodes)
    if options.out_nodes:
        return Endpoints(inputs, _asked(nodes, signed, options.out_nodes), fed=instead)
    if file.signature is not None:
        return Endpoints(fed, signed, all_inputs=True, fed=instead)
    outputs = _leaves(nodes)
    if file.kind is Kind.CHECKPOINT:
        outputs = _that_depend_on(outputs, nodes)
    if not outputs:
        what = "the graph has no outputs: what nobody reads are constants, variables or parts of training"
        raise ModelInvalid("E16001", what, hint="name them: --out_nodes")
    return Endpoints(inputs, outputs)


def _defaults(nodes: Mapping[str, TfNode]) -> dict[str, TensorProto]:
    """The constants that placeholders have until they are fed, by the names of their nodes."""
    found: dict[str, TensorProto] = {}
    for node in nodes.values():
        source = nodes.get(node.inputs[0].node) if node.op == _WITH_DEFAULT and node.inputs else None
        value = source.attrs.get("value") if source is not None and source.op == "Const" else None
        if isinstance(value, TensorProto):
            found[node.name] = value
    return found


def _with_default(node: TfNode, default: TensorProto) -> TfNode:
    """An input that is the constant unless it is fed."""
    return TfNode(node.name, "Placeholder", (), {**node.attrs, DEFAULT: default})


def _signed_input(key: str, info: TensorInfo, nodes: Mapping[str, TfNode]) -> tuple[Ref, TfNode]:
    """The tensor that an input of the signature is, and the placeholder that takes its place: under its own name if the
    tensor is one, else under a new name, since other outputs of the node may be read.
    """
    ref = _signed_ref(key, info)
    node = nodes.get(ref.node)
    signature = find_signature(node.op) if node is not None else None
    count = signature.output_count if signature is not None else None
    if node is None or (count is not None and ref.output >= count):
        raise _not_there("input", key, info, nodes)
    shape = node.attrs.get("shape") if node.op in _FED else None
    if not isinstance(shape, TensorShapeProto) or shape.unknown_rank:
        shape = info.tensor_shape
    if node.op in _FED:
        return ref, TfNode(node.name, "Placeholder", (), {"dtype": int(info.dtype), "shape": shape})
    return ref, placeholder(f"{ref.node}/fed_{ref.output}", int(info.dtype), shape, nodes)


def _not_there(kind: str, key: str, info: TensorInfo, nodes: Iterable[str]) -> ModelInvalid:
    what = f'the {kind} "{key}" of the signature is "{info.name}", which the graph does not have'
    return ModelInvalid("E12009", what, where=Where(value=key), hint=did_you_mean(main_ref(info.name).node, nodes))


def _signed_ref(key: str, info: TensorInfo) -> Ref:
    if info.WhichOneof("encoding") != "name":
        raise Unsupported("E10055", f'"{key}" of the signature is a sparse or composite tensor', where=Where(value=key))
    return main_ref(info.name)


def _asked(nodes: Mapping[str, TfNode], signed: Mapping[str, Ref], names: Iterable[str]) -> dict[str, Ref]:
    """What --out_nodes names: outputs of the signature, or of nodes."""
    outputs: dict[str, Ref] = {}
    problems: list[AtcError] = []
    for text in names:
        ref = main_ref(text)
        if text in signed:
            outputs[text] = signed[text]
        elif ref.node in nodes:
            outputs[f"{ref.node}:{ref.output}"] = ref
        else:
            where = Where(option="out_nodes")
            hint = did_you_mean(ref.node, [*signed, *nodes]) or _ends_of(signed or _leaves(nodes))
            problems.append(
                UsageError("E10016", f'--out_nodes: no node "{ref.node}" in the model', where=where, hint=hint)
            )
    raise_all(problems)
    return outputs


def _ends_of(outputs: Iterable[str]) -> str:
    names = list(islice(outputs, 10))
    return "it ends with " + ", ".join(f'"{name}"' for name in names) if names else ""


def _leaves(nodes: Mapping[str, TfNode]) -> dict[str, Ref]:
    read = {ref.node for node in nodes.values() for ref in node.inputs}
    pivots = find_pivots(nodes)
    ends = [
        node
        for node in nodes.values()
        if node.name not in read and node.op not in _NO_RESULT and node.name not in pivots
    ]
    return {f"{node.name}:{index}": Ref(node.name, index) for node in ends for index in range(_result_count(node))}


def _result_count(node: TfNode) -> int:
    """How many results are outputs: all of a call's or a branch's, the first of an op's."""
    types = node.attrs.get("Tout")
    return len(types) if node.op in CALLS | BRANCHES and isinstance(types, tuple) else 1


def _that_depend_on(outputs: Mapping[str, Ref], nodes: Mapping[str, TfNode]) -> dict[str, Ref]:
    """Those that a placeholder leads to: the graph of a checkpoint has the ends of saving and restoring, too."""
    reached = {node.name for node in nodes.values() if node.op in PLACEHOLDERS}
    readers: dict[str, list[str]] = {}
    for node in nodes.values():
        for ref in node.inputs:
            readers.setdefault(ref.node, []).append(node.name)
    waiting = list(reached)
    while waiting:
        for name in readers.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return {name: ref for name, ref in outputs.items() if ref.node in reached}

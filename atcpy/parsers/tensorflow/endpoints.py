"""Where a graph begins and ends: its placeholders, and the outputs that are asked for or that nobody reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from atcpy.errors import AtcError, ModelInvalid, UsageError, Where, did_you_mean, raise_all
from atcpy.options import ParseOptions
from atcpy.parsers.tensorflow.graph import Ref, TfNode, main_ref
from atcpy.parsers.tensorflow.importer import PLACEHOLDERS

# Ops at whose end nothing is that a user would ask for.
_NO_RESULT = frozenset(
    {"Const", "NoOp", "Assert", "Placeholder", "PlaceholderWithDefault", "VarHandleOp", "VariableV2"}
)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The inputs and outputs of a graph by the names that users know them by, in order."""

    inputs: Mapping[str, TfNode]
    outputs: Mapping[str, Ref]


def find_endpoints(nodes: Mapping[str, TfNode], options: ParseOptions) -> Endpoints:
    """Those of a frozen graph: `x` for an input, `prob:0` for an output."""
    inputs = {node.name: node for node in nodes.values() if node.op in PLACEHOLDERS}
    outputs = _asked(nodes, options) if options.out_nodes else _leaves(nodes)
    if not outputs:
        raise ModelInvalid(
            "E16001", "the graph has no outputs: every value is read by another node", hint="--out_nodes"
        )
    return Endpoints(inputs, outputs)


def _asked(nodes: Mapping[str, TfNode], options: ParseOptions) -> dict[str, Ref]:
    outputs: dict[str, Ref] = {}
    problems: list[AtcError] = []
    for text in options.out_nodes:
        ref = main_ref(text)
        if ref.node in nodes:
            outputs[f"{ref.node}:{ref.output}"] = ref
        else:
            where = Where(option="out_nodes")
            hint = did_you_mean(ref.node, nodes)
            problems.append(
                UsageError("E10016", f'--out_nodes: no node "{ref.node}" in the model', where=where, hint=hint)
            )
    raise_all(problems)
    return outputs


def _leaves(nodes: Mapping[str, TfNode]) -> dict[str, Ref]:
    read = {ref.node for node in nodes.values() for ref in node.inputs}
    names = [node.name for node in nodes.values() if node.name not in read and node.op not in _NO_RESULT]
    return {f"{name}:0": Ref(name, 0) for name in names}

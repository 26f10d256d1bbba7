"""Records of ONNX Runtime's own ops: a signature, and the ops of the standard that compute the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from atcpy.ir import Node, Rewriter, Value
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.core.opdef import Infer, OpDef, register_operator
from atcpy.ops.core.signature import Signature

DOMAIN = "com.microsoft"
STANDARD = ""  # where ONNX Runtime has some of its own ops, too
REFUSED: dict[str, str] = {}  # ops of DOMAIN that the standard's ops cannot express, and what to do instead
Expand = Callable[[Expansion], Value | Sequence[Value | str]]


def contrib(
    op_types: str,
    inputs: str,
    attrs: str = "",
    *,
    outputs: tuple[int, int] = (1, 1),
    domain: str = DOMAIN,
    updates: Mapping[int, str] | None = None,
    kernel: OpDef | None = None,
    infer: Infer | None = None,
) -> Callable[[Expand], Expand]:
    """Register a function that expands the nodes of these ops (space-separated): `Signature.of` reads `inputs`, `attrs`
    and `updates`. The function returns the value of each output; a text says why there is none, and a node whose
    missing output is read is refused. `kernel` is the record of the nodes that passes create of the op. Where there is
    no `infer`, types of results are those of the expansion, which takes ten times as long.
    """
    signature = Signature.of(inputs, attrs, outputs, updates or {})

    def register(expand: Expand) -> Expand:
        def run(node: Node, rw: Rewriter) -> Sequence[Value | None]:
            e = Expansion(rw, signature.inputs)
            results = expand(e)
            return _checked(e, [results] if isinstance(results, Value) else results)

        for op_type in op_types.split():
            opdef = kernel or OpDef(name=op_type, domain=domain)
            register_operator(replace(opdef, signature=signature, expand=run, infer=infer or opdef.infer))
        return expand

    return register


def refuses(op_types: str, hint: str) -> None:
    """Say what to do instead of ops (space-separated) that the standard's ops cannot express."""
    REFUSED.update(dict.fromkeys(op_types.split(), hint))


def _checked(e: Expansion, results: Sequence[Value | str]) -> list[Value | None]:
    """Refuse a node whose reader reads an output that it does not have."""
    values: list[Value | None] = []
    for index, value in enumerate(e.node.outputs):
        result = results[index] if index < len(results) else "it is not known here"
        if isinstance(result, str) and value.use_count:
            what = f'"{value.name}" cannot be had: {e.node.op_type} does not make it: {result}'
            raise e.unsupported(what, "export the model for inference")
        values.append(None if isinstance(result, str) else result)
    return values

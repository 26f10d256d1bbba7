"""Canonicalisation: a node of an older opset takes the steps up of `opsets/changes.py`, oldest version first.

`@normalizes` registers what holds for every opset: several ways to say the same become one. What a step creates is
canonical already.
"""

from collections.abc import Callable

from atcpy.ir import Builder, DType, Node, Value
from atcpy.parsers.onnx.inference import TypeInference, rank_of
from atcpy.parsers.onnx.opsets.change import Change
from atcpy.parsers.onnx.opsets.changes import CHANGES


class Upgrade(Builder):
    """One node on its way to the newest opset: what a step up sees and may change."""

    anchor: Node

    def __init__(self, node: Node, inference: TypeInference) -> None:
        assert node.graph is not None
        super().__init__(node.graph, node, name=node.name, sources=node.sources, infer=inference.infer)
        self.node = node
        self.results: list[Value | None] = list(node.outputs)
        self.gone: dict[int, str] = {}
        self.appended: list[Node] = []  # those created that read the node: their types wait for its own
        self._inference = inference

    @property
    def attrs(self) -> dict[str, object]:
        """The attributes of the node."""
        return self.node.attrs

    def input(self, index: int) -> Value | None:
        """Return input `index`, or None if it is left out."""
        return self.node.input(index)

    def rank(self, index: int) -> int | None:
        """Return the rank of input `index`, or None if it is not known."""
        value = self.node.input(index)
        return None if value is None else rank_of(value)

    def dtype(self, index: int) -> DType | None:
        """Return the element type of input `index`, or None if it is not known."""
        value = self.node.input(index)
        return None if value is None else self.dtype_of(value)

    def drop_outputs(self, first: int, why: str) -> None:
        """Remove the outputs from `first` on; a node that reads one is refused for the reason `why`."""
        for value in self.node.outputs[first:]:
            self.gone[value.index] = why
        del self.node.outputs[first:], self.results[first:]

    def append(self, index: int, op_type: str, *others: Value | None) -> None:
        """Create a node behind output `index`, which takes over the output's name."""
        old = self.results[index]
        assert old is not None
        node = self.graph.append(op_type, [old, *others], name=f"{self.name}/{op_type}")
        node.sources = self.sources
        self.graph.take_name(node.output, old)
        self.results[index] = node.output
        self.created[node] = None
        self.appended.append(node)

    def become(self, op_type: str, *inputs: Value | None, **attrs: object) -> None:
        """Make the node another op on other inputs."""
        self.graph.change_op(self.node, op_type)
        self.graph.set_inputs(self.node, inputs)
        self.node.attrs.clear()
        self.node.attrs.update(attrs)

    def replace_by(self, *results: Value | str) -> None:
        """Replace the node's outputs by these values and erase it; a text says why there is no such value."""
        outputs = list(zip(self.node.outputs, results, strict=False))
        self.results.clear()
        for index, (old, new) in enumerate(outputs):
            if isinstance(new, str):
                self.gone[index] = new
                self.results.append(None)
                continue
            if new.producer not in self.created or new in self.results or new.producer.op_type == "Const":
                new = self.op("Identity", new)
            self.graph.take_name(new, old)
            self.results.append(new)
        self.graph.erase(self.node)
        if any(new is not None and not new.desc.is_static for new in self.results):
            for node in self.created:  # unnamed dims are called after the values that have them
                if node.op_type != "Const":
                    self._inference.infer(node)

    def set_inputs(self, *inputs: Value | None) -> None:
        """Replace the inputs; left-out ones at the end are dropped."""
        kept = list(inputs)
        while kept and kept[-1] is None:
            kept.pop()
        self.graph.set_inputs(self.node, kept)

    def set_input(self, index: int, value: Value) -> None:
        """Set input `index`; those left out before it are None."""
        inputs = list(self.node.inputs)
        inputs += [None] * (index + 1 - len(inputs))
        inputs[index] = value
        self.graph.set_inputs(self.node, inputs)

    def run(self, opset: int) -> None:
        """Bring the node from this opset to the canonical one; `results` are the values that its outputs became."""
        node = self.node
        while newer := [each for each in _CHANGES.get(op_key(node.op_type, node.domain), ()) if each.version > opset]:
            # One version may bring several changes; a change may make the node another op.
            opset = newer[0].version
            for change in newer:
                if change.version == opset:
                    self._take_steps(change)
        normalizer = _NORMALIZERS.get(op_key(node.op_type, node.domain))
        if normalizer is not None:
            normalizer(self)

    def _take_steps(self, change: Change) -> None:
        for step in change.steps:
            if step.up is not None:
                step.up(self)
        if change.renamed:
            self.graph.change_op(self.node, change.renamed)


Adapter = Callable[[Upgrade], None]
_NORMALIZERS: dict[str, Adapter] = {}


def _changes_by_op() -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for change in sorted(CHANGES, key=lambda change: change.version):
        for op in change.ops.split() if change.has_step_up else ():
            found.setdefault(op, []).append(change)
    return found


_CHANGES = _changes_by_op()  # those with a step up, oldest first


def normalizes(op_type: str) -> Callable[[Adapter], Adapter]:
    """Registers a function that brings nodes of any opset to the one form that the compiler sees."""

    def register(adapter: Adapter) -> Adapter:
        assert op_type not in _NORMALIZERS
        _NORMALIZERS[op_type] = adapter
        return adapter

    return register


def op_key(op_type: str, domain: str) -> str:
    """How an op is named here: by itself, or after its domain as in `ai.onnx.ml::LabelEncoder`."""
    return f"{domain}::{op_type}" if domain else op_type


def needs_upgrade(key: str, opset: int) -> bool:
    """Return whether a node of the op in a model of this opset must be changed."""
    return key in _NORMALIZERS or any(change.version > opset for change in _CHANGES.get(key, ()))

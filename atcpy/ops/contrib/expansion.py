"""Expansion: the builder with which a record of `ops/contrib` writes a node as ops of the standard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atcpy.ir import Builder, Graph, Node, Rewriter, Value

FLOAT16_MAX = 65504.0
# Writes the results for one element of each sequence: called with a builder and the elements.
Each = Callable[..., Sequence[Value]]


class Expansion(Builder):
    """Writes `node`, whose inputs have the names of its signature, in ops of the standard."""

    def __init__(self, rw: Rewriter, names: Sequence[str]) -> None:
        super().__init__(rw.graph, rw.anchor, name=rw.name, sources=rw.sources, passes=rw.passes, infer=rw.infer)
        self.created = rw.created
        self.node: Node = rw.anchor
        self._names = names

    # --- inputs, outputs and attributes -------------------------------------------------------

    def input(self, name: str) -> Value | None:
        """Return an input by its name, or None if it is left out."""
        return self.node.input(self._names.index(name))

    def operand(self, name: str) -> Value:
        """Return an input that must be there. Those that the signature requires are checked when the node is read."""
        value = self.input(name)
        if value is None:
            raise self.invalid(f"{self.node.op_type}: input {name} is missing")
        return value

    def every(self, name: str) -> list[Value]:
        """Return all inputs from `name`, the last of the signature, on: none of them may be left out."""
        first = self._names.index(name)
        return [self.node.operand(index) for index in range(first, self.node.input_count)]

    def has_output(self, index: int) -> bool:
        """Return whether output `index` may be read."""
        return index < len(self.node.outputs)

    def refuse_inputs(self, names: str, hint: str) -> None:
        """Refuse the node if one of these inputs (space-separated) is given."""
        for name in names.split():
            if self.input(name) is not None:
                raise self.unsupported(f"input {name} is given", hint)

    def refuse_attrs(self, names: str, hint: str) -> None:
        """Refuse the node if one of these flags (space-separated) is set."""
        for name in names.split():
            if self.node.int_attr(name, 0):
                raise self.unsupported(f"{name} = {self.node.int_attr(name, 0)}", hint)

    def rank_of(self, value: Value) -> int:
        """Return the rank of a value. Raises Unsupported if it is not known."""
        return len(self.shape_of(value))

    def count(self, name: str, default: int = 0) -> int:
        """Return an attribute that counts something: 1 or more."""
        count = self.node.int_attr(name, default)
        if not 1 <= count < 2**31:
            raise self.invalid(f"{name} = {count}")
        return count

    def axis(self, name: str, default: int, rank: int) -> int:
        """Return an attribute that names an axis, counted from the front."""
        axis = self.node.int_attr(name, default)
        if not -rank <= axis < rank:
            raise self.invalid(f"{name} = {axis} of a tensor of rank {rank}")
        return axis % rank

    # --- sequences ----------------------------------------------------------------------------

    def each(self, sequences: Sequence[Value], function: Each, results: int) -> list[Value]:
        """Return sequences of the `results` that the function gives for the elements at each index: written out where
        a SequenceConstruct says how many there are, by SequenceMap elsewhere.
        """
        count = next((seq.producer.input_count for seq in sequences if seq.producer.op_type == "SequenceConstruct"), 0)
        if not count:
            return self._map(sequences, function, results)
        rows = [function(self, *(self._element(seq, index) for seq in sequences)) for index in range(count)]
        return [self.op("SequenceConstruct", *column) for column in zip(*rows, strict=True)]

    def _element(self, sequence: Value, index: int) -> Value:
        producer = sequence.producer
        if producer.op_type != "SequenceConstruct":
            return self.op("SequenceAt", sequence, self.const(index))
        if index >= producer.input_count:
            raise self.invalid(f'"{sequence.name}" has {producer.input_count} tensors, others have more')
        return producer.operand(index)

    def _map(self, sequences: Sequence[Value], function: Each, results: int) -> list[Value]:
        body = Graph(f"{self.node.name}/body", names=self.graph.names)
        inputs = [body.append("Data", (), {"index": index}, name="element") for index in range(len(sequences))]
        end = body.append("NetOutput", (), name="NetOutput", outputs=())
        body.set_inputs(end, function(self.inside(end), *(node.output for node in inputs)))
        return self.ops("SequenceMap", *sequences, outputs=results, body=body)

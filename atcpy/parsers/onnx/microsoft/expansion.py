"""A node of ONNX Runtime's own on its way to ops of the standard: what the functions of this folder see."""

from collections.abc import Callable, Sequence

from atcpy.ir import Builder, Graph, TensorDesc, Value
from atcpy.parsers.onnx.inference import rank_of
from atcpy.parsers.onnx.upgrade import Upgrade

FLOAT16_MAX = 65504.0
# What `each` writes for one place: from the elements there to the results.
Each = Callable[..., Sequence[Value]]


class Expansion(Builder):
    """Writes a node of ONNX Runtime's own in ops of the standard, where the inputs of `up`'s node have these names."""

    def __init__(self, up: Upgrade, inputs: Sequence[str]) -> None:
        super().__init__(up.graph, up.node, name=up.name, sources=up.sources, infer=up.infer)
        self.created = up.created
        self.node = up.node
        self._up = up
        self._names = inputs

    # --- what the node has --------------------------------------------------------------------

    def input(self, name: str) -> Value | None:
        """An input by its name, or None if it is left out."""
        return self.node.input(self._names.index(name))

    def operand(self, name: str) -> Value:
        """An input that must be there."""
        value = self.input(name)
        if value is None:
            raise self.invalid(f"input {name} is missing")
        return value

    def every(self, name: str) -> list[Value]:
        """All that stands at the last name of the signature; nothing of it may be left out."""
        first = self._names.index(name)
        return [self._given(index) for index in range(first, self.node.input_count)]

    def _given(self, index: int) -> Value:
        value = self.node.input(index)
        if value is None:
            raise self.invalid(f"input {index} is missing")
        return value

    def asks(self, index: int) -> bool:
        """May somebody read output `index`?"""
        return index < len(self.node.outputs)

    def refuse_inputs(self, names: str, hint: str) -> None:
        """Refuses the node if one of these inputs is given."""
        for name in names.split():
            if self.input(name) is not None:
                raise self.unsupported(f"input {name} is given", hint)

    def refuse_attrs(self, names: str, hint: str) -> None:
        """Refuses the node if one of these flags is set."""
        for name in names.split():
            if self.node.int_attr(name, 0):
                raise self.unsupported(f"{name} = {self.node.int_attr(name, 0)}", hint)

    # --- what the graph tells -----------------------------------------------------------------

    def known_rank(self, value: Value, hint: str = "") -> int:
        """The rank of a value, without which the op has no meaning here."""
        rank = rank_of(value)
        if rank is None and (shape := self.declared(value).shape) is not None:
            rank = len(shape)
        if rank is None:
            raise self.unsupported(
                f'the rank of "{value.name}" is not known', hint or "export the model with the shapes of its inputs"
            )
        return rank

    def declared(self, value: Value) -> TensorDesc:
        """The type of a value, or the one that the model declares where inference knows no shape."""
        return self._up.declared(value)

    def count(self, name: str, default: int = 0) -> int:
        """An attribute that counts something."""
        count = self.node.int_attr(name, default)
        if not 1 <= count < 2**31:
            raise self.invalid(f"{name} = {count}")
        return count

    def axis(self, name: str, default: int, rank: int) -> int:
        """An attribute that names an axis, counted from the front."""
        axis = self.node.int_attr(name, default)
        if not -rank <= axis < rank:
            raise self.invalid(f"{name} = {axis} of a tensor of rank {rank}")
        return axis % rank

    def each(self, sequences: Sequence[Value], function: Each, results: int) -> list[Value]:
        """Sequences of what the function gives for each place of the given ones: written out where one of them was
        joined of a known number of tensors, by SequenceMap elsewhere.
        """
        count = next((seq.producer.input_count for seq in sequences if seq.producer.op_type == "SequenceConstruct"), 0)
        if not count:
            return self._map(sequences, function, results)
        rows = [function(self, *(self.element(seq, place) for seq in sequences)) for place in range(count)]
        return [self.op("SequenceConstruct", *column) for column in zip(*rows, strict=True)]

    def element(self, sequence: Value, place: int) -> Value:
        """A tensor of a sequence."""
        made = sequence.producer
        if made.op_type != "SequenceConstruct":
            return self.op("SequenceAt", sequence, self.const(place))
        if place >= made.input_count:
            raise self.invalid(f'"{sequence.name}" has {made.input_count} tensors, others have more')
        return made.operand(place)

    def _map(self, sequences: Sequence[Value], function: Each, results: int) -> list[Value]:
        body = Graph(f"{self.node.name}/body", names=self.graph.names)
        inputs = [body.append("Data", (), {"index": index}, name="element") for index in range(len(sequences))]
        end = body.append("NetOutput", (), name="NetOutput", outputs=())
        body.set_inputs(end, function(self.inside(end), *(node.output for node in inputs)))
        return self.ops("SequenceMap", *sequences, outputs=results, body=body)

    # --- the end ------------------------------------------------------------------------------

    def update(self, held: Value, new: Value) -> None:
        """ONNX Runtime writes `new` into the memory of `held`. There is no memory from run to run here: if `held` is an
        input of the model, `new` is an output more, which the caller feeds back.
        """
        self._up.updates.append((held, new))

    def finish(self, *results: Value | str) -> None:
        """Takes the node away; these values stand for its outputs, a text says why there is none."""
        self._up.replace_by(*results)

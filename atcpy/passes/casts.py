"""Casts that let nodes compute in another element type: one for each value, none that nobody reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from atcpy.ir import DType, Graph, Node, Tensor, TensorDesc, Value

PRECISION_MODE = "PrecisionModePass"  # whose Casts no model has: InsertCastPass may do without them
# What a value becomes in the other type if it is a constant, or None where it shall be cast at run time.
ConvertConstant = Callable[[Value], Tensor | None]


class Casts:
    """The values that are at hand in one element type as well as in their own."""

    def __init__(self, pass_name: str, dtype: DType, convert: ConvertConstant) -> None:
        self.dtype = dtype
        self._pass_name = pass_name
        self._convert = convert
        self._converted: dict[Value, Value] = {}
        self._may_go: list[Value] = []  # results of Casts back and constants, whether somebody reads them or not
        self._keep_names: set[Value] = set()

    def __contains__(self, value: Value) -> bool:
        return value in self._converted

    def converted(self, value: Value) -> Value:
        """The value in this type: what it was cast from, a constant, or a Cast right behind its maker."""
        found = self._converted.get(value)
        if found is None:
            found = self._converted[value] = self._constant(value) or self._cast(value)
        return found

    def find(self, value: Value) -> Value | None:
        """The value in this type, if it is at hand."""
        return self._converted.get(value)

    def retype(self, value: Value, desc: TensorDesc, *, keeps_name: bool = False) -> None:
        """Give a value another type, this one, and its readers a Cast back, which gets the name of the value unless
        that `keeps_name`.
        """
        old = value.desc
        graph = graph_of(value.producer)
        cast = self._append_cast(value, old.dtype, f"{value.name}.{desc.dtype.short}", ())
        graph.replace_uses(value, cast.output)
        graph.set_inputs(cast, [value])
        cast.output.desc, value.desc = old, desc
        self._converted[cast.output] = value
        self._may_go.append(cast.output)
        if keeps_name:
            self._keep_names.add(cast.output)
        else:
            graph.take_name(cast.output, value)

    def stands_for(self, value: Value, converted: Value) -> None:
        """Note that a value is made from one of this type and holds no more than that."""
        self._converted[value] = converted

    def drop_unread(self) -> None:
        """Remove the Casts back and the constants that nobody reads any more; what replaces them gets their names."""
        for value in self._may_go:
            if value.use_count == 0:
                graph = graph_of(value.producer)
                if value not in self._keep_names:
                    graph.take_name(self._converted[value], value)
                graph.erase(value.producer)

    def _constant(self, value: Value) -> Value | None:
        tensor = self._convert(value)
        if tensor is None:
            return None
        maker = value.producer
        constant = graph_of(maker).add_const(tensor, value.name, before=maker)
        constant.producer.sources, constant.producer.passes = maker.sources, (*maker.passes, self._pass_name)
        self._may_go.append(value)
        return constant

    def _cast(self, value: Value) -> Value:
        cast = self._append_cast(value, self.dtype, f"{value.name}.{self.dtype.short}", (value,))
        cast.output.desc = replace(value.desc, dtype=self.dtype)
        return cast.output

    def _append_cast(self, value: Value, dtype: DType, output: str, inputs: tuple[Value, ...]) -> Node:
        """Add a Cast right behind the maker of a value, for all its readers."""
        maker = value.producer
        attrs = {"to": dtype.onnx}
        name = f"{value.name}_Cast"
        cast = graph_of(maker).insert_after(maker, "Cast", inputs, attrs, name=name, outputs=(output,))
        cast.passes = (self._pass_name,)
        return cast


def graph_of(node: Node) -> Graph:
    """The graph of a node that was not erased."""
    assert node.graph is not None
    return node.graph

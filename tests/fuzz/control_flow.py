"""Random models of If, Loop and Scan within each other, over tensors of one shape."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from atcpy.ir.tensor import Array

MAX_DEPTH = 3
Block = tuple[list[str], list[NodeProto]]  # the values that are there, and the nodes that compute the new ones


@dataclass(frozen=True)
class Drawn:
    """A model, and inputs to run it with."""

    model: onnx.ModelProto
    feeds: list[dict[str, Array]]


def draw(seed: int) -> Drawn:
    """The model of a seed."""
    rng = random.Random(seed)
    is_open, columns = rng.random() < 0.4, rng.choice([1, 2, 3, 16, 17])
    rows = "n" if is_open else rng.choice([1, 2, 5])
    writer = _Writer(rng, [rows, columns])
    values, nodes = writer.block(["x", "y"], 0, rng.randint(2, 5))
    outputs = []
    for value in dict.fromkeys([values[-1], rng.choice(values)]):
        outputs.append(writer.name("output"))
        nodes.append(helper.make_node("Identity", [value], outputs[-1:]))
    numbers = np.random.default_rng(seed)
    constants: dict[str, object] = {
        "weight": (numbers.standard_normal((columns, columns)) / 2).astype(np.float32),
        "threshold": np.float32(0.05),
        "trips": np.int64(rng.choice([0, 1, 2, 3, 5])),
        **{f"axis{axis}": np.array([axis]) for axis in (-1, 0, 1)},
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [*map(writer.info, "xy"), helper.make_tensor_value_info("n_trips", TensorProto.INT64, [])],
        [writer.info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feeds = []
    for trips in (0, 1, 3):
        shape = (int(numbers.choice([1, 2, 4, 7])) if isinstance(rows, str) else rows, columns)
        x, y = numbers.standard_normal((2, *shape)).astype(np.float32)
        feeds.append({"x": x, "y": y, "n_trips": np.array(trips)})
    return Drawn(model, feeds)


@dataclass
class _Writer:
    rng: random.Random
    shape: list[int | str]
    numbers: count[int] = field(default_factory=count)

    def name(self, stem: str = "v") -> str:
        return f"{stem}_{next(self.numbers)}"

    def info(self, name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shape)

    def block(self, values: list[str], depth: int, length: int) -> Block:
        values, nodes = list(values), list[NodeProto]()
        for _ in range(length):
            kinds = [self._if, self._loop, self._scan]
            write = self.rng.choice(kinds) if depth < MAX_DEPTH and self.rng.random() < 0.35 else self._elementwise
            results, new = write(values, depth + 1)
            nodes += new
            values += results
        return values, nodes

    def _elementwise(self, values: list[str], depth: int) -> Block:
        """Nodes whose results are between −1 and 1, or as large as their operands."""
        a, b, result = self.rng.choice(values), self.rng.choice(values), self.name()
        op = self.rng.choice(["Relu", "Tanh", "Neg", "Max", "Min", "Identity", "Add", "Sub", "Mul", "MatMul"])
        if op in ("Relu", "Tanh", "Neg", "Identity"):
            return [result], [helper.make_node(op, [a], [result])]
        if op in ("Max", "Min"):
            return [result], [helper.make_node(op, [a, b], [result])]
        inner = self.name()
        first = helper.make_node(op, [a, "weight" if op == "MatMul" else b], [inner])
        return [result], [first, helper.make_node("Tanh", [inner], [result])]

    def _condition(self, values: list[str]) -> tuple[str, list[NodeProto]]:
        mean, result = self.name(), self.name("condition")
        return result, [
            helper.make_node("ReduceMean", [self.rng.choice(values)], [mean], keepdims=0),
            helper.make_node("Greater", [mean, "threshold"], [result]),
        ]

    def _results(self, values: list[str], number: int, nodes: list[NodeProto]) -> list[str]:
        """Outputs of a body; some are what it got."""
        results = [self.name("result") for _ in range(number)]
        nodes += [helper.make_node("Identity", [self.rng.choice(values)], [result]) for result in results]
        return results

    def _if(self, values: list[str], depth: int) -> Block:
        condition, nodes = self._condition(values)
        number, bodies = self.rng.randint(1, 2), []
        for _ in range(2):
            inner, body = self.block(values, depth, self.rng.randint(0, 3))
            results = self._results(inner, number, body)
            bodies.append(helper.make_graph(body, self.name("branch"), [], [self.info(name) for name in results]))
        outputs = [self.name("if") for _ in range(number)]
        nodes.append(helper.make_node("If", [condition], outputs, then_branch=bodies[0], else_branch=bodies[1]))
        return outputs, nodes

    def _loop(self, values: list[str], depth: int) -> Block:
        number, iteration, going = self.rng.randint(0, 3), self.name("i"), self.name("going")
        carried = [self.name("carried") for _ in range(number)]
        inner, body = self.block([*values, *carried], depth, self.rng.randint(0, 3))
        if self.rng.random() < 0.4:
            real, added = self.name(), self.name()
            body.append(helper.make_node("Cast", [iteration], [real], to=TensorProto.FLOAT))
            body.append(helper.make_node("Sub", [inner[-1], real], [added]))
            inner.append(added)
        again, condition = self.name("again"), going
        is_while = self.rng.random() < 0.4
        if is_while:
            condition, computed = self._condition(inner[-3:])
            body += computed
        body.append(helper.make_node("Identity", [condition], [again]))
        collected = 0 if is_while else self.rng.choice([0, 0, 1]) if number else 1
        if is_while and not number:
            return self._elementwise(values, depth)
        results = self._results(inner, number + collected, body)
        graph = helper.make_graph(
            body,
            self.name("body"),
            [
                helper.make_tensor_value_info(iteration, TensorProto.INT64, []),
                helper.make_tensor_value_info(going, TensorProto.BOOL, []),
                *map(self.info, carried),
            ],
            [helper.make_tensor_value_info(again, TensorProto.BOOL, []), *map(self.info, results)],
        )
        before, nodes = ("", list[NodeProto]())
        if self.rng.random() < 0.3 and not collected:
            before, nodes = self._condition(values)
        trips = "trips" if collected else self.rng.choice(["trips", "n_trips"])
        initial = [self.rng.choice(values) for _ in range(number)]
        outputs = [self.name("loop") for _ in results]
        nodes.append(helper.make_node("Loop", [trips, before, *initial], outputs, body=graph))
        return self._reduced(outputs, number, "axis0", nodes)

    def _scan(self, values: list[str], depth: int) -> Block:
        number, element = self.rng.randint(0, 2), self.name("element")
        states = [self.name("state") for _ in range(number)]
        inner, body = self.block([*values, *states, element], depth, self.rng.randint(0, 3))
        results = self._results(inner, number + 1, body)
        graph = helper.make_graph(
            body, self.name("body"), [*map(self.info, states), self.info(element)], [*map(self.info, results)]
        )
        first, second, scanned = self.name(), self.name(), self.name("scanned")
        nodes = [helper.make_node("Unsqueeze", [self.rng.choice(values), "axis0"], [name]) for name in (first, second)]
        nodes.append(helper.make_node("Concat", [first, second, first], [scanned], axis=0))
        axis, outputs = self.rng.choice([0, 1, -1]), [self.name("scan") for _ in results]
        nodes.append(
            helper.make_node(
                "Scan",
                [*(self.rng.choice(values) for _ in range(number)), scanned],
                outputs,
                body=graph,
                num_scan_inputs=1,
                scan_input_directions=[self.rng.randint(0, 1)],
                scan_output_directions=[self.rng.randint(0, 1)],
                scan_output_axes=[axis],
            )
        )
        return self._reduced(outputs, number, f"axis{axis}", nodes)

    def _reduced(self, outputs: list[str], first: int, axis: str, nodes: list[NodeProto]) -> Block:
        """Give what was collected, the outputs from `first` on, the shape of all values."""
        values = outputs[:first]
        for output in outputs[first:]:
            total, value = self.name(), self.name()
            nodes.append(helper.make_node("ReduceSum", [output, axis], [total], keepdims=0))
            nodes.append(helper.make_node("Tanh", [total], [value]))
            values.append(value)
        return values, nodes

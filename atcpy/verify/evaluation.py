"""Computes the values of a model node by node, in the order in which they are asked for.

A value is kept as long as a node that is still to be computed reads it, so that memory holds what is live, not all
values of the model. A node runs in ONNX Runtime, or, where that has no implementation, in the ONNX reference evaluator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import onnx

from atcpy.errors import AtcError
from atcpy.ir import DType
from atcpy.ops.core.reference import EVALUATION_ERRORS
from atcpy.ops.custom import CustomOps
from atcpy.parsers.onnx.reader import ModelFile
from atcpy.verify.custom import with_custom_ops
from atcpy.verify.float64 import evaluate_in_float64
from atcpy.verify.inputs import Array, Feeds
from atcpy.verify.oracle import too_new
from atcpy.verify.sessions import constants_of, open_session
from atcpy.verify.stepwise import Step, Stepwise, stepwise_errors, tensor_type


class ModelEvaluator:
    """The nodes of a model, ready to be computed. With `oracle` "ref" the reference evaluator computes all of them."""

    def __init__(self, file: ModelFile, oracle: str | None, custom: CustomOps) -> None:
        self.model = file.model
        self._custom = custom
        self._uses_ort = oracle != "ref" and not too_new(file.model)
        constants = constants_of(file.model, file.external.inline, file.external.read)
        self.stepwise = Stepwise(file.model, constants, open_session, joins=False)
        self.constants = frozenset(self.stepwise.constant_names)
        self.writers = {name: step for step in self.stepwise.steps for name in step.writes}
        self._apart: set[int] = set()  # forms of nodes that ONNX Runtime does not run

    def start(self, feeds: Feeds, wanted: Iterable[str]) -> Evaluation:
        """Begin to compute the values `wanted`, and no others that these do not depend on."""
        return Evaluation(self, feeds, self.steps_for(wanted))

    def steps_for(self, names: Iterable[str]) -> list[Step]:
        """The nodes on which these values depend."""
        found: dict[int, Step] = {}
        pending = list(names)
        while pending:
            step = self.writers.get(pending.pop())
            if step is not None and id(step) not in found:
                found[id(step)] = step
                pending.extend(step.reads)
        return list(found.values())

    def nodes_between(self, borders: Collection[str], name: str) -> tuple[str, ...]:
        """The names of the nodes that compute a value from others, in the order of the model."""
        return tuple(proto.name or next(filter(None, proto.output), "") for proto in self._between(borders, name))

    def _between(self, borders: Collection[str], name: str) -> list[onnx.NodeProto]:
        found: set[int] = set()
        pending = [name]
        while pending:
            step = self.writers.get(pending.pop())
            if step is not None and id(step) not in found:
                found.add(id(step))
                pending.extend(read for read in step.reads if read not in borders)
        return [step.proto for step in self.stepwise.steps if id(step) in found and step.proto is not None]

    def evaluate_in_float64(self, feeds: Feeds, borders: Collection[str], name: str) -> tuple[Array, Array] | None:
        """A value, and what follows for it in float64 from the values `borders` and the inputs; None if float64 is not
        possible for its nodes.
        """
        evaluation = self.start(feeds, [*borders, name])
        fed = {border: evaluation.value(border) for border in sorted(borders)} | feeds
        expected = evaluation.value(name)
        graph = onnx.GraphProto(name="part", node=self._between(borders, name))
        reads = {read for proto in graph.node for read in proto.input if read}
        arrays = {read: fed[read] for read in sorted(reads) if read in fed}
        if not all(isinstance(array, np.ndarray) for array in (expected, *arrays.values())):
            return None
        for read, array in arrays.items():
            kind = DType.from_numpy(array.dtype).onnx
            graph.input.append(onnx.helper.make_tensor_value_info(read, kind, list(array.shape)))
        constants = sorted(reads & self.constants - arrays.keys())
        graph.initializer.extend(onnx.numpy_helper.from_array(self.stepwise.constant(read), read) for read in constants)
        graph.output.append(onnx.ValueInfoProto(name=name))
        part = onnx.ModelProto(ir_version=self.model.ir_version, graph=graph)
        part.opset_import.extend(self.model.opset_import)
        part.functions.extend(self.model.functions)
        try:
            exact = evaluate_in_float64(part, arrays, self._custom)
        except AtcError:
            return None
        return None if exact is None else (expected, exact[name])

    def compute(self, step: Step, values: dict[str, Any], types: dict[str, str]) -> bool:
        """Add the results of a node; false if nothing can compute them."""
        if (
            self._uses_ort
            and step.form not in self._apart
            and all(name in types for name in step.reads if name in values)
        ):
            try:
                self.stepwise.compute(step, values, types)
            except stepwise_errors():
                self._apart.add(step.form)
            else:
                return True
        try:
            results = self._evaluate(step, values)
        except EVALUATION_ERRORS:
            return False
        for name, result in zip(step.writes, results, strict=True):
            values[name] = result
            if isinstance(result, np.ndarray):
                types[name] = tensor_type(DType.from_numpy(result.dtype).onnx)
        return True

    def _evaluate(self, step: Step, values: Mapping[str, Any]) -> list[Any]:
        """The results of a node in the reference evaluator."""
        from onnx.reference import ReferenceEvaluator

        assert step.proto is not None
        graph = onnx.GraphProto(name="step", node=[step.proto])
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(step.reads))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in step.writes)
        alone = onnx.ModelProto(ir_version=self.model.ir_version, graph=graph)
        alone.opset_import.extend(self.model.opset_import)
        alone.functions.extend(self.model.functions)
        whole, own_ops = with_custom_ops(alone, self._custom)
        fed = {name: values[name] if name in values else self.stepwise.constant(name) for name in step.reads}
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(whole, new_ops=own_ops).run(step.writes, fed)
        return [np.asarray(result) if isinstance(result, np.generic) else result for result in results]


class Evaluation:
    """The values of a model for some inputs. `peak_bytes`: the most that the values took which were live at a time."""

    def __init__(self, evaluator: ModelEvaluator, feeds: Feeds, steps: Iterable[Step]) -> None:
        self._evaluator = evaluator
        self._values: dict[str, Any] = dict(feeds)
        self._types = {name: tensor_type(DType.from_numpy(array.dtype).onnx) for name, array in feeds.items()}
        self._readers = Counter(name for step in steps for name in set(step.reads))
        self._done: set[int] = set()
        self._live_bytes = sum(array.nbytes for array in feeds.values())
        self.peak_bytes = self._live_bytes

    def value(self, name: str) -> Any:
        """A value; None if it cannot be computed, or was asked for before and is not read any more."""
        pending = [name]
        while pending:
            step = self._evaluator.writers.get(pending[-1])
            if pending[-1] in self._values or step is None or id(step) in self._done:
                pending.pop()
                continue
            before = [read for read in step.reads if self._is_missing(read)]
            if before:
                pending.extend(before)
                continue
            pending.pop()
            self._compute(step)
        found = self._values.get(name)
        if not self._readers[name]:
            self._drop(name)
        return found

    def _is_missing(self, name: str) -> bool:
        step = self._evaluator.writers.get(name)
        return name not in self._values and step is not None and id(step) not in self._done

    def _compute(self, step: Step) -> None:
        self._done.add(id(step))
        if all(name in self._values or name not in self._evaluator.writers for name in step.reads):
            before = self._values.keys() & step.writes
            if not before and self._evaluator.compute(step, self._values, self._types):
                self._live_bytes += sum(_size(self._values[name]) for name in step.writes)
                self.peak_bytes = max(self.peak_bytes, self._live_bytes)
        for name in set(step.reads):
            self._readers[name] -= 1
            if not self._readers[name]:
                self._drop(name)

    def _drop(self, name: str) -> None:
        if name in self._evaluator.constants:
            self._values.pop(name, None)
        else:
            self._live_bytes -= _size(self._values.pop(name, None))


def _size(value: Array | Any) -> int:
    return value.nbytes if isinstance(value, np.ndarray) else 0

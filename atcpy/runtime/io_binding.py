"""Inputs and outputs that are bound once and used by many runs, with the methods of ONNX Runtime's IOBinding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atcpy.errors import UsageError, Where
from atcpy.ir.tensor import Array
from atcpy.runtime.memory import as_array
from atcpy.runtime.targets import check_target

if TYPE_CHECKING:
    from atcpy.runtime.session import InferenceSession, NodeArg


class OrtValue:
    """An array that a run has written. It can be read by DLPack and as an array, without a copy."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def numpy(self) -> Any:
        """The array itself; a list for a sequence."""
        return self._array

    def shape(self) -> list[int]:
        """Its dims."""
        return list(self._array.shape)

    def data_ptr(self) -> int:
        """The address of its first element."""
        return int(self._array.ctypes.data)

    def device_name(self) -> str:
        """Where it lies."""
        return "cpu"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._array.__dlpack_device__()
        return device


class IOBinding:
    """Memory for the inputs and outputs of a session's runs. An input is read, and an output written, where it lies."""

    def __init__(self, session: InferenceSession) -> None:
        self._inputs = {port.name: port for port in (*session.get_inputs(), *session.get_overridable_initializers())}
        self._outputs = {port.name: port for port in session.get_outputs()}
        self._feeds: dict[str, Any] = {}
        self._targets: dict[str, Array | None] = {}
        self._results: list[Any] = []

    @property
    def feeds(self) -> Mapping[str, Any]:
        """The inputs that are bound."""
        return self._feeds

    @property
    def targets(self) -> Mapping[str, Array | None]:
        """The outputs that are bound, each with its memory, or None where a run allocates it."""
        return self._targets

    def bind_cpu_input(self, name: str, array: Any) -> None:
        """Read an input from an array, or from whatever shares its memory as an array or by DLPack."""
        self._port(self._inputs, name, "input", "E13025")
        self._feeds[name] = as_array(array)

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        """Read an input from what an earlier run has written."""
        self.bind_cpu_input(name, value.numpy())

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Read an input from an address, which stays valid as long as it is bound."""
        port = self._port(self._inputs, name, "input", "E13025")
        self._feeds[name] = _at_address(port, device_type, device_id, element_type, shape, buffer_ptr)

    def bind_cpu_output(self, name: str, array: Array) -> None:
        """Write an output into an array. Raises UsageError (E13031) for one that no run can write; a run compares it
        with the other arrays.
        """
        check_target(array, self._port(self._outputs, name, "output", "E13031"))
        self._targets[name] = array

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        """Write an output where an earlier run has written."""
        self.bind_cpu_output(name, value.numpy())

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Write an output to an address, which stays valid as long as it is bound; without one each run allocates."""
        port = self._port(self._outputs, name, "output", "E13031")
        if buffer_ptr is None:
            _check_device(name, device_type, device_id)
            self._targets[name] = None
        elif shape is None:
            what = f"bind_output: the shape at {buffer_ptr:#x} is missing"
            raise UsageError("E13031", what, where=Where(value=name), hint="shape=(…)")
        else:
            self.bind_cpu_output(name, _at_address(port, device_type, device_id, element_type, shape, buffer_ptr))

    def clear_binding_inputs(self) -> None:
        """Forget all inputs."""
        self._feeds.clear()

    def clear_binding_outputs(self) -> None:
        """Forget all outputs."""
        self._targets.clear()
        self._results.clear()

    def synchronize_inputs(self) -> None:
        """There is nothing to wait for: inputs lie in memory."""

    def synchronize_outputs(self) -> None:
        """There is nothing to wait for: a run that has ended has written them."""

    def set_results(self, results: Sequence[Any]) -> None:
        """Note what a run has written, in the order of the outputs that are bound."""
        self._results = list(results)

    def get_outputs(self) -> list[OrtValue]:
        """What the last run has written, in the order in which outputs were bound."""
        return [OrtValue(result) for result in self._results]

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of what the last run has written."""
        return [np.copy(result) if isinstance(result, np.ndarray) else result for result in self._results]

    @staticmethod
    def _port(ports: Mapping[str, NodeArg], name: str, kind: str, code: str) -> NodeArg:
        if name not in ports:
            raise UsageError(code, f'bind: no {kind} "{name}"', hint=f"there are {', '.join(ports)}")
        return ports[name]


def _check_device(name: str, device_type: str, device_id: int) -> None:
    if (device_type, device_id) != ("cpu", 0):
        what = f"bind: {device_type}:{device_id} is not the device cpu:0"
        raise UsageError("E13025", what, where=Where(value=name), hint="copy it to the memory of the process")


def _at_address(
    port: NodeArg, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], address: int
) -> Array:
    _check_device(port.name, device_type, device_id)
    dtype = port.dtype.numpy if element_type is None else np.dtype(element_type)
    if dtype != port.dtype.numpy:
        what = f"bind: {port.name} is {port.dtype.long}, not {dtype}"
        raise UsageError("E10403", what, where=Where(value=port.name), hint=f"convert it to {port.dtype.long}")
    count = int(np.prod(shape, dtype=object))
    if count < 0 or (count > 0 and address == 0) or address % max(dtype.alignment, 1):
        what = f"bind: there are no {count} aligned elements at {address:#x}"
        hint = f"an address is a multiple of {dtype.alignment}, sizes are not negative"
        raise UsageError("E13025", what, where=Where(value=port.name), hint=hint)
    if count == 0:
        return np.empty(tuple(shape), dtype)
    memory = _Memory({"data": (address, False), "shape": (count * dtype.itemsize,), "typestr": "|u1", "version": 3})
    return np.asarray(memory).view(dtype).reshape(tuple(shape))


class _Memory:
    """Bytes at an address, as numpy's array interface describes them."""

    def __init__(self, interface: Mapping[str, object]) -> None:
        self.__array_interface__ = interface

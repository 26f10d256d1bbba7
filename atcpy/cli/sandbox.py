"""`atcpy run --sandbox`: a child of its own loads and runs the package, closed in; this process writes the outputs.

The child is `python -m atcpy.cli.sandboxed`. It sends its result through its standard output:

    one line of JSON: {"error": …}, or {"ran", "seconds", "warnings",
                              "outputs": [{"name", "dtype", "shape", "texts"?}, …]}
    the bytes of each output that is not of texts, one after the other

Whoever took the child over can send anything, so nothing of that is trusted: sizes are computed here, types are looked
up, and the text that reaches a terminal is escaped as that of any model.
"""

import json
import math
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import IO, Any

import numpy as np

from atcpy.cli.job import Computed, Job
from atcpy.cli.outcome import Outcome
from atcpy.errors import AtcError, CustomOpError, InternalError, ResourceLimit, Unsupported, UsageError, Where, group
from atcpy.errors.record import error_from_record, error_to_record, warning_from_record
from atcpy.ir.dtype import DType
from atcpy.runtime.distributed.world import SingleRank
from atcpy.runtime.sandbox import require_sandbox
from atcpy.sizes import MAX_DIM, MAX_RANK

_MAX_LINE_BYTES = 64 << 20
_GRACE_SECONDS = 1.0
_TYPES = {dtype.long: dtype for dtype in DType if dtype is not DType.UNDEFINED}


def run_sandboxed(job: Job, *, ranks: int) -> Outcome:
    """Run a package in a child that is closed in, write the outputs here, and report."""
    if ranks > 1:
        what = "--sandbox runs one rank: others are reached by the network"
        raise UsageError("E10056", what, where=Where(option="sandbox"), hint="give one")
    if job.custom_ops:
        what = "--sandbox and --custom-ops: code of yours is no package's, and may need what a sandbox denies"
        raise UsageError("E10056", what, where=Where(option="custom_ops"), hint="give one of them")
    require_sandbox()
    job.prepare()
    # It finds the modules of this process. Of what is open here it inherits nothing but its own three descriptors.
    command = [sys.executable, "-P", "-c", _START, json.dumps(sys.path)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        computed = _exchange(child, json.dumps(asdict(job)).encode())
    except CustomOpError as error:
        for problem in error.problems:
            problem.hint = "a sandbox runs no custom operators: run it with --custom-ops, without --sandbox"
        raise
    finally:
        child.kill()
        child.wait()
    return job.report(computed, SingleRank())


_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from atcpy.cli.sandboxed import main; main()"


def _exchange(child: "subprocess.Popen[bytes]", work: bytes) -> Computed:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(work)
        child.stdin.close()
        return receive(child.stdout)
    except (BrokenPipeError, EOFError):
        raise InternalError(f"the sandboxed process ended without a result: {_how_it_ended(child)}") from None


def _how_it_ended(child: "subprocess.Popen[bytes]") -> str:
    try:
        code = child.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        return "it closed its output"
    return f"{signal.strsignal(-code)} (signal {-code})" if code < 0 else f"exit code {code}"


# ---- the child's side


def send(stream: IO[bytes], computed: Computed) -> None:
    """Write the outputs of a run."""
    arrays = {name: _array(name, value) for name, value in computed.arrays.items()}
    outputs = [_header(name, array) for name, array in arrays.items()]
    warnings = [asdict(warning) for warning in computed.warnings]
    line = json.dumps({"ran": computed.ran, "seconds": computed.seconds, "outputs": outputs, "warnings": warnings})
    stream.write(line.encode() + b"\n")
    for header, array in zip(outputs, arrays.values(), strict=True):
        if "texts" not in header:
            stream.write(np.ascontiguousarray(array).tobytes())
    stream.flush()


def send_error(stream: IO[bytes], error: AtcError | InternalError) -> None:
    """Write why a run failed."""
    problems = error.problems if isinstance(error, AtcError) else (error,)
    record = [error_to_record(each) for each in problems]
    stream.write(json.dumps({"error": record}).encode() + b"\n")
    stream.flush()


def _array(name: str, value: object) -> "np.ndarray[Any, Any]":
    if not isinstance(value, np.ndarray):
        what = f'--sandbox: output "{name}" is no tensor'
        raise Unsupported("E10055", what, hint="name the outputs that are: --outputs")
    return value


def _header(name: str, array: "np.ndarray[Any, Any]") -> dict[str, Any]:
    dtype = DType.from_numpy(array.dtype)
    header: dict[str, Any] = {"name": name, "dtype": dtype.long, "shape": list(array.shape)}
    if dtype is DType.STRING:
        header["texts"] = [str(text) for text in array.reshape(-1)]
    return header


# ---- this side


def receive(stream: IO[bytes]) -> Computed:
    """Read what came of a run. Raises its error, EOFError if something is missing, InternalError if it is no result."""
    line = stream.readline(_MAX_LINE_BYTES)
    if not line.endswith(b"\n"):
        raise EOFError
    try:
        record = json.loads(line)
        if "error" in record:
            error = _error([dict(each) for each in record["error"]])
        else:
            arrays = {str(header["name"]): _read(stream, header) for header in record["outputs"]}
            warnings = [warning_from_record(each) for each in record["warnings"]]
            return Computed(arrays, str(record["ran"]), float(record["seconds"]), warnings=warnings)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise InternalError(f"the sandboxed process sent no result: {problem!r:.200}") from problem
    raise error


def _read(stream: IO[bytes], header: Mapping[str, Any]) -> "np.ndarray[Any, Any]":
    dtype, shape = _TYPES[header["dtype"]], header["shape"]
    if len(shape) > MAX_RANK or not all(type(dim) is int and 0 <= dim <= MAX_DIM for dim in shape):
        raise ValueError(f"the shape {shape!r:.80}")
    count = math.prod(shape)
    if dtype is DType.STRING:
        texts = [str(text) for text in header["texts"]]
        if len(texts) != count:
            raise ValueError(f"{len(texts)} texts for {count} elements")
        flat: np.ndarray[Any, Any] = np.empty(count, np.object_)
        flat[:] = texts
        return flat.reshape(shape)
    try:
        array: np.ndarray[Any, Any] = np.empty(shape, dtype.numpy)
    except (MemoryError, ValueError) as error:
        raise ResourceLimit("R0001", f"no memory for an output of shape {shape!r:.80}") from error
    target = array.reshape(-1).view(np.uint8).data
    while target:
        read = stream.readinto(target)  # type: ignore[attr-defined]
        if not read:
            raise EOFError
        target = target[read:]
    return array


def _error(problems: Sequence[Mapping[str, Any]]) -> AtcError | InternalError:
    errors: list[AtcError] = []
    for problem in problems:
        error = error_from_record(problem)
        if isinstance(error, InternalError):
            return error
        errors.append(error)
    return group(errors) if errors else InternalError("the sandboxed process failed without an error")

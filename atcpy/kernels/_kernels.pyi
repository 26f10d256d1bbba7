from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Buffer = bytes | memoryview | npt.NDArray[np.generic]

TASK_BYTES: int
PARAM_BYTES: int
MAX_SLOTS: int
MAX_RANK: int
PROGRAM_OPS: tuple[str, ...]

class Refused(Exception): ...
class Unmet(Refused): ...
class Fault(Exception): ...

class Run:
    def execute(self, first: int, last: int, elapsed_ns: Buffer | None = None, /) -> None: ...
    def iterate(
        self, count: int, swaps: list[tuple[int, int]], strides: list[tuple[int, Buffer]], condition: int, /
    ) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Plan:
    def __init__(
        self,
        records: Buffer,
        weights: Buffer | None,
        arena_bytes: int,
        input_bytes: list[int],
        output_bytes: list[int],
        threads: int,
        isa: str | None = None,
        only: str | None = None,
        arenas_of: Plan | None = None,
    ) -> None: ...
    def rows(self) -> list[str | None]: ...
    def start(self, inputs: list[Buffer], outputs: list[Buffer], /) -> Run: ...

class SymbolicPlan:
    def __init__(
        self,
        blob: Buffer,
        records: Buffer,
        weights: Buffer | None,
        threads: int,
        isa: str | None = None,
        only: str | None = None,
        arenas_of: SymbolicPlan | None = None,
    ) -> None: ...
    def arena_bytes(self) -> int | None: ...
    def instantiate(self, symbols: Sequence[int], /) -> tuple[Plan, list[int], list[tuple[int, ...]], int] | None: ...

def families() -> dict[str, list[tuple[str, bool, int, list[str] | None]]]: ...
def rows() -> list[tuple[str, str, int, str]]: ...
def cpu() -> tuple[str, int, int]: ...
def maps_of_rows(keys: Sequence[int | str], rows: npt.NDArray[np.float32], /) -> list[dict[int | str, float]]: ...
def set_deadline(deadline_ns: int, /) -> int: ...
def check_deadline() -> None: ...

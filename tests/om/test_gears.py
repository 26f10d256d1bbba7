"""The gears of a package: read back as written; records that do not fit the inputs, outputs or tasks are refused."""

import pytest

from atcpy.errors import PackageCorrupt
from atcpy.ir import Gear
from atcpy.om.container import Partition
from atcpy.om.gears import read_gears
from atcpy.om.inout import GearInfo, ModelInfo, TensorInfo
from atcpy.om.package import parse_package
from atcpy.om.reader import read_model
from atcpy.sizes import MAX_DIM, GearKind, Gears
from tests.models_in_text import package
from tests.om.mutator import mutate_partition

X = TensorInfo("x", 0, 2, 0, (-1, 3), (-1, 3))
Y = X._replace(name="y")
LISTED = GearInfo(Gears(GearKind.BATCH, ((1,), (8,))), ("0,0,1,3", "1,0,8,3"), ("x",))
INFO = ModelInfo((X,), (Y,), LISTED)
TEXT = "[[2,64],[3,128]]"


def test_gears_that_fit() -> None:
    assert read_gears(INFO, TEXT, 5) == (
        Gear((1,), ((1, 3),), ((1, 3),), 2, 64),
        Gear((8,), ((8, 3),), ((8, 3),), 3, 128),
    )


def with_shapes(*texts: str) -> ModelInfo:
    return INFO._replace(gears=LISTED._replace(output_shapes=texts))


@pytest.mark.parametrize(
    ("info", "text", "tasks"),
    [
        (INFO._replace(gears=None), TEXT, 5),
        (INFO._replace(inputs=(X._replace(dims=(-2,)),)), TEXT, 5),
        (INFO._replace(inputs=(X._replace(dims=(MAX_DIM + 1, -1)),)), TEXT, 5),
        (INFO._replace(outputs=(Y._replace(dims=(-2,)),)), TEXT, 5),
        (INFO._replace(inputs=(X._replace(dims=(1, 3)),)), TEXT, 5),  # nothing varies
        (INFO._replace(gears=LISTED._replace(gears=Gears(GearKind.DIMS, ((1, 2), (3, 4))))), TEXT, 5),
        *((INFO, text, 5) for text in ("", "[]", "{}", "5", "[[2,64]]", "[[2,64],[3]]", "[[2,64],[3,-1]]")),
        *((INFO, text, 5) for text in ("[[2,64],[3,true]]", f"[[2,64],[3,{2**47}]]", '[[2,64],[3,"1"]]', "[" * 99_999)),
        (INFO, TEXT, 4),
        (INFO, TEXT, 6),
        *(
            (with_shapes(*texts), TEXT, 5)
            for texts in (
                (), ("0,0,1,3",), ("1,0,8,3", "0,0,1,3"), ("0,0,1,3", "1,0,8,3", "0,1,1,3"), ("0,0,1,3", "1,0,8"),
                ("0,0,1,3", "1,0,8,4"), ("0,0,1,3", "1,0,-1,3"), ("0,0,1,3", f"1,0,{MAX_DIM + 1},3"), ("0,0,1,3", "x"),
            )
        ),
    ],
)  # fmt: skip
def test_records_that_nobody_writes_are_refused(info: ModelInfo, text: str, tasks: int) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, RecursionError)):
        read_gears(info, text, tasks)


def test_a_package_of_gears_comes_back_with_its_graph() -> None:
    whole = package(
        "m (float[b,3] x) => (float[b,3] y) { y = Exp(x) }", {"input_shape": "x:-1,3", "dynamic_batch_size": "1,2"}
    )
    opened = parse_package(whole)
    assert [gear.sizes for gear in opened.gears] == [(1,), (2,)]
    tasks = [task for number in range(2) for task in opened.tasks_of(number)]
    assert tasks == list(opened.tasks) and len(tasks) == sum(gear.task_count for gear in opened.gears)
    assert read_model(opened).graph.name == "m"
    for text in ("[]", "[[1]]"):
        damaged = mutate_partition(whole, Partition.TASK_INFO, lambda info: info.attr.update({"atcpy_gears": text}))  # noqa: B023
        with pytest.raises(PackageCorrupt, match="gears are malformed"):
            parse_package(damaged)

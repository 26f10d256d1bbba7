"""Sessions: order of calls, options, queued runs, threads, memory."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import numpy as np
import onnx
import pytest

import atcpy
from atcpy import ge
from atcpy.errors import AtcError, ModelInvalid, UsageError
from atcpy.ge import op
from tests.ge.test_graph import cnn

TIMEOUT = 60  # seconds after which a test that waits has failed


def elementwise(op_type: str, shape: tuple[int, ...] = (4,)) -> ge.Graph:
    x = op.Data("x").update_output_desc_y(ge.TensorDesc(shape))
    return ge.Graph(op_type).SetInputs([x]).SetOutputs([getattr(op, op_type)("y").set_input_x(x)])


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as caught:
        action()
    assert caught.value.hint
    return caught.value.code


X = np.array([1, 2, 3, 4], np.float32)


# --- the engine -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_engine")
def test_there_is_one_engine_at_a_time() -> None:
    assert refusal(ge.Session) == "G0001"
    assert refusal(ge.GEFinalize) == "G0001"
    ge.GEInitialize()
    assert refusal(ge.GEInitialize) == "G0002"
    first = ge.Session()
    ge.GEFinalize()
    assert refusal(ge.Session) == "G0001"
    ge.GEInitialize()
    assert ge.Session().GetSessionId() != first.GetSessionId()


def test_a_session_ends_with_the_engine(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    session.CompileGraph(0)
    ge.GEFinalize()
    ge.GEInitialize()  # does not bring it back
    for action in (
        lambda: session.AddGraph(1, elementwise("Neg")),
        lambda: session.CompileGraph(0),
        lambda: session.RunGraph(0, [X]),
        lambda: session.RunGraphAsync(0, [X], print),
        lambda: session.RemoveGraph(0),
        lambda: session.IsGraphNeedRebuild(0),
        lambda: session.GetCompiledGraphSummary(0),
        lambda: session.GetCompiledModel(0),
        session.GetMemoryReport,
    ):
        assert refusal(action) == "G0001"


def test_a_session_may_end_by_itself(session: ge.Session) -> None:
    with session:
        session.AddGraph(0, elementwise("Neg"))
    assert refusal(lambda: session.RunGraph(0, [X])) == "G0001"
    other = ge.Session()
    other.AddGraph(0, elementwise("Neg"))
    assert other.RunGraph(0, [X])[0].tolist() == [-1, -2, -3, -4]


def test_a_session_that_nobody_has_is_freed(session: ge.Session) -> None:
    other = ge.Session()
    other.AddGraph(0, elementwise("Neg"))
    other.RunGraph(0, [X])
    seen = weakref.ref(other)
    del other
    gc.collect()
    assert seen() is None


# --- graphs and their ids ---------------------------------------------------------------------------


def test_a_graph_is_added_then_compiled_then_run(session: ge.Session) -> None:
    for action in (session.CompileGraph, session.RemoveGraph, session.IsGraphNeedRebuild):
        assert refusal(lambda action=action: action(7)) == "G0003"
    assert refusal(lambda: session.RunGraph(7, [X])) == "G0003"
    assert refusal(lambda: session.RunGraphAsync(7, [X], print)) == "G0003"
    session.AddGraph(7, elementwise("Neg"))
    assert session.IsGraphNeedRebuild(7)
    assert refusal(lambda: session.GetCompiledGraphSummary(7)) == "G0006"
    assert refusal(lambda: session.GetCompiledModel(7)) == "G0006"
    session.CompileGraph(7)
    assert not session.IsGraphNeedRebuild(7)
    package = session.GetCompiledModel(7)
    session.CompileGraph(7)
    assert session.GetCompiledModel(7) is package
    assert session.RunGraph(7, [X])[0].tolist() == [-1, -2, -3, -4]


def test_a_graph_that_is_not_compiled_is_compiled_when_it_runs(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    session.RunGraph(0, [X])
    assert not session.IsGraphNeedRebuild(0)


def test_an_id_has_one_graph(session: ge.Session) -> None:
    session.AddGraph(1, elementwise("Neg"))
    assert refusal(lambda: session.AddGraph(1, elementwise("Abs"))) == "G0004"
    assert session.RunGraph(1, [X])[0].tolist() == [-1, -2, -3, -4]
    session.RemoveGraph(1)
    assert refusal(lambda: session.RunGraph(1, [X])) == "G0003"
    session.AddGraph(1, elementwise("Abs"))
    assert session.RunGraph(1, [-X])[0].tolist() == [1, 2, 3, 4]


def test_sessions_have_ids_of_their_own(session: ge.Session) -> None:
    other = ge.Session()
    session.AddGraph(1, elementwise("Neg"))
    other.AddGraph(1, elementwise("Abs"))
    assert session.RunGraph(1, [X])[0].tolist() == [-1, -2, -3, -4]
    assert other.RunGraph(1, [X])[0].tolist() == [1, 2, 3, 4]


def test_a_graph_is_added_as_it_is(session: ge.Session) -> None:
    graph = elementwise("Neg")
    session.AddGraph(0, graph)
    graph.SetOutputs([graph.inputs[0]])
    assert session.RunGraph(0, [X])[0].tolist() == [-1, -2, -3, -4]


@pytest.mark.parametrize(("graph_id", "code"), [(True, "E10003"), ("1", "E10003"), (-1, "E10013"), (2**32, "E10013")])
def test_an_id_is_a_number_of_32_bits(graph_id: Any, code: str, session: ge.Session) -> None:
    for action in (lambda: session.AddGraph(graph_id, elementwise("Neg")), lambda: session.RunGraph(graph_id, [X])):
        with pytest.raises(UsageError) as caught:
            action()
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("inputs", "code"), [([], "E10401"), ([X, X], "E10401"), ([X[:2]], "E10405"), ([X.astype(np.int32)], "E10403")]
)
def test_inputs_that_do_not_fit_are_refused(inputs: list[Any], code: str, session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    with pytest.raises(UsageError) as caught:
        session.RunGraph(0, inputs)
    assert caught.value.code == code
    assert session.RunGraph(0, [X])[0].tolist() == [-1, -2, -3, -4]


def test_a_graph_that_does_not_compile_can_be_removed(session: ge.Session) -> None:
    a, b = (op.Data(name).update_output_desc_y(ge.TensorDesc([size])) for name, size in (("a", 2), ("b", 3)))
    session.AddGraph(0, ge.Graph().SetInputs([a, b]).SetOutputs([op.Add("s").set_input_x1(a).set_input_x2(b)]))
    for _ in range(2):
        with pytest.raises(ModelInvalid) as caught:
            session.CompileGraph(0)
        assert caught.value.where.node == "s"
    session.RemoveGraph(0)


# --- options ----------------------------------------------------------------------------------------


def recorded(session: ge.Session, graph_id: int) -> list[str]:
    session.CompileGraph(graph_id)
    cmdline: str = atcpy.InferenceSession(session.GetCompiledModel(graph_id)).model.cmdline
    return cmdline.split()[2:]


@pytest.mark.usefixtures("no_engine")
def test_options_of_a_graph_override_those_of_the_session_and_these_those_of_the_engine() -> None:
    ge.GEInitialize({"ge.oo.level": "O1", "ge.socVersion": "Ascend310", "ge.exec.disableReuseMemory": "1"})
    session = ge.Session({"soc": "Ascend310P3", "ge.graphRunMode": "1"})
    session.AddGraph(0, elementwise("Neg"), {"ge.exec.disableReuseMemory": "0", "ge.exec.deviceId": 0})
    session.AddGraph(1, elementwise("Neg"))
    ge.Session().AddGraph(0, elementwise("Neg"))
    assert recorded(session, 0) == ["--input_format=ND", "--oo_level=O1", "--soc=Ascend310P3"]
    assert recorded(session, 1) == [
        "--disable_reuse_memory=1",
        "--input_format=ND",
        "--oo_level=O1",
        "--soc=Ascend310P3",
    ]


def test_threads_count_for_runs(session: ge.Session) -> None:
    """A result does not say how many threads there were; their scratch does, where kernels need some."""
    session.AddGraph(0, cnn())
    session.AddGraph(1, cnn(), {"threads": 2})
    x = np.ones((2, 3, 16, 16), np.float32)
    assert session.RunGraph(0, [x])[0].tobytes() == session.RunGraph(1, [x])[0].tobytes()
    one, two = session.GetMemoryReport().graphs
    assert one.run_bytes is not None
    assert two.run_bytes is not None
    assert one.run_bytes < two.run_bytes


def test_a_limit_of_memory_counts(session: ge.Session) -> None:
    session.AddGraph(0, cnn(), {"memory_limit": 1 << 12})
    with pytest.raises(AtcError) as caught:
        session.RunGraph(0, [np.ones((2, 3, 16, 16), np.float32)])
    assert caught.value.code == "R0001"


def test_a_limit_of_memory_counts_for_runs_of_open_sizes(session: ge.Session) -> None:
    x = op.Data("x").update_output_desc_y(ge.TensorDesc([-1, 4]))
    total = op.CumSum("total").set_input_x(op.Softmax("s").set_input_x(x))
    total.set_input_axis(op.Const("axis").set_attr_value(np.array(0)))
    session.AddGraph(0, ge.Graph().SetInputs([x]).SetOutputs([total]), {"memory_limit": "64K"})
    assert session.RunGraph(0, [np.ones((8, 4), np.float32)])[0].shape == (8, 4)
    with pytest.raises(AtcError) as caught:
        session.RunGraph(0, [np.ones((1 << 16, 4), np.float32)])
    assert caught.value.code == "R0001"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"ge.nonesuch": "1"}, "E10001"),
        ({"ge.oo.level": "O9"}, "E10001"),
        ({"ge.exec.deviceId": "1"}, "E10001"),
        ({"ge.graphRunMode": "2"}, "E10001"),
        ({1: "x"}, "E10003"),
        ([("threads", 1)], "E10003"),
        ({"ge.socVersion": "Ascend310", "soc": "Ascend310"}, "E10047"),
        ({"dump_passes": "X"}, "E10057"),
    ],
)
@pytest.mark.usefixtures("no_engine")
def test_options_are_refused_where_they_are_given(options: Any, code: str) -> None:
    def check(action: Callable[[], object]) -> None:
        with pytest.raises(UsageError) as caught:
            action()
        assert caught.value.code == code

    check(lambda: ge.GEInitialize(options))
    ge.GEInitialize()
    check(lambda: ge.Session(options))
    check(lambda: ge.Session().AddGraph(0, elementwise("Neg"), options))
    check(lambda: ge.aclgrphBuildModel(elementwise("Neg"), options))


def test_the_spelling_of_an_unknown_option_is_shown(session: ge.Session) -> None:
    with pytest.raises(UsageError, match=r"ge\.exec\.disableReusedMemory") as caught:
        session.AddGraph(0, elementwise("Neg"), {"ge.exec.disableReusedMemory": "1"})
    assert "disable_reuse_memory" in caught.value.hint


@pytest.mark.usefixtures("no_engine")
def test_options_that_exclude_each_other_are_refused_across_scopes() -> None:
    ge.GEInitialize({"ge.inputShape": "x:-1,4", "ge.dynamicBatchSize": "1,2"})
    session = ge.Session()
    with pytest.raises(UsageError) as caught:
        session.AddGraph(0, elementwise("Neg"), {"ge.dynamicDims": "1;2"})
    assert caught.value.code == "E10009"


def test_gears_are_options_of_a_graph(session: ge.Session) -> None:
    options = {"ge.inputShape": "x:-1,4", "ge.dynamicBatchSize": "1,2"}
    session.AddGraph(0, elementwise("Neg", (-1, 4)), options)
    assert session.RunGraph(0, [np.ones((2, 4), np.float32)])[0].shape == (2, 4)
    with pytest.raises(UsageError, match="the gears are"):
        session.RunGraph(0, [np.ones((3, 4), np.float32)])


# --- queued runs ------------------------------------------------------------------------------------


class Received:
    """A callback that notes what it gets, and waits until it may go on."""

    def __init__(self) -> None:
        self.results: list[tuple[Any, list[Any]]] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.was_called = threading.Event()

    def __call__(self, error: Any, outputs: list[Any]) -> None:
        assert self.may_go_on.wait(TIMEOUT)
        self.results.append((error, outputs))
        self.was_called.set()


def test_callbacks_are_called_in_the_order_of_the_runs(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    session.AddGraph(1, elementwise("Abs"))
    received = Received()
    for number in range(20):
        session.RunGraphAsync(number % 2, [np.full(4, number, np.float32)], received)
    session.close()
    assert [error for error, _ in received.results] == [None] * 20
    expected = [number if number % 2 else -number for number in range(20)]
    assert [outputs[0].tolist() for _, outputs in received.results] == [[number] * 4 for number in expected]


def test_errors_of_runs_reach_the_callback_and_the_next_run_follows(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    received = Received()
    for inputs in ([X[:1]], [], [X]):
        session.RunGraphAsync(0, inputs, received)
    session.close()
    (first, nothing), (second, _), (third, outputs) = received.results
    assert (first.code, second.code, third) == ("E10405", "E10401", None)
    assert nothing == []
    assert outputs[0].tolist() == [-1, -2, -3, -4]


def test_errors_of_the_compiler_reach_the_callback(session: ge.Session) -> None:
    session.AddGraph(0, ge.aclgrphParseONNX(onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { y = Nonesuch(x) }'
    )))  # fmt: skip
    received = Received()
    session.RunGraphAsync(0, [X], received)
    session.close()
    assert received.results[0][0].code == "E19010"


def test_inputs_may_be_changed_as_soon_as_they_are_queued(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    received, x = Received(), X.copy()
    received.may_go_on.clear()
    for _ in range(2):
        session.RunGraphAsync(0, [x], received)
    x[:] = 100
    received.may_go_on.set()
    session.close()
    assert [outputs[0].tolist() for _, outputs in received.results] == [[-1, -2, -3, -4]] * 2


def test_a_callback_may_run_and_remove_graphs(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    session.AddGraph(1, elementwise("Abs"))
    results: SimpleQueue[Any] = SimpleQueue()

    def then(error: Any, outputs: list[Any]) -> None:
        session.RemoveGraph(0)
        results.put(session.RunGraph(1, outputs))
        session.RunGraphAsync(1, [-X], lambda error, outputs: results.put(outputs))

    session.RunGraphAsync(0, [X], then)
    assert [results.get(timeout=TIMEOUT)[0].tolist() for _ in range(2)] == [[1, 2, 3, 4]] * 2
    assert refusal(lambda: session.CompileGraph(0)) == "G0003"


def test_what_a_callback_raises_is_reported_and_the_next_run_follows(
    session: ge.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_value))
    session.AddGraph(0, elementwise("Neg"))
    received = Received()
    session.RunGraphAsync(0, [X], lambda error, outputs: 1 / 0)
    session.RunGraphAsync(0, [X], received)
    session.close()
    assert [type(error) for error in reported] == [ZeroDivisionError]
    assert received.results[0][0] is None


def test_a_callback_cannot_end_what_it_belongs_to(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    codes: list[str] = []
    session.RunGraphAsync(0, [X], lambda *_: codes.extend((refusal(ge.GEFinalize), refusal(session.close))))
    session.close()
    assert codes == ["G0005", "G0005"]
    ge.GEFinalize()  # it is still there


def test_a_callback_is_a_function(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    with pytest.raises(UsageError) as caught:
        session.RunGraphAsync(0, [X], None)  # type: ignore[arg-type]
    assert caught.value.code == "E10003"
    session.RemoveGraph(0)


def test_a_graph_with_queued_runs_is_not_removed(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    session.AddGraph(1, elementwise("Abs"))
    received = Received()
    received.may_go_on.clear()
    for graph_id in (0, 1):
        session.RunGraphAsync(graph_id, [X], received)
    assert refusal(lambda: session.RemoveGraph(1)) == "G0005"
    received.may_go_on.set()
    session.RunGraphAsync(0, [X], done := Received())
    assert done.was_called.wait(TIMEOUT)
    session.RemoveGraph(1)
    assert received.results[1][1][0].tolist() == [1, 2, 3, 4]


def test_finalize_waits_for_queued_runs(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    received = Received()
    received.may_go_on.clear()
    for _ in range(5):
        session.RunGraphAsync(0, [X], received)
    ending = threading.Thread(target=ge.GEFinalize)
    ending.start()
    assert ending.is_alive()
    assert received.results == []
    received.may_go_on.set()
    ending.join(TIMEOUT)
    assert not ending.is_alive()
    assert [error for error, _ in received.results] == [None] * 5


def test_the_end_waits_for_the_last_callback(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Neg"))
    received = Received()
    received.may_go_on.clear()
    session.RunGraphAsync(0, [X], received)
    ending = threading.Thread(target=session.close)
    ending.start()
    ending.join(0.05)
    assert ending.is_alive()
    received.may_go_on.set()
    ending.join(TIMEOUT)
    assert received.was_called.is_set()


# --- threads ----------------------------------------------------------------------------------------


class Meeting:
    """An operator that waits in `forward` until so many runs are in it."""

    barrier = threading.Barrier(2)
    has_begun = threading.Event()

    @staticmethod
    def infer(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        Meeting.has_begun.set()
        Meeting.barrier.wait(TIMEOUT)
        return x + 1


@pytest.mark.usefixtures("no_custom_ops")
def test_a_graph_that_runs_is_not_removed_and_its_runs_are_counted(session: ge.Session) -> None:
    atcpy.register_operator("Meeting", domain="test")(Meeting)
    text = '<ir_version: 10, opset_import: ["": 21, "test": 1]> g (float[4] x) => (float[4] y) { y = test.Meeting(x) }'
    session.AddGraph(0, ge.aclgrphParseONNX(onnx.parser.parse_model(text)))
    session.CompileGraph(0)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(session.RunGraph, 0, [X])
        assert Meeting.has_begun.wait(TIMEOUT)
        assert refusal(lambda: session.RemoveGraph(0)) == "G0005"
        [graph] = session.GetMemoryReport().graphs
        assert (graph.runs, graph.peak_runs) == (1, 1)
        second = pool.submit(session.RunGraph, 0, [X + 1])
        assert [future.result(TIMEOUT)[0].tolist() for future in (first, second)] == [[2, 3, 4, 5], [3, 4, 5, 6]]
    [graph] = session.GetMemoryReport().graphs
    assert (graph.runs, graph.peak_runs) == (0, 2)
    session.RemoveGraph(0)


def test_eight_threads_compile_and_run_the_graphs_of_one_session(
    session: ge.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def compile_and_count(model: Any, options: Any) -> Any:
        compiled.append(model.graph.name)
        return ge.ir_build.compile_model(model, options)

    monkeypatch.setattr(ge.session, "compile_model", compile_and_count)
    graphs = {0: cnn(), 1: elementwise("Neg"), 2: elementwise("Exp"), 3: elementwise("Softmax")}
    inputs = {0: np.linspace(-1, 1, 2 * 3 * 16 * 16, dtype=np.float32).reshape(2, 3, 16, 16), 1: X, 2: X, 3: X}
    for graph_id, graph in graphs.items():
        session.AddGraph(graph_id, graph)
    start = threading.Barrier(8)

    def work(number: int) -> dict[int, bytes]:
        start.wait(TIMEOUT)
        results: dict[int, bytes] = {}
        for turn in range(24):
            graph_id = (number + turn) % 4
            result = session.RunGraph(graph_id, [inputs[graph_id]])[0].tobytes()
            assert results.setdefault(graph_id, result) == result
        return results

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert sorted(compiled) == sorted(graph.GetName() for graph in graphs.values())
    alone = {
        graph_id: atcpy.InferenceSession(ge.aclgrphBuildModel(graph), threads=1)
        .run(None, {"x": inputs[graph_id]})[0]
        .tobytes()
        for graph_id, graph in graphs.items()
    }
    assert all(each == alone for each in results)


def test_eight_threads_use_sessions_of_their_own(session: ge.Session) -> None:
    def work(number: int) -> bytes:
        with ge.Session({"threads": 1}) as own:
            own.AddGraph(number, elementwise("Exp"))
            received = Received()
            own.RunGraphAsync(number, [X], received)
            result = own.RunGraph(number, [X])[0].tobytes()
        assert received.results[0][1][0].tobytes() == result
        return result

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(work, range(8)))) == 1


def test_of_threads_that_add_a_graph_under_one_id_one_succeeds(session: ge.Session) -> None:
    graph, start = elementwise("Neg"), threading.Barrier(8)

    def work(_: int) -> str:
        start.wait(TIMEOUT)
        try:
            session.AddGraph(5, graph)
        except UsageError as error:
            return error.code
        return "added"

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(work, range(8))) == ["G0004"] * 7 + ["added"]


# --- memory -----------------------------------------------------------------------------------------


def test_the_summary_has_the_figures_of_the_package(session: ge.Session) -> None:
    session.AddGraph(0, cnn())
    session.CompileGraph(0)
    summary = session.GetCompiledGraphSummary(0)
    [plan] = atcpy.InferenceSession(session.GetCompiledModel(0), threads=1).plans
    assert summary.IsStatic()
    assert summary.GetFeatureMemorySize() == plan.arena_bytes > 0
    assert summary.GetConstMemorySize() == len(plan.weights) >= summary.report.memory.weights > 0
    assert (summary.GetStreamNum(), summary.GetEventNum()) == (1, 0)
    assert summary.GetOutputShapes() == [(2, 10)]
    assert summary.GetOutputDtypes() == [ge.DT_FLOAT]


def test_the_report_adds_up_the_graphs_that_are_compiled(session: ge.Session) -> None:
    session.AddGraph(0, cnn())
    session.AddGraph(3, elementwise("Neg"))
    session.AddGraph(4, elementwise("Neg"))
    assert session.GetMemoryReport().graphs == []
    session.RunGraph(0, [np.ones((2, 3, 16, 16), np.float32)])
    session.CompileGraph(3)
    report = session.GetMemoryReport()
    summary = session.GetCompiledGraphSummary(0)
    first, second = report.graphs
    assert (first.graph_id, first.runs, first.peak_runs) == (0, 0, 1)
    assert (second.graph_id, second.runs, second.peak_runs) == (3, 0, 0)
    [plan] = atcpy.InferenceSession(session.GetCompiledModel(0), threads=1).plans
    assert first.run_bytes == plan.run_bytes >= plan.arena_bytes
    assert report.const_bytes == report.in_use_bytes == summary.GetConstMemorySize() + second.const_bytes
    assert str(report).splitlines()[0].split() == ["graph", "weights", "each", "run", "runs", "most", "at", "once"]
    assert [line.split()[0] for line in str(report).splitlines()[1:]] == ["0", "3"]


def test_memory_in_use_counts_each_run() -> None:
    graphs = [ge.summary.GraphMemory(0, 100, 10, 3, 4), ge.summary.GraphMemory(1, 1000, None, 2, 2)]
    assert ge.MemoryReport(graphs).in_use_bytes == 1130


def test_a_graph_with_open_dims_has_no_fixed_size(session: ge.Session) -> None:
    session.AddGraph(0, elementwise("Softmax", (-1, 4)))
    session.RunGraph(0, [np.ones((3, 4), np.float32)])
    summary = session.GetCompiledGraphSummary(0)
    assert not summary.IsStatic()
    assert len(summary.GetOutputShapes()[0] or ()) == 2
    assert session.GetMemoryReport().graphs[0].run_bytes is None
    assert "open" in str(session.GetMemoryReport())

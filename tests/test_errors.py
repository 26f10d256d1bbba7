import errno
import pickle
import re
from pathlib import Path

import onnx
import pytest

from atcpy import errors
from atcpy.errors import (
    CODES,
    AtcError,
    AtcWarning,
    InternalError,
    ModelInvalid,
    PackageCorrupt,
    ResourceLimit,
    Unsupported,
    UsageError,
    VerifyFailed,
    Where,
    as_known_error,
    causes,
    codes,
    escape,
    group,
    raise_all,
    raise_os_error,
    render,
)
from tests.sources import MODULES, texts

CLASSES = {c.exit_code: c for c in (UsageError, ModelInvalid, Unsupported, VerifyFailed, ResourceLimit, PackageCorrupt)}


def test_exit_codes_are_the_documented_ones() -> None:
    assert sorted(CLASSES) == [2, 3, 4, 5, 6, 7]
    assert InternalError("x").exit_code == 1
    assert not issubclass(InternalError, AtcError)


@pytest.mark.parametrize("row", CODES.values(), ids=lambda row: row.code)
def test_each_row_can_be_raised_by_the_class_of_its_exit_code_and_by_no_other(row: codes.CodeRow) -> None:
    for number, cls in CLASSES.items():
        if number in row.exits:
            error = cls(row.code, "what")
            assert (error.code, error.exit_code) == (row.code, number)
        else:
            with pytest.raises(InternalError, match=row.code):
                cls(row.code, "what")


@pytest.mark.parametrize("row", CODES.values(), ids=lambda row: row.code)
def test_each_row_is_well_formed(row: codes.CodeRow) -> None:
    assert re.fullmatch(r"(E[0-9A-Z]{4,5}|[PDVRGCJWX]\d{4})", row.code)
    assert set(row.exits) <= {0, 1, 2, 3, 4, 5, 6, 7}
    assert row.when
    assert row.help
    assert "|" not in row.when + row.help  # it is a row of a table in docs/errors.md


def test_table_has_no_code_twice() -> None:
    assert len(CODES) == len(codes._TABLE)


def test_unknown_code_is_our_bug() -> None:
    with pytest.raises(InternalError, match="E99999"):
        UsageError("E99999", "x")


def test_message_tells_what_where_why_and_the_way_out() -> None:
    where = Where(file="m.onnx", graph="main/then_branch", node="conv1", index=12, op="Conv", input=2, value="w")
    error = ModelInvalid("EZ8888", "shapes do not fit", where=where, why="3 != 4", hint="fix the weights")
    assert render(error).splitlines() == [
        "error[EZ8888] shapes do not fit",
        '  at m.onnx: main/then_branch/node "conv1" (#12, Conv), input 2 "w"',
        "  3 != 4",
        "  help: fix the weights",
    ]
    assert str(error).startswith("EZ8888: shapes do not fit\n")


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (Where(), ""),
        (Where(file="a.cfg", line=3, column=7), "a.cfg:3:7"),
        (Where(option="input_shape"), "--input_shape"),
        (Where(file="m.om", partition="WEIGHTS", offset=64), "m.om: partition WEIGHTS, byte 64"),
        (Where(graph="main"), "graph main"),
        (Where(op="Relu", index=0), "node (#0, Relu)"),
        (Where(node="n", output=0), 'node "n", output 0'),
        (Where(value="x"), 'value "x"'),
    ],
)
def test_place_prints(where: Where, text: str) -> None:
    assert str(where) == text


def test_a_node_is_a_place() -> None:
    proto = onnx.helper.make_node("Relu", ["x"], ["y"], name="n")
    assert UsageError("E10016", "x", where=proto).where == Where(node="n", op="Relu")
    assert UsageError("E10016", "x", where="n").where == Where(node="n")


@pytest.mark.parametrize(
    ("word", "names"),
    [("prob", ["Prob", "probs", "output_prob"]), ("relu", ["/layer1/Relu"]), ("zzz", []), ("", [])],
)
def test_nearest_names(word: str, names: list[str]) -> None:
    assert errors.nearest(word, ["output_prob", "/layer1/Relu", "Prob", "probs"]) == names


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("/layer.1/Conv", "/layer.1/Conv"),
        ("卷积 ×2", "卷积 ×2"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb", "a\\nb"),
        ("\u202eevil", "\\u202eevil"),
        ("\ud800", "\\ud800"),
        ("\x9b1m", "\\x9b1m"),
    ],
)
def test_control_characters_of_a_model_do_not_reach_the_terminal(text: str, escaped: str) -> None:
    assert escape(text) == escaped
    error = ModelInvalid("E13009", text, where=Where(node=text))
    assert text == escaped or text not in render(error)
    assert error.as_dicts()[0]["message"] == escaped


def test_long_names_keep_a_line_below_500_bytes_and_stay_whole_in_json() -> None:
    name = "é" * 10_000
    error = Unsupported("E14001", f"{name} cannot", where=Where(node=name))
    assert all(len(line.encode()) <= 500 for line in render(error).splitlines())
    assert error.as_dicts()[0]["message"] == f"{name} cannot"


def _unknown(op: str, node: str) -> Unsupported:
    return Unsupported("E19010", f"{op} is no operator of ai.onnx 21", where=Where(node=node), hint="--custom-ops")


def test_all_problems_are_raised_as_one_grouped_by_cause() -> None:
    problems = [_unknown("Foo", "a"), _unknown("Bar", "b"), _unknown("Foo", "c")]
    with pytest.raises(Unsupported) as caught:
        raise_all(problems)
    assert caught.value.problems == tuple(problems)
    dicts = caught.value.as_dicts()
    assert [(d["code"], d["more"], d["nodes"]) for d in dicts] == [("E19010", 1, ["a", "c"]), ("E19010", 0, ["b"])]
    assert "× 2" in render(caught.value).splitlines()[0]


def test_no_problem_raises_nothing() -> None:
    raise_all([])


def test_a_single_problem_stays_itself() -> None:
    problem = _unknown("Foo", "a")
    assert group([problem]) is problem


def test_the_worst_class_gives_the_exit_code() -> None:
    usage = UsageError("E10016", "no such node")
    invalid = ModelInvalid("E2100C", "cycle")
    assert group([usage, _unknown("Foo", "a"), invalid]).exit_code == 3
    assert [cause.error.code for cause in causes([usage, invalid])] == ["E2100C", "E10016"]


def test_groups_of_groups_are_flat() -> None:
    inner = group([_unknown("A", "a"), _unknown("B", "b")])
    assert len(group([inner, UsageError("E10016", "x")]).problems) == 3


def test_at_most_twenty_causes_are_shown_and_the_rest_is_counted() -> None:
    text = render(group([_unknown(f"Op{i}", "n") for i in range(51)]))
    assert text.count("error[E19010]") == 20
    assert text.splitlines()[-1] == "and 31 more (--json lists all)"


def test_place_is_filled_by_who_knows_it() -> None:
    error = group([_unknown("A", "a"), _unknown("B", "b")]).located(file="m.onnx", node="not taken")
    assert [(p.where.file, p.where.node) for p in error.problems] == [("m.onnx", "a"), ("m.onnx", "b")]


def test_errors_survive_pickling() -> None:
    error = group([_unknown("A", "a"), _unknown("B", "b")])
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, Unsupported)
    assert again.as_dicts() == error.as_dicts()


def test_warnings_are_in_the_table_and_become_errors() -> None:
    assert AtcWarning("W0013", "no such pass").as_error().exit_code == 2
    assert AtcWarning("W0020", "slow").as_error().exit_code == 4
    with pytest.raises(InternalError):
        AtcWarning("E10001", "not a warning")
    with pytest.raises(InternalError):
        AtcWarning("W9999", "unknown")


@pytest.mark.parametrize(
    ("number", "writing", "code", "exit_code"),
    [
        (errno.ENOENT, False, "E10410", 2),
        (errno.ENOENT, True, "E13004", 2),
        (errno.EACCES, False, "E13001", 2),
        (errno.EACCES, True, "E13004", 2),
        (errno.ENAMETOOLONG, False, "E10021", 2),
        (errno.ENAMETOOLONG, True, "E10021", 2),
        (errno.ENOSPC, True, "R0002", 6),
        (errno.EIO, True, "E13004", 6),
        (errno.EIO, False, "E13003", 6),
    ],
)
def test_errors_of_the_system_get_our_codes(number: int, writing: bool, code: str, exit_code: int) -> None:
    with pytest.raises(AtcError) as caught:
        raise_os_error(OSError(number, "Words Of The System"), "/a/b", writing=writing)
    assert (caught.value.code, caught.value.exit_code) == (code, exit_code)
    assert caught.value.where.file == "/a/b"


def test_a_library_that_finds_no_memory_is_a_limit() -> None:
    text = "/lib/x.so: failed to map segment from shared object"
    assert as_known_error(ImportError(text)).code == "R0001"
    assert as_known_error(ImportError(f"{text}: Operation not permitted")).code == "X0001"  # of a noexec file system
    assert as_known_error(ImportError("x.so: cannot allocate memory in static TLS block")).code == "R0001"


def test_a_library_that_catches_the_want_of_memory_is_a_limit() -> None:
    wrapped = ImportError("the library is not installed properly")
    wrapped.__cause__ = MemoryError()
    outer = SystemError("initialization failed")
    outer.__context__ = wrapped
    assert as_known_error(outer).code == "R0001"
    wrapped.__cause__ = ValueError()
    assert as_known_error(outer).code == "X0001"


# ---- the sources


def _texts() -> list[str]:
    """The texts in the sources of the package, but for the table of codes, where each code stands."""
    table = Path(codes.__file__)
    return [text for path in MODULES if path != table for text in texts(path)]


def test_each_code_is_raised_somewhere() -> None:
    raised = set(_texts())
    assert [code for code in CODES if code not in raised] == []


_OPTION = re.compile(r"(?<![\w-])--([a-z][\w-]*)")
# No options of a command: those of all, those of tf2onnx, and parts and placeholders of names.
_OTHERS = frozenset({"help", "version", "tflite", "inputs_as_nchw", "option", "flag", "no_flag", "no_", "allreduce_"})


def test_advice_names_options_that_exist() -> None:
    from atcpy.atc_flags import FLAG_BY_NAME
    from atcpy.cli.app import _parser

    known = {
        name.removeprefix("--").replace("-", "_")
        for command in _parser().commands.values()
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    known |= set(FLAG_BY_NAME)
    help_of_codes = [f"{row.when} {row.help}" for row in CODES.values()]
    named = {name.replace("-", "_") for text in (*_texts(), *help_of_codes) for name in _OPTION.findall(text)}
    assert named - known - _OTHERS == set()

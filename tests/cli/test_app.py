import json
import subprocess
import sys
from pathlib import Path

import pytest

import atcpy
from atcpy.cli import app
from atcpy.cli.app import execute
from tests.sanitizers import limits_memory

from .conftest import REPO, Invoke, environment, finish, spawn

COMMANDS = [
    "convert", "check", "inspect", "run", "verify", "bench", "optimize", "freeze", "quantize",
    "passes", "explain", "diff", "report", "doctor",
]  # fmt: skip


def test_help_lists_each_command(invoke: Invoke) -> None:
    listed = invoke("--help").out.partition("Commands:")[2]
    assert [line.split()[0] for line in listed.strip().splitlines()] == [*COMMANDS, "atc"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_tells_each_option(invoke: Invoke, command: str) -> None:
    ran = invoke(command, "--help")
    assert ran.code == 0
    assert {"--json", "--quiet", "--debug", "--threads", "--memory_limit", "--timeout"} <= set(ran.out.split()) | {
        word.rstrip(",") for word in ran.out.split()
    }


@pytest.mark.slow
def test_help_imports_nothing_heavy() -> None:
    heavy = {"numpy", "onnx", "onnxruntime", "PIL", "rich", "google", "ml_dtypes", "atcpy.ir", "atcpy.stages"}
    script = (
        "import sys; from atcpy.cli.app import execute; execute(['convert', '--help']);"
        f"print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True)
    assert ran.stderr.strip() == "[]"


def test_import_of_the_package_imports_nothing() -> None:
    script = "import sys, atcpy; print(sorted(m for m in sys.modules if m.split('.')[0] in ('atcpy', 'numpy', 'onnx')))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True)
    assert ran.stdout.strip() == "['atcpy']"


def test_lazy_names_of_the_package() -> None:
    assert atcpy.InferenceSession.__name__ == "InferenceSession"
    assert atcpy.errors.UsageError.exit_code == 2
    assert callable(atcpy.register_operator)
    assert not [name for name in atcpy.__all__ if not hasattr(atcpy, name)]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = atcpy.nothing  # type: ignore[attr-defined]


def test_version_is_the_same_everywhere(invoke: Invoke) -> None:
    assert invoke("--version").out == f"atcpy {atcpy.__version__}\n"
    assert invoke("--version", "--json").envelope["result"] == {"version": atcpy.__version__}
    assert f'version = "{atcpy.__version__}"' in (REPO / "pyproject.toml").read_text()
    assert f"version: '{atcpy.__version__}'" in (REPO / "meson.build").read_text()


def test_an_unknown_option_names_the_nearest(invoke: Invoke) -> None:
    ran = invoke("convert", "--model", "m.onnx", "--oo-levl=O1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error[E10001] there is no option --oo-levl\n  help: did you mean --oo_level?\n"
    ran = invoke("check", "--model", "m.onnx")
    assert ran.err.startswith("error[E10001] there is no option --model\n  help: other commands have it;")


def test_an_unknown_command_names_the_nearest(invoke: Invoke) -> None:
    ran = invoke("conver", "m.onnx")
    assert ran.code == 2
    assert 'there is no command "conver"' in ran.err
    assert '"convert"' in ran.err


def test_without_arguments_it_says_what_it_can_do(invoke: Invoke) -> None:
    ran = invoke()
    assert (ran.code, ran.err) == (0, "")
    assert "Commands:\n  convert " in ran.out
    assert "\n  atc " in ran.out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        pytest.param("con", {"convert"}, marks=pytest.mark.slow),
        pytest.param("convert --oo_l", {"--oo_level"}, marks=pytest.mark.slow),
        pytest.param("check --soc Ascend310P3V", {f"Ascend310P3Vir0{n}" for n in (1, 2, 4, 8)}, marks=pytest.mark.slow),
        ("convert --skip_pass ConvReluFusionPass,IdentityP", {"ConvReluFusionPass,IdentityPass"}),
        pytest.param("convert --skip_pass ExpandP", {""}, marks=pytest.mark.slow),  # the result needs it
    ],
)
def test_the_shell_completes_commands_options_chips_and_passes(typed: str, offered: set[str]) -> None:
    words = ["atcpy", *typed.split()]
    variables = {"_ATCPY_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    ran = finish(spawn(env={**environment(), **variables}))
    assert (ran.code, set(ran.out.splitlines())) == (0, offered)


def test_a_missing_option_is_named(invoke: Invoke) -> None:
    ran = invoke("convert", "--soc", "Ascend910")
    assert (ran.code, ran.err) == (2, "error[E10054] no model is given\n  at --model\n  help: atcpy convert M.onnx\n")


def test_a_missing_argument_is_named(invoke: Invoke) -> None:
    ran = invoke("inspect")
    assert ran.code == 2
    assert ran.err == "error[E10054] F is required\n"


def test_a_missing_value_is_told(invoke: Invoke) -> None:
    ran = invoke("convert", "--model")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "error[E10004] --model needs a value")


def test_a_stray_word_makes_one_think_of_quotes(invoke: Invoke) -> None:
    ran = invoke("convert", "--model", "m.onnx", "y:1")
    assert ran.code == 2
    assert 'a value with ";" or a space needs quotes' in ran.err


def test_json_is_one_object_even_when_the_arguments_fail(invoke: Invoke) -> None:
    envelope = invoke("verify", "--json", "--nothing").envelope
    assert envelope["schema"] == "atcpy.verify/1"
    assert (envelope["ok"], envelope["exit_code"], envelope["result"]) == (False, 2, None)
    assert [error["code"] for error in envelope["errors"]] == ["E10001"]
    assert list(envelope) == ["schema", "version", "ok", "exit_code", "seconds", "result", "warnings", "errors"]


def test_a_failure_says_the_same_in_json_and_in_text(invoke: Invoke, tmp_path: Path) -> None:
    missing = tmp_path / "nope.onnx"
    ran = invoke("check", missing)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error[E10410] ")
    error = invoke("check", missing, "--json").envelope["errors"][0]
    assert error["code"] == "E10410"
    assert error["message"] in ran.err


def test_no_exception_reaches_the_user(invoke: Invoke, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from atcpy.stages import pipeline

    def broken(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(pipeline, "check", broken)
    ran = invoke("check", model)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error[X0001] ZeroDivisionError: by zero (in broken, line ")
    assert "please report it" in ran.err
    assert "Traceback" not in ran.err
    assert invoke("check", model, "--json").envelope["errors"][0]["code"] == "X0001"
    assert "Traceback" in invoke("check", model, "--debug").err


def test_used_up_memory_is_a_limit(invoke: Invoke, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from atcpy.stages import pipeline

    def greedy(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(pipeline, "check", greedy)
    ran = invoke("check", model)
    assert ran.code == 6
    assert ran.err.startswith("error[R0001] ")


def test_the_timeout_ends_a_command(invoke: Invoke, package: Path) -> None:
    ran = invoke("bench", package, "--min-time", "3600", "--timeout", "0.2")
    assert ran.code == 6
    assert ran.err.startswith("error[R0003] the time limit of 0.2 s is reached")


@limits_memory
def test_a_memory_limit_is_kept(package: Path) -> None:
    ran = finish(spawn("verify", package, "--memory-limit", "1M"))
    assert ran.code == 6
    assert ran.err.startswith("error[R0001] ")


def test_werror_makes_errors_of_warnings(invoke: Invoke, tmp_path: Path) -> None:
    import onnx

    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (int64[1,?] y) { y = NonZero(x) }'
    onnx.save(onnx.parser.parse_model(text.replace("[1,?]", "[1,3]")), tmp_path / "m.onnx")
    ran = invoke("check", tmp_path / "m.onnx", "--json")
    if ran.envelope["ok"]:
        assert {p["level"] for p in ran.envelope["result"]["problems"]} <= {"host_cpu", "warning"}


def test_color_only_where_it_is_wanted(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" not in invoke("explain", "E1").err
    assert invoke("explain", "E1", "--color", "always").err.startswith("\x1b[31;1merror[E10001]\x1b[0m")
    assert "\x1b" not in invoke("explain", "E1", "--color", "never").err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in invoke("explain", "E1", "--color", "always").err
    assert invoke("explain", "E1", "--color", "pink").code == 2


def test_quiet_says_nothing_but_errors(invoke: Invoke, package: Path) -> None:
    ran = invoke("verify", package, "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert invoke("explain", "E1", "-q").err.startswith("error[E10001]")


def test_explain_prints_a_row_of_the_table(invoke: Invoke) -> None:
    assert invoke("explain", "error[E10016]").out == (
        "E10016  the model has no node or value of that name\n  help  take one of the nearest names\n  exit  2\n"
    )
    assert invoke("explain", "V0001", "--json").envelope["result"]["exits"] == [5]


def test_main_is_the_entry_point_of_the_command() -> None:
    assert 'atcpy = "atcpy.__main__:main"' in (REPO / "pyproject.toml").read_text()


def test_streams_and_codes_of_a_real_process(package: Path) -> None:
    ran = finish(spawn("run", package, "--fill", "ones", "--json"))
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["result"]["outputs"][0]["name"] == "y"


def test_registered_commands_are_all_tested() -> None:
    assert [info.name for info in app.app.registered_commands] == [*COMMANDS, "atc"]


def test_execute_gives_the_code_of_help() -> None:
    assert execute(["--version"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "option"),
    [
        (["convert", "--model", "{model}", "--quiet", "--verbose"], "E10056", "quiet"),
        (["convert", "--model", "{model}", "--oracle", "reference"], "E10057", "oracle"),
        (["convert", "--model", "{model}", "--input_data", "in.npz"], "E10057", "input_data"),
        (["convert", "--model", "{model}", "--dump_stages", "prepare"], "E10057", "dump_stages"),
        (["convert", "--model", "{model}", "--dump_passes", "CsePass"], "E10057", "dump_passes"),
        (["run", "{package}", "--fill", "ones", "--mean", "1"], "E10057", "mean"),
        (["run", "{package}", "--fill", "ones", "--std", "1"], "E10057", "std"),
        (["run", "{package}", "--fill", "ones", "--layout", "NHWC"], "E10057", "layout"),
        (["run", "{package}", "--fill", "ones", "--top_k", "3"], "E10057", "top_k"),
        (["run", "{package}", "--fill", "ones", "--capacity", "9"], "E10057", "capacity"),
        (["run", "{package}", "--fill", "ones", "--groups", "g.json"], "E10057", "groups"),
        (["run", "{package}", "--fill", "ones", "--ranks", "2", "--simulate_ranks", "2"], "E10056", "simulate_ranks"),
        (["run", "{package}", "--fill", "ones", "--ranks", "2", "--sandbox"], "E10056", "sandbox"),
        (["inspect", "{package}", "--svg", "a.svg"], "E10057", "svg"),
        (["bench", "{package}", "--vs_model", "{model}"], "E10057", "vs_model"),
    ],
)
def test_options_that_exclude_or_need_each_other(
    invoke: Invoke, model: Path, package: Path, tmp_path: Path, arguments: list[str], code: str, option: str
) -> None:
    before = sorted(tmp_path.iterdir())
    ran = invoke(*(each.format(model=model, package=package) for each in arguments), "--json")
    [error] = ran.envelope["errors"]
    assert (ran.code, error["code"], error["where"]["option"]) == (2, code, option)
    assert error["hint"] and error["where"]
    assert sorted(tmp_path.iterdir()) == before


def test_inputs_of_the_verdict_are_read_before_anything_is_compiled(
    invoke: Invoke, model: Path, tmp_path: Path
) -> None:
    ran = invoke("convert", "--model", model, "-o", tmp_path / "m", "--verify", "--input_data", tmp_path / "no.npz")
    assert ran.code == 2 and "E10410" in ran.err
    assert list(tmp_path.glob("*.om")) == []


def test_an_input_is_given_once(invoke: Invoke, package: Path) -> None:
    ran = invoke("run", package, "--input", "x=ones", "--image", "x=no.png")
    assert ran.code == 2 and "E10056" in ran.err and 'input "x" has a value already' in ran.err

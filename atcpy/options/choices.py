"""Options whose value is one of a few."""

from atcpy.errors import Unsupported, UsageError, Where
from atcpy.options.readers import read_choice, read_int, read_names
from atcpy.options.records import ExternalWeight, Framework, ImplMode, OoLevel, SplitBy, Stage, TopoSortingMode


def bit_text(is_on: bool) -> str:
    """The canonical spelling of a switch that is 0 or 1."""
    return str(int(is_on))


IMPL_MODES = {
    "high_performance": ImplMode.HIGH_PERFORMANCE,
    "high_precision": ImplMode.HIGH_PRECISION,
    "high_performance_for_all": ImplMode.HIGH_PERFORMANCE,
    "high_precision_for_all": ImplMode.HIGH_PRECISION,
}
SPLITS = {split.value: split for split in SplitBy}
LEVELS = {level.name: level for level in OoLevel}
TOPO_SORTING_MODES = {mode.value: mode for mode in TopoSortingMode}
_FRAMEWORKS = {framework.value: framework for framework in Framework}
_OTHER_FRAMEWORKS = {"0": "Caffe", "1": "MindSpore"}
INPUT_FORMATS = ("NHWC", "NCHW", "ND", "NDHWC", "NCDHW")


def read_framework(option: str, value: object) -> Framework:
    """ONNX or TensorFlow, by ATC's number; ATC's other frameworks have their own way out."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    where = Where(option=option)
    if isinstance(text, str) and text in _OTHER_FRAMEWORKS:
        hint = "convert the model to ONNX first, and give that: --framework=5"
        raise Unsupported(
            "E10055", f"--{option}={text}: {_OTHER_FRAMEWORKS[text]} is not supported", where=where, hint=hint
        )
    if isinstance(text, str) and text not in _FRAMEWORKS:
        raise UsageError("E10007", f"--{option}: {text} is unknown", where=where, hint="5 is ONNX, 3 is TensorFlow")
    framework: Framework = read_choice(option, text, _FRAMEWORKS)
    return framework


_EXTERNAL_WEIGHTS = {how.value: how for how in ExternalWeight}


def read_external_weight(option: str, value: object) -> ExternalWeight:
    """0, 1 or 2, as text or as a number."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    how: ExternalWeight = read_choice(option, text, _EXTERNAL_WEIGHTS)
    return how


_STAGES = {stage.value: stage for stage in Stage}


def read_stages(option: str, value: object) -> frozenset[Stage]:
    """Names of stages, separated by commas."""
    names = value if isinstance(value, frozenset) else read_names(option, value)
    return frozenset(read_choice(option, name, _STAGES) for name in names)


def read_deterministic_level(option: str, value: object) -> int:
    """ATC's levels: 1 is true of all packages, 3 of none."""
    level = read_int(option, value, 0, 3)
    if level == 3:
        what = f"--{option}: 3 is not supported: products of one row are summed in another order than those of several"
        hint = f"--{option}=2: the same results wherever a row is, for one size of the batch"
        raise Unsupported("E10055", what, where=Where(option=option), hint=hint)
    return level

"""Flags of ATC that exclude or need each other, and that no record of options checks."""

from __future__ import annotations

from collections.abc import Mapping

from atcpy.errors import AtcWarning, Unsupported, UsageError, Where


def check_pairs(values: Mapping[str, str]) -> None:
    """Raise UsageError for options that exclude or need each other, and that have no effect else."""
    if "optypelist_for_implmode" in values and "op_select_implmode" not in values:
        what = "--optypelist_for_implmode needs --op_select_implmode"
        raise UsageError("E10001", what, where=Where(option="optypelist_for_implmode"))
    gears = [name for name in values if name in ("dynamic_batch_size", "dynamic_image_size", "dynamic_dims")]
    if "input_shape_range" in values and gears:
        what = f"--{gears[0]} and --input_shape_range cannot be used together"
        hint = "--input_shape with -1 where a size varies"
        raise UsageError("E10009", what, where=Where(option="input_shape_range"), hint=hint)
    if "input_hint_shape" in values and gears:
        what = f"--input_hint_shape and --{gears[0]} cannot be used together"
        raise UsageError("E10001", what, where=Where(option="input_hint_shape"))
    if "multi_stream_parallel_mode" in values and values.get("enable_single_stream") == "true":
        what = "--multi_stream_parallel_mode and --enable_single_stream cannot be used together"
        raise UsageError("E10001", what, where=Where(option="multi_stream_parallel_mode"))
    is_deterministic, level = values.get("deterministic", "0") != "0", values.get("deterministic_level", "")
    if level and is_deterministic != (level != "0"):
        what = f"--deterministic={int(is_deterministic)} and --deterministic_level={level}: both are 0, or none"
        hint = "--deterministic=1 --deterministic_level=1"
        raise UsageError("E10001", what, where=Where(option="deterministic_level"), hint=hint)
    if values.get("enable_compress_weight") == "true" and "compress_weight_conf" in values:
        what = "--enable_compress_weight and --compress_weight_conf cannot be used together"
        raise UsageError("E10047", what, where=Where(option="compress_weight_conf"))
    for name, (companion, _) in _LAYOUTS.items():
        _check_layouts(name, companion, values)


# Flags of --is_…_adjust_hw_layout, what they need, and what they give way to.
_LAYOUTS = {
    "is_input_adjust_hw_layout": ("input_fp16_nodes", ""),
    "is_output_adjust_hw_layout": ("out_nodes", "output_type"),
}


def _check_layouts(name: str, companion: str, values: Mapping[str, str]) -> None:
    if not _asks_for_layout(name, values) or _why_no_layout(name, values):
        return
    layouts, nodes = values[name].split(","), values[companion].strip(";").split(";")
    if len(layouts) != len(nodes):
        what = f"--{name}: {len(layouts)} values for the {len(nodes)} of --{companion}"
        raise UsageError("E10001", what, where=Where(option=name))
    what = f"--{name}=true is not supported: inputs and outputs of packages are plain tensors, not NC1HWC0"
    hint = f"drop it: --{'input_fp16_nodes' if name == 'is_input_adjust_hw_layout' else 'output_type=FP16'} alone"
    raise Unsupported("E10055", what, where=Where(option=name), hint=hint)


def _asks_for_layout(name: str, values: Mapping[str, str]) -> bool:
    return "true" in values.get(name, "").split(",")


def _why_no_layout(name: str, values: Mapping[str, str]) -> str:
    """Why a flag has no effect in ATC either."""
    companion, stronger = _LAYOUTS[name]
    if companion not in values:
        return f"without --{companion}"
    return f"beside --{stronger}" if stronger in values else ""


def pair_warnings(values: Mapping[str, str]) -> list[AtcWarning]:
    """W0012 for flags that have no effect for want of another, or beside it."""
    return [
        AtcWarning("W0012", f"--{name} has no effect {why}", Where(option=name))
        for name in _LAYOUTS
        if _asks_for_layout(name, values) and (why := _why_no_layout(name, values))
    ]

"""The help of a command: its options in groups, with defaults and choices, and two examples."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer.core

from atcpy.options import Option

COMMON = "Common options"

# The options of the table by what they are about; each is in one group.
GROUPS: Mapping[str, Sequence[str]] = {
    "Model": (
        "framework", "input_format", "out_nodes", "signature", "tag_set", "zipmap", "fold_default_inputs",
        "insert_op_conf", "custom_ops",
    ),
    "Shapes": ("input_shape", "dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "static"),
    "Target": ("soc", "iterations_per_loop", "state", "stepped", "external_weight", "sign"),
    "Optimisation": (
        "oo_level", "oo_constant_folding", "oo_dead_code_elimination", "enable_graph_kernel", "op_select_implmode",
        "auto_tune_mode", "max_const", "max_growth", "skip_pass", "fusion_switch_file", "optimization_switch",
        "pass_limit",
    ),
    "Precision": (
        "precision_mode", "precision_mode_v2", "keep_dtype", "keep_fp32", "customize_dtypes", "modify_mixlist",
        "is_weight_clip", "output_type", "input_fp16_nodes", "quant_dumpable", "status_check", "deterministic_level",
    ),
    "Memory and order": ("disable_reuse_memory", "no_reuse_mem", "enable_single_stream", "topo_sorting_mode"),
    "Collectives": (
        "allreduce_split", "allreduce_split_size", "allreduce_split_index", "allreduce_split_threshold",
        "allreduce_cost",
    ),
    "Reports": ("dump_graph", "dump_stages", "dump_passes", "export_compile_stat"),
}  # fmt: skip
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}

EXAMPLES: Mapping[str, tuple[str, str]] = {
    "convert": ("atcpy convert m.onnx --verify", "atcpy convert m.onnx -o m16.om --precision_mode=force_fp16"),
    "check": ("atcpy check m.onnx", "atcpy check m.onnx --list_ops"),
    "inspect": ("atcpy inspect m.om --tasks", "atcpy inspect m.om --memory --svg memory.svg"),
    "run": ("atcpy run m.om --fill random:1 --npz_out y.npz", "atcpy run m.om --image 7.png --mean 127.5 --std 127.5"),
    "verify": ("atcpy verify m.om --against m.onnx", "atcpy verify m.om --against m.onnx --layers"),
    "bench": ("atcpy bench m.om --threads 1,2", "atcpy bench m.om --vs ort --vs_model m.onnx --layers"),
    "optimize": ("atcpy optimize m.onnx small.onnx", "atcpy optimize m.onnx small.onnx --check 3"),
    "freeze": ("atcpy freeze saved_model -o m.pb", "atcpy freeze model.ckpt -o m.pb"),
    "quantize": (
        "atcpy quantize m.onnx --calibrate samples -o q.onnx",
        "atcpy quantize m.onnx --calibrate samples -o q.onnx --suggest cosine=0.99",
    ),
    "passes": ("atcpy passes list", "atcpy passes show ConvReluFusionPass"),
    "explain": ("atcpy explain E10001", "atcpy explain m.om --fusion Conv+Relu"),
    "diff": ("atcpy diff m.om m16.om", "atcpy diff m.om m16.om --weights --memory --options"),
    "report": ("atcpy report m.om", "atcpy report m.om -o report.html"),
    "doctor": ("atcpy doctor", "atcpy doctor --config"),
}


def help_of(option: Option) -> str:
    """What the help says of an option of the table: its text, its choices if the text has not got them, and its
    default, if that is not nothing.
    """
    text = option.help[0].upper() + option.help[1:] + "."
    notes = []
    if option.choices and not all(name in option.help for name in option.choices):
        notes.append("|".join(option.choices))
    shown = option.text(option.default) if option.default not in (None, False, "", (), {}) else ""
    if shown and "default" not in option.help:
        notes.append(f"default: {shown}")
    return f"{text}  [{'; '.join(notes)}]" if notes else text


class GroupedCommand(typer.core.TyperCommand):
    """A command whose help has its options by `rich_help_panel`: those without one first, common ones last."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group that has options, and the examples."""
        for title, records in self._sections(ctx):
            with formatter.section(title):
                formatter.write_dl(records)
        if examples := EXAMPLES.get(self.name or ""):
            with formatter.section("Examples"):
                for example in examples:
                    formatter.write(f"  {example}\n")

    def _sections(self, ctx: Any) -> Iterator[tuple[str, list[Any]]]:
        sections: dict[str, list[Any]] = {title: [] for title in ("Arguments", "Options", *GROUPS, COMMON)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            title = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
            if parameter.name == "help":
                title = COMMON
            sections[title].append(record)
        yield from ((title, records) for title, records in sections.items() if records)

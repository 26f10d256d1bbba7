"""The options of the functions, for type checkers: a dict of keyword arguments for each command.

They have the names and the readers of the table in `atcpy/options.py`; a test compares the two.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypedDict

Path: TypeAlias = str | os.PathLike[str]
Names: TypeAlias = str | Sequence[str]
Shapes: TypeAlias = str | Mapping[str, str | Sequence[int | str | None]]
Sizes: TypeAlias = str | Sequence[int] | Sequence[Sequence[int]]
Numbers: TypeAlias = str | Sequence[float] | Mapping[str, Sequence[float]]


class CommonArguments(TypedDict, total=False):
    """Options that every conversion takes."""

    threads: int | str
    memory_limit: int | str
    timeout: float | str
    allow_hardlinks: bool | str
    debug: bool | str


class PassArguments(TypedDict, total=False):
    """Options that say which passes run."""

    soc: str
    custom_ops: object
    input_shape: Shapes
    out_nodes: Names
    oo_level: str
    skip_pass: Names
    fusion_switch_file: Path
    optimization_switch: str | Mapping[str, bool]
    pass_limit: str | Mapping[str, int]
    op_select_implmode: str
    auto_tune_mode: Path
    max_const: int | str
    max_growth: float | str


class AllReduceArguments(TypedDict, total=False):
    """Options that say how allreduces are put together."""

    allreduce_split: str
    allreduce_split_size: Numbers
    allreduce_split_index: Numbers
    allreduce_split_threshold: int | str
    allreduce_cost: str | Mapping[str, float]


class ExplainArguments(CommonArguments, PassArguments, AllReduceArguments):
    """Options of `atcpy.explain`, for a model that it converts."""


class PrecisionArguments(TypedDict, total=False):
    """The types in which nodes compute, and callers feed and fetch."""

    precision_mode: str
    precision_mode_v2: str
    keep_dtype: Path
    keep_fp32: Names
    customize_dtypes: Path
    modify_mixlist: Path
    is_weight_clip: bool | int | str
    output_type: str
    input_fp16_nodes: Names


class CheckArguments(CommonArguments, PrecisionArguments, total=False):
    """Options of `atcpy.check`."""

    soc: str
    framework: int | str
    custom_ops: object
    input_shape: Shapes
    dynamic_batch_size: Sizes
    dynamic_image_size: Sizes
    dynamic_dims: Sizes
    out_nodes: Names
    input_format: str
    insert_op_conf: Path
    signature: str
    tag_set: Names
    static: bool | str
    fold_default_inputs: bool | str
    max_const: int | str
    max_growth: float | str


class ConvertArguments(CommonArguments, PassArguments, AllReduceArguments, PrecisionArguments, total=False):
    """Options of `atcpy.convert`."""

    soc_version: str
    framework: int | str
    dynamic_batch_size: Sizes
    dynamic_image_size: Sizes
    dynamic_dims: Sizes
    iterations_per_loop: int | str
    state: str | Mapping[str, str]
    stepped: Names
    input_format: str
    insert_op_conf: Path
    signature: str
    tag_set: Names
    zipmap: bool | str
    static: bool | str
    fold_default_inputs: bool | str
    oo_constant_folding: bool | str
    oo_dead_code_elimination: bool | str
    quant_dumpable: bool | int | str
    enable_graph_kernel: bool | str
    disable_reuse_memory: bool | int | str
    no_reuse_mem: Names
    enable_single_stream: bool | str
    topo_sorting_mode: str
    deterministic_level: int | str
    status_check: bool | int | str
    allreduce_split_idx: Numbers
    dump_graph: Path
    dump_stages: Names
    dump_passes: Names
    export_compile_stat: int | str
    sign: Path
    external_weight: bool | int | str


class FreezeArguments(TypedDict, total=False):
    """Options of `atcpy.freeze`."""

    out_nodes: Names
    signature: str
    tag_set: Names


class OptimizeArguments(CommonArguments, total=False):
    """Options of `atcpy.optimize`."""

    input_shape: Shapes
    max_const: int | str
    max_growth: float | str
    level: str
    passes: Names
    skip: Names
    keep: Names
    verify: bool | str
    check: int | str


class QuantizeArguments(TypedDict, total=False):
    """Options of `atcpy.quantize`."""

    threads: int | str
    allow_hardlinks: bool | str
    method: str
    per_channel: bool | str
    activation_type: str
    weight_type: str
    exclude: Names
    suggest: str
    max_samples: int | str

"""Every change of an op that needs a step: up to the canonical opset, or down to an older one.

A change that only adds types, attributes or inputs needs none; docs/opsets.md gives the reason for each. The steps of a
row are taken in the order in which they stand, in both directions.
"""

import numpy as np

from atcpy.ir import DType
from atcpy.parsers.onnx.opsets import rewrites as rw
from atcpy.parsers.onnx.opsets.change import (
    Step,
    attr_to_input,
    change,
    irreversible,
    negative_axis,
    new_attr,
    new_default,
    new_input,
    removed_attr,
    renamed_attr,
    respelled,
)

_MAX_FLOAT = float(np.finfo(np.float32).max)
_ARITHMETIC = "Add Sub Mul Div And Or Xor Equal Greater Less Pow"
_ANOTHER_OP = irreversible("it was another op")
_REDUCED_AXES = (attr_to_input("axes", 1, neutral=()), Step(down=rw.check_empty_axes))

CHANGES = (
    change(2, "Pad", renamed_attr("paddings", "pads")),
    change(2, "LpPool GlobalLpPool", Step(rw.whole_p, rw.fractional_p)),
    change(2, "Split", Step(rw.sizes_to_attr), _ANOTHER_OP),
    change(3, "GRU", respelled("direction", {"foward": "forward"}), _ANOTHER_OP),
    change(4, "Concat", new_default("axis", 1)),
    change(5, "Reshape", removed_attr("consumed_inputs"), attr_to_input("shape", 1), Step(rw.check_shape_is_given)),
    change(
        6,
        """Abs Add Ceil Clip Div Dropout Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu Log Max Mean Min Mul
        Neg PRelu Reciprocal Relu Selu Sigmoid Sqrt Sub Sum Tanh""",
        removed_attr("consumed_inputs"),  # a hint to memory planners
    ),
    change(6, "BatchNormalization", removed_attr("consumed_inputs"), _ANOTHER_OP),
    # The constants had four digits.
    change(6, "Selu", new_default("alpha", 1.673200011253357), new_default("gamma", 1.0506999492645264)),
    change(6, "Cast", Step(rw.type_by_number, rw.type_by_name)),
    change(6, "Tile", Step(rw.repeats_of_all_axes), _ANOTHER_OP),
    change(7, _ARITHMETIC, Step(rw.broadcast_from_last_axis, rw.broadcast_second_input)),
    change(7, "Gemm", removed_attr("broadcast", 1)),
    change(7, "PRelu", Step(rw.slope_of_all_axes, rw.slope_of_channels)),
    change(7, "BatchNormalization Dropout", Step(rw.drop_training_outputs), removed_attr("is_test", 1)),
    change(7, "LSTM GRU RNN", removed_attr("output_sequence", 1)),
    change(7, "Upsample", Step(rw.scales_of_all_axes), _ANOTHER_OP),
    change(9, "BatchNormalization", Step(rw.flatten_all_but_batch)),
    change(9, "Upsample", attr_to_input("scales", 1, DType.FLOAT32)),
    change(9, "Scan", Step(rw.scan_each_of_batch), _ANOTHER_OP),
    change(
        10, "Slice", attr_to_input("starts", 1), attr_to_input("ends", 2), attr_to_input("axes", 3), new_input(4, 1)
    ),
    change(10, "TopK", attr_to_input("k", 1, shape=(1,))),
    change(10, "Upsample", Step(rw.upsample_to_resize, rw.resize_to_upsample), renamed="Resize"),
    change(
        11,
        "Clip",
        attr_to_input("min", 1, None, (), neutral=-_MAX_FLOAT),
        attr_to_input("max", 2, None, (), neutral=_MAX_FLOAT),
    ),
    change(11, "Pad", attr_to_input("pads", 1), attr_to_input("value", 2, None, (), neutral=0.0)),
    change(11, "Resize", Step(rw.resize_with_coordinates, rw.resize_from_corner)),
    change(11, "Scatter", renamed="ScatterElements"),
    change(11, "Concat Gather Flatten ArgMax ArgMin Compress", negative_axis()),
    change(
        12, "Dropout", Step(rw.drop_mask, rw.check_mask), attr_to_input("ratio", 1, DType.FLOAT32, ()), new_input(2, 0)
    ),
    change(13, "Squeeze", attr_to_input("axes", 1, neutral=())),
    change(13, "Unsqueeze", attr_to_input("axes", 1)),
    change(13, "ReduceSum", *_REDUCED_AXES),
    change(13, "Split", attr_to_input("split", 1)),
    change(13, "Softmax LogSoftmax Hardmax", Step(rw.softmax_of_flattened, rw.softmax_of_last_axis)),
    change(13, "Resize", Step(down=rw.give_empty_inputs)),
    change(14, "BatchNormalization", Step(rw.set_training_mode)),
    change(16, "RoiAlign", new_attr("coordinate_transformation_mode", "output_half_pixel")),
    change(
        18,
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare",
        *_REDUCED_AXES,
    ),
    change(18, "Split", Step(rw.count_parts, rw.check_parts_are_equal)),
    change(20, "DFT", attr_to_input("axis", 2, shape=(), default=1), negative_axis(default=-2)),
    change(
        20, "GridSample", respelled("mode", {"bilinear": "linear", "bicubic": "cubic"}), Step(down=rw.check_is_image)
    ),
    change(
        21, "GroupNormalization", Step(rw.scale_each_channel), irreversible("it scaled each group, not each channel")
    ),
    change(2, "ai.onnx.ml::LabelEncoder", Step(rw.labels_to_keys_and_values)),
)

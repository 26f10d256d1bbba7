"""Convolutions and pooling: windows over spatial dims."""

from atcpy.ops.conv import col2im, conv, conv_transpose, deform_conv, pool

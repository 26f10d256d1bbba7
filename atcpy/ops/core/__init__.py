"""The op record, inference, and what several families share."""

from atcpy.ops.core import structural

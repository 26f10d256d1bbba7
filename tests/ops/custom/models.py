"""Short modules that register custom operators, and models that use them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import onnx
import onnx.parser

HEAD = "import numpy as np\nimport atcpy\nfrom atcpy.ir.pattern import op, var\n"
DOUBLE = """
@atcpy.register_operator("Double")
class Double:
    @staticmethod
    def infer(ctx, x):
        return x

    @staticmethod
    def forward(ctx, x):
        return x * x.dtype.type(2)
"""


def module(folder: Path, text: str = DOUBLE, name: str = "my_ops.py") -> Path:
    path = folder / name
    path.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    return path


def double(**bodies: str) -> str:
    """The source of the module, with the body of `infer`, `forward` or another method replaced."""
    own = {"infer": "return x", "forward": "return x * x.dtype.type(2)", **bodies}
    functions = "".join(f"    @staticmethod\n    def {name}(ctx, x):\n        {body}\n" for name, body in own.items())
    return f'\n@atcpy.register_operator("Double")\nclass Double:\n{functions}'


def model(text: str, opsets: str = '"": 21, "my.dom": 1', functions: str = "") -> onnx.ModelProto:
    head = f"<ir_version: 10, opset_import: [{opsets}]>"
    return onnx.parser.parse_model(f"{head} {text} {functions}")


ONE_NODE = "g (float[2,3] x) => (float[2,3] y) { a = Abs(x) b = my.dom.Double(a) y = Neg(b) }"

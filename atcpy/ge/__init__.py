"""GE's API: graphs of operators, and sessions that compile and run them. Names and order of calls are those of GE's
headers; errors are exceptions of `atcpy.errors`, not statuses. See docs/ge-api.md.
"""

from atcpy.ge import op
from atcpy.ge.constructors import OperatorFactory
from atcpy.ge.engine import GEFinalize, GEInitialize
from atcpy.ge.graph import Graph, aclgrphParseONNX
from atcpy.ge.ir_build import aclgrphBuildModel, aclgrphSaveModel
from atcpy.ge.operator import Operator
from atcpy.ge.session import Session
from atcpy.ge.summary import CompiledGraphSummary, MemoryReport
from atcpy.ge.types import (
    DT_BF16,
    DT_BOOL,
    DT_COMPLEX64,
    DT_COMPLEX128,
    DT_DOUBLE,
    DT_FLOAT,
    DT_FLOAT16,
    DT_INT4,
    DT_INT8,
    DT_INT16,
    DT_INT32,
    DT_INT64,
    DT_STRING,
    DT_UINT8,
    DT_UINT16,
    DT_UINT32,
    DT_UINT64,
    FORMAT_NCDHW,
    FORMAT_NCHW,
    FORMAT_ND,
    FORMAT_NDHWC,
    FORMAT_NHWC,
    TensorDesc,
)

__all__ = [
    "DT_BF16",
    "DT_BOOL",
    "DT_COMPLEX64",
    "DT_COMPLEX128",
    "DT_DOUBLE",
    "DT_FLOAT",
    "DT_FLOAT16",
    "DT_INT4",
    "DT_INT8",
    "DT_INT16",
    "DT_INT32",
    "DT_INT64",
    "DT_STRING",
    "DT_UINT8",
    "DT_UINT16",
    "DT_UINT32",
    "DT_UINT64",
    "FORMAT_NCDHW",
    "FORMAT_NCHW",
    "FORMAT_ND",
    "FORMAT_NDHWC",
    "FORMAT_NHWC",
    "CompiledGraphSummary",
    "GEFinalize",
    "GEInitialize",
    "Graph",
    "MemoryReport",
    "Operator",
    "OperatorFactory",
    "Session",
    "TensorDesc",
    "aclgrphBuildModel",
    "aclgrphParseONNX",
    "aclgrphSaveModel",
    "op",
]

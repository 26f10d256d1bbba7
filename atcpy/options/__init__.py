"""Options: read once, at the edge, into frozen records, one for each stage.

`OPTIONS` is the table of them, `convert_options` reads what the command line or a Python caller gives (an option's
text, or the natural value), and `atc_cmdline` is what the package records of it.
"""

from atcpy.options.conversion import convert_options as convert_options
from atcpy.options.custom_ops import read_custom_ops as read_custom_ops
from atcpy.options.kernel_times import KernelTimes as KernelTimes
from atcpy.options.machine import default_memory_bytes as default_memory_bytes
from atcpy.options.readers import Reader as Reader
from atcpy.options.readers import read_bool as read_bool
from atcpy.options.readers import read_choice as read_choice
from atcpy.options.readers import read_float as read_float
from atcpy.options.readers import read_int as read_int
from atcpy.options.readers import read_names as read_names
from atcpy.options.recorded import recorded_loop as recorded_loop
from atcpy.options.recorded import recorded_options as recorded_options
from atcpy.options.recorded import repeated_options as repeated_options
from atcpy.options.records import MIB as MIB
from atcpy.options.records import AllReduceSplit as AllReduceSplit
from atcpy.options.records import CompileOptions as CompileOptions
from atcpy.options.records import ConvertOptions as ConvertOptions
from atcpy.options.records import DimRange as DimRange
from atcpy.options.records import DumpOptions as DumpOptions
from atcpy.options.records import ExternalWeight as ExternalWeight
from atcpy.options.records import Framework as Framework
from atcpy.options.records import FusionGroup as FusionGroup
from atcpy.options.records import ImplMode as ImplMode
from atcpy.options.records import InputDim as InputDim
from atcpy.options.records import InputDims as InputDims
from atcpy.options.records import IterationsPerLoop as IterationsPerLoop
from atcpy.options.records import Limits as Limits
from atcpy.options.records import Network as Network
from atcpy.options.records import OoLevel as OoLevel
from atcpy.options.records import OpsModule as OpsModule
from atcpy.options.records import OptimizeOptions as OptimizeOptions
from atcpy.options.records import ParseOptions as ParseOptions
from atcpy.options.records import PassSwitches as PassSwitches
from atcpy.options.records import PrepareOptions as PrepareOptions
from atcpy.options.records import SplitBy as SplitBy
from atcpy.options.records import SplitOptions as SplitOptions
from atcpy.options.records import Stage as Stage
from atcpy.options.records import TopoSortingMode as TopoSortingMode
from atcpy.options.shapes import read_input_shape as read_input_shape
from atcpy.options.socs import SOCS as SOCS
from atcpy.options.table import OPTIONS as OPTIONS
from atcpy.options.table import Option as Option
from atcpy.options.table import find_option as find_option
from atcpy.sizes import ANY_SIZE as ANY_SIZE
from atcpy.sizes import MAX_DIM as MAX_DIM
from atcpy.sizes import GearKind as GearKind
from atcpy.sizes import Gears as Gears
from atcpy.sizes import MemoryLimit as MemoryLimit
from atcpy.threads import default_threads as default_threads

"""OpDef: all that the compiler knows about an op, in one record.

An op is added by one `register_operator(OpDef(...))` in `ops/<family>/<op>.py`. What a record leaves
out has a default: inference and evaluation fall back on the ONNX standard, and an op without an
engine of its own runs on HOST_CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto

from atcpy.ir import Engine, Format, Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ir.instruction import Instruction
from atcpy.ir.shape import Dim, Shape, StaticShape
from atcpy.ir.tensor import Array
from atcpy.ops.core.signature import Signature

# What is known of a value's elements: integers, or symbols where a dim is known by name only;
# None if nothing is. Holds for constants and for small integer tensors (shape arithmetic).
Known = Callable[[Value | None], tuple[Dim, ...] | None]

OperandShapes = Callable[[Node], Mapping[int, str]]
Infer = Callable[[Node, Known], Sequence[TensorDesc]]
Propagate = Callable[[Node, Known], tuple[Dim, ...] | None]
Evaluate = Callable[[Node, Sequence[Array | None]], Sequence[Array]]
Compute = Callable[[Node, Sequence[Array | None], Sequence[Array] | None], Sequence[Array]]
Supports = Callable[[Node], Iterable[Reject]]
# Other nodes that compute the same, made by the rewriter: the outputs (None for one that nobody may read), or why there
# are none; None if the record has none for this node.
Expand = Callable[[Node, Rewriter], Sequence[Value | None] | Reject | None]
ParamValue = int | float | str | Sequence[int | Instruction]

# GE's compute cost: the cheapest engine that supports a node gets it.
ENGINE_COST: Mapping[Engine, int] = {
    Engine.AICORE: 1,
    Engine.VECTOR: 2,
    Engine.HCCL: 2,
    Engine.AICPU: 3,
    Engine.GE_LOCAL: 9,
    Engine.HOST_CPU: 10,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Formats that a node takes and makes, each one that its kernel reads or writes; None stands for a value's origin
    format. `plain_because` says why only constants get a format, where other nodes of the op work in blocks.
    """

    inputs: tuple[Format | None, ...]
    outputs: tuple[Format | None, ...]
    plain_because: Reject | None = None


# Given the formats in which its inputs are at hand: the formats that the node wants, or why it
# stays plain.
ChooseLayout = Callable[[Node, tuple[Format, ...]], Layout | Reject]


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One launch of a kernel family. `params` has a value for each field of the family's argument
    struct that is not zero, enum values by name; `src` and `dst` are the operands in the family's
    order, in the formats that `OpDef.layout` chose.
    """

    family: str
    src: tuple[Value | None, ...]
    dst: tuple[Value, ...]
    params: Mapping[str, ParamValue]


Lower = Callable[[Node], Iterable[KernelCall]]
Perm = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Permuted:
    """What is new in a node that works on permuted dims: some attributes, and some constant inputs by index."""

    attrs: Mapping[str, object] = field(default_factory=dict)
    constants: Mapping[int, Array] = field(default_factory=dict)


# With x' = Transpose(x, perm), node'(x') is Transpose(node(x), perm); None if there is no such node.
Permute = Callable[[Node, Perm], Permuted | None]


@dataclass(frozen=True, slots=True)
class Axis:
    """The attribute `axis` of an op that works along one dim, at each index of the others alike: its default, and
    whether it works along all following dims, too.
    """

    default: int
    to_last: bool = False


@dataclass(frozen=True, slots=True)
class Neutral:
    """The element that leaves the other operand as it is, to the bit, and the inputs at which it does so: −0 is neutral
    for the sum of floats, since −0 + 0 is +0.
    """

    value: float
    inputs: tuple[int, ...] = (0, 1)


@dataclass(frozen=True, slots=True)
class Bound:
    """How an op runs whose results are as large as the data say: NonZero, Compress, Unique …

    With static inputs, inference leaves a symbol wherever an output has the one size that only
    running the node tells, and numbers elsewhere.

    shapes: the largest shape that each output can have; it gets memory for that.
    lower: the launches. The second argument is a further value of one int64, the last destination
    of the last launch, which gets that size. Each result lies at the beginning of its memory,
    row-major in its true shape (`cut`).
    """

    shapes: Callable[[Node], Sequence[StaticShape]]
    lower: Callable[[Node, Value], Iterable[KernelCall]]

    @staticmethod
    def cut(inferred: Shape, count: int) -> StaticShape:
        """The true shape of an output, once `count` is known."""
        return tuple(dim if isinstance(dim, int) else count for dim in inferred)


@dataclass(frozen=True, slots=True)
class Bf16Operands:
    """Which operands of a node that computes in float32 its kernels read and write as bfloat16 as well, each whether
    others are or not: inputs by index, and output 0.
    """

    inputs: frozenset[int] = frozenset()
    output: bool = False


@dataclass(frozen=True, slots=True)
class GeTypes:
    """The ops of GE that one op stands for, and which of them a node is."""

    names: tuple[str, ...]
    of_node: Callable[[Node], str]


def always(node: Node) -> Iterable[Reject]:
    """Supports every node."""
    return ()


def as_epilogue(supports: Supports) -> Supports:
    """Supports a node on AIcoreEngine if it continues the only use of a cube op's result there: such
    a node can become the cube op's epilogue, and its own engine would put a border between them.
    """

    def supports_there(node: Node) -> Iterable[Reject]:
        cubes = (value for value in node.operands if value.producer.engine is Engine.AICORE)
        if not any(value.use_count == 1 for value in cubes):
            yield Reject("no-cube-producer", node.name)
        yield from supports(node)

    return supports_there


class Trait(Flag):
    """What passes may ask of an op.

    VIEW: output 0 has the elements of input 0 in their order, and can be its memory; nothing runs.
    RESHAPE: a view whose purpose is another shape: not Identity and Dropout.
    RANDOM: two runs may differ; never folded or merged.
    ELEMENTWISE: each element of the result depends on the operands' elements at its index, with numpy's broadcasting:
        a dim of size 1 may be inserted into all of them alike.
    BROADCAST: output 0 is input 0, each element as often as its shape says.
    REDUCTION: each element of output 0 depends on several of input 0; the other inputs say on which.
    EAGER: where operands' elements decide its shape at run time, it runs in numpy between two plans: it only moves
        data, and a plan of its own for each set of elements would not pay.
    CUSTOM: a user's own op.
    INVOLUTION: applied twice it gives its input.
    IDEMPOTENT: applied twice it gives what it gives once; of two equal operands, or of one element, it gives that.
    VARIADIC: it takes any number of operands; of one, it gives that.
    CONVERSION: it changes the type or shape only: where output 0 has those of input 0, it is input 0.
    STEPWISE: a reduction over several dims gives the same as one over each of them in turn, over none what it reads.
    WINDOW: a window slides over the spatial dims, as kernel_shape, strides, dilations and pads say.
    CHANNELWISE: each channel is computed from its own elements, whatever its spatial dims are; further inputs are
        vectors of one number a channel.
    EXTRACTS: each output is a part of input 0, cut out along one axis or several.
    INSERTS: output 0 holds operands as parts of it, each in one range along an axis or several.
    NON_NEGATIVE: no element of output 0 is below zero, as long as integers do not overflow; Relu may give −0.
    SELECTION: each element of output 0 is one of input 0; the other inputs and the attributes say which.
    CONVOLUTION: a convolution of input 0 with the weights 1, to which the bias 2 is added, if there is one.
    MATRIX_PRODUCT: the product of the matrices 0 and 1, to which input 2 is added, if there is one.
    """

    NONE = 0
    VIEW = auto()
    RESHAPE = auto()
    RANDOM = auto()
    ELEMENTWISE = auto()
    BROADCAST = auto()
    REDUCTION = auto()
    EAGER = auto()
    CUSTOM = auto()
    INVOLUTION = auto()
    IDEMPOTENT = auto()
    NON_NEGATIVE = auto()
    VARIADIC = auto()
    CONVERSION = auto()
    STEPWISE = auto()
    WINDOW = auto()
    CHANNELWISE = auto()
    EXTRACTS = auto()
    INSERTS = auto()
    SELECTION = auto()
    CONVOLUTION = auto()
    MATRIX_PRODUCT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpDef:
    """The record of one op.

    ge_type: GE's name of the op, where it is another one or there are several.
    signature: how nodes look of an op that the ONNX standard does not have, or not at each opset. If there is `expand`,
        too, they are expanded before anything else; without `infer`, the types of their outputs are those of what they
        expand to.
    operand_shapes: the shapes that operands must have, by their index, as `operand_shapes.fit_operands` reads them.
    infer: types of the outputs; raises ModelInvalid with the attribute or input at fault.
    propagate: the elements of output 0, for shape arithmetic.
    evaluate: the outputs on numpy arrays, for constant folding and as the oracle of tests.
    expand: the ops that take its place if no engine runs it; else it is the function of the standard, if any.
    engines: who can run it; each function yields the reasons against a given node.
    layout: how it carries blocked formats; None: plain only.
    lower: the kernel launches that it becomes.
    half_weights: constant inputs that its kernels on AIcoreEngine can read as 16-bit floats while all else is float32.
    wide_weights: constant inputs that its kernels read in float32, packed: those of 16 bits are converted once, when a
        model is compiled, whatever their size.
    factors: inputs that its kernels on AIcoreEngine multiply with each other, and round to bfloat16 where the model has
        them in that type.
    half_states: pairs of an input, which may be left out, and an output that these kernels can read and write as
        float16 while all else is float32.
    bf16: which operands of a node may be stored as bfloat16 while it computes in float32; None: none.
    bound: instead of `lower`, for results whose size depends on data.
    traits: what passes may ask of the op.
    inplace: inputs whose memory output 0 may take, if nobody reads them later.
    elementwise_if: which nodes are elementwise, of an op that is not in general.
    data: the inputs that have the dims of the result, perhaps broadcast; None: all of them.
    axis: of an op that works along one dim named by its attribute `axis`.
    neutral: of an op of two operands.
    permute: how a node works on dims in another order, of an op that is neither elementwise nor has an `axis`.
    weights: the input that holds the weights of a convolution.
    multiplications: how often a node of static shapes multiplies two elements, at most.
    activation: the function of a node as kernels with an epilogue apply it: its name there, alpha and beta.
    fused: the op that does the same, then adds a residual and applies an activation before it stores the result.
    coefficients: of an op that adds its operands up, element by element, each times its coefficient.
    compute: what the runtime calls instead of `evaluate`: a user's C kernel. It writes into the arrays that it is
        given for the outputs, if it is given some.
    """

    name: str
    domain: str = ""
    ge_type: str | GeTypes = ""
    signature: Signature | None = None
    operand_shapes: OperandShapes | None = None
    infer: Infer | None = None
    propagate: Propagate | None = None
    evaluate: Evaluate | None = None
    expand: Expand | None = None
    engines: Mapping[Engine, Supports] = field(default_factory=dict)
    layout: ChooseLayout | None = None
    lower: Lower | None = None
    half_weights: tuple[int, ...] = ()
    wide_weights: tuple[int, ...] = ()
    factors: tuple[int, ...] = ()
    half_states: tuple[tuple[int, int], ...] = ()
    bf16: Callable[[Node], Bf16Operands] | None = None
    bound: Bound | None = None
    traits: Trait = Trait.NONE
    inplace: tuple[int, ...] = ()
    elementwise_if: Callable[[Node], bool] | None = None
    data: tuple[int, ...] | None = None
    axis: Axis | None = None
    neutral: Neutral | None = None
    permute: Permute | None = None
    weights: int | None = None
    multiplications: Callable[[Node], int] | None = None
    activation: Callable[[Node], tuple[str, float, float]] | None = None
    fused: str = ""
    coefficients: tuple[int, ...] = ()
    compute: Compute | None = None

    def has_any(self, traits: Trait) -> bool:
        """Return whether the op has one of the traits. Tests the bits: operators of Flag build an object per call."""
        return self.traits._value_ & traits._value_ != 0

    @property
    def is_contrib(self) -> bool:
        """Whether the op is none of the standard's, and is written in ops of the standard before anything else."""
        return self.signature is not None and self.expand is not None

    def takes_elements(self, node: Node) -> bool:
        """True if a node of the op is elementwise."""
        return self.has_any(Trait.ELEMENTWISE) or (self.elementwise_if is not None and self.elementwise_if(node))

    def type_in_ge(self, node: Node) -> str:
        """The op type that the package names."""
        name = self.ge_type.of_node(node) if isinstance(self.ge_type, GeTypes) else self.ge_type or self.name
        assert name in self.ge_types, f"{self.name} is no {name}"
        return name

    @property
    def ge_types(self) -> tuple[str, ...]:
        """All names that GE has for the op."""
        return self.ge_type.names if isinstance(self.ge_type, GeTypes) else (self.ge_type or self.name,)


_REGISTRY: dict[tuple[str, str], OpDef] = {}


def register_operator(opdef: OpDef) -> OpDef:
    """Make an op known; a second record for the same op is a mistake."""
    key = (opdef.domain, opdef.name)
    assert key not in _REGISTRY, f"{opdef.name} is there"
    _REGISTRY[key] = opdef
    return opdef


def forget_operator(domain: str, name: str) -> None:
    """Remove the record of a custom op."""
    del _REGISTRY[(domain, name)]


def find_opdef(node: Node) -> OpDef | None:
    """The record of a node's op, or None if there is none of ours."""
    return _REGISTRY.get((node.domain, node.op_type))


def is_built_in(domain: str, name: str) -> bool:
    """Return whether an op has a record that is not a user's."""
    opdef = _REGISTRY.get((domain, name))
    return opdef is not None and not opdef.has_any(Trait.CUSTOM)


def find_signed(op_type: str, domain: str) -> OpDef | None:
    """The record of an op that says how its nodes look, or None if the standard does, or nobody."""
    opdef = _REGISTRY.get((domain, op_type))
    return None if opdef is None or opdef.signature is None else opdef


def has_trait(node: Node, traits: Trait) -> bool:
    """Return whether the record of a node's op has one of the traits; an op without a record has none."""
    opdef = _REGISTRY.get((node.domain, node.op_type))  # asked of every node by many passes: no calls
    return opdef is not None and opdef.traits._value_ & traits._value_ != 0


def coefficients_of(node: Node) -> tuple[int, ...]:
    """Return the coefficients of a node that adds its operands up; empty for other nodes."""
    opdef = find_opdef(node)
    return () if opdef is None else opdef.coefficients


def op_types(traits: Trait) -> frozenset[str]:
    """Return the ops of the ONNX standard that have one of the traits."""
    return frozenset(name for (domain, name), opdef in _REGISTRY.items() if not domain and opdef.traits & traits)


def data_inputs(node: Node) -> Sequence[int]:
    """Return the indices of the inputs that have the dims of the result, perhaps broadcast."""
    opdef = find_opdef(node)
    return range(node.input_count) if opdef is None or opdef.data is None else opdef.data


def working_axis(node: Node, rank: int) -> int | None:
    """Return the dim of `rank` ones along which a node works, alone or with those that follow (`Axis.to_last`); None if
    it does not, or leaves the dim out.
    """
    opdef = find_opdef(node)
    if opdef is None or opdef.axis is None or not node.int_attr("keepdims", 1):
        return None
    return node.int_attr("axis", opdef.axis.default) % rank


def is_view(node: Node) -> bool:
    """Return whether nothing runs for a node that has its engine: output 0 is input 0's memory."""
    return node.engine is Engine.GE_LOCAL and has_trait(node, Trait.VIEW)


def makes_nothing(node: Node) -> bool:
    """Return whether nothing runs for a node because all that is read of its results is empty, whatever the symbols
    are. The members of a collective wait for each other, and what an op of a user does is not known.
    """
    read = [value.desc for value in node.outputs if value.use_count]
    if not read or not all(desc.is_empty for desc in read):  # the case of nearly every node
        return False
    opdef = find_opdef(node)
    if node.has_subgraphs or (opdef is not None and (opdef.bound is not None or Engine.HCCL in opdef.engines)):
        return False
    return not has_trait(node, Trait.CUSTOM)


def all_opdefs() -> list[OpDef]:
    """Every record of ours, by domain and name."""
    return [_REGISTRY[key] for key in sorted(_REGISTRY) if Trait.CUSTOM not in _REGISTRY[key].traits]

"""What is known of a value: element type, shape and format, as the model says and in memory."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from atcpy.ir.dtype import DType
from atcpy.ir.format import NCHW, ND, Format
from atcpy.ir.shape import Shape, StaticShape, Sym, element_count, format_shape, is_static
from atcpy.ir.symbolic import example, same

_SMALL, _SMALL_RANK = 1 << 31, 16  # elements and dims that are far from any limit


@dataclass(frozen=True)
class TensorDesc:
    """Type of a value. `shape` (GE's origin shape) is what the model means and what inference
    works on; `storage_shape` is how the elements lie in memory under `format`, or None while that
    is the same.

    Most values of a graph are of a few types, which they share: what follows from one is computed once.
    """

    dtype: DType
    shape: Shape | None
    format: Format = ND
    origin_format: Format = ND
    storage_shape: StaticShape | None = None

    @cached_property
    def _hash(self) -> int:
        return hash((self.dtype, self.shape, self.format, self.origin_format, self.storage_shape))

    def __hash__(self) -> int:
        return self._hash

    @staticmethod
    @lru_cache(4096)
    def plain(dtype: DType, shape: Shape | None) -> "TensorDesc":
        """A row-major tensor; four dims are called NCHW, as GE does by default."""
        form = NCHW if shape is not None and len(shape) == 4 else ND
        return TensorDesc(dtype, shape, form, form)

    @cached_property
    def is_static(self) -> bool:
        """True if every dim is a number."""
        return is_static(self.shape)

    @cached_property
    def static_shape(self) -> StaticShape:
        """The shape, which must be known: asking earlier is a bug of the caller."""
        assert is_static(self.shape), f"shape {format_shape(self.shape)} is not static"
        return self.shape

    @cached_property
    def has_symbols(self) -> bool:
        """True if a dim in memory is an expression of symbols, or a name: equal ones need not be the same."""
        return any(type(dim) is not int for dim in (*(self.shape or ()), *(self.storage_shape or ())))

    @cached_property
    def is_empty(self) -> bool:
        """True if it has no elements, whatever symbols stand for."""
        return self.is_static and any(same(dim, 0) for dim in self.static_shape)

    @cached_property
    def memory_shape(self) -> StaticShape:
        """The dims in memory, padding included."""
        return self.static_shape if self.storage_shape is None else self.storage_shape

    @cached_property
    def elements(self) -> int:
        """Number of elements that the model means."""
        return element_count(self.static_shape)

    @cached_property
    def is_small(self) -> bool:
        """True if its sizes are known and far from any limit, as nearly all are."""
        elements = 1
        for dim in self.shape or ():
            if type(dim) is not int:
                if isinstance(dim, Sym):
                    return False
                dim = example(dim)  # what symbols stand for is checked when a plan is completed
            if not 0 <= dim < _SMALL:
                return False
            elements *= dim
        return self.shape is not None and elements < _SMALL and len(self.shape) < _SMALL_RANK

    @cached_property
    def nbytes(self) -> int:
        """Bytes in memory under `format`, padding included."""
        return self.dtype.nbytes(element_count(self.memory_shape))

    def stored_as(self, form: Format, storage_shape: StaticShape) -> "TensorDesc":
        """The same tensor in another storage format."""
        return TensorDesc(self.dtype, self.shape, form, self.origin_format, storage_shape)

    def as_plain(self) -> "TensorDesc":
        """The same tensor in its origin format."""
        if self.storage_shape is None and self.format is self.origin_format:
            return self
        return TensorDesc(self.dtype, self.shape, self.origin_format, self.origin_format)

    def __str__(self) -> str:
        shape = self.shape if self.storage_shape is None else self.storage_shape
        return f"{self.dtype.short}{format_shape(shape)} {self.format}"


UNKNOWN = TensorDesc(DType.UNDEFINED, None)


def common_desc(name: str, a: TensorDesc, b: TensorDesc) -> TensorDesc:
    """What is true of both, UNKNOWN if their element types differ; dims that differ become symbols of `name`."""
    if a.dtype is not b.dtype or a.dtype is DType.UNDEFINED:
        return UNKNOWN
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return TensorDesc.plain(a.dtype, None)
    if a.shape == b.shape:
        return a
    pairs = enumerate(zip(a.shape, b.shape, strict=True))
    return TensorDesc.plain(a.dtype, tuple(x if x == y else Sym(f"{name}.{axis}") for axis, (x, y) in pairs))

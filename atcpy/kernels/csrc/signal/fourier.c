/* fourier: discrete Fourier transforms of frames of signals.
 *
 *     x       [outer, length, inner, parts]; parts: real, or real and imaginary
 *     window  [n] of the same type, optional: what each element of a frame counts
 *     y       [outer, frames, bins, inner, out_parts]
 *
 * Frame f begins at f · step; it has n elements, of which those beyond the signal are 0. `inverse`
 * divides by n; with `hermitian` too, x has the first half of a spectrum whose signal is real, and
 * out_parts is 1.
 *
 * The transform itself is in doubles: by powers of two (Cooley and Tukey), other lengths as a
 * convolution of such ones (Bluestein).
 */
#include "core/pieces.h"

#include <math.h>

#define FOURIER_FIELDS(I64, I64S, F64, ENUM)                                                       \
    I64(outer)                                                                                     \
    I64(length) I64(inner) I64(parts) I64(n) I64(frames) I64(step) I64(bins) I64(inverse)          \
        I64(hermitian)
DECLARE_PARAMS(fourier, FOURIER_FIELDS)

enum { FOURIER_X, FOURIER_WINDOW, FOURIER_OPERANDS };

/* Elements of the transform by powers of two that does the work: n itself, or at least 2n − 1. */
static inline int64_t fourier_size(int64_t n)
{
    int64_t size = 1;
    if ((n & (n - 1)) == 0)
        return n;
    while (size < 2 * n - 1)
        size *= 2;
    return size;
}

struct complex_f64 {
    double re, im;
};

/* Scratch of a call: `size` numbers each. */
struct fourier_room {
    struct complex_f64 *signal, *roots, *chirp, *chirp_spectrum;
    int64_t size;
};

struct fourier_room fourier_prepare(const struct kernel_args *args);

/* Transforms the first n numbers of room->signal in place, forward. */
void fourier_transform(const struct kernel_args *args, const struct fourier_room *room);

enum { MAX_LENGTH = 1 << 26 };

static const char *check(const struct task_view *task)
{
    const struct fourier_params *p = task->params;
    if (task->n_src < 1 || task->n_src > FOURIER_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->outer, p->length, p->inner, p->frames) || !ATC_SIZES_OK(0, p->step) ||
        p->n < 1 || p->n > MAX_LENGTH)
        return "a size is out of range";
    if (p->parts != 1 && p->parts != 2)
        return "numbers have neither one nor two parts";
    if ((p->inverse != 0 && p->inverse != 1) || (p->hermitian != 0 && p->hermitian != 1) ||
        p->hermitian > p->inverse)
        return "a flag is out of range";
    if (p->bins != p->n && p->bins != p->n / 2 + 1)
        return "bins are neither all nor half of them";
    if (atc_mul(p->frames, p->step) >= ATC_TOO_BIG)
        return "frames reach too far";
    const enum atc_dtype dtype = (enum atc_dtype)task->src[FOURIER_X].dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "operands are of an unknown type";
    const int64_t item = atc_item_bytes(dtype), series = atc_mul(p->outer, p->inner);
    const int64_t bins = atc_mul(atc_mul(p->frames, p->bins), p->hermitian ? 1 : 2);
    if (!atc_holds(task, task->src + FOURIER_X, dtype,
                   atc_mul(series, atc_mul(p->length, p->parts)), item) ||
        !atc_holds(task, task->dst, dtype, atc_mul(series, bins), item) ||
        !atc_holds_optional(task, FOURIER_WINDOW, dtype, p->n, item))
        return "an operand is too small or of another type";
    return NULL;
}

/* An item is a frame of one series. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct fourier_params *p = params;
    const int64_t size = fourier_size(p->n),
                  frames = atc_mul(atc_mul(p->outer, p->frames), p->inner);
    int64_t steps = 8;
    for (int64_t at = size; at > 1; at /= 2)
        steps += 2;
    return (struct kernel_cost){.items = p->outer * p->frames * p->inner,
                                .work = atc_mul(atc_add(frames, 2), atc_mul(size, steps)),
                                .scratch = 4 * size * (int64_t)sizeof(struct complex_f64)};
}

DEFINE_FAMILY(fourier, FOURIER_FIELDS, .check = check, .cost = cost);

/* --- the transform --------------------------------------------------------------------------- */

static struct complex_f64 times(struct complex_f64 a, struct complex_f64 b)
{
    return (struct complex_f64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static struct complex_f64 conjugate(struct complex_f64 a)
{
    return (struct complex_f64){a.re, -a.im};
}

/* e^(−πi · part / whole) */
static struct complex_f64 unit_root(int64_t part, int64_t whole)
{
    const double angle = -3.14159265358979323846 * (double)part / (double)whole;
    return (struct complex_f64){cos(angle), sin(angle)};
}

/* Element i is exchanged with the one whose bits are i's in reverse. */
static void reverse_bits(const struct kernel_args *args, struct complex_f64 *x, int64_t size)
{
    int64_t j = 0;
    for (struct atc_piece piece = {1, 1}; atc_next_piece(args, &piece, size);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            int64_t bit = size >> 1;
            for (; j & bit; bit >>= 1)
                j ^= bit;
            j ^= bit;
            if (i < j) {
                const struct complex_f64 other = x[i];
                x[i] = x[j];
                x[j] = other;
            }
        }
}

/* Joins elements [begin, end) of two transforms of `half` elements, which lie behind each other. */
static inline void join(const struct fourier_room *room, struct complex_f64 *x, int64_t half,
                        int64_t begin, int64_t end)
{
    const int64_t step = room->size / 2 / half;
    for (int64_t i = begin; i < end; i++) {
        struct complex_f64 *low = x + i, *high = low + half;
        const struct complex_f64 odd = times(*high, room->roots[i * step]);
        *high = (struct complex_f64){low->re - odd.re, low->im - odd.im};
        *low = (struct complex_f64){low->re + odd.re, low->im + odd.im};
    }
}

static void transform_power_of_two(const struct kernel_args *args, const struct fourier_room *room,
                                   struct complex_f64 *x)
{
    const int64_t size = room->size;
    if (atc_was_stopped(args))
        return;
    reverse_bits(args, x, size);
    int64_t half = 1;
    for (; half < size && 2 * half <= ATC_PIECE && !atc_was_stopped(args); half *= 2)
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, size);)
            for (int64_t start = piece.begin; start < piece.end; start += 2 * half)
                join(room, x + start, half, 0, half);
    for (; half < size; half *= 2)
        for (int64_t start = 0; start < size && !atc_was_stopped(args); start += 2 * half)
            for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, half);)
                join(room, x + start, half, piece.begin, piece.end);
}

struct fourier_room fourier_prepare(const struct kernel_args *args)
{
    const struct fourier_params *p = args->params;
    struct fourier_room room = {.signal = args->scratch, .size = fourier_size(p->n)};
    const int64_t n = p->n, size = room.size;
    room.roots = room.signal + size;
    room.chirp = room.roots + size;
    room.chirp_spectrum = room.chirp + size;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, size / 2);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            room.roots[i] = unit_root(2 * i, size);
    if (size == n)
        return room;
    atc_clear(args, room.chirp_spectrum, size * (int64_t)sizeof *room.chirp_spectrum);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            room.chirp[i] = unit_root(i * i % (2 * n), n);
            room.chirp_spectrum[i] = conjugate(room.chirp[i]);
            if (i > 0)
                room.chirp_spectrum[size - i] = conjugate(room.chirp[i]);
        }
    transform_power_of_two(args, &room, room.chirp_spectrum);
    return room;
}

void fourier_transform(const struct kernel_args *args, const struct fourier_room *room)
{
    const int64_t n = ((const struct fourier_params *)args->params)->n, size = room->size;
    struct complex_f64 *x = room->signal;
    if (size == n) {
        transform_power_of_two(args, room, x);
        return;
    }
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            x[i] = times(x[i], room->chirp[i]);
    atc_clear(args, x + n, (size - n) * (int64_t)sizeof *x);
    transform_power_of_two(args, room, x);
    /* The inverse transform of the product is the conjugate of the transform of its conjugate. */
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, size);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            x[i] = conjugate(times(x[i], room->chirp_spectrum[i]));
    transform_power_of_two(args, room, x);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            const struct complex_f64 sum = {x[i].re / (double)size, -x[i].im / (double)size};
            x[i] = times(sum, room->chirp[i]);
        }
}

/* An inverse transform is the conjugate of the transform of the conjugate, divided by n. */
#define DEFINE_FOURIER(T, suffix)                                                                  \
    static void read_##suffix(const struct kernel_args *args, struct complex_f64 *to, const T *x,  \
                              const T *window, int64_t start)                                      \
    {                                                                                              \
        const struct fourier_params *p = args->params;                                             \
        const int64_t stored = p->hermitian ? p->n / 2 + 1 : p->n, step = p->inner * p->parts;     \
        const double sign = p->inverse ? -1 : 1;                                                   \
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, stored);)                  \
            for (int64_t i = piece.begin; i < piece.end; i++) {                                    \
                const bool there = start + i < p->length;                                          \
                const T *at = x + (there ? (start + i) * step : 0);                                \
                const double weight = window == NULL ? 1 : (double)window[i];                      \
                to[i].re = there ? (double)at[0] * weight : 0;                                     \
                to[i].im = there && p->parts > 1 ? sign * (double)at[1] * weight : 0;              \
            }                                                                                      \
        for (struct atc_piece piece = {stored, stored}; atc_next_piece(args, &piece, p->n);)       \
            for (int64_t i = piece.begin; i < piece.end; i++)                                      \
                to[i] = (struct complex_f64){to[p->n - i].re, -to[p->n - i].im};                   \
    }                                                                                              \
                                                                                                   \
    void fourier_##suffix##_scalar(const struct kernel_args *args)                                 \
    {                                                                                              \
        const struct fourier_params *p = args->params;                                             \
        const struct fourier_room room = fourier_prepare(args);                        \
        const int64_t parts = p->hermitian ? 1 : 2;                                                \
        const double scale = p->inverse ? (double)p->n : 1, sign = p->inverse ? -1 : 1;            \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const int64_t inner = item % p->inner, frame = item / p->inner % p->frames;            \
            const int64_t outer = item / p->inner / p->frames;                                     \
            const T *x = (const T *)args->src[FOURIER_X] +                                         \
                         (outer * p->length * p->inner + inner) * p->parts;                        \
            T *y = (T *)args->dst[0] +                                                             \
                   ((outer * p->frames + frame) * p->bins * p->inner + inner) * parts;             \
            read_##suffix(args, room.signal, x, args->src[FOURIER_WINDOW], frame * p->step);          \
            fourier_transform(args, &room);                                                           \
            for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->bins);)             \
                for (int64_t k = piece.begin; k < piece.end; k++, y += p->inner * parts) {         \
                    y[0] = (T)(room.signal[k].re / scale);                                         \
                    if (parts > 1)                                                                 \
                        y[1] = (T)(sign * room.signal[k].im / scale);                              \
                }                                                                                  \
        }                                                                                          \
    }

DEFINE_FOURIER(float, f32)
DEFINE_FOURIER(double, f64)

/* fourier: discrete Fourier transforms of frames of signals.
 *
 *     x       [outer, length, inner, parts]; parts: real, or real and imaginary
 *     window  [n] of the same type, optional: what each element of a frame counts
 *     y       [outer, frames, bins, inner, out_parts]
 *
 * Frame f begins at f · step; it has n elements, of which those beyond the signal are 0. `inverse`
 * divides by n; with `hermitian` too, x has the first half of a spectrum whose signal is real, and
 * out_parts is 1.
 */
#ifndef ATC_FOURIER_H
#define ATC_FOURIER_H

#include "core/kernel.h"

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
    struct complex_f64 *signal, *turns, *chirp, *chirp_spectrum;
    int64_t size;
};

struct fourier_room fourier_prepare(const struct fourier_params *p, void *scratch);

/* Transforms the first n numbers of room->signal in place, forward. */
void fourier_transform(const struct fourier_params *p, const struct fourier_room *room);

#endif

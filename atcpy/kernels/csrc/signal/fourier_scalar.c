/* fourier, plainly: frames are read into doubles, transformed and stored. */
#include "signal/fourier.h"

/* An inverse transform is the conjugate of the transform of the conjugate, divided by n. */
#define DEFINE_FOURIER(T, suffix)                                                                  \
    static void read_##suffix(const struct fourier_params *p, struct complex_f64 *to, const T *x,  \
                              const T *window, int64_t start)                                      \
    {                                                                                              \
        const int64_t given = p->hermitian ? p->n / 2 + 1 : p->n, step = p->inner * p->parts;      \
        const double sign = p->inverse ? -1 : 1;                                                   \
        for (int64_t i = 0; i < given; i++) {                                                      \
            const bool there = start + i < p->length;                                              \
            const T *at = x + (there ? (start + i) * step : 0);                                    \
            const double weight = window == NULL ? 1 : (double)window[i];                          \
            to[i].re = there ? (double)at[0] * weight : 0;                                         \
            to[i].im = there && p->parts > 1 ? sign * (double)at[1] * weight : 0;                  \
        }                                                                                          \
        for (int64_t i = given; i < p->n; i++)                                                     \
            to[i] = (struct complex_f64){to[p->n - i].re, -to[p->n - i].im};                       \
    }                                                                                              \
                                                                                                   \
    void fourier_##suffix##_scalar(const struct kernel_args *args)                                 \
    {                                                                                              \
        const struct fourier_params *p = args->params;                                             \
        const struct fourier_room room = fourier_prepare(p, args->scratch);                        \
        const int64_t parts = p->hermitian ? 1 : 2;                                                \
        const double scale = p->inverse ? (double)p->n : 1, sign = p->inverse ? -1 : 1;            \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const int64_t inner = item % p->inner, frame = item / p->inner % p->frames;            \
            const int64_t outer = item / p->inner / p->frames;                                     \
            const T *x = (const T *)args->src[FOURIER_X] +                                         \
                         (outer * p->length * p->inner + inner) * p->parts;                        \
            T *y = (T *)args->dst[0] +                                                             \
                   ((outer * p->frames + frame) * p->bins * p->inner + inner) * parts;             \
            read_##suffix(p, room.signal, x, args->src[FOURIER_WINDOW], frame * p->step);          \
            fourier_transform(p, &room);                                                           \
            for (int64_t k = 0; k < p->bins; k++, y += p->inner * parts) {                         \
                y[0] = (T)(room.signal[k].re / scale);                                             \
                if (parts > 1)                                                                     \
                    y[1] = (T)(sign * room.signal[k].im / scale);                                  \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_FOURIER(float, f32)
DEFINE_FOURIER(double, f64)

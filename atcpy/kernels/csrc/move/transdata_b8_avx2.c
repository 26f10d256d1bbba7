/* transdata of bytes in blocks of 16, tiles of 16 pixels by 16 channels. */
#include "move/transdata.h"

#include <immintrin.h>
#include <string.h>

enum { C0 = 16 };

/* One step of four: bytes of rows i and i + 8 alternate. After four, row i is what column i was.
 */
static inline void interleave(const __m128i in[C0], __m128i out[C0])
{
#pragma GCC unroll 8
    for (int i = 0; i < C0 / 2; i++) {
        out[2 * i] = _mm_unpacklo_epi8(in[i], in[i + C0 / 2]);
        out[2 * i + 1] = _mm_unpackhi_epi8(in[i], in[i + C0 / 2]);
    }
}

static inline void transpose(__m128i rows[C0])
{
    __m128i other[C0];
    interleave(rows, other);
    interleave(other, rows);
    interleave(rows, other);
    interleave(other, rows);
}

/* The first n of 16 bytes; the others are zero. */
static inline __m128i load(const uint8_t *at, int64_t n)
{
    uint8_t bytes[C0] = {0};
    if (n >= C0)
        return _mm_loadu_si128((const __m128i *)(const void *)at);
    memcpy(bytes, at, (size_t)n);
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

static inline void store(uint8_t *at, __m128i x, int64_t n)
{
    uint8_t bytes[C0];
    if (n >= C0) {
        _mm_storeu_si128((__m128i *)(void *)at, x);
        return;
    }
    _mm_storeu_si128((__m128i *)(void *)bytes, x);
    memcpy(at, bytes, (size_t)n);
}

static void pack(uint8_t *blocked, const uint8_t *plain, const struct transdata_piece *piece)
{
    for (int64_t i = 0; i < piece->pixels; i += C0) {
        const int64_t pixels = min_i64(C0, piece->pixels - i);
        __m128i rows[C0];
        for (int64_t c = 0; c < C0; c++)
            rows[c] =
                c < piece->channels ? load(plain + c * piece->hw + i, pixels) : _mm_setzero_si128();
        transpose(rows);
        for (int64_t k = 0; k < pixels; k++)
            store(blocked + (i + k) * C0, rows[k], C0);
    }
}

static void unpack(uint8_t *plain, const uint8_t *blocked, const struct transdata_piece *piece)
{
    for (int64_t i = 0; i < piece->pixels; i += C0) {
        const int64_t pixels = min_i64(C0, piece->pixels - i);
        __m128i rows[C0];
        for (int64_t k = 0; k < C0; k++)
            rows[k] = k < pixels ? load(blocked + (i + k) * C0, C0) : _mm_setzero_si128();
        transpose(rows);
        for (int64_t c = 0; c < piece->channels; c++)
            store(plain + c * piece->hw + i, rows[c], pixels);
    }
}

void transdata_b8_avx2(const struct kernel_args *args)
{
    transdata_drive(args, pack, unpack);
}

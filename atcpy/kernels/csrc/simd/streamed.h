/* Stores of whole cache lines that pass the caches by: what is written is not read before, as other
 * stores do, and nothing else is driven out. They pay where much more is written than caches hold.
 */
#ifndef ATC_STREAMED_H
#define ATC_STREAMED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { STREAMED_LINE = 64, MAX_STREAMED_RUN = 4096 };
enum { MIN_STREAMED = 1 << 25 }; /* bytes of a result: more than the last cache is likely to hold */

#if defined __AVX2__
#include <immintrin.h>

/* `dst` lies at a multiple of STREAMED_LINE. */
static inline void stream_line(uint8_t *dst, const uint8_t *src)
{
    for (int i = 0; i < STREAMED_LINE; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(dst + i),
                            _mm256_loadu_si256((const __m256i *)(const void *)(src + i)));
}
#elif defined __SSE2__
#include <emmintrin.h>

static inline void stream_line(uint8_t *dst, const uint8_t *src)
{
    for (int i = 0; i < STREAMED_LINE; i += 16)
        _mm_stream_si128((__m128i *)(void *)(dst + i),
                         _mm_loadu_si128((const __m128i *)(const void *)(src + i)));
}
#else
static inline void stream_line(uint8_t *dst, const uint8_t *src)
{
    memcpy(dst, src, STREAMED_LINE);
}
#endif

/* Up to some hundred bytes, by moves of a fixed size of which the last may overlap the one before.
 */
static inline void copy_short(uint8_t *dst, const uint8_t *src, size_t bytes)
{
    if (bytes >= STREAMED_LINE) {
        for (size_t i = 0; i + STREAMED_LINE < bytes; i += STREAMED_LINE)
            memcpy(dst + i, src + i, STREAMED_LINE);
        memcpy(dst + bytes - STREAMED_LINE, src + bytes - STREAMED_LINE, STREAMED_LINE);
    } else if (bytes >= 32) {
        memcpy(dst, src, 32);
        memcpy(dst + bytes - 32, src + bytes - 32, 32);
    } else if (bytes >= 16) {
        memcpy(dst, src, 16);
        memcpy(dst + bytes - 16, src + bytes - 16, 16);
    } else if (bytes >= 8) {
        memcpy(dst, src, 8);
        memcpy(dst + bytes - 8, src + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(dst, src, 4);
        memcpy(dst + bytes - 4, src + bytes - 4, 4);
    } else {
        for (size_t i = 0; i < bytes; i++)
            dst[i] = src[i];
    }
}

/* A run whose whole lines pass the caches by. */
static inline void stream_run(uint8_t *dst, const uint8_t *src, int64_t bytes)
{
    const int64_t head = (int64_t)(-(uintptr_t)dst % STREAMED_LINE);
    copy_short(dst, src, (size_t)head);
    int64_t at = head;
    for (; at + STREAMED_LINE <= bytes; at += STREAMED_LINE)
        stream_line(dst + at, src + at);
    copy_short(dst + at, src + at, (size_t)(bytes - at));
}

/* Whether to stream runs of so many bytes: of short ones, most lines are cut; for long ones, memcpy
 * does whatever the CPU is fastest at.
 */
static inline bool is_streamed_run(int64_t bytes)
{
    return bytes >= 2 * STREAMED_LINE && bytes < MAX_STREAMED_RUN;
}

/* Behind the last one: stores that follow, which tell other threads of it, come after them. */
static inline void end_stream(void)
{
#if defined __SSE2__
    _mm_sfence();
#endif
}

#endif

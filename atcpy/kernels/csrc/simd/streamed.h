/* Stores of whole cache lines that pass the caches by: what is written is not read before, as other
 * stores do, and nothing else is driven out. They pay where much more is written than caches hold.
 */
#ifndef ATC_STREAMED_H
#define ATC_STREAMED_H

#include <stdint.h>
#include <string.h>

enum { STREAMED_LINE = 64 };

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

/* Behind the last one: stores that follow, which tell other threads of it, come after them. */
static inline void end_stream(void)
{
#if defined __SSE2__
    _mm_sfence();
#endif
}

#endif

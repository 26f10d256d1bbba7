/* qgemm on AVX2 for panels many of whose weights are too large for vpmaddubsw: both operands are
 * widened to 16 bits; up to 6 rows by one panel.
 */
#ifndef ATC_QGEMM_WIDE_AVX2_H
#define ATC_QGEMM_WIDE_AVX2_H

#include "quant/qgemm.h"

enum { QGEMM_WIDE_ROWS = 6 };

/* Bytes that the widened panels of a tile take, and these with its widened rows of x. */
static inline int64_t qgemm_wide_w_bytes(int64_t k1)
{
    return k1 * (QGEMM_SCHEDULED * QGEMM_BLOCK * (int64_t)sizeof(int16_t));
}

static inline int64_t qgemm_wide_bytes(int64_t k1)
{
    const int64_t quads = ceil_div(k1, QGEMM_QUAD);
    return qgemm_wide_w_bytes(k1) +
           quads * (QGEMM_QUAD * QGEMM_WIDE_ROWS * QGEMM_K0 * (int64_t)sizeof(int16_t));
}

/* Widens panels to [blocks][k1][2][16][2]: each step becomes two rows of pairs. */
void qgemm_widen_avx2(const struct qgemm_panels *w, int16_t *to);

/* Computes all tiles of a call. */
void qgemm_wide_avx2(const struct qgemm_tile *t, int blocks);

#endif

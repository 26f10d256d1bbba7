/* argreduce of floats: VF columns or VF elements of a row at a time, on vectors of up to 256 bits.
 */
#include "core/pieces.h"
#include "reduce/argreduce.h"
#include "simd/vector.h"

enum { BLOCK = 4 }; /* vectors of columns whose best elements and positions stay in registers */

/* Where v replaces best, as in argreduce_scalar.c: a comparison with NaN is false, so that NaN
 * beats every number, and only numbers are beaten, but for the last of several NaN.
 */
static inline vi beats(vf v, vf best, bool max, bool last)
{
    const vi number = (vi)vf_eq(best, best);
    if (!last)
        return ~(vi)(max ? vf_le(v, best) : vf_le(best, v)) & number;
    return (~(vi)(max ? vf_lt(v, best) : vf_lt(best, v)) & number) | (vi)vf_is_nan(v);
}

static inline vi pick(vi mask, vi yes, vi no)
{
    return (vi)vf_select((vm)mask, (vf)yes, (vf)no);
}

static inline void store_wide(int64_t *dst, vi index, int64_t n)
{
    int32_t positions[VF];
    memcpy(positions, &index, sizeof positions);
    for (int64_t i = 0; i < n; i++)
        dst[i] = positions[i];
}

/* The results of `vectors` vectors of neighbouring columns, of which the last has `tail`. */
static inline void reduce_columns(const struct kernel_args *args, const float *src, int vectors,
                                  int64_t tail, int64_t *dst, bool max, bool last)
{
    const struct argreduce_params *p = args->params;
    const bool is_whole = tail == VF;
    vf best[BLOCK];
    vi index[BLOCK];
    for (int a = 0; a < vectors; a++) {
        best[a] = is_whole ? vf_load(src + a * VF) : vf_load_n(src + a * VF, tail, 0);
        index[a] = (vi){0};
    }
    for (struct atc_piece piece = {1, 1}; atc_next_piece(args, &piece, p->n);)
        for (int64_t k = piece.begin; k < piece.end; k++) {
            const float *row = src + k * p->inner;
            for (int a = 0; a < vectors; a++) {
                const vf v = is_whole ? vf_load(row + a * VF) : vf_load_n(row + a * VF, tail, 0);
                const vi better = beats(v, best[a], max, last);
                best[a] = vf_select((vm)better, v, best[a]);
                index[a] = pick(better, (vi){0} + (int32_t)k, index[a]);
            }
        }
    for (int a = 0; a < vectors; a++)
        store_wide(dst + a * VF, index[a], is_whole ? VF : tail);
}

/* One result of at least VF elements: each lane reduces every VF-th one, then the lanes are
 * compared. The last vector begins where it ends with the row: what it sees again beats nothing
 * that lies behind.
 */
static inline int64_t reduce_row(const struct kernel_args *args, const float *src, int64_t n,
                                 bool max, bool last)
{
    vi at;
    int32_t positions[VF];
    for (int32_t i = 0; i < VF; i++)
        positions[i] = i;
    memcpy(&at, positions, sizeof at);
    vi index = at;
    vf best = vf_load(src);
    const vi first = at;
    for (struct atc_piece piece = {VF, VF}; atc_next_piece(args, &piece, n - VF + 1);)
        for (int64_t k = piece.begin; k < piece.end; k += VF) {
            const vf v = vf_load(src + k);
            const vi better = beats(v, best, max, last);
            at += VF;
            best = vf_select((vm)better, v, best);
            index = pick(better, at, index);
        }
    if (n % VF != 0) {
        const vf v = vf_load(src + n - VF);
        const vi better = beats(v, best, max, last);
        best = vf_select((vm)better, v, best);
        index = pick(better, first + (int32_t)(n - VF), index);
    }
    /* The largest of the lanes, or a NaN; of equal ones the first or the last element. */
    const float most = max ? vf_largest_lane(best) : -vf_largest_lane(vf_neg(best));
    const vi found = (vi)(most == most ? vf_eq(best, vf_set1(most)) : vf_is_nan(best));
    index = pick(found, index, (vi){0} + (last ? -1 : INT32_MAX));
    memcpy(positions, &index, sizeof positions);
    int32_t result = positions[0];
    for (int i = 1; i < VF; i++)
        result = (last ? positions[i] > result : positions[i] < result) ? positions[i] : result;
    return result;
}

/* A row that is shorter than a vector. */
static inline int64_t reduce_few(const float *src, int64_t n, bool max, bool last)
{
    float best = src[0];
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++) {
        const float v = src[i];
        const bool is_equal = last && (v == best || (v != v && best != best));
        const bool better = (max ? v > best : v < best) || (v != v && best == best) || is_equal;
        best = better ? v : best;
        at = better ? i : at;
    }
    return at;
}

static inline void reduce_items(const struct kernel_args *args, bool max, bool last)
{
    const struct argreduce_params *p = args->params;
    const int64_t chunks = ceil_div(p->inner, ARG_COLUMNS);
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t outer = item / chunks, column = item % chunks * ARG_COLUMNS;
        const int64_t columns = min_i64(ARG_COLUMNS, p->inner - column);
        const float *src = (const float *)args->src[0] + outer * p->n * p->inner + column;
        int64_t *dst = (int64_t *)args->dst[0] + outer * p->inner + column, c = 0;
        if (p->inner == 1) {
            *dst = p->n < VF ? reduce_few(src, p->n, max, last)
                             : reduce_row(args, src, p->n, max, last);
            continue;
        }
        for (; c + BLOCK * VF <= columns; c += BLOCK * VF)
            reduce_columns(args, src + c, BLOCK, VF, dst + c, max, last);
        for (; c + VF <= columns; c += VF)
            reduce_columns(args, src + c, 1, VF, dst + c, max, last);
        if (c < columns)
            reduce_columns(args, src + c, 1, columns - c, dst + c, max, last);
    }
}

void FOR_ISA(argreduce_f32)(const struct kernel_args *args)
{
    argreduce_run(args, reduce_items);
}

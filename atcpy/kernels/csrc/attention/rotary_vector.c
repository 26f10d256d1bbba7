/* rotary on vectors: halves lie behind each other, so that each is read as it is; pairs that are
 * interleaved are left to the compiler. */
#include "attention/rotary.h"
#include "simd/vector.h"

/* Whole vectors; returns how many pairs are done. */
static inline int64_t rotary_halves(const struct kernel_args *args, const struct rotary_row *row)
{
    const struct rotary_params *p = args->params;
    int64_t i = 0;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->half);)
        for (; i + VF <= piece.end; i += VF) {
            const vf a = vf_load(row->x + i), b = vf_load(row->x + p->half + i);
            const vf cos = vf_load(row->cos + i), sin = vf_load(row->sin + i);
            vf_store(row->y + i, vf_sub(vf_mul(cos, a), vf_mul(sin, b)));
            vf_store(row->y + p->half + i, vf_add(vf_mul(sin, a), vf_mul(cos, b)));
        }
    return i;
}

void FOR_ISA(rotary_f32)(const struct kernel_args *args)
{
    const struct rotary_params *p = args->params;
    const int64_t each = rotary_heads_per_item(p), all = p->batch * p->heads * p->rows;
    const int64_t end = min_i64(args->end * each, all);
    for (int64_t number = args->begin * each; number < end; number++) {
        const struct rotary_row row = rotary_row_at(args, number);
        rotary_pairs(args, &row, p->interleaved ? 0 : rotary_halves(args, &row));
        rotary_rest(args, &row);
    }
}

/* attention by its definition: the oracle of the other rows, and the path of any other CPU. */
#include "core/pieces.h"
#include "attention/attention.h"

#include <math.h>

struct row {
    const struct kernel_args *args;
    const struct attention_params *p;
    const struct attention_item *it;
    const float *q;
    const float *added; /* the masks of this row; NULL: none */
    const uint8_t *kept;
};

/* A factor of a product. */
static float factor(const struct row *r, float x)
{
    return attention_rounds(r->p, r->it) ? rounded_bf16(x) : x;
}

static float score(const struct row *r, int64_t key)
{
    const struct attention_rows k = attention_keys_from(r->args, r->it, key);
    const bool rounds = attention_rounds(r->p, r->it);
    double sum = 0;
    for (int64_t i = 0; i < r->p->head; i++) {
        const float q = rounds ? rounded_bf16(r->q[i] * (float)r->p->scale) : r->q[i];
        sum += (double)q * factor(r, attention_element(&k, i));
    }
    const float cap = (float)r->p->softcap, product = (float)(rounds ? sum : sum * r->p->scale);
    const float scaled = cap > 0 ? cap * tanhf(product / cap) : product;
    if (r->p->token_item > 0) {
        const float token = attention_token(r->args, r->it, key);
        return scaled + (r->added == NULL ? token : token + r->added[key]);
    }
    if (r->added != NULL)
        return scaled + r->added[key];
    return r->kept == NULL || r->kept[key] ? scaled : -INFINITY;
}

static void attend(const struct row *r, int64_t keys, float *y)
{
    struct atc_meter meter = {.args = r->args};
    float largest = -INFINITY;
    for (int64_t j = 0; j < keys && !atc_spend(&meter, r->p->head); j++) {
        const float s = score(r, j);
        if (s > largest || s != s)
            largest = s;
    }
    const float shift = largest == -INFINITY ? 0 : largest;
    double total = 0;
    for (int64_t i = 0; i < r->p->v_head; i++)
        y[i] = 0;
    for (int64_t j = 0; j < keys && !atc_spend(&meter, r->p->head + r->p->v_head); j++) {
        const float weight = expf(score(r, j) - shift);
        const struct attention_rows v = attention_values_from(r->args, r->it, j);
        total += (double)weight;
        for (int64_t i = 0; i < r->p->v_head; i++)
            y[i] += factor(r, weight) * factor(r, attention_element(&v, i));
    }
    const float by = total == 0 ? 0 : (float)(1 / total);
    for (int64_t i = 0; i < r->p->v_head; i++)
        y[i] *= by;
}

void attention_f32_scalar(const struct kernel_args *args)
{
    const struct attention_params *p = args->params;
    const float *added = args->src[ATTENTION_ADDED];
    const uint8_t *kept = args->src[ATTENTION_KEPT];
    for (int64_t item = args->begin; item < args->end; item++) {
        const struct attention_item it = attention_item_at(p, item);
        struct row r = {
            .args = args, .p = p, .it = &it, .q = (const float *)args->src[ATTENTION_Q] + it.q};
        attention_keep(args, &it);
        for (int64_t i = 0; i < it.rows; i++, r.q += it.q_row) {
            r.added = added == NULL ? NULL : added + it.mask + i * it.mask_row;
            r.kept = kept == NULL ? NULL : kept + it.mask + i * it.mask_row;
            attend(&r, attention_keys(p, &it, i), (float *)args->dst[0] + it.y + i * it.y_row);
        }
    }
}

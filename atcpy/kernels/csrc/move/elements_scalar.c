/* elements, plainly. */
#include "move/elements.h"

#include "move/combine.h"
#include "core/index.h"

/* First elements of a lane, among the indices and among the data. */
struct lane {
    int64_t index, data;
};

static struct lane lane_at(const struct elements_params *p, int64_t number)
{
    struct lane lane = {0, 0};
    for (int64_t i = p->rank - 1; i >= 0; i--) {
        const int64_t at = number % p->dims[i];
        number /= p->dims[i];
        lane.index += at * p->index_strides[i];
        lane.data += at * p->data_strides[i];
    }
    return lane;
}

static inline void move(uint8_t *to, const uint8_t *from, int64_t item)
{
    if (item == 4)
        memcpy(to, from, 4);
    else if (item == 8)
        memcpy(to, from, 8);
    else
        memcpy(to, from, (size_t)item);
}

void elements_any_scalar(const struct kernel_args *args)
{
    const struct elements_params *p = args->params;
    const int64_t each = elements_lanes_per_item(p), item = p->item;
    int64_t lanes = 1;
    for (int64_t i = 0; i < p->rank; i++)
        lanes *= p->dims[i];
    const int64_t end = min_i64(args->end * each, lanes);
    const uint8_t *x = args->src[ELEMENTS_X];
    uint8_t *y = args->dst[0];
    const combine_row combine = combine_of(p->dtype);
    for (int64_t number = args->begin * each; number < end; number++) {
        const struct lane lane = lane_at(p, number);
        for (int64_t i = 0; i < p->count; i++) {
            const int64_t shown = lane.index + i * p->index_step;
            const int64_t place = atc_place_of(
                args->fault, atc_read_index(args->src[ELEMENTS_INDICES], shown, p->index_item),
                p->size);
            if (place < 0)
                return;
            const int64_t held = lane.data + place * p->data_step;
            if (p->kind == ELEMENTS_GATHER)
                move(y + shown * item, x + held * item, item);
            else if (p->kind == COMBINE_NONE)
                move(y + held * item, x + shown * item, item);
            else
                combine(y + held * item, x + shown * item, 1, p->kind);
        }
    }
}

/* nms: how much boxes share, as loops which the compiler makes vectors of. */
#include "select/nms.h"

enum { AT_ONCE = 16 };

/* The side that two boxes share along a dim; NaN where one of them has it. */
static inline float shared_side(float low, float high, float other_low, float other_high)
{
    return (high < other_high ? high : other_high) - (low > other_low ? low : other_low);
}

/* Without branches: whether it lies over one of those [begin, end). */
static inline bool lies_over_some(const struct nms_sides *box, const float *others, int64_t step,
                                  int64_t begin, int64_t end, float iou)
{
    int over = 0;
    for (int64_t i = begin; i < end; i++) {
        const float h = shared_side(box->low[0], box->high[0], others[i], others[2 * step + i]);
        const float w =
            shared_side(box->low[1], box->high[1], others[step + i], others[3 * step + i]);
        const float area = others[4 * step + i], shared = h * w, all = box->area + area - shared;
        over |= !(h <= 0) & !(w <= 0) & (shared > 0) & (box->area > 0) & (area > 0) & (all > 0) &
                (shared / all > iou);
    }
    return over != 0;
}

static bool lies_over(const struct nms_sides *box, const float *others, int64_t step, int64_t n,
                      float iou)
{
    int64_t i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE)
        if (lies_over_some(box, others, step, i, i + AT_ONCE, iou))
            return true;
    return lies_over_some(box, others, step, i, n, iou);
}

void LOOPS_FOR_ISA(nms_f32)(const struct kernel_args *args)
{
    nms_choose(args, lies_over);
}

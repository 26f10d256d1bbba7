/* nms, plainly: boxes leave a heap, best first, and each is compared with those chosen. */
#include "select/nms.h"

#include "select/ranked.h"
#include "select/sort_key.h"

struct sides {
    float low[2], high[2], area;
};

static struct sides sides_of(const float *box, bool centred)
{
    struct sides s;
    if (centred) {
        for (int i = 0; i < 2; i++) {
            const float half = box[2 + i] / 2;
            s.low[i] = box[i] - half;
            s.high[i] = box[i] + half;
        }
    } else {
        for (int i = 0; i < 2; i++) {
            const float a = box[1 - i], b = box[3 - i];
            s.low[i] = a >= b ? b : a;
            s.high[i] = a >= b ? a : b;
        }
    }
    s.area = (s.high[0] - s.low[0]) * (s.high[1] - s.low[1]);
    return s;
}

/* True if two boxes share more of their union than they may. */
static bool lies_over(const struct sides *a, const struct sides *b, float iou)
{
    float shared = 1;
    for (int i = 0; i < 2; i++) {
        const float low = a->low[i] > b->low[i] ? a->low[i] : b->low[i];
        const float high = a->high[i] < b->high[i] ? a->high[i] : b->high[i];
        if (high <= low)
            return false;
        shared = i == 0 ? high - low : shared * (high - low);
    }
    const float united = a->area + b->area - shared;
    return shared > 0 && a->area > 0 && b->area > 0 && united > 0 && shared / united > iou;
}

static float scalar_of(const struct kernel_args *args, int number, float without)
{
    return args->src[number] == NULL ? without : *(const float *)args->src[number];
}

/* The boxes of one class with scores that count, as a heap; returns how many. */
static int64_t candidates(const struct kernel_args *args, const float *scores, struct ranked *heap)
{
    const struct nms_params *p = args->params;
    const bool has_least = args->src[NMS_LEAST] != NULL;
    const float least = scalar_of(args, NMS_LEAST, 0);
    int64_t n = 0;
    for (int64_t i = 0; i < p->n; i++)
        if (!has_least || scores[i] > least)
            heap[n++] = (struct ranked){key_of_f64((double)scores[i]), i};
    make_heap(heap, n, true);
    return n;
}

/* Writes the chosen boxes of one class; returns how many. */
static int64_t choose(const struct kernel_args *args, int64_t lane, int64_t most, int64_t *y)
{
    const struct nms_params *p = args->params;
    const int64_t batch = lane / p->classes;
    const float *boxes = (const float *)args->src[NMS_BOXES] + batch * p->n * 4;
    const float iou = scalar_of(args, NMS_IOU, 0);
    struct ranked *heap = args->scratch;
    int64_t left = candidates(args, (const float *)args->src[NMS_SCORES] + lane * p->n, heap);
    int64_t chosen = 0;
    while (left > 0 && chosen < most) {
        const int64_t box = heap[0].at;
        heap[0] = heap[--left];
        sift_down(heap, left, 0, true);
        const struct sides sides = sides_of(boxes + box * 4, p->centred != 0);
        bool is_free = true;
        for (int64_t i = 0; i < chosen && is_free; i++) {
            const struct sides other = sides_of(boxes + y[i * 3 + 2] * 4, p->centred != 0);
            is_free = !lies_over(&sides, &other, iou);
        }
        if (!is_free)
            continue;
        y[chosen * 3] = batch;
        y[chosen * 3 + 1] = lane % p->classes;
        y[chosen++ * 3 + 2] = box;
    }
    return chosen;
}

void nms_f32_scalar(const struct kernel_args *args)
{
    const struct nms_params *p = args->params;
    if (args->begin == args->end)
        return;
    const int64_t stated = args->src[NMS_MOST] == NULL ? 0 : *(const int64_t *)args->src[NMS_MOST];
    const int64_t most = min_i64(stated, p->room);
    int64_t *y = args->dst[NMS_Y], count = 0;
    for (int64_t lane = 0; p->n > 0 && lane < p->batches * p->classes; lane++)
        count += choose(args, lane, most, y + count * 3);
    *(int64_t *)args->dst[NMS_COUNT] = count;
}

/* nms: of each class the boxes of the highest scores that do not lie over a chosen one.
 *
 *     boxes      [batches, n, 4], float: two corners (y, x, y, x), or the centre and the sides
 *                (x, y, w, h)
 *     scores     [batches, classes, n], float
 *     max_boxes  one int64, how many to choose of a class; left out: 0
 *     iou        one float, the part of their union that two boxes may share; left out: 0
 *     min_score  one float that scores must be above; left out: none
 *     y          [count, 3], int64: batch, class, box; room for `room` boxes of each class
 *     count      how many there are, one int64
 *
 * Of equal scores, the first box comes first; NaN is the highest.
 *
 * Boxes leave a heap, best first, and each is compared with those chosen.
 */
#include "select/nms.h"
#include "select/ranked.h"
#include "select/sort_key.h"

enum { NMS_BOXES, NMS_SCORES, NMS_MAX_BOXES, NMS_IOU, NMS_MIN_SCORE, NMS_OPERANDS };
enum { NMS_Y, NMS_COUNT, NMS_RESULTS };

static const char *check(const struct task_view *task)
{
    const struct nms_params *p = task->params;
    if (task->n_src < 2 || task->n_src > NMS_OPERANDS || task->n_dst != NMS_RESULTS)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->batches, p->classes, p->n, p->room) || p->room > p->n)
        return "a size is out of range";
    if (p->centred != 0 && p->centred != 1)
        return "centred is neither 0 nor 1";
    const int64_t lanes = atc_mul(p->batches, p->classes);
    if (!atc_holds_optional(task, NMS_MAX_BOXES, DTYPE_I64, 1, 8) ||
        !atc_holds_optional(task, NMS_IOU, DTYPE_F32, 1, 4) ||
        !atc_holds_optional(task, NMS_MIN_SCORE, DTYPE_F32, 1, 4) ||
        !atc_holds(task, task->src + NMS_BOXES, DTYPE_F32, atc_mul(atc_mul(p->batches, p->n), 4),
                   4) ||
        !atc_holds(task, task->src + NMS_SCORES, DTYPE_F32, atc_mul(lanes, p->n), 4) ||
        !atc_holds(task, task->dst + NMS_Y, DTYPE_I64, atc_mul(atc_mul(lanes, p->room), 3), 8) ||
        !atc_holds(task, task->dst + NMS_COUNT, DTYPE_I64, 1, 8))
        return "an operand is too small or of a wrong type";
    return NULL;
}

/* The work is one item: whether a box is chosen depends on all before it. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct nms_params *p = params;
    const int64_t each = atc_add(16, p->room); /* every box may be compared with all chosen */
    return (struct kernel_cost){
        .items = 1,
        .work = p->n == 0 ? 0 : atc_mul(atc_mul(p->batches, p->classes), atc_mul(p->n, each)),
        .scratch = atc_add(atc_mul(p->n, sizeof(struct ranked)),
                           atc_mul(p->room, NMS_SIDES * sizeof(float)))};
}

DEFINE_FAMILY(nms, NMS_FIELDS, .check = check, .cost = cost);

static struct nms_sides sides_of(const float *box, bool centred)
{
    struct nms_sides s;
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

static float scalar_of(const struct kernel_args *args, int number, float without)
{
    return args->src[number] == NULL ? without : *(const float *)args->src[number];
}

/* The boxes of one class with scores that count, as a heap; returns how many. */
static int64_t candidates(struct atc_meter *meter, const float *scores, struct ranked *heap)
{
    const struct kernel_args *args = meter->args;
    const struct nms_params *p = args->params;
    const bool has_min_score = args->src[NMS_MIN_SCORE] != NULL;
    const float min_score = scalar_of(args, NMS_MIN_SCORE, 0);
    int64_t n = 0;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->n);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            if (!has_min_score || scores[i] > min_score)
                heap[n++] = (struct ranked){key_of_f32(scores[i]), i};
    make_heap(meter, heap, n, true);
    return n;
}

/* Writes the chosen boxes of one class; returns how many. */
static int64_t choose(struct atc_meter *meter, nms_lies_over lies_over, int64_t lane,
                      int64_t max_boxes, int64_t *y)
{
    const struct kernel_args *args = meter->args;
    const struct nms_params *p = args->params;
    const int64_t batch = lane / p->classes;
    const float *boxes = (const float *)args->src[NMS_BOXES] + batch * p->n * 4;
    const float iou = scalar_of(args, NMS_IOU, 0);
    struct ranked *heap = args->scratch;
    float *sides_chosen = (void *)(heap + p->n);
    int64_t left = candidates(meter, (const float *)args->src[NMS_SCORES] + lane * p->n, heap);
    int64_t chosen = 0;
    while (left > 0 && chosen < max_boxes && !atc_spend(meter, RANKED_WORK + chosen)) {
        const int64_t box = heap[0].at;
        heap[0] = heap[--left];
        sift_down(heap, left, 0, true);
        const struct nms_sides sides = sides_of(boxes + box * 4, p->centred != 0);
        bool is_free = true;
        for (struct atc_piece piece = {0}; is_free && atc_next_piece(args, &piece, chosen);)
            is_free = !lies_over(&sides, sides_chosen + piece.begin, p->room,
                                 piece.end - piece.begin, iou);
        if (!is_free)
            continue;
        const float parts[NMS_SIDES] = {sides.low[0], sides.low[1], sides.high[0], sides.high[1],
                                        sides.area};
        for (int i = 0; i < NMS_SIDES; i++)
            sides_chosen[i * p->room + chosen] = parts[i];
        y[chosen * 3] = batch;
        y[chosen * 3 + 1] = lane % p->classes;
        y[chosen++ * 3 + 2] = box;
    }
    return chosen;
}

void nms_choose(const struct kernel_args *args, nms_lies_over lies_over)
{
    const struct nms_params *p = args->params;
    if (args->begin == args->end)
        return;
    const int64_t stated =
        args->src[NMS_MAX_BOXES] == NULL ? 0 : *(const int64_t *)args->src[NMS_MAX_BOXES];
    const int64_t max_boxes = min_i64(stated, p->room);
    int64_t *y = args->dst[NMS_Y], count = 0;
    struct atc_meter meter = {.args = args};
    const int64_t lanes = p->n > 0 ? p->batches * p->classes : 0;
    for (int64_t lane = 0; lane < lanes && !atc_spend(&meter, 1); lane++)
        count += choose(&meter, lies_over, lane, max_boxes, y + count * 3);
    *(int64_t *)args->dst[NMS_COUNT] = count;
}

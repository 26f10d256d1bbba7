/* The conv_transpose2d family: its checker, its blocking, and the loops around the micro-kernels.
 */
#include "conv/conv_transpose2d.h"

static const char *check(const struct task_view *task)
{
    const struct conv_transpose2d_params *p = task->params;
    const char *problem =
        conv2d_operands_problem(task, CONV_C0, p->weights, (struct conv2d_activations){0});
    if (problem != NULL)
        return problem;
    if (p->weights == WEIGHTS_BF16_VNNI2)
        return "weights in pairs, which this kernel does not multiply";
    if (atc_mul(p->kh, p->dh) >= ATC_TOO_BIG || atc_mul(p->kw, p->dw) >= ATC_TOO_BIG)
        return "the kernel reaches too far";
    return NULL;
}

/* One spatial dim: result o = phase + stride · q reads input q + shift(tap) for each tap of its
 * phase. */
struct axis {
    int64_t in, out, kernel, stride, dilation, pad;
    int64_t steps;                /* results of the largest phase */
    int64_t min_shift, max_shift; /* the shifts of all taps */
};

/* True if a tap hits the results of a phase; then *shift says what input they read. */
static bool tap_hits(const struct axis *axis, int64_t tap, int64_t phase, int64_t *shift)
{
    const int64_t reach = phase + axis->pad - tap * axis->dilation;
    *shift = reach / axis->stride;
    return reach % axis->stride == 0;
}

/* The input that the first result of a tap's phase reads by it. Where the stride is larger than the
 * side, there may be no such result.
 */
static int64_t shift_of(const struct axis *axis, int64_t tap)
{
    const int64_t reach = tap * axis->dilation - axis->pad;
    return reach >= 0 ? -(reach / axis->stride) : ceil_div(-reach, axis->stride);
}

static struct axis axis_of(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                           int64_t dilation, int64_t pad)
{
    struct axis axis = {in, out, kernel, stride, dilation, pad, .steps = ceil_div(out, stride)};
    axis.max_shift = shift_of(&axis, 0); /* they fall from tap to tap */
    axis.min_shift = shift_of(&axis, kernel - 1);
    return axis;
}

static bool stays_inside(const struct axis *axis)
{
    return axis->min_shift >= 0 && axis->steps - 1 + axis->max_shift < axis->in;
}

/* How the work is cut, as in conv2d: steps of rows into chunks whose input stays in L2, input
 * channels into runs whose weights of a phase stay beside it.
 */
struct blocking {
    struct axis y, x;
    bool packed; /* input rows are copied with zeros around them */
    int64_t chunk_rows, chunks;
    int64_t in_rows, row_len; /* of the input that a chunk reads */
    int64_t c1, c1_run;
    int64_t oc_pairs;
};

enum {
    MIN_ITEMS = 32,
    MIN_CHUNK_ROWS = 2,
};

static struct blocking block(const struct conv_transpose2d_params *p, const struct atc_cpu *cpu)
{
    struct blocking b = {
        .y = axis_of(p->h, p->oh, p->kh, p->sh, p->dh, p->pt),
        .x = axis_of(p->w, p->ow, p->kw, p->sw, p->dw, p->pl),
    };
    b.packed = !(stays_inside(&b.y) && stays_inside(&b.x));
    b.row_len = b.packed ? b.x.steps + b.x.max_shift - b.x.min_shift : p->w;
    b.c1 = ceil_div(p->cg, CONV_C0);
    b.oc_pairs = ceil_div(ceil_div(p->mg, CONV_C0), CONV_PAIR);

    const int64_t halo = b.y.max_shift - b.y.min_shift;
    b.chunk_rows = cpu->l2_bytes / 2 / atc_mul(b.row_len, b.c1 * CONV_C0 * 4) - halo;
    const int64_t min_chunks = ceil_div(MIN_ITEMS, p->n * p->group * b.oc_pairs);
    const int64_t rows_for_items = ceil_div(b.y.steps, min_chunks);
    if (b.chunk_rows > rows_for_items)
        b.chunk_rows = rows_for_items;
    if (b.chunk_rows < MIN_CHUNK_ROWS)
        b.chunk_rows = MIN_CHUNK_ROWS;
    b.chunk_rows = min_i64(b.chunk_rows, b.y.steps);
    b.chunks = ceil_div(b.y.steps, b.chunk_rows);
    b.in_rows = b.chunk_rows + halo;

    const int64_t taps = ceil_div(p->kh, p->sh) * ceil_div(p->kw, p->sw);
    const int64_t weight_bytes = CONV_PAIR * CONV_C0 * taps * CONV_C0 * 4;
    b.c1_run = conv2d_run_length(b.c1, cpu->l2_bytes / 8 / weight_bytes);
    return b;
}

/* Each element of x meets each tap, also those whose result is cut off. */
static int64_t products(const void *params)
{
    const struct conv_transpose2d_params *p = params;
    const int64_t elements = atc_mul(atc_mul(p->n, p->c), atc_mul(p->h, p->w));
    return atc_mul(elements, atc_mul(p->mg, atc_mul(p->kh, p->kw)));
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    const struct conv_transpose2d_params *p = params;
    const struct blocking b = block(p, cpu);
    const int64_t widened = conv2d_widened_bytes(p->weights, b.c1_run * CONV_C0, p->kh * p->kw);
    const int64_t floats = b.packed ? atc_mul(atc_mul(b.in_rows, b.row_len), b.c1 * CONV_C0) : 0;
    const int64_t items = p->n * p->group * b.chunks * b.oc_pairs, taps = p->kh * p->kw;
    /* A tap joins all results of its phase, even those that read nothing but padding by it. */
    const int64_t steps = atc_mul(b.y.steps, b.x.steps);
    const int64_t joined = atc_mul(atc_mul(atc_mul(p->n, steps), p->m), atc_mul(p->cg, taps));
    const int64_t results = atc_mul(atc_mul(p->n, p->m), atc_mul(p->oh, p->ow));
    const int64_t packing = atc_mul(p->n * p->group * b.chunks, floats);
    /* Taps are looked for in each phase, by an item for each of its runs. */
    const int64_t phases_y = min_i64(p->sh, p->oh), phases_x = min_i64(p->sw, p->ow);
    const int64_t searches = atc_mul(atc_mul(phases_x, p->kh), atc_add(phases_y, p->kw));
    const int64_t searching = atc_mul(atc_mul(items, ceil_div(b.c1, b.c1_run)), searches);
    return (struct kernel_cost){
        .items = items,
        .work = atc_div(atc_add(atc_add(joined, results), atc_add(packing, searching)), 16),
        .scratch = atc_add(atc_add(conv2d_taps_bytes(p->kh * p->kw), widened), atc_mul(floats, 4))};
}

DEFINE_FAMILY(conv_transpose2d, CONV_TRANSPOSE2D_FIELDS, .check = check, .cost = cost,
              .products = products, .inplace = 1u << CONV_RESIDUAL);

/* --- the loops ------------------------------------------------------------------------------- */

struct drive {
    const struct conv_transpose2d_params *p;
    const struct conv2d_isa *isa;
    struct blocking b;
    struct atc_meter *meter;
    const float *x, *bias, *residual;
    struct conv2d_weights w;
    float *y;
    struct conv2d_tap *taps;
    float *packed;
    int64_t row_stride, c1_stride;
};

/* The results of one item in one phase. */
struct phase {
    int64_t n, group, row0, rows; /* steps of rows */
    int64_t block0;
    int blocks;
    int64_t y, x; /* the phase itself */
    int64_t n_taps;
};

/* Copies the input rows of a chunk, [c1][in_rows][row_len][C0], zero where there is no input. */
static void pack_rows(const struct drive *d, int64_t n, int64_t g, int64_t row0)
{
    const struct conv_transpose2d_params *p = d->p;
    const struct blocking *b = &d->b;
    const int64_t c1_all = ceil_div(p->c, CONV_C0), c1_first = g * p->cg / CONV_C0;
    const int64_t c1_here = min_i64(b->c1, c1_all - c1_first);
    const int64_t first = b->x.min_shift < 0 ? min_i64(-b->x.min_shift, b->row_len) : 0;
    const int64_t from = b->x.min_shift + first;
    const int64_t inside = min_i64(b->row_len - first, p->w - from);
    const int64_t count = inside < 0 ? 0 : inside, end = first + count;
    for (int64_t c1 = 0; c1 < c1_here; c1++)
        for (int64_t r = 0; r < b->in_rows; r++) {
            float *out = d->packed + c1 * d->c1_stride + r * d->row_stride;
            if (atc_spend(d->meter, b->row_len))
                return;
            const int64_t at = row0 + b->y.min_shift + r;
            if (at < 0 || at >= p->h) {
                atc_clear(d->meter->args, out, d->row_stride * (int64_t)sizeof *out);
                continue;
            }
            const float *row = d->x + (((n * c1_all + c1_first + c1) * p->h + at) * p->w) * CONV_C0;
            const int64_t pixel = CONV_C0 * sizeof *out;
            atc_clear(d->meter->args, out, first * pixel);
            if (count > 0)
                atc_copy(d->meter->args, out + first * CONV_C0, row + from * CONV_C0,
                         count * pixel);
            atc_clear(d->meter->args, out + end * CONV_C0, (b->row_len - end) * pixel);
        }
}

/* The taps that hit a phase, by what they read of a chunk's input. */
static int64_t find_taps(const struct drive *d, int64_t phase_y, int64_t phase_x)
{
    const struct blocking *b = &d->b;
    const int64_t y0 = b->packed ? b->y.min_shift : 0, x0 = b->packed ? b->x.min_shift : 0;
    int64_t count = 0;
    for (int64_t i = 0; i < b->y.kernel && !atc_spend(d->meter, 1); i++) {
        int64_t shift_y, shift_x;
        if (!tap_hits(&b->y, i, phase_y, &shift_y))
            continue;
        for (int64_t j = 0; j < b->x.kernel && !atc_spend(d->meter, 1); j++)
            if (tap_hits(&b->x, j, phase_x, &shift_x))
                d->taps[count++] = (struct conv2d_tap){
                    .in = (shift_y - y0) * d->row_stride + (shift_x - x0) * CONV_C0,
                    .weights = (i * b->x.kernel + j) * CONV_C0 * CONV_C0,
                };
    }
    return count;
}

/* All results of a phase, summed over the run of input channels that `tile` begins with. */
static void run_phase(const struct drive *d, const struct phase *f, struct conv2d_tile tile)
{
    const struct conv_transpose2d_params *p = d->p;
    const int64_t n1 = ceil_div(p->mg, CONV_C0), m1 = ceil_div(p->m, CONV_C0);
    const int64_t plane = f->n * m1 + f->group * n1 + f->block0;
    const int64_t len = ceil_div(p->ow - f->x, p->sw);
    const float *in = tile.in;
    tile.n_taps = f->n_taps;
    const struct conv2d_row cut = conv2d_cut_row(d->isa, &tile, CONV_C0, f->blocks, len);
    for (int64_t r = 0; r < f->rows; r++) {
        const int64_t row = f->y + (f->row0 + r) * p->sh;
        if (row >= p->oh)
            break;
        const int64_t y_at = plane * tile.dst_stride + (row * p->ow + f->x) * CONV_C0;
        tile.in = in + r * d->row_stride;
        tile.dst = d->y + y_at;
        tile.residual = d->residual != NULL ? d->residual + y_at : NULL;
        conv2d_run_row(d->meter, d->isa, &tile, NULL, &cut);
    }
}

/* All phases of a chunk for `blocks` neighbouring output blocks of a group, over runs of input
 * channels.
 */
static void run_blocks(const struct drive *d, struct phase f)
{
    const struct conv_transpose2d_params *p = d->p;
    const struct blocking *b = &d->b;
    const int64_t first_block = f.group * ceil_div(p->mg, CONV_C0) + f.block0;
    const int64_t weights_c1 = p->kh * p->kw * CONV_C0 * CONV_C0;
    const int64_t c1_all = ceil_div(p->c, CONV_C0), c1_first = f.group * p->cg / CONV_C0;
    const int64_t c_here = min_i64(p->cg, p->c - f.group * p->cg);
    const int64_t c1_here = ceil_div(c_here, CONV_C0);
    const float *in =
        b->packed ? d->packed
                  : d->x + (f.n * c1_all + c1_first) * d->c1_stride + f.row0 * d->row_stride;

    float bias[CONV_PAIR * CONV_C0];
    conv2d_fill_bias(bias, d->bias, first_block * CONV_C0, p->m);
    for (int64_t c1 = 0; c1 < c1_here; c1 += b->c1_run) {
        const int64_t run = min_i64(b->c1_run, c1_here - c1);
        const bool ends = c1 + run == c1_here;
        const struct conv2d_run w =
            conv2d_run_at(&d->w, d->isa, first_block, (first_block * b->c1 + c1) * weights_c1,
                          b->c1 * weights_c1, run * weights_c1, f.blocks);
        const struct conv2d_tile tile = {
            .in = in + c1 * d->c1_stride,
            .taps = d->taps,
            .c1_stride = d->c1_stride,
            .n_c1 = run,
            .c_last = ends ? c_here - (c1_here - 1) * CONV_C0 : CONV_C0,
            .weights = w.weights,
            .weight_c1 = weights_c1,
            .weight_stride = w.stride,
            .bias = bias,
            .residual_step = p->sw * CONV_C0,
            .residual_stride = p->oh * p->ow * CONV_C0,
            .dst_step = p->sw * CONV_C0,
            .dst_stride = p->oh * p->ow * CONV_C0,
            .channels = min_i64(f.blocks * CONV_C0, p->m - first_block * CONV_C0),
            .first = c1 == 0,
            .last = ends,
            .activation = (enum activation)p->activation,
            .alpha = (float)p->alpha,
            .beta = (float)p->beta,
        };
        for (f.y = 0; f.y < min_i64(p->sh, p->oh); f.y++)
            for (f.x = 0; f.x < min_i64(p->sw, p->ow); f.x++) {
                f.n_taps = find_taps(d, f.y, f.x);
                if (atc_spend(d->meter, 1))
                    return;
                run_phase(d, &f, tile);
            }
    }
}

static void drive(const struct kernel_args *args, const struct conv2d_isa *isa)
{
    const struct conv_transpose2d_params *p = args->params;
    struct atc_meter meter = {.args = args};
    struct drive d = {.p = p,
                      .isa = isa,
                      .b = block(p, args->cpu),
                      .meter = &meter,
                      .x = args->src[CONV_X],
                      .w = {.args = args,
                            .all = args->src[CONV_W],
                            .type = (enum weight_type)p->weights,
                            .scale = args->src[CONV_SCALE],
                            .m = p->m},
                      .bias = args->src[CONV_BIAS],
                      .residual = args->src[CONV_RESIDUAL],
                      .y = args->dst[0],
                      .taps = args->scratch};
    const int64_t widened = conv2d_widened_bytes(p->weights, d.b.c1_run * CONV_C0, p->kh * p->kw);
    d.w.widened = (float *)((uint8_t *)args->scratch + conv2d_taps_bytes(p->kh * p->kw));
    d.packed = d.w.widened + widened / 4;
    d.row_stride = d.b.row_len * CONV_C0;
    d.c1_stride = d.b.packed ? d.b.in_rows * d.row_stride : p->h * d.row_stride;

    const int64_t n1 = ceil_div(p->mg, CONV_C0), m1 = ceil_div(p->m, CONV_C0);
    for (int64_t item = args->begin; item < args->end; item++) {
        /* Output blocks vary fastest, so that neighbouring items share the packed rows. */
        const int64_t pair = item % d.b.oc_pairs, outer = item / d.b.oc_pairs;
        const int64_t chunk = outer % d.b.chunks, ng = outer / d.b.chunks;
        struct phase f = {.n = ng / p->group,
                          .group = ng % p->group,
                          .row0 = chunk * d.b.chunk_rows,
                          .block0 = pair * CONV_PAIR};
        f.rows = min_i64(d.b.chunk_rows, d.b.y.steps - f.row0);
        if (d.b.packed && !atc_keeps_inputs(args, outer))
            pack_rows(&d, f.n, f.group, f.row0);
        const int64_t last = min_i64(min_i64(n1, (pair + 1) * CONV_PAIR), m1 - f.group * n1);
        for (; f.block0 < last; f.block0 += f.blocks) {
            f.blocks = (int)min_i64(isa->max_blocks, last - f.block0);
            run_blocks(&d, f);
        }
    }
}

#define DEFINE_ROW(isa)                                                                            \
    void conv_transpose2d_f32_##isa(const struct kernel_args *args)                                \
    {                                                                                              \
        drive(args, &conv2d_isa_##isa);                                                            \
    }

DEFINE_ROW(scalar)
#ifdef ATC_ARM64
DEFINE_ROW(neon)
#endif
#ifdef ATC_X86
DEFINE_ROW(sse2)
DEFINE_ROW(avx2)
#endif
#ifdef ATC_AVX512
DEFINE_ROW(avx512f)
#endif

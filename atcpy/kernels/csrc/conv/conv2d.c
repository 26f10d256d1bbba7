/* The conv2d family: its checker, its blocking, and the loops around the micro-kernels. */
#include "conv/conv2d.h"

const char *const activation_names[] = {"",           "Relu",        "Clip",      "LeakyRelu",
                                        "Sigmoid",    "HardSigmoid", "HardSwish", "Swish",
                                        "Tanh",       "Gelu",        "GeluTanh",  "Elu",
                                        "Softsign",   "Softplus",    "Affine",    "ThresholdedRelu",
                                        "ScaledTanh", "Mish",        "Selu",      "Celu",
                                        NULL};

const char *const conv2d_types[] = {"f32", "bf16", NULL};

const char *conv2d_extras_problem(const struct task_view *task, int64_t m, int64_t y,
                                  int64_t weights, int64_t residual_type)
{
    for (int i = CONV_BIAS; i < task->n_src; i++) {
        if (task->src[i].region == REGION_NONE)
            continue;
        if (i == CONV_RESIDUAL ? !conv2d_holds(task, task->src + i, residual_type, y)
                               : !atc_holds(task, task->src + i, DTYPE_F32, m, 4))
            return "bias, residual or scale is too small or of another type";
        if (i == CONV_SCALE && weights == WEIGHTS_F32)
            return "a scale of weights that are not widened";
    }
    return NULL;
}

/* True if groups of `each` channels hold `channels`, and none of them is empty. */
static bool groups_fit(int64_t groups, int64_t each, int64_t channels)
{
    return atc_mul(groups, each) >= channels && atc_mul(groups - 1, each) < channels &&
           (groups > 1 || each == channels);
}

const char *conv2d_operands_problem(const struct task_view *task, int64_t c0, int64_t weights,
                                    struct conv2d_activations types)
{
    const struct conv2d_sizes *p = task->params;
    if (task->n_src < 2 || task->n_src > CONV_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->n, p->c, p->h, p->w, p->m, p->oh, p->ow, p->kh, p->kw, p->sh, p->sw,
                      p->dh, p->dw, p->group, p->cg, p->mg) ||
        !ATC_SIZES_OK(0, p->pt, p->pl))
        return "a size is out of range";
    if (p->group > 1 && (c0 != CONV_C0 || p->cg % CONV_C0 != 0 || p->mg % CONV_C0 != 0))
        return "groups do not fill whole blocks";
    if (!groups_fit(p->group, p->cg, p->c) || !groups_fit(p->group, p->mg, p->m))
        return "groups do not fit the channels";

    const int64_t channels = ceil_div(p->c, c0) * c0, results = ceil_div(p->m, CONV_C0) * CONV_C0;
    const int64_t x = atc_mul(atc_mul(p->n, channels), atc_mul(p->h, p->w));
    const int64_t y = atc_mul(atc_mul(p->n, results), atc_mul(p->oh, p->ow));
    const int64_t filters = atc_mul(p->group, ceil_div(p->mg, CONV_C0) * CONV_C0);
    const int64_t inputs = ceil_div(p->cg, c0) * c0;
    const int64_t columns = conv2d_columns(c0, weights, p->kw);
    const int64_t w = atc_mul(filters, atc_mul(atc_mul(p->kh, columns), inputs));
    if (!conv2d_holds(task, task->src + CONV_X, types.x_type, x) ||
        !weights_fit(task, CONV_W, weights, w) || !conv2d_holds(task, task->dst, types.y_type, y))
        return "an operand is too small or of another type";
    return conv2d_extras_problem(task, p->m, y, weights, types.residual_type);
}

const char *conv2d_problem(const struct task_view *task)
{
    const struct conv2d_params *p = task->params;
    if (p->src_c0 != 1 && p->src_c0 != CONV_C0)
        return "src_c0 is neither 1 nor 16";
    const char *problem =
        conv2d_operands_problem(task, p->src_c0, p->weights, CONV2D_ACTIVATIONS(p));
    if (problem != NULL)
        return problem;
    const bool has_scale = task->n_src > CONV_SCALE && task->src[CONV_SCALE].region != REGION_NONE;
    if (p->weights == WEIGHTS_BF16_VNNI2 && has_scale)
        return "weights in pairs with a scale";
    if (conv2d_pairs_columns(p->src_c0, p->weights) && (p->sw % 2 != 0 || p->dw != 1))
        return "pairs of columns for an odd stride or a dilation";
    if (p->x_type == CONV_BF16 &&
        (p->weights != WEIGHTS_BF16_VNNI2 || p->src_c0 != CONV_C0 || p->c % 2 != 0))
        return "an input of bfloat16 for weights that are not in pairs, or of odd channels";
    if (p->y_type == CONV_BF16 && atc_mul(p->cg, atc_mul(p->kh, p->kw)) > CONV_MAX_SUM)
        return "results of bfloat16 that sum too many products";
    /* A packed row has at most so many positions; block() multiplies them by the channels. */
    const int64_t positions = atc_add(conv2d_reach(p->ow, p->sw, p->kw, p->dw), p->sw);
    if (conv2d_reach(p->oh, p->sh, p->kh, p->dh) >= ATC_TOO_BIG ||
        atc_mul(positions, atc_mul(p->cg, 4 * CONV_C0)) >= ATC_TOO_BIG)
        return "the windows reach too far";
    return NULL;
}

/* Products of pairs, or few products for each result that is rounded. */
bool conv2d_is_bf16(const struct task_view *task)
{
    const struct conv2d_params *p = task->params;
    return p->weights == WEIGHTS_BF16_VNNI2 || (p->y_type == CONV_BF16 && p->src_c0 == 1);
}

/* How the work is cut. Results are cut into chunks of rows whose input stays in L2 while all blocks
 * of output channels pass over it; input channels into runs whose weights stay beside it. They
 * stream from L2 faster than they are used, and longer runs load and store the sums less often.
 */
struct blocking {
    bool flat;   /* 1x1: the results of a plane are one long row, cut into rows of `row_len` */
    bool inside; /* input rows need neither padding nor de-interleaving */
    bool packed; /* input rows are copied: padded, de-interleaved, rounded or widened */
    int64_t kw;  /* columns of a filter, as the weights lie */
    int64_t rows, row_len;
    int64_t row_step; /* rows of the input from one row of results to the next */
    int64_t chunk_rows, chunks;
    int64_t in_rows;           /* input rows a chunk needs */
    int64_t phases, phase_len; /* a packed row: [phases][phase_len] positions */
    int64_t c1, c1_run;
    int64_t oc_pairs; /* runs of max_blocks output blocks in a group */
};

enum {
    TILES = 42,           /* results that are whole tiles of 14, and of 6 */
    FLAT_ROW = 5 * TILES, /* at most */
    MIN_ITEMS = 32,       /* enough to balance some threads */
    FLAT_ITEMS = 16,      /* where the time of an item is mostly that of its weights */
    FEW_ITEMS = 8,        /* where each chunk reads these from memory */
    MIN_CHUNK_ROWS = 4,
};

/* Chunks of the results of a picture, so that there are items for some threads. */
static int64_t min_chunks(const struct conv2d_params *p, const struct blocking *b,
                          const struct atc_cpu *cpu)
{
    const int64_t weights = b->oc_pairs * CONV_PAIR * CONV_C0 * p->cg * p->kh * p->kw * 4;
    const int64_t flat_items = weights > cpu->l2_bytes / 2 ? FEW_ITEMS : FLAT_ITEMS;
    const int64_t items = atc_min_items(cpu, b->flat ? flat_items : MIN_ITEMS);
    return ceil_div(items, p->n * p->group * b->oc_pairs);
}

/* The length of the rows of a plane of `len` results that is cut into so many chunks. */
static int64_t flat_row(int64_t len, int64_t chunks)
{
    const int64_t row = ceil_div(len, chunks);
    if (row >= FLAT_ROW)
        return FLAT_ROW;
    if (len < 2 * TILES) /* a tile of most widths, or more */
        return ceil_div(len, min_i64(chunks, ceil_div(len, TILES)));
    return min_i64(len, ceil_div(row, TILES) * TILES);
}

static struct blocking block(const struct conv2d_params *p, const struct atc_cpu *cpu)
{
    struct blocking b = {0};
    const bool needs_no_padding = p->pt == 0 && p->pl == 0 &&
                                  (p->oh - 1) * p->sh + (p->kh - 1) * p->dh < p->h &&
                                  (p->ow - 1) * p->sw + (p->kw - 1) * p->dw < p->w;
    /* Strides leave rows out, whose others are copied, so that they may as well follow each other.
     */
    b.kw = conv2d_columns(p->src_c0, p->weights, p->kw);
    b.flat = p->kh == 1 && b.kw == 1 && needs_no_padding &&
             (p->sw > 1 || (p->sh == 1 && p->oh == p->h && p->ow == p->w));
    b.inside = needs_no_padding && p->sw == 1;
    b.row_step = b.flat ? 1 : p->sh;
    b.packed = p->weights == WEIGHTS_BF16_VNNI2 || !b.inside;
    b.oc_pairs = ceil_div(ceil_div(p->mg, CONV_C0), CONV_PAIR);
    const int64_t chunks = min_chunks(p, &b, cpu);
    b.row_len = b.flat ? flat_row(p->oh * p->ow, chunks) : p->ow;
    b.rows = b.flat ? ceil_div(p->oh * p->ow, b.row_len) : p->oh;
    b.phases = b.packed && !b.flat ? p->sw : 1;
    b.phase_len = b.flat     ? b.row_len
                  : b.packed ? ceil_div((p->ow - 1) * p->sw + (b.kw - 1) * p->dw + 1, p->sw)
                             : p->w;
    b.c1 = ceil_div(p->cg, p->src_c0);

    const int64_t row_bytes = b.phases * b.phase_len * b.c1 * p->src_c0 * 4;
    const int64_t rows_in_l2 = cpu->l2_bytes / 2 / row_bytes;
    const int64_t halo = (p->kh - 1) * p->dh + 1 - b.row_step;
    b.chunk_rows = (rows_in_l2 - halo) / b.row_step;
    const int64_t rows_for_items = ceil_div(b.rows, chunks);
    if (b.chunk_rows > rows_for_items)
        b.chunk_rows = rows_for_items;
    if (b.chunk_rows < (b.flat ? 1 : MIN_CHUNK_ROWS))
        b.chunk_rows = b.flat ? 1 : MIN_CHUNK_ROWS;
    b.chunk_rows = min_i64(b.chunk_rows, b.rows);
    b.chunks = ceil_div(b.rows, b.chunk_rows);
    b.chunk_rows = ceil_div(b.rows, b.chunks);
    b.chunks = ceil_div(b.rows, b.chunk_rows);
    b.in_rows = (b.chunk_rows - 1) * b.row_step + (p->kh - 1) * p->dh + 1;

    const int64_t weight_bytes = CONV_PAIR * CONV_C0 * p->kh * b.kw * p->src_c0 * 4;
    b.c1_run =
        p->y_type == CONV_BF16 ? b.c1 : conv2d_run_length(b.c1, cpu->l2_bytes / 8 / weight_bytes);
    return b;
}

/* Lets rows of bfloat16 be read where they lie, by an ISA that multiplies them. Items stay as they
 * are, and less scratch is used.
 */
static void read_in_place(struct blocking *b, const struct conv2d_params *p)
{
    b->packed = false;
    b->phases = 1;
    b->phase_len = b->flat ? b->row_len : p->w;
}

/* Whether rows of planes are copied as they are, and micro-kernels read each second float of them.
 */
static bool reads_strided(const struct conv2d_params *p, const struct conv2d_isa *isa)
{
    const bool few = isa->few.max_width > 0 && p->m <= CONV_C0 / 2; /* lanes are neighbours */
    return isa->whole.strided != NULL && p->src_c0 == 1 && p->sw == 2 && !few &&
           p->weights != WEIGHTS_BF16_VNNI2;
}

/* Runs whose weights of a block stay in L1, for an ISA whose tiles are so small that they would
 * stream from L2 too slowly. Less scratch is used.
 */
static void shorten_runs(struct blocking *b, const struct conv2d_params *p,
                         const struct atc_cpu *cpu)
{
    const int64_t weights = CONV_C0 * p->kh * p->kw * p->src_c0 * 4;
    b->c1_run = min_i64(b->c1_run, conv2d_run_length(b->c1, cpu->l1_bytes / 2 / weights));
}

int64_t conv2d_products(const void *params)
{
    const struct conv2d_sizes *p = params;
    const int64_t results = atc_mul(atc_mul(p->n, p->m), atc_mul(p->oh, p->ow));
    return atc_mul(results, atc_mul(p->cg, atc_mul(p->kh, p->kw)));
}

struct kernel_cost conv2d_cost(const void *params, const struct atc_cpu *cpu)
{
    const struct conv2d_params *p = params;
    const struct blocking b = block(p, cpu);
    const int64_t taps = p->kh * b.kw;
    const int64_t widened = conv2d_widened_bytes(p->weights, b.c1_run * p->src_c0, taps);
    const int64_t floats =
        b.packed ? atc_mul(atc_mul(b.in_rows, b.phases * b.phase_len), b.c1 * p->src_c0) : 0;
    /* Each row of a chunk is looked at for its taps, and so is each of its phases. */
    const int64_t rows = b.packed ? atc_mul(b.c1, b.in_rows) : 0;
    const int64_t chunk = atc_add(floats, atc_mul(rows, p->kh + atc_mul(b.phases, p->kw)));
    const int64_t packing = atc_mul(p->n * p->group * b.chunks, chunk);
    return (struct kernel_cost){
        .items = p->n * p->group * b.chunks * b.oc_pairs,
        .work = atc_div(atc_add(conv2d_products(p), packing), 16),
        .scratch = atc_add(atc_add(conv2d_taps_bytes(taps), widened), atc_mul(floats, 4))};
}

DEFINE_FAMILY(conv2d, CONV2D_FIELDS, .check = conv2d_problem, .cost = conv2d_cost,
              .products = conv2d_products, .inplace = 1u << CONV_RESIDUAL);

/* --- the loops ------------------------------------------------------------------------------- */

struct drive {
    const struct conv2d_params *p;
    const struct conv2d_isa *isa;
    struct blocking b;
    struct atc_meter *meter;
    const float *x, *bias, *residual; /* x and residual may be bfloat16, as y */
    struct conv2d_weights w;
    float *y;
    struct conv2d_tap *taps;
    float *packed;
    int64_t vnni; /* of the micro-kernels in use: strides of their operands count pairs */
    bool pairs_columns;
    int64_t step;          /* floats from one position of the input to the next */
    int64_t phase_stride;  /* positions of the input from one position of a phase to the next */
    int64_t result_stride; /* floats of the input from one result to the next */
    int64_t row_stride, c1_stride;
};

/* What taps hit repeats after as many of them as the stride. Those that lie side by side are not
 * looked through for each phase: wide windows have hundreds.
 */
static bool phase_in_use(const struct conv2d_params *p, const struct blocking *b, int64_t phase)
{
    if (p->sw == 1)
        return true;
    if (p->dw == 1)
        return phase < b->kw;
    for (int64_t k = 0; k < min_i64(p->kw, p->sw); k++)
        if (k * p->dw % p->sw == phase)
            return true;
    return false;
}

static bool row_in_use(const struct conv2d_params *p, int64_t row)
{
    if (p->sh == 1)
        return true;
    if (p->dh == 1)
        return row % p->sh < p->kh;
    for (int64_t k = 0; k < min_i64(p->kh, p->sh); k++)
        if (row >= k * p->dh && (row - k * p->dh) % p->sh == 0)
            return true;
    return false;
}

/* Writes `count` floats or bfloat16 as the micro-kernels read them, where these are not the same.
 */
static void convert(const struct drive *d, const void *from, float *to, int64_t count)
{
    if (d->p->x_type == CONV_BF16)
        d->isa->widen(WEIGHTS_BF16, from, NULL, to, count);
    else
        d->isa->round_bf16(from, to, count);
}

/* `count` floats of NCHW, phase_stride apart from `from` on. */
static void take_columns(const struct drive *d, const float *from, float *to, int64_t count)
{
    const int64_t stride = d->phase_stride;
    if (stride == 2) {
        d->isa->take_even(from, to, count);
        return;
    }
    for (int64_t q = 0; q < count; q++)
        to[q] = from[q * stride];
}

/* `count` positions, phase_stride apart from `row` on. */
static void pack_positions(const struct drive *d, const uint8_t *row, int64_t count, float *out)
{
    const struct kernel_args *args = d->meter->args;
    const struct conv2d_params *p = d->p;
    const int64_t c0 = p->src_c0, packed_c0 = d->step, stride = d->phase_stride;
    const int64_t x_pixel = c0 * conv2d_item(p->x_type);
    /* Floats are rounded even where they stay floats. */
    const bool converts =
        p->weights == WEIGHTS_BF16_VNNI2 && (p->x_type == CONV_F32 || d->vnni == 1);
    if (!converts && stride == 1) {
        atc_copy(args, out, row, count * packed_c0 * (int64_t)sizeof *out);
        return;
    }
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, count);) {
        const uint8_t *from = row + piece.begin * stride * x_pixel;
        float *to = out + piece.begin * packed_c0;
        const int64_t here = piece.end - piece.begin;
        if (converts && stride == 1)
            convert(d, from, to, here * c0);
        else if (c0 == 1) {
            take_columns(d, (const float *)from, to, here);
            if (converts)
                convert(d, to, to, here);
        } else if (converts)
            for (int64_t q = 0; q < here; q++)
                convert(d, from + q * stride * x_pixel, to + q * packed_c0, c0);
        else if (p->x_type == CONV_BF16)
            for (int64_t q = 0; q < here; q++)
                memcpy(to + q * CONV_C0 / 2, from + q * stride * x_pixel, CONV_C0 * sizeof *to / 2);
        else
            for (int64_t q = 0; q < here; q++)
                memcpy(to + q * CONV_C0, from + q * stride * x_pixel, CONV_C0 * sizeof *to);
    }
}

/* How many steps reach so far. A division for each row would take as long as copying a short one.
 */
static int64_t steps(int64_t length, int64_t step)
{
    return step == 1 ? length : ceil_div(length, step);
}

/* One phase of one padded row of w positions: positions phase, phase + phase_stride, … of the row,
 * zero in the padding.
 */
static void pack_phase(const struct drive *d, const uint8_t *row, int64_t w, int64_t phase,
                       float *out)
{
    const struct kernel_args *args = d->meter->args;
    const struct conv2d_params *p = d->p;
    const int64_t c0 = p->src_c0, at = phase - p->pl, len = d->b.phase_len,
                  stride = d->phase_stride;
    const int64_t begin = at >= 0 ? 0 : min_i64(steps(-at, stride), len);
    const int64_t inside = w > at ? min_i64(steps(w - at, stride), len) : 0;
    const int64_t end = inside > begin ? inside : begin;
    const int64_t packed_c0 = d->step, pixel = packed_c0 * (int64_t)sizeof *out;
    atc_clear(args, out, begin * pixel);
    atc_clear(args, out + end * packed_c0, (len - end) * pixel);
    if (begin < end)
        pack_positions(d, row + (at + begin * stride) * c0 * conv2d_item(p->x_type), end - begin,
                       out + begin * packed_c0);
}

/* A padded row of w floats as pairs of bfloat16, of which the first begins with the first column of
 * the padding.
 */
static void pack_pairs(const struct drive *d, const float *row, int64_t w, float *out)
{
    enum { LANES = 16 };
    const struct kernel_args *args = d->meter->args;
    uint16_t *to = (uint16_t *)out;
    const int64_t len = 2 * d->b.phases * d->b.phase_len, item = (int64_t)sizeof *to;
    const int64_t begin = min_i64(d->p->pl, len), count = min_i64(w, len - begin);
    const int64_t whole = count / LANES * LANES, end = begin + count;
    atc_clear(args, to, begin * item);
    atc_clear(args, to + end, (len - end) * item);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, whole / LANES);)
        d->isa->narrow_bf16(row + piece.begin * LANES, to + begin + piece.begin * LANES,
                            (piece.end - piece.begin) * LANES);
    for (int64_t i = whole; i < count; i++)
        to[begin + i] = bf16_of_f32(row[i]);
}

/* The same in phases: [phases][phase_len] pairs. As floats they would take twice the room, so that
 * there is some for a row behind those of the chunk.
 */
static void pack_phases_of_pairs(const struct drive *d, const float *row, int64_t w, float *out)
{
    const struct blocking *b = &d->b;
    if (b->phases == 1) {
        pack_pairs(d, row, w, out);
        return;
    }
    float *pairs = d->packed + b->c1 * d->c1_stride;
    pack_pairs(d, row, w, pairs);
    for (int64_t phase = 0; phase < min_i64(b->phases, b->kw / 2); phase++)
        for (struct atc_piece piece = {0}; atc_next_piece(d->meter->args, &piece, b->phase_len);)
            for (int64_t q = piece.begin; q < piece.end; q++)
                memcpy(out + phase * b->phase_len + q, pairs + q * b->phases + phase, sizeof *out);
}

/* `count` results of a flat plane from number `first` on, by rows of the plane. */
static void pack_flat(const struct drive *d, const uint8_t *plane, int64_t first, int64_t count,
                      float *out)
{
    const struct conv2d_params *p = d->p;
    const int64_t packed_c0 = d->step;
    for (int64_t done = 0; done < count;) {
        const int64_t y = (first + done) / p->ow, x = (first + done) % p->ow;
        const int64_t here = min_i64(count - done, p->ow - x);
        const int64_t at = y * p->sh * p->w + x * p->sw;
        pack_positions(d, plane + at * p->src_c0 * conv2d_item(p->x_type), here,
                       out + done * packed_c0);
        done += here;
    }
}

/* A channel beyond the last one may hold anything: as the second of a pair it is multiplied. */
static void clear_second_of_pair(const struct drive *d, float *out, int64_t channel)
{
    const int64_t step = d->step;
    for (struct atc_piece piece = {0}; atc_next_piece(d->meter->args, &piece, d->b.phase_len);)
        for (int64_t q = piece.begin; q < piece.end; q++)
            memset((uint16_t *)(out + q * step) + channel, 0, sizeof(uint16_t));
}

/* Copies the input rows of a chunk: [c1][in_rows][phases][phase_len][C0]. */
static void pack_rows(struct drive *d, int64_t n, int64_t g, int64_t row0)
{
    const struct conv2d_params *p = d->p;
    const struct blocking *b = &d->b;
    const int64_t x_pixel = p->src_c0 * conv2d_item(p->x_type), plane = p->h * p->w * x_pixel;
    const int64_t results = p->oh * p->ow;
    const int64_t c1_all = ceil_div(p->c, p->src_c0), c1_first = g * p->cg / p->src_c0;
    const int64_t c_here = min_i64(p->cg, p->c - g * p->cg); /* the last group may have fewer */
    const int64_t c1_here = ceil_div(c_here, p->src_c0);
    for (int64_t c1 = 0; c1 < c1_here; c1++) {
        const uint8_t *x = (const uint8_t *)d->x + (n * c1_all + c1_first + c1) * plane;
        const bool ends_in_pair =
            d->vnni == 2 && !d->pairs_columns && c1 == c1_here - 1 && c_here % 2 != 0;
        for (int64_t r = 0; r < b->in_rows; r++) {
            if (atc_spend(d->meter, p->kh))
                return;
            float *out = d->packed + c1 * d->c1_stride + r * d->row_stride;
            if (b->flat) {
                const int64_t first = (row0 + r) * b->row_len;
                if (atc_spend(d->meter, p->kw + b->phase_len))
                    return;
                pack_flat(d, x, first, min_i64(b->row_len, results - first), out);
                if (ends_in_pair)
                    clear_second_of_pair(d, out, c_here % CONV_C0);
                continue;
            }
            if (!row_in_use(p, r))
                continue;
            const int64_t at = row0 * p->sh - p->pt + r;
            if (at < 0 || at >= p->h) {
                atc_clear(d->meter->args, out, d->row_stride * (int64_t)sizeof *out);
                continue;
            }
            if (d->pairs_columns) {
                if (atc_spend(d->meter, p->kw + d->row_stride))
                    return;
                pack_phases_of_pairs(d, (const float *)x + at * p->w, p->w, out);
                continue;
            }
            for (int64_t phase = 0; phase < b->phases; phase++) {
                if (atc_spend(d->meter, p->kw + b->phase_len))
                    return;
                if (!phase_in_use(p, b, phase))
                    continue;
                float *to = out + phase * b->phase_len * d->step;
                pack_phase(d, x + at * p->w * x_pixel, p->w, phase, to);
                if (ends_in_pair)
                    clear_second_of_pair(d, to, c_here % CONV_C0);
            }
        }
    }
}

/* Taps that a row of a filter has for the micro-kernels. */
static int64_t taps_of_row(const struct drive *d)
{
    return d->pairs_columns ? d->b.kw / 2 : d->b.kw;
}

/* Offsets of the kernel's taps from the first one's input. */
static void fill_taps(struct drive *d)
{
    const struct conv2d_params *p = d->p;
    /* Column j * dw is position `at` of phase `phase`. Pairs of columns are single ones at half the
     * stride.
     */
    const int64_t kw = taps_of_row(d);
    const int64_t sw = !d->b.packed ? 1 : d->pairs_columns ? p->sw / 2 : d->phase_stride;
    const int64_t phase_step = p->dw % sw, step = p->dw / sw;
    for (int64_t i = 0; i < p->kh; i++)
        for (int64_t j = 0, phase = 0, at = 0; j < kw && !atc_spend(d->meter, 1); j++) {
            const int64_t position = phase * d->b.phase_len + at, tap = i * kw + j;
            d->taps[tap].in = i * p->dh * d->row_stride + position * d->step;
            d->taps[tap].weights = tap * d->step * CONV_C0;
            phase += phase_step;
            at += step + (phase >= sw);
            phase -= phase >= sw ? sw : 0;
        }
}

/* The weights that are read after those of a tile: of the next run of input channels, or of the
 * next `blocks` blocks. Those that are widened are read before the tiles.
 */
static struct conv2d_next next_weights(const struct drive *d, const struct conv2d_tile *tile,
                                       int64_t next_block, int64_t blocks)
{
    if (d->w.type != WEIGHTS_F32 && d->vnni == 1)
        return (struct conv2d_next){0};
    return (struct conv2d_next){.first = tile->last ? (const float *)d->w.all +
                                                          next_block * tile->weight_stride
                                                    : tile->weights + tile->n_c1 * tile->weight_c1,
                                .stride = tile->weight_stride,
                                .tiles = blocks};
}

/* Rows that the next chunk, which begins with result row `row0`, packs of input channel `channel`.
 * Blocks of channels are prefetched by the hardware well enough.
 */
static struct conv2d_next next_rows(const struct drive *d, int64_t n, int64_t row0, int64_t channel)
{
    const struct conv2d_params *p = d->p;
    const int64_t first = (row0 - 1) * p->sh - p->pt + (p->kh - 1) * p->dh + 1;
    const int64_t rows = min_i64(d->b.chunk_rows * p->sh, p->h - first);
    if (!d->b.packed || d->b.flat || p->src_c0 != 1 || channel >= p->c || first < 0 || rows <= 0)
        return (struct conv2d_next){0};
    const int64_t each = p->kh * taps_of_row(d) * d->b.c1_run * CONV_C0; /* floats of a tile */
    return (struct conv2d_next){.first = d->x + ((n * p->c + channel) * p->h + first) * p->w,
                                .stride = each,
                                .tiles = rows * p->w / each};
}

/* Blocks of input channels of a 1x1 convolution for which it pays to prefetch the next one: they
 * lie a plane apart, where the hardware does not look.
 */
enum { LEAST_READ_AHEAD = 8 };

/* All rows of a chunk for `blocks` neighbouring output blocks of a group. */
static void run_blocks(const struct drive *d, int64_t n, int64_t g, int64_t row0, int64_t block0,
                       int blocks)
{
    const struct conv2d_params *p = d->p;
    const struct blocking *b = &d->b;
    const int64_t n1 = ceil_div(p->mg, CONV_C0), m1 = ceil_div(p->m, CONV_C0);
    const int64_t first_block = g * n1 + block0, y_plane = p->oh * p->ow * CONV_C0;
    const bool residual_bf16 = d->residual != NULL && p->residual_type == CONV_BF16;
    const int64_t taps = p->kh * taps_of_row(d);
    const int64_t weights_c1 = p->kh * b->kw * p->src_c0 * CONV_C0;
    const int64_t rows = min_i64(b->chunk_rows, b->rows - row0);

    float bias[CONV_PAIR * CONV_C0];
    conv2d_fill_bias(bias, d->bias, first_block * CONV_C0, p->m);
    const int64_t c1_all = ceil_div(p->c, p->src_c0), c1_first = g * p->cg / p->src_c0;
    const float *in = b->packed ? d->packed
                                : d->x + (n * c1_all + c1_first) * d->c1_stride +
                                      row0 * b->row_step * d->row_stride;
    const int64_t c_here = min_i64(p->cg, p->c - g * p->cg);
    const int64_t c1_here = ceil_div(c_here, p->src_c0);
    const int64_t next_blocks = min_i64(blocks, min_i64(n1, m1 - g * n1) - block0 - blocks);

    for (int64_t c1 = 0; c1 < c1_here; c1 += b->c1_run) {
        const int64_t run = min_i64(b->c1_run, c1_here - c1);
        if (atc_spend(d->meter, 1))
            return;
        const bool ends = c1 + run == c1_here;
        const struct conv2d_run w =
            conv2d_run_at(&d->w, d->isa, first_block, (first_block * b->c1 + c1) * weights_c1,
                          b->c1 * weights_c1, run * weights_c1, blocks);
        struct conv2d_tile tile = {
            .taps = d->taps,
            .n_taps = taps,
            .c1_stride = d->c1_stride,
            .n_c1 = run,
            .c_last = ceil_div(ends ? c_here - (c1_here - 1) * p->src_c0 : p->src_c0, d->vnni),
            .weights = w.weights,
            .weight_c1 = weights_c1 / d->vnni,
            .weight_stride = w.stride,
            .bias = bias,
            .residual_step = conv2d_floats(p->residual_type, CONV_C0),
            .residual_stride = conv2d_floats(p->residual_type, y_plane),
            .dst_step = conv2d_floats(p->y_type, CONV_C0),
            .dst_stride = conv2d_floats(p->y_type, y_plane),
            .residual_bf16 = residual_bf16,
            .dst_bf16 = p->y_type == CONV_BF16,
            .channels = min_i64(blocks * CONV_C0, p->m - first_block * CONV_C0),
            .first = c1 == 0,
            .last = ends,
            .reads_ahead = taps == 1 && run >= LEAST_READ_AHEAD,
            .activation = (enum activation)p->activation,
            .alpha = (float)p->alpha,
            .beta = (float)p->beta,
        };
        struct conv2d_next next = {0};
        if (ends || c1 + 2 * run <= c1_here)
            next = next_weights(d, &tile, first_block + blocks, ends ? next_blocks : blocks);
        struct conv2d_row row = {0};
        for (int64_t r = 0; r < rows; r++) {
            const int64_t y_at =
                (n * m1 + first_block) * y_plane + (row0 + r) * b->row_len * CONV_C0;
            tile.in = in + c1 * d->c1_stride + r * b->row_step * d->row_stride;
            tile.dst = d->y + conv2d_floats(p->y_type, y_at);
            tile.residual =
                d->residual ? d->residual + conv2d_floats(p->residual_type, y_at) : NULL;
            const int64_t len =
                b->flat ? min_i64(b->row_len, p->oh * p->ow - (row0 + r) * b->row_len) : b->row_len;
            if (ends && next_blocks == 0)
                next = next_rows(d, n, row0 + b->chunk_rows, r);
            if (len != row.len)
                row = conv2d_cut_row(d->isa, &tile, d->result_stride, blocks, len);
            conv2d_run_row(d->meter, d->isa, &tile, &next, &row);
        }
    }
}

void conv2d_drive(const struct kernel_args *args, const struct conv2d_isa *isa)
{
    const struct conv2d_params *p = args->params;
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
                      .taps = args->scratch,
                      .vnni = p->weights == WEIGHTS_BF16_VNNI2 ? isa->vnni : 1};
    d.pairs_columns = d.vnni == 2 && p->src_c0 == 1;
    d.step = p->src_c0 == 1 ? 1 : p->src_c0 / d.vnni;
    if (d.pairs_columns) {
        d.isa = isa->columns;
        d.b.phases = p->sw / 2;
    }
    if (d.b.inside && p->x_type == CONV_BF16 && isa->vnni == 2)
        read_in_place(&d.b, p);
    d.phase_stride = p->sw;
    d.result_stride = d.step;
    if (!d.b.flat && reads_strided(p, isa)) {
        d.b.phase_len *= d.b.phases;
        d.b.phases = d.phase_stride = 1;
        d.result_stride = p->sw;
    }
    if (isa->max_blocks == 1 && p->y_type != CONV_BF16)
        shorten_runs(&d.b, p, args->cpu);
    const int64_t taps = p->kh * d.b.kw;
    const int64_t widened = conv2d_widened_bytes(p->weights, d.b.c1_run * p->src_c0, taps);
    d.w.widened = (float *)((uint8_t *)args->scratch + conv2d_taps_bytes(taps));
    d.packed = d.w.widened + widened / 4;
    d.row_stride = d.b.phases * d.b.phase_len * d.step;
    d.c1_stride = d.b.packed ? d.b.in_rows * d.row_stride : p->h * p->w * d.step;
    fill_taps(&d);
    if (atc_was_stopped(args))
        return; /* not all taps may be written */

    const int64_t n1 = ceil_div(p->mg, CONV_C0), m1 = ceil_div(p->m, CONV_C0);
    for (int64_t item = args->begin; item < args->end; item++) {
        /* Output blocks vary fastest, so that neighbouring items share the packed rows. */
        const int64_t pair = item % d.b.oc_pairs, outer = item / d.b.oc_pairs;
        const int64_t chunk = outer % d.b.chunks, ng = outer / d.b.chunks;
        const int64_t g = ng % p->group, n = ng / p->group;
        const int64_t row0 = chunk * d.b.chunk_rows;
        if (d.b.packed && !atc_keeps_inputs(args, outer))
            pack_rows(&d, n, g, row0);
        const int64_t last = min_i64(min_i64(n1, (pair + 1) * CONV_PAIR), m1 - g * n1);
        for (int64_t at = pair * CONV_PAIR; at < last;) {
            const int64_t blocks = min_i64(isa->max_blocks, last - at);
            run_blocks(&d, n, g, row0, at, (int)blocks);
            at += blocks;
        }
    }
}

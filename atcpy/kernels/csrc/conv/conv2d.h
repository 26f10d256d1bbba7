/* conv2d: activation(conv(x, w) + bias + residual), in two spatial dims.
 *
 *     x         NC1HWC0, or NCHW where src_c0 is 1
 *     w         N1C1HWC0N0 with C0 = src_c0: [group · mg/16, cg/C0, kh, kw, C0, 16], of `weights`
 *     bias      [m], optional
 *     residual  NC1HWC0, of the result's dims, optional; may be the destination itself
 *     scale     [m], a factor of each output channel's weights, optional; of 16-bit weights only
 *     y         NC1HWC0
 *
 * With weights in pairs of bfloat16, x is rounded to that type before it is multiplied; there is no
 * scale then. Blocks of x may be of that type, if its channels are even: the second of a pair may
 * not be one beyond c. Residual and y may be bfloat16, too; sums are float32, and rounded once.
 *
 * Of NCHW, pairs are neighbouring columns, at an even stride: w is [m/16, c, kh, ⌈kw/2⌉, 16, 2].
 * The second of the last pair is zero if kw is odd, so that infinity and NaN spread to the result
 * whose window ends beside them.
 *
 * A group reads cg input channels and makes mg output channels; with several groups both are
 * multiples of 16. Channels beyond c in the last block of x are not read: they may be anything.
 */
#ifndef ATC_CONV2D_H
#define ATC_CONV2D_H

#include "simd/activation.h"
#include "core/pieces.h"
#include "matmul/round_bf16.h"
#include "matmul/widen.h"

enum {
    CONV_C0 = 16,
    CONV_PAIR = 2,       /* output blocks of one item; an ISA may take them one by one */
    CONV_MAX_WIDTH = 14, /* of tiles, on any ISA */
    /* Products of a result that is bfloat16: its sum stays in registers until it is rounded. */
    CONV_MAX_SUM = 1 << 16,
};

/* The arguments of all blocked convolutions begin with these and end with those of CONV2D_FINISH.
 */
#define CONV2D_WINDOW(I64)                                                                         \
    I64(n) I64(c) I64(h) I64(w) I64(m) I64(oh) I64(ow) I64(kh) I64(kw) I64(sh) I64(sw) I64(dh)     \
    I64(dw) I64(pt) I64(pl)
#define CONV2D_SIZES(I64) CONV2D_WINDOW(I64) I64(group) I64(cg) I64(mg)
#define CONV2D_FINISH(F64, ENUM)                                                                   \
    ENUM(weights, weight_types) ENUM(activation, activation_names) F64(alpha) F64(beta)

/* The types of activations, of families that have a choice. */
enum conv2d_type { CONV_F32, CONV_BF16 };
extern const char *const conv2d_types[];
#define CONV2D_TYPES(ENUM)                                                                         \
    ENUM(x_type, conv2d_types) ENUM(residual_type, conv2d_types) ENUM(y_type, conv2d_types)

#define CONV2D_FIELDS(I64, I64S, F64, ENUM)                                                        \
    CONV2D_SIZES(I64) I64(src_c0) CONV2D_TYPES(ENUM) CONV2D_FINISH(F64, ENUM)
DECLARE_PARAMS(conv2d, CONV2D_FIELDS)

struct conv2d_sizes {
    CONV2D_SIZES(PARAM_I64)
};

struct conv2d_activations {
    CONV2D_TYPES(PARAM_ENUM)
};

/* Those of a task, whose arguments have CONV2D_TYPES. */
#define CONV2D_ACTIVATIONS(p)                                                                      \
    (struct conv2d_activations)                                                                    \
    {                                                                                              \
        .x_type = (p)->x_type, .residual_type = (p)->residual_type, .y_type = (p)->y_type          \
    }

static inline int64_t conv2d_item(int64_t type)
{
    return type == CONV_BF16 ? 2 : 4;
}

/* Floats in whose room `elements` of a type lie, of which there are an even number. */
static inline int64_t conv2d_floats(int64_t type, int64_t elements)
{
    return type == CONV_BF16 ? elements / 2 : elements;
}

enum { CONV_X, CONV_W, CONV_BIAS, CONV_RESIDUAL, CONV_SCALE, CONV_OPERANDS };

/* Where a tap of the kernel reads, in floats from the tile's input and from its weights. With C0 =
 * 1 the weights of taps follow each other.
 */
struct conv2d_tap {
    int64_t in, weights;
};

/* A run of `width` neighbouring results in `blocks` neighbouring blocks of output channels, summed
 * over n_c1 blocks of input channels. A call of a micro-kernel computes `count` of them, side by
 * side: what begins and ends a call would take a third of the time of a tile of few channels.
 */
struct conv2d_tile {
    const float *in;
    const struct conv2d_tap *taps;
    int64_t n_taps;
    int64_t c1_stride; /* floats from one block of input channels to the next */
    int64_t n_c1;
    int64_t c_last; /* channels in the last of them; with bfloat16, pairs of channels */
    const float *weights;
    int64_t weight_c1;     /* floats from one block of input channels to the next */
    int64_t weight_stride; /* floats from one output block to the next */
    const float *bias;     /* `blocks` · 16 floats */
    /* Where residual, or NULL for none, and results lie, and how many floats apart: bfloat16 lie in
     * the room of half as many floats, without gaps. Results that are bfloat16 are summed by one
     * tile alone.
     */
    const float *residual;
    int64_t residual_step;   /* from one result to the next */
    int64_t residual_stride; /* from one output block to the next */
    float *dst;
    int64_t dst_step, dst_stride;
    bool residual_bf16, dst_bf16;
    int64_t channels; /* of the results in all the blocks; what is beyond is of no account */
    bool first, last; /* the sum begins here; it ends here, so activate */
    bool reads_ahead; /* prefetch a block of input channels while the one before is multiplied */
    int64_t width, count;
    /* What to prefetch, as much as the tile reads weights of a block; NULL: nothing. */
    const float *prefetched;
    int64_t prefetch_step; /* floats from there to what the next tile prefetches */
    enum activation activation;
    float alpha, beta;
};

/* Floats from the input of one result to that of the next: the channels of a block, or pairs of
 * them, and in planes 1, or CONV_STRIDED where each second float is read.
 */
enum { CONV_STRIDED = 2 };

/* Whether such inputs are planes, of one channel a tap. */
static inline bool conv2d_is_plain(int64_t step)
{
    return step <= CONV_STRIDED;
}

/* Element i of activations. */
static inline float conv2d_load(const float *at, bool is_bf16, int64_t i)
{
    return is_bf16 ? f32_of_bf16(((const uint16_t *)at)[i]) : at[i];
}

static inline void conv2d_store(float *at, bool is_bf16, int64_t i, float x)
{
    if (is_bf16)
        ((uint16_t *)at)[i] = bf16_of_f32(x);
    else
        at[i] = x;
}

/* True if an operand is of a type of activations, and holds so many. */
static inline bool conv2d_holds(const struct task_view *task, const struct atc_slot *slot,
                                int64_t type, int64_t elements)
{
    return atc_holds(task, slot, type == CONV_BF16 ? DTYPE_BF16 : DTYPE_F32, elements,
                     conv2d_item(type));
}

/* Why bias, residual or scale do not fit m channels and a result of y elements; NULL if they do. */
const char *conv2d_extras_problem(const struct task_view *task, int64_t m, int64_t y,
                                  int64_t weights, int64_t residual_type);

/* Why the operands of a task, whose arguments begin with conv2d_sizes, are not those of a blocked
 * convolution; NULL if they are. Blocks of x have c0 channels.
 */
const char *conv2d_operands_problem(const struct task_view *task, int64_t c0, int64_t weights,
                                    struct conv2d_activations types);

/* The checker and the cost of the family itself. */
const char *conv2d_problem(const struct task_view *task);
struct kernel_cost conv2d_cost(const void *params, const struct atc_cpu *cpu);

/* The products that a convolution sums, whose arguments begin with conv2d_sizes. */
int64_t conv2d_products(const void *params);

/* Prefetches the weights of one tap from c0 channels, and returns where those of the next one lie.
 * Few at a time: many wait for each other, and what the tile reads waits for them.
 */
static inline __attribute__((always_inline)) const float *conv2d_prefetch(const float *weights,
                                                                          int64_t c0)
{
    if (weights == NULL)
        return NULL;
#pragma GCC unroll 16
    for (int64_t c = 0; c < c0; c++)
        __builtin_prefetch(weights + c * CONV_C0, 0, 2);
    return weights + c0 * CONV_C0;
}

/* Moves on by `tiles` tiles of `width` results each. */
static inline __attribute__((always_inline)) void
conv2d_move_on(struct conv2d_tile *tile, int64_t tiles, int64_t width, int64_t step)
{
    tile->in += tiles * width * step;
    tile->dst += tiles * width * tile->dst_step;
    if (tile->residual != NULL)
        tile->residual += tiles * width * tile->residual_step;
    if (tile->prefetched != NULL)
        tile->prefetched += tiles * tile->prefetch_step;
}

/* Computes the tiles of a call one by one: the last argument does so for `t`. Several are a copy,
 * which no store can change, so that the loop keeps what it reads of it in registers; for one
 * alone, that would take longer than it saves.
 */
#define CONV2D_FOR_TILES(t, tile, width, step, ...)                                                \
    if ((tile)->count == 1) {                                                                      \
        const struct conv2d_tile *t = (tile);                                                      \
        __VA_ARGS__;                                                                               \
    } else {                                                                                       \
        struct conv2d_tile copy = *(tile);                                                         \
        const struct conv2d_tile *t = &copy;                                                       \
        for (; copy.count > 0; copy.count--, conv2d_move_on(&copy, 1, width, step))                \
            __VA_ARGS__;                                                                           \
    }

typedef void (*conv2d_micro)(const struct conv2d_tile *tile);

/* Micro-kernels by blocks and width, [blocks - 1][width - 1], for C0 = 16 and C0 = 1, and for C0 =
 * 1 at a stride of 2, if not NULL.
 */
struct conv2d_micros {
    int max_width;
    const conv2d_micro *blocked, *plain, *strided;
};

/* Whether pairs of weights are neighbouring columns. */
static inline bool conv2d_pairs_columns(int64_t c0, int64_t weights)
{
    return c0 == 1 && weights == WEIGHTS_BF16_VNNI2;
}

/* Columns of a filter, with the one that fills the last pair. */
static inline int64_t conv2d_columns(int64_t c0, int64_t weights, int64_t kw)
{
    return conv2d_pairs_columns(c0, weights) ? ceil_div(kw, 2) * 2 : kw;
}

/* Copies `count` floats, every second one from `from` on. One function an ISA. */
typedef void conv2d_take_even_fn(const float *from, float *to, int64_t count);
conv2d_take_even_fn conv2d_take_even_sse2, conv2d_take_even_neon, conv2d_take_even_avx2,
    conv2d_take_even_avx512f;

/* What an ISA brings. */
struct conv2d_isa {
    int max_blocks;
    struct conv2d_micros whole;
    /* Micro-kernels by width for so many blocks, of which the last has 8 channels or fewer; 0:
     * none.
     */
    int half_blocks;
    struct conv2d_micros half;
    /* Micro-kernels for one block of at most 8 channels, and planes of input; 0: none. */
    struct conv2d_micros few;
    widen_fn *widen;
    int vnni; /* factor for weights in pairs */
    round_bf16_fn *round_bf16;
    narrow_bf16_fn *narrow_bf16;
    /* Micro-kernels read residuals and write results that are bfloat16, activated in registers. */
    bool stores_bf16;
    conv2d_take_even_fn *take_even;
    /* The same with plain micro-kernels that multiply pairs; NULL where vnni is 1. */
    const struct conv2d_isa *columns;
};

/* The weights of some neighbouring output blocks over a run of input channels. */
struct conv2d_weights {
    const struct kernel_args *args;
    const void *all; /* of the package */
    enum weight_type type;
    const float *scale; /* NULL: none */
    int64_t m;          /* channels that have one */
    float *widened;     /* room for those of a run */
};

struct conv2d_run {
    const float *weights;
    int64_t stride; /* floats from one output block to the next */
};

/* The factors of the weights of an output block, in `room` where they end within it; NULL: none. */
static inline const float *conv2d_scale_of(const struct conv2d_weights *w, int64_t block,
                                           float room[CONV_C0])
{
    if (w->scale == NULL)
        return NULL;
    const float *scale = w->scale + block * CONV_C0;
    const int64_t channels = w->m - block * CONV_C0;
    if (channels >= CONV_C0)
        return scale;
    memset(room, 0, CONV_C0 * sizeof *room);
    for (int64_t i = 0; i < channels; i++)
        room[i] = scale[i];
    return room;
}

/* The `count` weights from number `first` on of each of `blocks` blocks from `block` on, which lie
 * `stride` apart.
 */
static inline struct conv2d_run conv2d_run_at(const struct conv2d_weights *w,
                                              const struct conv2d_isa *isa, int64_t block,
                                              int64_t first, int64_t stride, int64_t count,
                                              int blocks)
{
    if (w->type == WEIGHTS_F32)
        return (struct conv2d_run){(const float *)w->all + first, stride};
    if (w->type == WEIGHTS_BF16_VNNI2 && isa->vnni == 2)
        return (struct conv2d_run){(const float *)w->all + first / 2, stride / 2};
    for (int b = 0; b < blocks; b++) {
        float room[CONV_C0];
        const float *scale = conv2d_scale_of(w, block + b, room);
        for (struct atc_piece piece = {0}; atc_next_piece(w->args, &piece, count);)
            isa->widen(w->type, (const uint16_t *)w->all + first + b * stride + piece.begin, scale,
                       w->widened + b * count + piece.begin, piece.end - piece.begin);
    }
    return (struct conv2d_run){w->widened, count};
}

/* The length of the nearly equal runs that c1 blocks of input channels are cut into: at most `most`
 * of them, or one.
 */
static inline int64_t conv2d_run_length(int64_t c1, int64_t most)
{
    return ceil_div(c1, ceil_div(c1, most > 1 ? most : 1));
}

/* How far the last tap of the last of `results` lies behind the first tap of the first. */
static inline int64_t conv2d_reach(int64_t results, int64_t stride, int64_t taps, int64_t dilation)
{
    return atc_add(atc_mul(results - 1, stride), atc_mul(taps - 1, dilation));
}

static inline int64_t conv2d_taps_bytes(int64_t taps)
{
    return ceil_div(taps * (int64_t)sizeof(struct conv2d_tap), 64) * 64;
}

/* Bytes of the weights of CONV_PAIR output blocks over a run of input channels, as float32. */
static inline int64_t conv2d_widened_bytes(int64_t weights, int64_t channels, int64_t taps)
{
    return weights == WEIGHTS_F32 ? 0 : atc_mul(atc_mul(channels, taps), CONV_PAIR * CONV_C0 * 4);
}

/* The biases of CONV_PAIR blocks from channel `first` on, 0 beyond channel m or where bias is NULL.
 */
static inline void conv2d_fill_bias(float *out, const float *bias, int64_t first, int64_t m)
{
    memset(out, 0, CONV_PAIR * CONV_C0 * sizeof *out);
    if (bias != NULL)
        memcpy(out, bias + first, (size_t)min_i64(CONV_PAIR * CONV_C0, m - first) * sizeof *out);
}

/* Runs tiles, whose taps come in runs where they are many: there is one block of channels then. */
static inline void conv2d_run_tiles(struct atc_meter *meter, conv2d_micro micro,
                                    const struct conv2d_tile *tile, int64_t step)
{
    enum { TAPS = 4096 };
    if (tile->n_taps <= TAPS || tile->n_c1 > 1 || tile->dst_bf16) {
        micro(tile);
        return;
    }
    for (int64_t tap = 0; tap < tile->n_taps; tap += TAPS) {
        struct conv2d_tile run = *tile;
        run.taps += tap;
        run.n_taps = min_i64(TAPS, tile->n_taps - tap);
        /* One channel a tap: they follow each other. */
        run.weights += conv2d_is_plain(step) ? tap * CONV_C0 : 0;
        run.first = tile->first && tap == 0;
        run.last = tile->last && tap + TAPS >= tile->n_taps;
        if (atc_spend(meter, CONV_C0 * TAPS))
            return;
        micro(&run);
    }
}

/* What is read after some tiles, and prefetched by the first of them: weights, which come from
 * memory in each run of a network, or rows of the input. Otherwise tiles would wait for it.
 */
struct conv2d_next {
    const float *first; /* for the first tile */
    int64_t stride;     /* floats from there to what the next tile prefetches */
    int64_t tiles;      /* that prefetch; a row takes off its own */
};

/* Has the next tiles prefetch, and leaves those that find nothing for another call. */
static inline void conv2d_take_next(struct conv2d_next *next, struct conv2d_tile *tile)
{
    tile->prefetched = NULL;
    if (next == NULL || next->tiles <= 0)
        return;
    tile->count = min_i64(tile->count, next->tiles);
    tile->prefetched = next->first;
    tile->prefetch_step = next->stride;
    next->tiles -= tile->count;
    if (next->tiles > 0)
        next->first += tile->count * next->stride;
}

/* What a tile counts for where work is interrupted. */
static inline int64_t conv2d_work(const struct conv2d_tile *tile)
{
    return CONV_C0 * (1 + tile->n_taps * tile->n_c1);
}

/* A row of `len` results, cut into tiles of nearly equal width, and its micro-kernels by width.
 * Rows of one length are cut once: divisions would take as long as a short row.
 */
struct conv2d_row {
    const conv2d_micro *micros;
    int64_t step; /* floats of the input from one result to the next */
    int blocks;
    int64_t len, tiles;
    int64_t width, wide;   /* of a tile; the first `wide` tiles have one result more */
    int64_t work;          /* of a tile */
    int64_t tiles_at_once; /* in a call, so few that it is interrupted in time */
};

/* Runs the tiles of a row whose results or residual are bfloat16, by micro-kernels that read and
 * write floats: a tile is rounded when it is activated.
 */
static inline void conv2d_run_narrow(struct atc_meter *meter, const struct conv2d_isa *isa,
                                     struct conv2d_tile tile, struct conv2d_next *next,
                                     const struct conv2d_row *row)
{
    const int blocks = row->blocks;
    enum { ROOM = CONV_MAX_WIDTH * CONV_C0 };
    float sums[CONV_PAIR * ROOM], widened[CONV_PAIR * ROOM];
    const bool widens = tile.residual != NULL && tile.residual_bf16, rounds = tile.dst_bf16;
    const float *residual = tile.residual;
    float *dst = tile.dst;
    const int64_t residual_step = tile.residual_step, residual_stride = tile.residual_stride;
    const int64_t dst_step = tile.dst_step, dst_stride = tile.dst_stride;
    if (widens) {
        tile.residual_step = CONV_C0;
        tile.residual_stride = ROOM;
    }
    if (rounds) {
        if (tile.channels < blocks * CONV_C0) /* then not all of them are written */
            memset(sums, 0, sizeof sums);
        tile.dst_step = CONV_C0;
        tile.dst_stride = ROOM;
    }
    tile.residual_bf16 = tile.dst_bf16 = false;
    tile.count = 1;
    for (int64_t t = 0; t < row->tiles; t++) {
        const int64_t width = row->width + (t < row->wide);
        conv2d_take_next(next, &tile);
        if (atc_spend(meter, row->work))
            return;
        tile.residual = widens ? widened : residual;
        tile.dst = rounds ? sums : dst;
        for (int b = 0; b < blocks && widens; b++)
            isa->widen(WEIGHTS_BF16, (const uint16_t *)(residual + b * residual_stride), NULL,
                       widened + b * ROOM, width * CONV_C0);
        conv2d_run_tiles(meter, row->micros[width - 1], &tile, row->step);
        for (int b = 0; b < blocks && rounds; b++)
            isa->narrow_bf16(sums + b * ROOM, (uint16_t *)(dst + b * dst_stride), width * CONV_C0);
        tile.in += width * row->step;
        dst += width * dst_step;
        residual = residual == NULL ? NULL : residual + width * residual_step;
    }
}

/* Cuts a row of `len` results of such a tile, whose inputs lie `step` floats apart. */
static inline struct conv2d_row conv2d_cut_row(const struct conv2d_isa *isa,
                                               const struct conv2d_tile *tile, int64_t step,
                                               int blocks, int64_t len)
{
    const bool fits_half =
        blocks == isa->half_blocks && tile->channels <= blocks * CONV_C0 - CONV_C0 / 2;
    /* Where lanes of results are busier than those of channels would be */
    const bool few = isa->few.max_width > 0 && step == 1 && blocks == 1 &&
                     tile->channels <= CONV_C0 / 2 && len >= 2 * tile->channels &&
                     !tile->dst_bf16 && !tile->residual_bf16;
    const struct conv2d_micros *micros = few ? &isa->few : fits_half ? &isa->half : &isa->whole;
    const int64_t tiles = ceil_div(len, micros->max_width), work = conv2d_work(tile);
    return (struct conv2d_row){
        .micros = (step == 1              ? micros->plain
                   : step == CONV_STRIDED ? micros->strided
                                          : micros->blocked) +
                  (few || fits_half ? 0 : (blocks - 1) * micros->max_width),
        .step = step,
        .blocks = blocks,
        .len = len,
        .tiles = tiles,
        .width = len / tiles,
        .wide = len % tiles,
        .work = work,
        .tiles_at_once = 1 + ATC_PIECE / work,
    };
}

/* Runs the tiles of a row, of which `tile` is the first. Then `tile` lies behind the row. Nothing
 * is prefetched where `next` is NULL.
 */
static inline void conv2d_run_row(struct atc_meter *meter, const struct conv2d_isa *isa,
                                  struct conv2d_tile *tile, struct conv2d_next *next,
                                  const struct conv2d_row *row)
{
    if ((tile->dst_bf16 || tile->residual_bf16) &&
        !(isa->stores_bf16 && activates_in_registers(tile->activation))) {
        conv2d_run_narrow(meter, isa, *tile, next, row);
        return;
    }
    for (int64_t t = 0; t < row->tiles; t += tile->count) {
        const int64_t alike = (t < row->wide ? row->wide : row->tiles) - t;
        tile->width = row->width + (t < row->wide);
        tile->count = min_i64(alike, row->tiles_at_once);
        conv2d_take_next(next, tile);
        if (atc_spend(meter, tile->count * row->work))
            return;
        conv2d_run_tiles(meter, row->micros[tile->width - 1], tile, row->step);
        conv2d_move_on(tile, tile->count, tile->width, row->step);
    }
}

extern const struct conv2d_isa conv2d_isa_scalar, conv2d_isa_sse2, conv2d_isa_neon, conv2d_isa_avx2,
    conv2d_isa_avx512f, conv2d_isa_avx512bf16;

void conv2d_drive(const struct kernel_args *args, const struct conv2d_isa *isa);

#endif

/* The matmul family: its checker, its blocking, and the loops around the micro-kernels. */
#include "core/pieces.h"
#include "core/strides.h"
#include "matmul/matmul.h"

static bool is_empty(const struct matmul_params *p)
{
    bool empty = p->m == 0 || p->n == 0;
    for (int i = 0; i < MATMUL_BATCH_RANK; i++)
        empty |= p->batch[i] == 0;
    return empty;
}

/* Elements that strides reach over the batch and `own` elements of one matrix. */
static int64_t reach(const struct matmul_params *p, const int64_t *strides, int64_t own)
{
    int64_t elements = own;
    for (int i = 0; i < MATMUL_BATCH_RANK; i++)
        elements = atc_add(elements, atc_mul(p->batch[i] - 1, strides[i]));
    return elements;
}

static int64_t matrix_reach(int64_t rows, int64_t row, int64_t columns, int64_t column)
{
    if (rows == 0 || columns == 0)
        return 0;
    return atc_add(atc_add(atc_mul(rows - 1, row), atc_mul(columns - 1, column)), 1);
}

/* Elements of a panel of packed b. */
static int64_t packed_panel(const struct matmul_params *p)
{
    return atc_mul(ceil_div(p->k, MATMUL_PANEL), MATMUL_PANEL * MATMUL_PANEL);
}

static int64_t packed_elements(const struct matmul_params *p)
{
    return atc_mul(ceil_div(p->n, MATMUL_PANEL), packed_panel(p));
}

/* True if no two results share an element. */
static bool results_apart(const struct matmul_params *p)
{
    int64_t dims[MATMUL_BATCH_RANK + 1] = {p->m}, strides[MATMUL_BATCH_RANK + 1] = {p->y_row};
    memcpy(dims + 1, p->batch, sizeof p->batch);
    memcpy(strides + 1, p->y_batch, sizeof p->y_batch);
    return atc_runs_apart(dims, strides, MATMUL_BATCH_RANK + 1, p->n);
}

static const char *check(const struct task_view *task)
{
    const struct matmul_params *p = task->params;
    if (task->n_src < 2 || task->n_src > MATMUL_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->m, p->k, p->n, p->a_row, p->a_col, p->b_row, p->b_col, p->y_row,
                      p->bias_row, p->bias_col) ||
        !atc_sizes_ok(p->batch, MATMUL_BATCH_RANK, 0) ||
        !atc_sizes_ok(p->a_batch, MATMUL_BATCH_RANK, 0) ||
        !atc_sizes_ok(p->b_batch, MATMUL_BATCH_RANK, 0) ||
        !atc_sizes_ok(p->y_batch, MATMUL_BATCH_RANK, 0))
        return "a size is out of range";

    const enum atc_dtype dtype = task->src[MATMUL_A].dtype;
    const bool has_bias = task->n_src > MATMUL_BIAS && task->src[MATMUL_BIAS].region != REGION_NONE;
    const bool has_residual =
        task->n_src > MATMUL_RESIDUAL && task->src[MATMUL_RESIDUAL].region != REGION_NONE;
    if (p->b_packed < 0 || p->b_packed > 1 || (p->b_packed == 1 && dtype != DTYPE_F32))
        return "b cannot be packed so";
    if (p->weights != WEIGHTS_F32 && p->b_packed == 0)
        return "weights of 16 bits must be packed";
    if (p->weights == WEIGHTS_BF16_VNNI2 && p->a_col != 1)
        return "weights in pairs for an input that is not";
    if (dtype != DTYPE_F32 && p->activation != ACT_NONE)
        return "an activation needs float32";
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64 && (p->scale != 1 || p->bias_scale != 1))
        return "a scale needs a floating-point type";
    if (has_residual && p->scale != 1)
        return "a residual needs scale 1";
    if (p->bias_col > 1)
        return "bias_col is neither 0 nor 1";
    if (is_empty(p))
        return NULL;

    /* Without this, a tiny operand could keep the kernel busy for ever. */
    if (p->k > 1 && p->a_col == 0)
        return "a does not step along k";
    if (!results_apart(p))
        return "results overlap";
    const int64_t item = atc_item_bytes(dtype);
    const int64_t a = reach(p, p->a_batch, matrix_reach(p->m, p->a_row, p->k, p->a_col));
    const int64_t b =
        reach(p, p->b_batch,
              p->b_packed == 1 ? packed_elements(p) : matrix_reach(p->k, p->b_row, p->n, p->b_col));
    const int64_t y = reach(p, p->y_batch, matrix_reach(p->m, p->y_row, p->n, 1));
    const int64_t bias = matrix_reach(p->m, p->bias_row, p->n, p->bias_col);
    const bool b_fits = p->b_packed == 1 ? weights_fit(task, MATMUL_B, p->weights, b)
                                         : atc_holds(task, task->src + MATMUL_B, dtype, b, item);
    if (!b_fits || !atc_holds(task, task->src + MATMUL_A, dtype, a, item) ||
        !atc_holds(task, task->dst, dtype, y, item))
        return "an operand is too small or of another type";
    if ((has_bias && !atc_holds(task, task->src + MATMUL_BIAS, dtype, bias, item)) ||
        (has_residual && !atc_holds(task, task->src + MATMUL_RESIDUAL, dtype, y, item)))
        return "bias or residual is too small or of another type";
    return NULL;
}

bool matmul_has_pairs(const struct task_view *task)
{
    const struct matmul_params *p = task->params;
    return p->weights == WEIGHTS_BF16_VNNI2;
}

/* One row is bound by reading b: tiles would gain nothing. */
bool matmul_fills_tiles(const struct task_view *task)
{
    const struct matmul_params *p = task->params;
    return matmul_has_pairs(task) && p->m > 1;
}

/* How the work is cut. Rows are cut into chunks and k into runs of blocks so that the packed part
 * of a stays in L2 while panels of b pass over it; a block of two panels stays in L1 while the rows
 * of the chunk pass over it. b is read once a chunk. An item is a chunk by a group of panels; items
 * that follow each other share what has to be made: the packed rows of a chunk, or the panels of a
 * group.
 */
struct blocking {
    int64_t batches;
    int64_t chunk_rows, chunks;
    int64_t panels, group, groups; /* panels of b; of one item; items a chunk */
    int64_t kc, k_blocks;
    int64_t k_run;     /* blocks of k that are packed at once */
    bool keeps_panels; /* chunks vary fastest; panels that are made serve several of them */
};

enum {
    PAIR = 2,
    SUMS_AT_ONCE = 512,  /* of one row */
    ROWS_AT_ONCE = 4096, /* of b that are added to them */
    MAX_IN_PLACE = 4096, /* floats of b that stay in L1 where they lie */
    MIN_PAIRS = 4,       /* of an item that may have to pack its row of a, or reads parts of rows */
    MAX_KEPT_PAIRS = 2,  /* of an item whose panels are kept: in L2 beside the rows of a chunk */
    MIN_CHUNK_ROWS = 56,
    MIN_ITEMS = 32, /* enough to balance some threads */
};

/* True if the one row is multiplied with columns of b where they lie: packing would read and write
 * all of b for a single use.
 */
bool matmul_takes_dots(const struct matmul_params *p)
{
    return p->m == 1 && p->b_packed == 0 && p->b_row == 1;
}

/* True if the result is a sum of rows of b, which are read in the order of memory. */
bool matmul_adds_rows(const struct matmul_params *p)
{
    return p->m == 1 && p->b_packed == 0 && p->b_col == 1 && p->b_row != 1;
}

/* True if panels of b are packed or widened into the scratch, by rows that read no pairs. */
static bool makes_panels(const struct matmul_params *p)
{
    return p->weights != WEIGHTS_F32 ||
           (p->b_packed == 0 && !matmul_takes_dots(p) && !matmul_adds_rows(p));
}

static bool in_pairs(const struct matmul_params *p)
{
    return p->weights == WEIGHTS_BF16_VNNI2;
}

/* Rows of a can be read where they lie if their steps of k do, and nothing is rounded. */
static bool reads_directly(const struct matmul_params *p)
{
    return !in_pairs(p) && p->a_col == 1;
}

/* Max k of one pass over a panel, which may be MATMUL_KC pairs. */
static int64_t max_kc(const struct matmul_params *p)
{
    return in_pairs(p) ? 2 * MATMUL_KC : MATMUL_KC;
}

/* k, or one more where the last pair would be cut. */
static int64_t whole_pairs(const struct matmul_params *p, int64_t k)
{
    return in_pairs(p) ? ceil_div(k, 2) * 2 : k;
}

static struct blocking block(const struct matmul_params *p, const struct atc_cpu *cpu)
{
    struct blocking b = {.batches = 1};
    for (int i = 0; i < MATMUL_BATCH_RANK; i++)
        b.batches = atc_mul(b.batches, p->batch[i]);
    b.k_blocks = p->k > max_kc(p) ? ceil_div(p->k, max_kc(p)) : 1;
    if (p->m == 1 && !makes_panels(p))
        b.k_blocks = 1; /* b is read in one stream; a has no row stride to keep */
    b.kc = whole_pairs(p, ceil_div(p->k, b.k_blocks));
    b.k_blocks = b.kc > 0 ? ceil_div(p->k, b.kc) : 1;
    const int64_t rows_in_l2 = cpu->l2_bytes * 3 / 4 / (MATMUL_KC * 4);
    b.panels = ceil_div(p->n, MATMUL_PANEL);
    const int64_t pairs = ceil_div(b.panels, PAIR);
    /* Rows are cut for many threads only: each chunk reads b. */
    const int64_t min_chunks = ceil_div(atc_min_items(cpu, 1), atc_mul(b.batches, pairs));
    const int64_t rows_for_items = ceil_div(p->m, min_chunks);
    int64_t chunk_rows = min_i64(rows_in_l2, rows_for_items);
    if (chunk_rows < MIN_CHUNK_ROWS)
        chunk_rows = MIN_CHUNK_ROWS;
    b.chunks = ceil_div(p->m, chunk_rows);
    b.chunk_rows = ceil_div(p->m, b.chunks);
    b.k_run = min_i64(b.k_blocks, rows_in_l2 / b.chunk_rows);
    if (b.k_run < 1 || (p->weights != WEIGHTS_F32 && !in_pairs(p)))
        b.k_run = 1; /* what is widened is used at once */

    const int64_t min_items = atc_min_items(cpu, matmul_adds_rows(p) ? 1 : MIN_ITEMS);
    const int64_t min_groups = ceil_div(min_items, atc_mul(b.batches, b.chunks));
    int64_t group = pairs > min_groups ? pairs / min_groups : 1;
    if ((!reads_directly(p) || matmul_adds_rows(p)) && group < MIN_PAIRS)
        group = min_i64(MIN_PAIRS, pairs);
    b.keeps_panels = makes_panels(p) && reads_directly(p) && b.chunks > 1;
    if (b.keeps_panels)
        group = min_i64(group, MAX_KEPT_PAIRS);
    b.group = min_i64(group * PAIR, b.panels);
    b.groups = ceil_div(b.panels, b.group);
    return b;
}

static int64_t a_floats(const struct matmul_params *p, const struct blocking *b)
{
    if (reads_directly(p))
        return 0;
    const int64_t floats =
        p->m == 1 && b->k_blocks == 1 ? p->k : b->k_run * b->chunk_rows * max_kc(p);
    return ceil_div(floats, 16) * 16;
}

static int64_t products_of(const struct matmul_params *p, int64_t k)
{
    int64_t count = atc_mul(atc_mul(p->m, p->n), k);
    for (int i = 0; i < MATMUL_BATCH_RANK; i++)
        count = atc_mul(count, p->batch[i]);
    return count;
}

static int64_t products(const void *params)
{
    const struct matmul_params *p = params;
    return products_of(p, p->k);
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    const struct matmul_params *p = params;
    struct kernel_cost cost = {.work = atc_div(products_of(p, p->k + 1), 16)};
    if (is_empty(p))
        return cost;
    const struct blocking b = block(p, cpu);
    /* Rows of wide types pack two vectors of columns, whether or not there are so many. */
    const int64_t panels = b.keeps_panels && b.group > PAIR ? b.group : PAIR;
    const int64_t b_floats = makes_panels(p) ? panels * b.k_run * b.kc * MATMUL_PANEL : 0;
    cost.items = atc_mul(b.batches, atc_mul(b.chunks, b.groups));
    cost.scratch = atc_mul(atc_add(a_floats(p, &b), b_floats), 4);
    return cost;
}

DEFINE_FAMILY(matmul, MATMUL_FIELDS, .check = check, .cost = cost, .products = products,
              .inplace = 1u << MATMUL_RESIDUAL);

static struct matmul_item find_item(const struct matmul_params *p, const struct blocking *b,
                                    int64_t item)
{
    int64_t rest = item / (b->chunks * b->groups);
    const int64_t in_matrix = item % (b->chunks * b->groups);
    const int64_t chunk = b->keeps_panels ? in_matrix % b->chunks : in_matrix / b->groups;
    const int64_t group = b->keeps_panels ? in_matrix / b->chunks : in_matrix % b->groups;
    struct matmul_item it = {
        .row = chunk * b->chunk_rows,
        .column = group * b->group * MATMUL_PANEL,
    };
    it.rows = min_i64(b->chunk_rows, p->m - it.row);
    it.columns = min_i64(b->group * MATMUL_PANEL, p->n - it.column);
    for (int i = MATMUL_BATCH_RANK - 1; i >= 0; i--) {
        const int64_t at = rest % p->batch[i];
        rest /= p->batch[i];
        it.a += at * p->a_batch[i];
        it.b += at * p->b_batch[i];
        it.y += at * p->y_batch[i];
    }
    return it;
}

struct matmul_item matmul_find_item(const struct matmul_params *p, const struct atc_cpu *cpu,
                                    int64_t item)
{
    const struct blocking b = block(p, cpu);
    return find_item(p, &b, item);
}

int64_t matmul_depth(const struct matmul_params *p, const struct atc_cpu *cpu)
{
    return block(p, cpu).kc;
}

/* --- the loops ------------------------------------------------------------------------------- */

struct drive {
    const struct matmul_params *p;
    const struct matmul_isa *isa;
    struct blocking b;
    const float *a, *bias, *residual;
    const void *b_src;
    float *y;
    bool direct;   /* a is read where it lies */
    int64_t vnni;  /* factor of the micro-kernels: their operands count floats or pairs */
    int64_t a_row; /* of packed a */
    bool packs_b;
    float *packed_a, *packed_b;
    struct atc_meter *meter;
};

/* Rows of the chunk over `k` from `k0`: each d->a_row floats or pairs. */
static void pack_a_block(const struct drive *d, const struct matmul_item *it, int64_t k0, int64_t k,
                         float *to)
{
    const struct matmul_params *p = d->p;
    const float *a = d->a + it->a + it->row * p->a_row + k0 * p->a_col;
    if (p->a_col != 1 && p->a_row == 1 && it->rows > 1) {
        d->isa->transpose(a, p->a_col, to, d->a_row, k, it->rows);
        return;
    }
    for (int64_t r = 0; r < it->rows; r++, a += p->a_row, to += d->a_row) {
        if (in_pairs(p))
            d->isa->round_bf16(a, to, k);
        else
            for (struct atc_piece piece = {0}; atc_next_piece(d->meter->args, &piece, k);)
                for (int64_t i = piece.begin; i < piece.end; i++)
                    to[i] = a[i * p->a_col];
    }
}

/* One panel of `columns` ≤ 16 columns over `k` from `k0`, zero beyond the last column. */
static void pack_b_panel(const struct drive *d, const float *b, int64_t columns, int64_t k,
                         float *to)
{
    const struct matmul_params *p = d->p;
    if (columns < MATMUL_PANEL)
        memset(to, 0, (size_t)(k * MATMUL_PANEL) * sizeof *to);
    if (p->b_col != 1 && p->b_row == 1) {
        d->isa->transpose(b, p->b_col, to, MATMUL_PANEL, columns, k);
        return;
    }
    for (int64_t i = 0; i < k; i++, b += p->b_row, to += MATMUL_PANEL) {
        if (p->b_col == 1 && columns == MATMUL_PANEL)
            memcpy(to, b, MATMUL_PANEL * sizeof *to);
        else
            for (int64_t j = 0; j < columns; j++)
                to[j] = b[j * p->b_col];
    }
}

static void pack_a(const struct drive *d, const struct matmul_item *it, int64_t k0, int64_t run)
{
    const struct blocking *b = &d->b;
    for (int64_t i = 0; i < run; i++) {
        const int64_t at = k0 + i * b->kc;
        pack_a_block(d, it, at, min_i64(b->kc, d->p->k - at),
                     d->packed_a + i * b->chunk_rows * d->a_row);
    }
}

/* Where the panel of a column begins in packed b. */
static int64_t panel_at(const struct matmul_params *p, const struct matmul_item *it, int64_t column)
{
    return it->b + column / MATMUL_PANEL * packed_panel(p);
}

/* The panels of `columns` of an item from column j on, over `k` from `k0`. */
static void pack_b(const struct drive *d, const struct matmul_item *it, int64_t j, int64_t columns,
                   int64_t k0, int64_t k, float *to)
{
    const struct matmul_params *p = d->p;
    for (const int64_t end = j + columns; j < end; j += MATMUL_PANEL) {
        if (p->b_packed == 1) {
            const int64_t at = panel_at(p, it, it->column + j) + k0 * MATMUL_PANEL;
            d->isa->widen((enum weight_type)p->weights, (const uint16_t *)d->b_src + at, NULL, to,
                          whole_pairs(p, k) * MATMUL_PANEL);
        } else {
            const int64_t at = it->b + k0 * p->b_row + (it->column + j) * p->b_col;
            pack_b_panel(d, (const float *)d->b_src + at, min_i64(MATMUL_PANEL, end - j), k, to);
        }
        to += d->b.k_run * d->b.kc * MATMUL_PANEL;
    }
}

/* Rows that lie whole pages apart fall into one set of L1, which has 8 or 12 ways. */
enum { ALIASING_ROW = 1024, MAX_ALIASING_ROWS = 8 };

void matmul_run_rows(const struct matmul_isa *isa, struct matmul_tile tile, int64_t rows)
{
    const int blocks = (int)ceil_div(tile.columns, MATMUL_PANEL);
    const bool aliasing = tile.a_row % ALIASING_ROW == 0;
    const int64_t max_rows = aliasing ? min_i64(isa->max_rows, MAX_ALIASING_ROWS) : isa->max_rows;
    const int64_t steps = ceil_div(rows, isa->row_step),
                  max_steps = ceil_div(max_rows, isa->row_step);
    const int64_t tiles = ceil_div(steps, max_steps);
    const char *next_b = tile.next_b;
    const int64_t next_bytes = tile.next_bytes * tile.k;
    tile.next_bytes = ceil_div(tile.next_bytes, tiles);
    tile.all_rows = rows;
    for (int64_t t = 0, left = rows; t < tiles; t++, left -= tile.rows) {
        const int64_t height = steps / tiles + (t < steps % tiles);
        tile.rows = min_i64(height * isa->row_step, left);
        if (next_b != NULL)
            tile.next_b = next_b + next_bytes * t / tiles;
        isa->micro[(blocks - 1) * (isa->max_rows / isa->row_step) + height - 1](&tile);
        tile.a += tile.rows * tile.a_row;
        tile.dst += tile.rows * tile.y_row;
        if (tile.residual != NULL)
            tile.residual += tile.rows * tile.y_row;
        if (tile.bias != NULL)
            tile.bias += tile.rows * tile.bias_row;
    }
}

/* `columns` of an item from column j on: where they go, and how they are finished. */
static struct matmul_tile tile_of(const struct drive *d, const struct matmul_item *it, int64_t j,
                                  int64_t columns)
{
    const struct matmul_params *p = d->p;
    const int64_t y = it->y + it->row * p->y_row + it->column + j;
    const int64_t bias = it->row * p->bias_row + (it->column + j) * p->bias_col;
    return (struct matmul_tile){
        .args = d->meter->args,
        .columns = columns,
        .residual = d->residual != NULL ? d->residual + y : NULL,
        .bias = d->bias != NULL ? d->bias + bias : NULL,
        .bias_row = p->bias_row,
        .bias_col = p->bias_col,
        .dst = d->y + y,
        .y_row = p->y_row,
        .scale = (float)p->scale,
        .bias_scale = (float)p->bias_scale,
        .activation = (enum activation)p->activation,
        .alpha = (float)p->alpha,
        .beta = (float)p->beta,
    };
}

/* Adds up the products of a row `a` with some columns of b, where they lie. */
static void sum_row(const struct drive *d, const float *a, const float *b, int64_t columns,
                    float *sums)
{
    const struct matmul_params *p = d->p;
    if (matmul_takes_dots(p)) {
        d->isa->dots(d->meter->args, a, b, p->b_col, p->k, columns, sums);
        return;
    }
    const int64_t panels = ceil_div(columns, MATMUL_PANEL);
    for (int64_t k = 0; k < p->k; k += ROWS_AT_ONCE) {
        const int64_t rows = min_i64(ROWS_AT_ONCE, p->k - k);
        if (atc_spend(d->meter, panels * rows))
            return;
        d->isa->add_rows(a + k, b + k * p->b_row, p->b_row, rows, columns, sums);
    }
}

/* The columns of an item that has one row. Their sums are panels with one step of k, which
 * micro-kernels finish.
 */
static void run_one_row(const struct drive *d, const struct matmul_item *it)
{
    const float *a = d->direct ? d->a + it->a : d->packed_a, one = 1;
    const int64_t step = d->isa->max_blocks * MATMUL_PANEL;
    const int64_t run = matmul_takes_dots(d->p) ? step : SUMS_AT_ONCE;
    for (int64_t j = 0; j < it->columns && !atc_spend(d->meter, d->p->k + 1); j += run) {
        float sums[SUMS_AT_ONCE];
        const int64_t columns = min_i64(run, it->columns - j);
        memset(sums, 0, (size_t)(ceil_div(columns, MATMUL_PANEL) * MATMUL_PANEL) * sizeof *sums);
        sum_row(d, a, (const float *)d->b_src + it->b + (it->column + j) * d->p->b_col, columns,
                sums);
        for (int64_t c = 0; c < columns; c += step) {
            struct matmul_tile tile = tile_of(d, it, j + c, min_i64(step, columns - c));
            tile.a = &one, tile.b = sums + c, tile.k = 1;
            tile.b_step = tile.b_panel = MATMUL_PANEL;
            tile.first = tile.last = true;
            matmul_run_rows(d->isa, tile, 1);
        }
    }
}

/* Has a tile prefetch what is read of b from `column` and `k0` on: panels, or whole columns that
 * are about to be packed.
 */
static void prefetch_columns(const struct drive *d, const struct matmul_item *it, int64_t column,
                             int64_t k0, struct matmul_tile *tile)
{
    const struct matmul_params *p = d->p;
    const int64_t item = p->weights == WEIGHTS_F32 ? 4 : 2;
    const bool transposed = p->b_packed == 0 && p->b_row == 1 && d->b.k_blocks == 1;
    tile->next_b = NULL;
    if (column + d->isa->max_blocks * MATMUL_PANEL > p->n || (p->b_packed == 0 && !transposed))
        return;
    const int64_t at =
        transposed ? it->b + column * p->b_col : panel_at(p, it, column) + k0 * MATMUL_PANEL;
    tile->next_b = (const char *)d->b_src + at * item;
    tile->next_panel = (transposed ? MATMUL_PANEL * p->b_col : packed_panel(p)) * item;
    tile->next_bytes = MATMUL_PANEL * item * d->vnni;
}

/* True if whole panels of b are rows of it, and are read so few times that packing takes longer, or
 * so small that they stay in L1.
 */
static bool reads_in_place(const struct drive *d, const struct matmul_item *it, int64_t columns)
{
    const struct matmul_params *p = d->p;
    return d->packs_b && p->b_packed == 0 && p->b_col == 1 && columns % MATMUL_PANEL == 0 &&
           !d->b.keeps_panels && (it->rows <= d->isa->max_rows || p->k * p->b_row <= MAX_IN_PLACE);
}

/* All that an item sums up over `run` blocks of k from `k0`, with panels that may be made already.
 */
static void run_panels(const struct drive *d, const struct matmul_item *it, int64_t k0, int64_t run,
                       bool has_panels)
{
    const struct matmul_params *p = d->p;
    const struct blocking *b = &d->b;
    const int64_t b_panel =
        d->packs_b ? b->k_run * b->kc * MATMUL_PANEL : packed_panel(p) / d->vnni;
    const int64_t step = d->isa->max_blocks * MATMUL_PANEL;
    for (int64_t j = 0; j < it->columns; j += step) {
        const int64_t columns = min_i64(step, it->columns - j);
        const bool in_place = reads_in_place(d, it, columns);
        float *made = d->packed_b + (b->keeps_panels ? j / MATMUL_PANEL * b_panel : 0);
        const float *panels = made;
        if (in_place)
            panels = (const float *)d->b_src + it->b + k0 * p->b_row + it->column + j;
        else if (!d->packs_b)
            panels = (const float *)d->b_src +
                     (panel_at(p, it, it->column + j) + k0 * MATMUL_PANEL) / d->vnni;
        else if (!has_panels)
            pack_b(d, it, j, columns, k0, min_i64(run * b->kc, p->k - k0), made);
        struct matmul_tile tile = tile_of(d, it, j, columns);
        tile.a_row = d->direct ? p->a_row : d->a_row;
        tile.b_step = in_place ? p->b_row : MATMUL_PANEL;
        tile.b_panel = in_place ? MATMUL_PANEL : b_panel;
        for (int64_t i = 0; i < run; i++) {
            const int64_t at = k0 + i * b->kc;
            tile.a = d->direct ? d->a + it->a + it->row * p->a_row + at
                               : d->packed_a + i * b->chunk_rows * d->a_row;
            tile.b = panels + i * b->kc / d->vnni * tile.b_step;
            tile.k = ceil_div(min_i64(b->kc, p->k - at), d->vnni);
            tile.first = at == 0;
            tile.last = at + b->kc >= p->k;
            if (i + 1 < run)
                prefetch_columns(d, it, it->column + j, at + b->kc, &tile);
            else
                prefetch_columns(d, it, it->column + j + step, k0, &tile);
            if (atc_spend(d->meter, it->rows * (tile.k + 1)))
                return;
            matmul_run_rows(d->isa, tile, it->rows);
        }
    }
}

/* The same over as many groups of panels from the item's on, which share its rows. */
static void run_groups(const struct drive *d, struct matmul_item it, int64_t groups, int64_t k0,
                       int64_t run)
{
    const int64_t step = d->b.group * MATMUL_PANEL;
    for (int64_t i = 0; i < groups && !atc_spend(d->meter, 1); i++, it.column += step) {
        it.columns = min_i64(step, d->p->n - it.column);
        if (matmul_takes_dots(d->p) || matmul_adds_rows(d->p))
            run_one_row(d, &it);
        else
            run_panels(d, &it, k0, run, false);
    }
}

/* The same over as many chunks of rows from the item's on, for which its panels are made once, if
 * they were not before.
 */
static void run_chunks(const struct drive *d, struct matmul_item it, int64_t chunks, int64_t k0,
                       int64_t run, bool has_panels)
{
    const int64_t step = d->b.chunk_rows;
    for (int64_t i = 0; i < chunks && !atc_spend(d->meter, 1); i++, it.row += step) {
        it.rows = min_i64(step, d->p->m - it.row);
        run_panels(d, &it, k0, run, has_panels || i > 0);
    }
}

void matmul_drive(const struct kernel_args *args, const struct matmul_isa *isa)
{
    const struct matmul_params *p = args->params;
    struct atc_meter meter = {.args = args};
    struct drive d = {.p = p,
                      .isa = isa,
                      .b = block(p, args->cpu),
                      .a = args->src[MATMUL_A],
                      .b_src = args->src[MATMUL_B],
                      .bias = args->src[MATMUL_BIAS],
                      .residual = args->src[MATMUL_RESIDUAL],
                      .y = args->dst[0],
                      .direct = reads_directly(p),
                      .vnni = in_pairs(p) ? isa->vnni : 1,
                      .packed_a = args->scratch,
                      .meter = &meter};
    d.a_row = max_kc(p) / d.vnni;
    d.packs_b = d.vnni == 1 && makes_panels(p);
    d.packed_b = d.packed_a + a_floats(p, &d.b);
    for (int64_t item = args->begin; item < args->end;) {
        /* Items that share a chunk, or a group of panels, run together. */
        const int64_t sharing = d.b.keeps_panels ? d.b.chunks : d.b.groups;
        const int64_t items = min_i64(args->end - item, sharing - item % sharing);
        const struct matmul_item it = find_item(p, &d.b, item);
        if (isa->begin_rows != NULL)
            isa->begin_rows(it.rows);
        for (int64_t first = 0; first < d.b.k_blocks; first += d.b.k_run) {
            const int64_t run = min_i64(d.b.k_run, d.b.k_blocks - first), k0 = first * d.b.kc;
            if (atc_spend(&meter, 1))
                return;
            /* What is packed for the items that share it: rows, or panels. */
            const bool is_packed = atc_keeps_inputs(args, item / sharing * d.b.k_blocks + first);
            if (!d.direct && !is_packed)
                pack_a(&d, &it, k0, run);
            if (d.b.keeps_panels)
                run_chunks(&d, it, items, k0, run, is_packed);
            else
                run_groups(&d, it, items, k0, run);
        }
        item += items;
    }
}

/* The walks of trees.c for one element type: T, its NODE, and OF(name), which names functions after
 * it. Included once for each.
 */

/* Goes on with LANES walks, each from its node along its row, until all have arrived. */
static inline __attribute__((always_inline)) void
OF(walk)(const struct kernel_args *args, const T *const *x, uint32_t *node, bool missing)
{
    const struct trees_params *p = args->params;
    const NODE *nodes = args->src[TREES_NODES];
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->depth);)
        for (int64_t d = piece.begin; d < piece.end; d += STEPS) {
            uint32_t moved = 0;
            for (int step = 0; step < STEPS; step++) {
                moved = 0;
#pragma GCC unroll 8
                for (int k = 0; k < LANES; k++) {
                    const NODE *here = nodes + node[k];
                    uint32_t feature = here->feature;
                    bool left;
                    if (missing) {
                        const bool nan_left = (feature & NAN_TO_CHILD_0) != 0;
                        feature &= ~NAN_TO_CHILD_0;
                        const T v = x[k][feature];
                        left = (v <= here->threshold) | (nan_left & (v != v));
                    } else {
                        left = x[k][feature] <= here->threshold;
                    }
                    const uint32_t next = here->child[!left];
                    moved |= next ^ node[k];
                    node[k] = next;
                }
            }
            if (moved == 0)
                return;
        }
}

static inline T OF(combine)(int64_t aggregate, T total, T weight)
{
    switch (aggregate) {
    case TREES_MIN:
        return weight < total ? weight : total;
    case TREES_MAX:
        return weight > total ? weight : total;
    default:
        return total + weight;
    }
}

static inline void OF(add_entries)(const struct kernel_args *args, int64_t begin, int64_t end, T *y)
{
    const struct trees_params *p = args->params;
    const int32_t *targets = args->src[TREES_TARGETS];
    const T *weights = args->src[TREES_WEIGHTS];
    for (int64_t i = begin; i < end; i++)
        y[targets[i]] = OF(combine)(p->aggregate, y[targets[i]], weights[i]);
}

/* Adds what one walk has arrived at to a row of targets. */
static inline void OF(collect)(const struct kernel_args *args, uint32_t node, T *y)
{
    const struct trees_params *p = args->params;
    const NODE *leaf = (const NODE *)args->src[TREES_NODES] + node;
    if (p->leaves == 0) {
        *y = OF(combine)(p->aggregate, *y, leaf->threshold);
        return;
    }
    if (leaf->child[0] != node || leaf->child[1] != node)
        return; /* no leaf: its depth is not what the record says */
    const int32_t *starts = args->src[TREES_STARTS];
    const int64_t number = OF(leaf)(leaf), first = starts[number], last = starts[number + 1];
    if (last - first <= ATC_PIECE) {
        OF(add_entries)(args, first, last, y);
        return;
    }
    for (struct atc_piece piece = {first, first}; atc_next_piece(args, &piece, last);)
        OF(add_entries)(args, piece.begin, piece.end, y);
}

/* LANES rows at x through each tree. */
static inline __attribute__((always_inline)) void OF(many_rows)(struct atc_meter *meter, const T *x,
                                                                T *y, bool missing)
{
    const struct kernel_args *args = meter->args;
    const struct trees_params *p = args->params;
    const int32_t *roots = args->src[TREES_ROOTS];
    const T *rows[LANES];
    for (int k = 0; k < LANES; k++)
        rows[k] = x + k * p->features;
    for (int64_t tree = 0; tree < p->trees && !atc_spend(meter, p->depth + p->max_entries);
         tree++) {
        uint32_t node[LANES];
        for (int k = 0; k < LANES; k++)
            node[k] = (uint32_t)roots[tree];
        OF(walk)(args, rows, node, missing);
        for (int k = 0; k < LANES; k++)
            OF(collect)(args, node[k], y + k * p->targets);
    }
}

/* One row through LANES trees at a time. */
static inline __attribute__((always_inline)) void OF(one_row)(struct atc_meter *meter, const T *x,
                                                              T *y, bool missing)
{
    const struct kernel_args *args = meter->args;
    const struct trees_params *p = args->params;
    const int32_t *roots = args->src[TREES_ROOTS];
    const T *rows[LANES];
    for (int k = 0; k < LANES; k++)
        rows[k] = x;
    for (int64_t tree = 0; tree < p->trees && !atc_spend(meter, p->depth + p->max_entries);
         tree += LANES) {
        uint32_t node[LANES];
        for (int k = 0; k < LANES; k++)
            node[k] = (uint32_t)roots[min_i64(tree + k, p->trees - 1)];
        OF(walk)(args, rows, node, missing);
        for (int k = 0; k < min_i64(LANES, p->trees - tree); k++)
            OF(collect)(args, node[k], y);
    }
}

static inline __attribute__((always_inline)) void
OF(some_rows)(const struct kernel_args *args, int64_t begin, int64_t end, bool missing)
{
    const struct trees_params *p = args->params;
    const T *x = args->src[TREES_X];
    T *y = args->dst[0];
    struct atc_meter meter = {.args = args};
    int64_t row = begin;
    for (; row + LANES <= end; row += LANES)
        OF(many_rows)(&meter, x + row * p->features, y + row * p->targets, missing);
    for (; row < end; row++)
        OF(one_row)(&meter, x + row * p->features, y + row * p->targets, missing);
}

static void OF(run)(const struct kernel_args *args)
{
    const struct trees_params *p = args->params;
    const int64_t begin = args->begin * ROWS_EACH;
    const int64_t end = min_i64(args->end * ROWS_EACH, p->rows);
    T *y = (T *)args->dst[0];
    const T nothing = p->aggregate == TREES_MIN   ? (T)INFINITY
                      : p->aggregate == TREES_MAX ? -(T)INFINITY
                                                  : 0;
    const int64_t first = begin * p->targets, last = end * p->targets;
    for (struct atc_piece piece = {first, first}; atc_next_piece(args, &piece, last);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            y[i] = nothing;
    if (p->missing)
        OF(some_rows)(args, begin, end, true);
    else
        OF(some_rows)(args, begin, end, false);
    struct atc_piece piece = {first, first};
    while (p->aggregate != TREES_SUM && atc_next_piece(args, &piece, last))
        for (int64_t i = piece.begin; i < piece.end; i++)
            if (y[i] == nothing)
                y[i] = 0; /* a target that no leaf has */
}

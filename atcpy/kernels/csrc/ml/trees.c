/* trees: rows of features walk down an ensemble of decision trees; what their leaves hold is
 * combined for each target.
 *
 *     x        [rows, features], float or double
 *     nodes    [nodes], constant: struct node_f32 or node_f64, whichever has the type of x
 *     roots    [trees], int32, constant: the node in which each tree begins
 *     starts   [leaves + 1], int32, constant: leaf i has the entries from starts[i] to starts[i +
 * 1] targets  [entries], int32, constant weights  [entries], constant, of the type of x y [rows,
 * targets], of the type of x
 *
 * Without leaves (`leaves` is 0) there is one target, and the threshold of a leaf's node is its
 * weight; starts, targets and weights are left out. Entries are combined in the order of the trees.
 *
 * A walk goes to child 0 where x[feature] ≤ threshold, else to child 1; NaN goes to child 1, unless
 * `missing` and the node's flag say child 0. A leaf is a node whose children are itself, so that
 * several walks can go on together until the last one arrives, without branches. `depth` steps
 * are the most that a walk takes: no graph of nodes, whatever it is, makes it run for longer.
 *
 * The checker proves every index that the constants hold, once, when the plan is loaded.
 */
#include "core/pieces.h"

#include <math.h>
static const char *const trees_aggregates[] = {"sum", "min", "max", NULL};
enum { TREES_SUM, TREES_MIN, TREES_MAX };

#define TREES_FIELDS(I64, I64S, F64, ENUM)                                                         \
    I64(rows) I64(features) I64(targets) I64(trees) I64(nodes) I64(depth) I64(leaves) I64(entries) \
        I64(max_entries) I64(missing) ENUM(aggregate, trees_aggregates)
DECLARE_PARAMS(trees, TREES_FIELDS)

enum { TREES_X, TREES_NODES, TREES_ROOTS, TREES_STARTS, TREES_TARGETS, TREES_WEIGHTS, TREES_SRC };

struct node_f32 {
    float threshold; /* of a leaf: its weight, or the bits of its number */
    uint32_t feature;
    uint32_t child[2];
};

struct node_f64 {
    double threshold;
    uint32_t feature;
    uint32_t unused;
    uint32_t child[2];
};

static_assert(sizeof(struct node_f32) == 16, "as ops/ml/trees.py packs it");
static_assert(sizeof(struct node_f64) == 24, "as ops/ml/trees.py packs it");

#define NAN_TO_CHILD_0 UINT32_C(0x80000000) /* in `feature` */

enum {
    LANES = 8,       /* walks that go on together: one hides the latency of the other's loads */
    STEPS = 2,       /* between two looks whether all have arrived */
    ROWS_EACH = 128, /* rows of an item: they stay in L1 while the trees change */
};

/* The number that the node of leaf holds in place of a threshold. */
static int64_t leaf_f32(const struct node_f32 *node)
{
    int32_t number;
    memcpy(&number, &node->threshold, sizeof number);
    return number;
}

static int64_t leaf_f64(const struct node_f64 *node)
{
    int64_t number;
    memcpy(&number, &node->threshold, sizeof number);
    return number;
}

/* --- the checker ---------------------------------------------------------------------------- */

static bool node_ok(const struct trees_params *p, uint32_t feature, const uint32_t *child,
                    int64_t self, int64_t leaf)
{
    if (p->missing)
        feature &= ~NAN_TO_CHILD_0;
    if (feature >= p->features || child[0] >= p->nodes || child[1] >= p->nodes)
        return false;
    const bool is_leaf = child[0] == self && child[1] == self;
    return !is_leaf || p->leaves == 0 || (leaf >= 0 && leaf < p->leaves);
}

static bool nodes_ok(const struct trees_params *p, const void *nodes, bool is_double)
{
    for (int64_t i = 0; i < p->nodes; i++) {
        const struct node_f32 *narrow = (const struct node_f32 *)nodes + i;
        const struct node_f64 *wide = (const struct node_f64 *)nodes + i;
        if (is_double ? !node_ok(p, wide->feature, wide->child, i, leaf_f64(wide))
                      : !node_ok(p, narrow->feature, narrow->child, i, leaf_f32(narrow)))
            return false;
    }
    return true;
}

static bool indices_ok(const int32_t *indices, int64_t n, int64_t bound)
{
    for (int64_t i = 0; i < n; i++)
        if (indices[i] < 0 || indices[i] >= bound)
            return false;
    return true;
}

static bool starts_ok(const struct trees_params *p, const int32_t *starts)
{
    if (starts[0] < 0 || starts[p->leaves] > p->entries)
        return false;
    for (int64_t i = 0; i < p->leaves; i++)
        if (starts[i] > starts[i + 1] || starts[i + 1] - starts[i] > p->max_entries)
            return false;
    return true;
}

static const char *check(const struct task_view *task)
{
    const struct trees_params *p = task->params;
    if (task->n_src != TREES_SRC || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->rows, p->depth, p->leaves, p->entries, p->max_entries) ||
        !ATC_SIZES_OK(1, p->features, p->targets, p->trees, p->nodes) || p->features > INT32_MAX ||
        p->nodes > INT32_MAX || p->leaves >= INT32_MAX)
        return "a size is out of range";
    if (p->missing != 0 && p->missing != 1)
        return "missing is neither 0 nor 1";
    if (p->leaves == 0 && (p->targets != 1 || p->entries != 0))
        return "several targets without leaves";
    const enum atc_dtype dtype = task->src[TREES_X].dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "the features are neither float nor double";
    const bool is_double = dtype == DTYPE_F64;
    const int64_t item = atc_item_bytes((int)dtype);
    const int64_t words = is_double ? 3 : 2;
    if (!atc_holds(task, task->src + TREES_X, dtype, atc_mul(p->rows, p->features), item) ||
        !atc_holds(task, task->dst, dtype, atc_mul(p->rows, p->targets), item) ||
        !atc_holds(task, task->src + TREES_NODES, DTYPE_I64, atc_mul(p->nodes, words), 8) ||
        !atc_holds(task, task->src + TREES_ROOTS, DTYPE_I32, p->trees, 4))
        return "an operand is too small or of a wrong type";
    if (p->leaves > 0 && (!atc_holds(task, task->src + TREES_STARTS, DTYPE_I32, p->leaves + 1, 4) ||
                          !atc_holds(task, task->src + TREES_TARGETS, DTYPE_I32, p->entries, 4) ||
                          !atc_holds(task, task->src + TREES_WEIGHTS, dtype, p->entries, item)))
        return "an operand is too small or of a wrong type";

    const void *nodes = atc_constant(task, TREES_NODES), *roots = atc_constant(task, TREES_ROOTS);
    if (nodes == NULL || roots == NULL)
        return "the trees are not constant";
    if (!nodes_ok(p, nodes, is_double) || !indices_ok(roots, p->trees, p->nodes))
        return "a node names a feature, node or leaf that does not exist";
    if (p->leaves == 0)
        return NULL;
    const void *starts = atc_constant(task, TREES_STARTS);
    const void *targets = atc_constant(task, TREES_TARGETS);
    if (starts == NULL || targets == NULL)
        return "the leaves are not constant";
    if (!starts_ok(p, starts) || !indices_ok(targets, p->entries, p->targets))
        return "a leaf names an entry or target that does not exist";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct trees_params *p = params;
    const int64_t tree = atc_add(atc_add(p->depth, p->max_entries), STEPS);
    const int64_t row = atc_add(atc_mul(p->trees, tree), atc_mul(2, p->targets));
    return (struct kernel_cost){.items = ceil_div(p->rows, ROWS_EACH),
                                .work = atc_mul(p->rows, row)};
}

DEFINE_FAMILY(trees, TREES_FIELDS, .check = check, .cost = cost, .reads_constants = true);

/* --- the kernels ---------------------------------------------------------------------------- */

#define T      float
#define NODE   struct node_f32
#define OF(name) name##_f32
#include "ml/trees_rows.h"
#undef T
#undef NODE
#undef OF
#define T      double
#define NODE   struct node_f64
#define OF(name) name##_f64
#include "ml/trees_rows.h"
#undef T
#undef NODE
#undef OF

void trees_f32_scalar(const struct kernel_args *args)
{
    run_f32(args);
}

void trees_f64_scalar(const struct kernel_args *args)
{
    run_f64(args);
}

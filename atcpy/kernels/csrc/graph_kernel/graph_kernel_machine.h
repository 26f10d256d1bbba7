/* The machine of graph_kernel: where the values of a program lie in a tile, and the steps that each
 * tile goes through.
 *
 * A tile is a run of one row, or several whole rows where they are short. A source is read where it
 * lies; only where its elements repeat within a tile of several rows are they laid out first. A
 * value that is the same all over the tile is one element, one that is the same along each row a
 * column. A result is written where it belongs by the step that makes it, unless a later one still
 * reads what lies there.
 *
 * A chain makes a few elements of all its values before it goes on: what it writes may only lie
 * where it reads the same elements or none. So one element lies in no buffer, which a value that is
 * computed next could take over, but in a cell that is its own for good.
 */
#ifndef ATC_GRAPH_KERNEL_MACHINE_H
#define ATC_GRAPH_KERNEL_MACHINE_H

#include "graph_kernel/graph_kernel_rows.h"

enum {
    MAX_VALUES = GK_SOURCES + GK_CODE,
    /* As many as any program can ask for. A source is widened by a step, an instruction takes two
     * if it is a Cast through 16 bits, a result two, and each value may be spread once. Buffers: of
     * a value and of what it is spread to, of a source that is laid out, of the Cast at work, and
     * of a result that is cast and then spread. Cells: an instruction's immediate, and values of
     * one element.
     */
    MAX_STEPS = GK_SOURCES + 2 * GK_CODE + 2 * GK_TARGETS + MAX_VALUES,
    MAX_BUFFERS = 2 * MAX_VALUES + GK_SOURCES + 1 + GK_TARGETS,
    MAX_CELLS = GK_CODE + MAX_VALUES,
    /* Locations: what the steps of a tile read and write. */
    LOCATION_SRC = 0,
    LOCATION_DST = LOCATION_SRC + GK_SOURCES,
    LOCATION_CELL = LOCATION_DST + GK_TARGETS,
    LOCATION_BUFFER = LOCATION_CELL + MAX_CELLS,
    LOCATIONS = LOCATION_BUFFER + MAX_BUFFERS,
    NOWHERE = -1,
};

/* How many elements of a tile there are of a value. */
enum extent {
    ONE,    /* the same all over the tile */
    COLUMN, /* one a row, in tiles of several rows */
    ALL,
};

enum how {
    BY_ROW,    /* the family's row */
    BY_BINARY, /* routines below rows */
    BY_WHERE,
    BY_REDUCE, /* by a row, too */
    BY_COPY,
    BY_SPREAD, /* along rows, or all over the tile */
    BY_CHAIN,
};

struct step {
    enum how how;
    int n_src, src[3], dst; /* locations */
    enum binary_op op;
    int64_t item;
    int64_t moves[3];
    enum extent extent; /* of what it writes; of a reduction, of what it reads */
    kernel_fn fn;       /* by its family's row, and where in params the elements are counted */
    int64_t *n;
    const struct gk_link *link; /* by a chain */
    int n_links;
    int link_op; /* what it would be in a chain; below 0: nothing */
    union gk_params params;
};

/* How the domain is cut. */
struct shape {
    int64_t rows, cols;
    int64_t parts, part;  /* of a row */
    int64_t rows_each;    /* of a tile; 1 where a row has parts */
    int64_t max_elements; /* of a tile */
    bool is_block;        /* tiles may have several rows */
};

/* A value of the program: a source, or what an instruction writes. */
struct value {
    int type, location;
    int spread;   /* where a column is laid out along the rows, or NOWHERE */
    int64_t last; /* the word of the instruction that reads it last; its own where none does */
    enum extent extent;
    bool is_kept; /* its buffer is not for other values */
    int target;   /* the destination that it is written to, or NOWHERE */
};

struct source {
    int64_t stride[GK_DIMS];
    int64_t item;
    bool is_filled; /* laid out in a tile's buffer, at location `filled`, rows of `cols` elements */
    int64_t cols;
    bool is_fixed; /* the same for every tile: once */
    int filled;
};

/* An operand whose tiles follow one another in memory. */
struct stream {
    int location;
    int64_t item;
    uintptr_t next; /* what to fetch next */
    int64_t lines;  /* after each step */
};

struct machine {
    const struct graph_kernel_params *p;
    const struct gk_routines *routines; /* NULL: only the scratch is asked for */
    const struct kernel_args *args;
    struct shape shape;
    struct source source[GK_SOURCES];
    struct value value[MAX_VALUES];
    struct stream stream[GK_SOURCES + GK_TARGETS];
    int n_streams;
    int n_values, n_steps, n_cells;
    int n_buffers;
    int free[MAX_BUFFERS], n_free;
    int64_t buffer_bytes;
    int64_t tile_rows; /* of the tile at work */
    uint64_t cell[MAX_CELLS];
    uint8_t *at[LOCATIONS];
    struct step step[MAX_STEPS];
    int order[MAX_STEPS], n_order;
    int n_links;
    struct gk_link link[2 * MAX_STEPS];
};

struct shape gk_shape_of(const struct graph_kernel_params *p);

/* Builds the machine for a program; `routines` and `args` are set. */
void gk_build(struct machine *m, const struct graph_kernel_params *p);

/* Finds what each instruction writes, where it is read last, and which value each result is. */
void gk_name_values(struct machine *m, int *results);

/* The number of one more of `max` things, of which `used` are taken. */
int gk_take(int *used, int max);

int gk_take_buffer(struct machine *m);
int gk_take_location(struct machine *m,
                     enum extent extent);         /* a buffer, or a cell for one element */
void gk_release(struct machine *m, int location); /* if it is a buffer */

/* The location of a new constant, an immediate. */
int gk_constant(struct machine *m, int type, int32_t immediate);

/* Gives back the buffers of values that word `at` is the last to read: all, or those that lie as
 * `only_like` does.
 */
void gk_end_values(struct machine *m, const struct gk_call *call, const int *value_of, int64_t at,
                   const struct value *only_like);

/* Finds where the result of the instruction at word `at` goes. */
void gk_place_result(struct machine *m, const struct gk_call *call, struct value *v,
                     const int *results, int64_t at);

/* What destination d takes of a tile. */
enum extent gk_extent_of(const struct machine *m, int d);

/* Puts steps that follow one another into chains, and all into the order in which they run. */
void gk_make_chains(struct machine *m);

#endif

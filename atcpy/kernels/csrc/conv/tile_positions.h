/* Positions of the tiles of results by which Winograd's algorithms compute, numbered through rows
 * and pictures.
 */
#ifndef ATC_TILE_POSITIONS_H
#define ATC_TILE_POSITIONS_H

#include "core/checked.h"

/* Tiles of a picture. */
struct tile_grid {
    int64_t rows, columns;
};

struct tile_position {
    int64_t n, row, column; /* in tiles */
};

static inline struct tile_position tile_position_of(const struct tile_grid *grid, int64_t tile)
{
    const int64_t row = tile / grid->columns;
    return (struct tile_position){row / grid->rows, row % grid->rows, tile % grid->columns};
}

static inline void next_tile(const struct tile_grid *grid, struct tile_position *at)
{
    if (++at->column < grid->columns)
        return;
    at->column = 0;
    if (++at->row < grid->rows)
        return;
    at->row = 0;
    at->n++;
}

/* Which of the `count` positions from `first` on lie in [0, size): those in [*begin, *end). */
static inline void find_inside(int64_t first, int64_t count, int64_t size, int64_t *begin,
                               int64_t *end)
{
    *begin = first < 0 ? min_i64(-first, count) : 0;
    const int64_t last = size - first;
    *end = last < *begin ? *begin : min_i64(last, count);
}

#endif

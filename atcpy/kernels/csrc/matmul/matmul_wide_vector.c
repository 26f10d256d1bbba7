/* matmul of doubles and of integers on vectors: tiles of some rows by two vectors of columns, whose
 * elements of b follow each other in the scratch. Integers wrap around.
 */
#include "core/pieces.h"
#include "matmul/matmul.h"
#include "simd/vector.h"

enum {
    VECTOR_BYTES = 4 * VF,
    VECTORS = 2,                       /* of a tile's columns */
    ROWS = VF_REGISTERS == 32 ? 8 : 6, /* as many as there are registers for */
    ROWS_OF_POINTER = 3,               /* those that an address with a scaled index reaches */
    POINTERS = (ROWS + ROWS_OF_POINTER - 1) / ROWS_OF_POINTER,
    SUMS_AT_ONCE = 256,  /* of one row */
    FEW_ROWS = 2 * ROWS, /* of which each element of b is read where it lies */
};

#define MULTIPLY_ADD(a, b, c) ((c) + (a) * (b))
#define SCALE_DOUBLES              y *= p->scale;
#define SCALE_NONE
#define BIAS_SCALE_DOUBLES p->bias_scale
#define BIAS_SCALE_NONE    1

/* `multiply_add` takes a number, a vector and a vector. */
#define DEFINE(T, name, multiply_add, SCALE, bias_scale)                                           \
    typedef T T##_lanes __attribute__((vector_size(VECTOR_BYTES)));                                \
    enum { T##_LANES = VECTOR_BYTES / sizeof(T), T##_COLUMNS = VECTORS * T##_LANES };              \
                                                                                                   \
    /* Some rows by up to two vectors of columns, over a run of k. */                              \
    struct T##_tile {                                                                              \
        const struct matmul_params *p;                                                             \
        const T *a, *b, *residual, *bias;                                                          \
        T *y;                                                                                      \
        int64_t b_row, k, columns;                                                                 \
        bool first, last;                                                                          \
    };                                                                                             \
                                                                                                   \
    /* The tile of all rows of an item, from its column j on. */                                   \
    static struct T##_tile T##_tile_of(const struct kernel_args *args,                             \
                                       const struct matmul_item *it, int64_t j)                    \
    {                                                                                              \
        const struct matmul_params *p = args->params;                                              \
        const T *residual = args->src[MATMUL_RESIDUAL], *bias = args->src[MATMUL_BIAS];            \
        const int64_t column = it->column + j, y = it->y + it->row * p->y_row + column;            \
        return (struct T##_tile){                                                                  \
            .p = p,                                                                                \
            .a = (const T *)args->src[MATMUL_A] + it->a + it->row * p->a_row,                      \
            .b = (const T *)args->src[MATMUL_B] + it->b + column * p->b_col,                       \
            .residual = residual != NULL ? residual + y : NULL,                                    \
            .bias = bias != NULL ? bias + it->row * p->bias_row + column * p->bias_col : NULL,     \
            .y = (T *)args->dst[0] + y,                                                            \
            .b_row = p->b_row,                                                                     \
            .columns = min_i64(it->columns - j, T##_COLUMNS),                                      \
        };                                                                                         \
    }                                                                                              \
                                                                                                   \
    /* Ends of rows go element by element, in functions that are not inlined: tiles have many. */  \
    static __attribute__((noinline)) T##_lanes T##_load_few(const T *at, int64_t n)                \
    {                                                                                              \
        T some[T##_LANES] = {0};                                                                   \
        T##_lanes x;                                                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            some[i] = at[i];                                                                       \
        memcpy(&x, some, sizeof x);                                                                \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    static __attribute__((noinline)) void T##_store_few(T *to, T##_lanes x, int64_t n)             \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = x[i];                                                                          \
    }                                                                                              \
                                                                                                   \
    /* The first n of a vector's elements, 0 beyond; none, where n is not above 0. */              \
    static inline __attribute__((always_inline)) T##_lanes T##_load(const T *at, int64_t n)        \
    {                                                                                              \
        T##_lanes x;                                                                               \
        if (n < T##_LANES)                                                                         \
            return T##_load_few(at, n);                                                            \
        memcpy(&x, at, sizeof x);                                                                  \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    static inline __attribute__((always_inline)) void T##_store(T *to, T##_lanes x, int64_t n)     \
    {                                                                                              \
        if (n < T##_LANES)                                                                         \
            T##_store_few(to, x, n);                                                               \
        else                                                                                       \
            memcpy(to, &x, sizeof x);                                                              \
    }                                                                                              \
                                                                                                   \
    /* No array of vectors has its address taken: they stay in registers. */                       \
    static inline __attribute__((always_inline)) void T##_multiply(const struct T##_tile *t,       \
                                                                   int rows)                       \
    {                                                                                              \
        const struct matmul_params *p = t->p;                                                      \
        const int64_t a_row = p->a_row, a_col = p->a_col, b_row = t->b_row;                        \
        const T *a[POINTERS], *b = t->b, *before = t->first ? t->residual : t->y;                  \
        T##_lanes acc[ROWS][VECTORS];                                                              \
        _Pragma("GCC unroll 3") for (int i = 0; i < POINTERS; i++)                                 \
            a[i] = t->a + (i * ROWS_OF_POINTER < rows ? i * ROWS_OF_POINTER : 0) * a_row;          \
        _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)                                     \
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)                              \
                acc[i][v] = before == NULL ? (T##_lanes){0}                                        \
                                           : T##_load(before + i * p->y_row + v * T##_LANES,       \
                                                      t->columns - v * T##_LANES);                 \
        for (int64_t k = 0; k < t->k; k++, b += b_row) {                                           \
            const T##_lanes low = T##_load(b, T##_LANES);                                          \
            const T##_lanes high = T##_load(b + T##_LANES, T##_LANES);                             \
            _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)                                 \
            {                                                                                      \
                const T x = a[i / ROWS_OF_POINTER][i % ROWS_OF_POINTER * a_row];                   \
                acc[i][0] = multiply_add(x, low, acc[i][0]);                                       \
                acc[i][1] = multiply_add(x, high, acc[i][1]);                                      \
            }                                                                                      \
            _Pragma("GCC unroll 3") for (int i = 0; i < POINTERS; i++) a[i] += a_col;              \
        }                                                                                          \
        _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)                                     \
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)                              \
        {                                                                                          \
            T##_lanes y = acc[i][v];                                                               \
            if (t->last) {                                                                         \
                const int64_t left = t->columns - v * T##_LANES;                                   \
                const T *bias = t->bias + (t->bias != NULL ? i * p->bias_row : 0);                 \
                SCALE                                                                              \
                if (bias != NULL && p->bias_col == 0)                                              \
                    y += *bias * (T)bias_scale;                                                    \
                else if (bias != NULL)                                                             \
                    y += T##_load(bias + v * T##_LANES, left) * (T)bias_scale;                     \
            }                                                                                      \
            T##_store(t->y + i * p->y_row + v * T##_LANES, y, t->columns - v * T##_LANES);         \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void T##_rows(struct T##_tile t, int64_t rows)                                          \
    {                                                                                              \
        const struct matmul_params *p = t.p;                                                       \
        while (rows > 0) {                                                                         \
            const int64_t some = rows >= ROWS ? ROWS : rows >= 4 ? 4 : 1;                          \
            if (some == ROWS)                                                                      \
                T##_multiply(&t, ROWS);                                                            \
            else if (some == 4)                                                                    \
                T##_multiply(&t, 4);                                                               \
            else                                                                                   \
                T##_multiply(&t, 1);                                                               \
            rows -= some;                                                                          \
            t.a += some * p->a_row;                                                                \
            t.y += some * p->y_row;                                                                \
            if (t.residual != NULL)                                                                \
                t.residual += some * p->y_row;                                                     \
            if (t.bias != NULL)                                                                    \
                t.bias += some * p->bias_row;                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void T##_pack(const struct matmul_params *p, const T *b, int64_t k, int64_t columns,    \
                         T *to)                                                                    \
    {                                                                                              \
        const int64_t b_row = p->b_row, b_col = p->b_col;                                          \
        if (b_col == 1 && columns == T##_COLUMNS) {                                                \
            for (int64_t i = 0; i < k; i++)                                                        \
                memcpy(to + i * T##_COLUMNS, b + i * b_row, VECTORS * VECTOR_BYTES);               \
            return;                                                                                \
        }                                                                                          \
        for (int64_t j = 0; j < T##_COLUMNS; j++)                                                  \
            for (int64_t i = 0; i < k; i++)                                                        \
                to[i * T##_COLUMNS + j] = j < columns ? b[i * b_row + j * b_col] : 0;              \
    }                                                                                              \
                                                                                                   \
    /* Σ a[k · a_col] · b[k]; in as many sums as two vectors have lanes, where a is one run. */    \
    static T T##_dot(const struct kernel_args *args, const T *a, const T *b)                       \
    {                                                                                              \
        const struct matmul_params *p = args->params;                                              \
        T##_lanes acc[VECTORS] = {{0}};                                                            \
        T sum = 0;                                                                                 \
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->k);) {                  \
            int64_t k = piece.begin;                                                               \
            for (; p->a_col == 1 && k + T##_COLUMNS <= piece.end; k += T##_COLUMNS)                \
                _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)                          \
                    acc[v] += T##_load(a + k + v * T##_LANES, T##_LANES) *                         \
                              T##_load(b + k + v * T##_LANES, T##_LANES);                          \
            for (; k < piece.end; k++)                                                             \
                sum += a[k * p->a_col] * b[k];                                                     \
        }                                                                                          \
        acc[0] += acc[1];                                                                          \
        for (int i = 0; i < (int)T##_LANES; i++)                                                   \
            sum += acc[0][i];                                                                      \
        return sum;                                                                                \
    }                                                                                              \
                                                                                                   \
    /* sums[c] += Σ a[k · a_col] · b[k · b_row + c] */                                             \
    static void T##_add_rows(struct atc_meter *meter, const T *a, const T *b, int64_t columns,     \
                             T *sums)                                                              \
    {                                                                                              \
        const struct matmul_params *p = meter->args->params;                                       \
        const int64_t a_col = p->a_col, b_row = p->b_row;                                          \
        int64_t k = 0;                                                                             \
        for (; k + 4 <= p->k && !atc_spend(meter, columns); k += 4, a += 4 * a_col, b += 4 * b_row)\
            for (int64_t c = 0; c < columns; c++)                                                  \
                sums[c] += a[0] * b[c] + a[a_col] * b[b_row + c] +                                 \
                           a[2 * a_col] * b[2 * b_row + c] + a[3 * a_col] * b[3 * b_row + c];      \
        for (; k < p->k && !atc_spend(meter, columns); k++, a += a_col, b += b_row)                \
            for (int64_t c = 0; c < columns; c++)                                                  \
                sums[c] += a[0] * b[c];                                                            \
    }                                                                                              \
                                                                                                   \
    /* One row by columns of b, where they lie; tiles with one step of k finish the sums. */       \
    static void T##_one_row(struct atc_meter *meter, const struct matmul_item *it)                 \
    {                                                                                              \
        const struct matmul_params *p = meter->args->params;                                       \
        const T one = 1;                                                                           \
        for (int64_t j = 0; j < it->columns; j += SUMS_AT_ONCE) {                                  \
            const int64_t columns = min_i64(SUMS_AT_ONCE, it->columns - j);                        \
            struct T##_tile t = T##_tile_of(meter->args, it, j);                                   \
            const T *a = t.a, *b = t.b;                                                            \
            T sums[SUMS_AT_ONCE];                                                                  \
            memset(sums, 0, (size_t)(ceil_div(columns, T##_COLUMNS) * T##_COLUMNS) * sizeof *sums);\
            if (matmul_adds_rows(p))                                                               \
                T##_add_rows(meter, a, b, columns, sums);                                          \
            for (int64_t c = 0; matmul_takes_dots(p) && c < columns; c++) {                        \
                if (atc_spend(meter, p->k + 1))                                                    \
                    return;                                                                        \
                sums[c] = T##_dot(meter->args, a, b + c * p->b_col);                               \
            }                                                                                      \
            for (int64_t c = 0; c < columns && !atc_spend(meter, 1); c += T##_COLUMNS) {           \
                t = T##_tile_of(meter->args, it, j + c);                                           \
                t.a = &one, t.b = sums + c, t.b_row = 0, t.k = 1;                                  \
                t.first = t.last = true;                                                           \
                T##_multiply(&t, 1);                                                               \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void T##_item(struct atc_meter *meter, const struct matmul_item *it)                    \
    {                                                                                              \
        const struct kernel_args *args = meter->args;                                              \
        const struct matmul_params *p = args->params;                                              \
        const int64_t depth = matmul_depth(p, args->cpu);                                          \
        T *panel = args->scratch;                                                                  \
        int64_t k0 = 0;                                                                            \
        do {                                                                                       \
            const int64_t k = min_i64(depth, p->k - k0);                                           \
            for (int64_t j = 0; j < it->columns; j += T##_COLUMNS) {                               \
                struct T##_tile t = T##_tile_of(args, it, j);                                      \
                if (atc_spend(meter, it->rows * (k + 1)))                                          \
                    return;                                                                        \
                t.a += k0 * p->a_col;                                                              \
                t.b += k0 * p->b_row;                                                              \
                t.k = k;                                                                           \
                t.first = k0 == 0;                                                                 \
                t.last = k0 + k >= p->k;                                                           \
                if (it->rows > FEW_ROWS || p->b_col != 1 || t.columns < T##_COLUMNS) {             \
                    T##_pack(p, t.b, k, t.columns, panel);                                         \
                    t.b = panel;                                                                   \
                    t.b_row = T##_COLUMNS;                                                         \
                }                                                                                  \
                T##_rows(t, it->rows);                                                             \
            }                                                                                      \
            k0 += k;                                                                               \
        } while (k0 < p->k);                                                                       \
    }                                                                                              \
                                                                                                   \
    void FOR_ISA(name)(const struct kernel_args *args)                                             \
    {                                                                                              \
        struct atc_meter meter = {.args = args};                                                   \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const struct matmul_item it = matmul_find_item(args->params, args->cpu, item);         \
            if (matmul_takes_dots(args->params) || matmul_adds_rows(args->params))                 \
                T##_one_row(&meter, &it);                                                          \
            else                                                                                   \
                T##_item(&meter, &it);                                                             \
        }                                                                                          \
    }

DEFINE(double, matmul_f64, vd_half_fma, SCALE_DOUBLES, BIAS_SCALE_DOUBLES)
DEFINE(uint32_t, matmul_i32, MULTIPLY_ADD, SCALE_NONE, BIAS_SCALE_NONE)
DEFINE(uint64_t, matmul_i64, MULTIPLY_ADD, SCALE_NONE, BIAS_SCALE_NONE)

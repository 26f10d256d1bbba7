#include "roofline/roofline.h"

#include "core/clock.h"
#include "core/cpu.h"
#include "core/pool.h"

#include <stdlib.h>
#include <string.h>

/* How long a round takes at least, and of how many the best counts. */
enum { ROUND_NS = 1000000, ROUNDS = 10 };

/* A loop that each thread runs: `steps` of arithmetic, or `steps` times its part of a buffer. */
struct round {
    const struct roofline_products *products; /* NULL: reads */
    const struct roofline_isa *isa;
    const float *buffer;
    int64_t floats; /* of a part */
    int64_t steps;
};

static const struct roofline_isa *isa_in_use(void)
{
    switch (atc_this_cpu()->isa) {
#ifdef ATC_AVX512
    case ISA_AMX:
    case ISA_AVX512BF16:
    case ISA_AVX512VNNI:
    case ISA_AVX512F:
        return &roofline_avx512f;
#endif
#ifdef ATC_X86
    case ISA_AVXVNNI:
    case ISA_AVX2:
        return &roofline_avx2;
    case ISA_SSE2:
        return &roofline_sse2;
#endif
#ifdef ATC_ARM64
    case ISA_NEONDOT:
    case ISA_NEON:
        return &roofline_neon;
#endif
    default:
        return &roofline_scalar;
    }
}

static void run_parts(void *context, struct atc_share *share)
{
    const struct round *round = context;
    volatile float sink = 0; /* or a compiler could leave the loops out */
    for (int64_t part = share->begin; part < share->end; part++) {
        if (round->products != NULL)
            sink = sink + round->products->multiply_add(round->steps);
        else
            for (int64_t step = 0; step < round->steps; step++)
                sink = sink + round->isa->read(round->buffer + part * round->floats, round->floats);
    }
}

static int64_t elapsed_ns(const struct round *round, int threads)
{
    const int64_t start = atc_now_ns();
    atc_parallel(atc_all_workers(), threads, threads, run_parts, NULL, (void *)(uintptr_t)round);
    return atc_now_ns() - start;
}

/* Steps a second of all threads together: of the best of some rounds. */
static double steps_per_second(struct round *round, int threads)
{
    int64_t best = elapsed_ns(round, threads);
    for (; best < ROUND_NS; best = elapsed_ns(round, threads))
        round->steps *= 2;
    for (int i = 1; i < ROUNDS; i++) {
        const int64_t elapsed = elapsed_ns(round, threads);
        best = elapsed < best ? elapsed : best;
    }
    return (double)round->steps * threads * 1e9 / (double)best;
}

const char *const atc_product_types[PRODUCT_TYPES] = {
    [PRODUCT_FLOAT32] = "float32", [PRODUCT_BFLOAT16] = "bfloat16", [PRODUCT_INT8] = "int8"};

/* NULL: not measured, as those of AMX are not: the peaks of vectors would be too low for tiles. */
static const struct roofline_products *products_in_use(enum product_type type)
{
    if (type == PRODUCT_FLOAT32)
        return &isa_in_use()->float32;
#ifdef ATC_AVX512
    const enum atc_isa isa = atc_this_cpu()->isa;
    if (type == PRODUCT_BFLOAT16 && isa == ISA_AVX512BF16)
        return &roofline_pairs_avx512bf16;
    if (type == PRODUCT_INT8 && (isa == ISA_AVX512BF16 || isa == ISA_AVX512VNNI))
        return &roofline_bytes_avx512vnni;
#endif
    return NULL;
}

double atc_peak_operations(int threads, enum product_type type)
{
    struct round round = {.products = products_in_use(type), .steps = 1024};
    if (round.products == NULL)
        return 0;
    return steps_per_second(&round, threads) * (double)round.products->operations;
}

double atc_peak_bandwidth(int threads, int64_t bytes)
{
    const int64_t part = bytes / threads / (ROOFLINE_READ * (int64_t)sizeof(float));
    struct round round = {
        .isa = isa_in_use(), .floats = (part > 0 ? part : 1) * ROOFLINE_READ, .steps = 1};
    const size_t part_bytes = (size_t)round.floats * sizeof(float);
    float *buffer = aligned_alloc(64, part_bytes * (size_t)threads);
    if (buffer == NULL)
        return -1;
    memset(buffer, 0, part_bytes * (size_t)threads); /* else all pages would be the one of zeros */
    round.buffer = buffer;
    const double steps = steps_per_second(&round, threads);
    free(buffer);
    return steps * (double)part_bytes;
}

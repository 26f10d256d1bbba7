#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { EDGES = 1 << 16 };

static uint8_t hit[EDGES];
static bool is_new;
int64_t fuzz_edges;

void __sanitizer_cov_trace_pc(void);

__attribute__((no_sanitize_coverage, no_sanitize("address", "undefined"))) void
__sanitizer_cov_trace_pc(void)
{
    static uintptr_t before;
    const uintptr_t here = (uintptr_t)__builtin_return_address(0);
    const uintptr_t edge = ((here >> 2) ^ (before << 1) ^ (here >> 17)) % EDGES;
    before = here >> 2;
    if (!hit[edge]) {
        hit[edge] = 1;
        fuzz_edges++;
        is_new = true;
    }
}

bool fuzz_found_edges(void)
{
    const bool found = is_new;
    is_new = false;
    return found;
}

static uint64_t state = 1;

void fuzz_seed(uint64_t seed)
{
    state = seed * 2 + 1;
}

uint64_t fuzz_any(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

struct fuzz_launch *fuzz_read(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(2);
    }
    const long size = ftell(file);
    rewind(file);
    *count = size > 0 ? (size_t)size / sizeof(struct fuzz_launch) : 0;
    struct fuzz_launch *launches = calloc(*count + 1, sizeof *launches);
    if (launches == NULL || fread(launches, sizeof *launches, *count, file) != *count)
        exit(2);
    fclose(file);
    return launches;
}

void fuzz_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(2);
    }
}

/* As DType.short of atcpy/ir/dtype.py. */
static const char *const dtype_names[] = {
    "?",          "f32",    "u8",         "i8",  "u16", "i16",    "i32",    "i64",  "str",
    "bool",       "f16",    "f64",        "u32", "u64", "c64",    "c128",   "bf16", "f8e4m3fn",
    "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "u4",  "i4",  "f4e2m1", "f8e8m0", "u2",   "i2"};

static void describe_slot(FILE *to, const struct fuzz_launch *launch, int number)
{
    const struct atc_slot *slot = launch->task.slots + number;
    if (slot->region == REGION_NONE) {
        fputs(" -", to);
        return;
    }
    if (slot->dtype < sizeof dtype_names / sizeof dtype_names[0])
        fprintf(to, " %s", dtype_names[slot->dtype]);
    else
        fprintf(to, " %d", slot->dtype);
    fprintf(to, ":%llu", (unsigned long long)slot->bytes);
    if (slot->region == REGION_WEIGHTS)
        fprintf(to, "@%llu", (unsigned long long)slot->offset);
    for (int i = 0; i < number && number == launch->task.n_src; i++)
        if (slot->region == REGION_ARENA && atc_same_memory(slot, launch->task.slots + i)) {
            fprintf(to, "=%d", i);
            break;
        }
}

static void describe_field(FILE *to, const struct param_field *field, const uint8_t *at)
{
    int64_t values[ATC_PARAM_BYTES / 8];
    int used = field->count;
    memcpy(values, at, (size_t)field->count * 8);
    while (used > 0 && values[used - 1] == 0)
        used--;
    if (used == 0)
        return;
    fprintf(to, " %s=", field->name);
    int choices = 0;
    while (field->choices != NULL && field->choices[choices] != NULL)
        choices++;
    for (int i = 0; i < used; i++) {
        double real;
        memcpy(&real, at + 8 * i, sizeof real);
        if (i > 0)
            fputc(',', to);
        if (field->is_float)
            fprintf(to, "%.17g", real);
        else if (values[i] >= 0 && values[i] < choices)
            fputs(field->choices[values[i]], to);
        else
            fprintf(to, "%lld", (long long)values[i]);
    }
}

void fuzz_describe(FILE *to, const struct fuzz_launch *launch, const struct kernel_family *family)
{
    const struct atc_task *task = &launch->task;
    fprintf(to, "%s src", family->name);
    for (int i = 0; i < task->n_src; i++)
        describe_slot(to, launch, i);
    fputs(" dst", to);
    for (int i = task->n_src; i < task->n_src + task->n_dst; i++)
        describe_slot(to, launch, i);
    const uint8_t *at = task->params;
    for (const struct param_field *field = family->fields; field->name; field++) {
        describe_field(to, field, at);
        at += (size_t)field->count * 8;
    }
    size_t used = FUZZ_CONSTANTS;
    while (used > 0 && launch->constants[used - 1] == 0)
        used--;
    if (used > 0)
        fputs(" constants=", to);
    for (size_t i = 0; i < used; i++)
        fprintf(to, "%02x", launch->constants[i]);
    fputc('\n', to);
}

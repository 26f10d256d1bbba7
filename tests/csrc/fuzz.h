/* What the fuzz targets share: random numbers, coverage, and seeds of kernel launches. */
#ifndef ATC_FUZZ_H
#define ATC_FUZZ_H

#include "core/kernel.h"

#include <stdio.h>

/* A number below `below`, from a fixed sequence that the seed begins. */
uint64_t fuzz_any(uint64_t below);
void fuzz_seed(uint64_t seed);

/* Edges that code compiled with -fsanitize-coverage=trace-pc has reached. */
extern int64_t fuzz_edges;
/* Whether there are new ones since the last call. */
bool fuzz_found_edges(void);

enum { FUZZ_CONSTANTS = 1024 };

/* A kernel launch: its record and the constants that operands in REGION_WEIGHTS lie in. */
struct fuzz_launch {
    struct atc_task task;
    uint8_t constants[FUZZ_CONSTANTS];
};

/* The launches in a file that seed_records.py wrote; ends the program if it cannot be read. */
struct fuzz_launch *fuzz_read(const char *path, size_t *count);
void fuzz_write(const char *path, const void *bytes, size_t size);

/* The launch in a line of text, which seed_records.py reads. */
void fuzz_describe(FILE *to, const struct fuzz_launch *launch, const struct kernel_family *family);

#endif

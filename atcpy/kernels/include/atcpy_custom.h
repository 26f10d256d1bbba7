/* A custom operator in C: what a user's shared library exports, and what it is handed.
 *
 *     #include "atcpy_custom.h"
 *
 *     const int32_t atcpy_custom_abi = ATCPY_CUSTOM_ABI;
 *
 *     int fused_add_relu(const atcpy_call *call)
 *     {
 *         const float *x = call->inputs[0].data;
 *         ...
 *         return 0;
 *     }
 *
 *     cc -O2 -shared -fPIC -I "$INCLUDE" -o fused.so fused.c     (INCLUDE: atcpy.include_dir())
 *
 * A kernel may be called from several threads at a time; it keeps no state that calls share. It is
 * called without Python's lock and must not call Python. It reads its inputs and writes nothing but
 * its outputs; output 0 may be the very memory of an input that the operator declares `inplace`. A
 * library runs in the process with all of its rights, and nothing guards it.
 */
#ifndef ATCPY_CUSTOM_H
#define ATCPY_CUSTOM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of what this file declares. A library exports `atcpy_custom_abi` with the version
 * that it was compiled for; another one is refused when it is loaded. */
#define ATCPY_CUSTOM_ABI 1

/* Row-major, without gaps, aligned to its elements. */
typedef struct atcpy_tensor {
    void *data;           /* NULL where an optional input is left out */
    const int64_t *shape; /* `rank` sizes */
    int64_t bytes;
    int32_t rank;
    int32_t dtype; /* ONNX's number: 1 float, 6 int32, 7 int64, 9 bool, 10 float16, 11 double … */
} atcpy_tensor;

enum atcpy_attr_kind { ATCPY_INTS = 1, ATCPY_FLOATS = 2, ATCPY_TEXT = 3 };

/* One number is a list of one. */
typedef struct atcpy_attr {
    const char *name;
    const int64_t *ints;  /* ATCPY_INTS */
    const double *floats; /* ATCPY_FLOATS */
    const char *text;     /* ATCPY_TEXT, UTF-8, ended by zero */
    int32_t count;        /* of ints or floats, or bytes of the text */
    int32_t kind;
} atcpy_attr;

typedef struct atcpy_call {
    int32_t abi;
    int32_t n_inputs;
    int32_t n_outputs;
    int32_t n_attrs;
    const atcpy_tensor *inputs; /* as many as the node has, and outputs, too */
    atcpy_tensor *outputs;      /* of the types that `infer` gave; overwrite every element */
    const atcpy_attr *attrs;
    char *message; /* why it failed, ended by zero, for the user */
    int64_t message_bytes;
} atcpy_call;

/* 0, or another number if it failed. */
typedef int (*atcpy_kernel)(const atcpy_call *call);

#ifdef __cplusplus
}
#endif

#endif

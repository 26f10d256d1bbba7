/* ClippedScale(x) = min(max(scale · x, −limit), limit), in C. */
#include "atcpy_custom.h"

#include <stdio.h>
#include <string.h>

const int32_t atcpy_custom_abi = ATCPY_CUSTOM_ABI;

static double number(const atcpy_call *call, const char *name, double otherwise)
{
    for (int32_t i = 0; i < call->n_attrs; i++)
        if (strcmp(call->attrs[i].name, name) == 0 && call->attrs[i].kind == ATCPY_FLOATS)
            return call->attrs[i].floats[0];
    return otherwise;
}

int clipped_scale(const atcpy_call *call)
{
    const float scale = (float)number(call, "scale", 1.0);
    const float limit = (float)number(call, "limit", 1.0);
    if (limit < 0) {
        snprintf(call->message, (size_t)call->message_bytes, "limit = %g is negative",
                 (double)limit);
        return 1;
    }
    const float *x = call->inputs[0].data;
    float *y = call->outputs[0].data;
    for (int64_t i = 0; i < call->outputs[0].bytes / 4; i++) {
        const float scaled = scale * x[i];
        y[i] = scaled < -limit ? -limit : scaled > limit ? limit : scaled;
    }
    return 0;
}

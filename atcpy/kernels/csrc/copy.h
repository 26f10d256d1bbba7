/* copy: dst = src, byte for byte. */
#ifndef ATC_COPY_H
#define ATC_COPY_H

#include "kernel.h"

#define COPY_FIELDS(I64, I64S, F64, ENUM) I64(bytes)
DECLARE_PARAMS(copy, COPY_FIELDS)

#endif

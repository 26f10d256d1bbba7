/* reverse_sequence: of each batch, the first so many steps in reverse, the others as they are.
 *
 *     x, y  [steps, batches, inner], or with batch_first [batches, steps, inner]
 *     lens  [batches], int64, in [0, steps]; any other is a fault
 */
#ifndef ATC_REVERSE_SEQUENCE_H
#define ATC_REVERSE_SEQUENCE_H

#include "core/kernel.h"

#define REVERSE_SEQUENCE_FIELDS(I64, I64S, F64, ENUM)                                              \
    I64(steps) I64(batches) I64(inner) I64(item) I64(batch_first)
DECLARE_PARAMS(reverse_sequence, REVERSE_SEQUENCE_FIELDS)

enum { REVERSE_SEQUENCE_X, REVERSE_SEQUENCE_LENS, REVERSE_SEQUENCE_OPERANDS };

#endif

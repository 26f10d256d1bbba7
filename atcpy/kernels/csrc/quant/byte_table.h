/* byte_table: y = table[x]: any function of a byte.
 *
 *     x      n bytes, signed or not
 *     table  256 bytes; that of x lies at the number that x's bits are, read as unsigned
 *     y      n bytes; may be x
 */
#ifndef ATC_BYTE_TABLE_H
#define ATC_BYTE_TABLE_H

#include "core/kernel.h"

#define BYTE_TABLE_FIELDS(I64, I64S, F64, ENUM) I64(n)
DECLARE_PARAMS(byte_table, BYTE_TABLE_FIELDS)

enum { BYTE_TABLE_CHUNK = 1 << 14 }; /* elements of a work item */

#endif

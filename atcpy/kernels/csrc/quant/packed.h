/* Integers of 4 and 2 bits, packed: the first element lies in its byte's lowest bits. */
#ifndef ATC_PACKED_H
#define ATC_PACKED_H

#include "core/kernel.h"

/* Elements that a kernel unpacks at once; whole bytes of every type. */
enum { PACKED_CHUNK = 1024 };

/* Bits of an element of an integer type of less than a byte, else 0. */
static inline int atc_packed_bits(enum atc_dtype dtype)
{
    switch (dtype) {
    case DTYPE_U4:
    case DTYPE_I4:
        return 4;
    case DTYPE_U2:
    case DTYPE_I2:
        return 2;
    default:
        return 0;
    }
}

/* Bytes that n elements take, of less than a byte each or not; ATC_TOO_BIG or so if too many. */
static inline int64_t atc_elements_bytes(enum atc_dtype dtype, int64_t n)
{
    const int bits = atc_packed_bits(dtype);
    if (bits == 0)
        return atc_mul(n, atc_item_bytes((int)dtype));
    const int per_byte = 8 / bits;
    return n >= ATC_TOO_BIG ? ATC_TOO_BIG : n / per_byte + (n % per_byte != 0);
}

static inline uint8_t unpacked_one(uint8_t byte, int64_t position, int bits, bool is_signed)
{
    const int sign = is_signed ? 1 << (bits - 1) : 0;
    const int field = byte >> (position * bits) & ((1 << bits) - 1);
    return (uint8_t)((field ^ sign) - sign);
}

/* Elements [at, at + n) of src, a byte each. */
static inline void unpack_elements(const uint8_t *src, int64_t at, int64_t n, int bits,
                                   bool is_signed, uint8_t *restrict dst)
{
    const int per_byte = 8 / bits;
    int64_t i = 0;
    for (; i < n && (at + i) % per_byte != 0; i++)
        dst[i] = unpacked_one(src[(at + i) / per_byte], (at + i) % per_byte, bits, is_signed);
    const uint8_t *bytes = src + (at + i) / per_byte;
    for (; i + per_byte <= n; i += per_byte, bytes++)
        for (int position = 0; position < per_byte; position++)
            dst[i + position] = unpacked_one(*bytes, position, bits, is_signed);
    for (int position = 0; i < n; i++, position++)
        dst[i] = unpacked_one(*bytes, position, bits, is_signed);
}

/* Bytes as elements [at, at + n) of dst, written in this order: the first in a byte clears it. */
static inline void pack_elements(const uint8_t *src, int64_t at, int64_t n, int bits,
                                 uint8_t *restrict dst)
{
    const int per_byte = 8 / bits, mask = (1 << bits) - 1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t position = (at + i) % per_byte;
        uint8_t *byte = dst + (at + i) / per_byte;
        *byte = (uint8_t)((position == 0 ? 0 : *byte) | (src[i] & mask) << (position * bits));
    }
}

#endif

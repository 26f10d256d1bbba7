/* transdata, plainly. */
#include "move/transdata.h"

#include <string.h>

/* Elements are moved by memcpy: a record may name an item size that is not its operands'. */
#define DEFINE_TRANSDATA(type)                                                                     \
    static void pack_##type(uint8_t *blocked, const uint8_t *plain,                                \
                            const struct transdata_piece *piece)                                   \
    {                                                                                              \
        const size_t item = sizeof(type);                                                          \
        for (int64_t i = 0; i < piece->pixels; i++, blocked += (size_t)piece->c0 * item) {         \
            for (int64_t c = 0; c < piece->channels; c++)                                          \
                memcpy(blocked + (size_t)c * item, plain + (size_t)(c * piece->hw + i) * item,     \
                       sizeof(type));                                                              \
            memset(blocked + (size_t)piece->channels * item, 0,                                    \
                   (size_t)(piece->c0 - piece->channels) * item);                                  \
        }                                                                                          \
    }                                                                                              \
    static void unpack_##type(uint8_t *plain, const uint8_t *blocked,                              \
                              const struct transdata_piece *piece)                                 \
    {                                                                                              \
        const size_t item = sizeof(type);                                                          \
        for (int64_t c = 0; c < piece->channels; c++)                                              \
            for (int64_t i = 0; i < piece->pixels; i++)                                            \
                memcpy(plain + (size_t)(c * piece->hw + i) * item,                                 \
                       blocked + (size_t)(i * piece->c0 + c) * item, sizeof(type));                \
    }
DEFINE_TRANSDATA(uint8_t)
DEFINE_TRANSDATA(uint16_t)
DEFINE_TRANSDATA(uint32_t)
DEFINE_TRANSDATA(uint64_t)

void transdata_any_scalar(const struct kernel_args *args)
{
    const struct transdata_params *p = args->params;
    switch (p->item) {
    case 1:
        transdata_drive(args, pack_uint8_t, unpack_uint8_t);
        break;
    case 2:
        transdata_drive(args, pack_uint16_t, unpack_uint16_t);
        break;
    case 4:
        transdata_drive(args, pack_uint32_t, unpack_uint32_t);
        break;
    default:
        transdata_drive(args, pack_uint64_t, unpack_uint64_t);
    }
}

/* Lists of macro calls: COUNT_TO_3(M, a) is M(a, 1) M(a, 2) M(a, 3). Micro-kernels are defined and
 * tabled for each size by them.
 */
#ifndef ATC_COUNT_UP_H
#define ATC_COUNT_UP_H

#define COUNT_TO_3(M, ...)  M(__VA_ARGS__, 1) M(__VA_ARGS__, 2) M(__VA_ARGS__, 3)
#define COUNT_TO_4(M, ...) COUNT_TO_3(M, __VA_ARGS__) M(__VA_ARGS__, 4)
#define COUNT_TO_6(M, ...) COUNT_TO_4(M, __VA_ARGS__) M(__VA_ARGS__, 5) M(__VA_ARGS__, 6)
#define COUNT_TO_8(M, ...) COUNT_TO_6(M, __VA_ARGS__) M(__VA_ARGS__, 7) M(__VA_ARGS__, 8)
#define COUNT_TO_12(M, ...)                                                                        \
    COUNT_TO_8(M, __VA_ARGS__)                                                                     \
    M(__VA_ARGS__, 9) M(__VA_ARGS__, 10) M(__VA_ARGS__, 11) M(__VA_ARGS__, 12)
#define COUNT_TO_14(M, ...) COUNT_TO_12(M, __VA_ARGS__) M(__VA_ARGS__, 13) M(__VA_ARGS__, 14)

#endif

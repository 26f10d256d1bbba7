#include "core/cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *const atc_isa_names[ISA_COUNT] = {
    [ISA_SCALAR] = "scalar",
#ifdef ATC_X86
    [ISA_SSE2] = "sse2",
    [ISA_AVX2] = "avx2",
    [ISA_AVXVNNI] = "avxvnni",
    [ISA_AVX512F] = "avx512f",
    [ISA_AVX512VNNI] = "avx512vnni",
    [ISA_AVX512BF16] = "avx512bf16",
    [ISA_AMX] = "amx",
#endif
#ifdef ATC_ARM64
    [ISA_NEON] = "neon",
    [ISA_NEONDOT] = "neondot",
#endif
};

int atc_isa_by_name(const char *name)
{
    for (int isa = ISA_SCALAR; isa < ISA_COUNT; isa++)
        if (strcmp(atc_isa_names[isa], name) == 0)
            return isa;
    return -1;
}

bool atc_isa_runs(enum atc_isa isa, enum atc_isa row)
{
#ifdef ATC_X86
    if (row == ISA_AVXVNNI)
        return isa == ISA_AVXVNNI;
#endif
    return row <= isa;
}

#ifdef ATC_X86
static bool has_avxvnni(void)
{
    return __builtin_cpu_supports("avxvnni");
}

static bool has_amx(void)
{
#ifdef ATC_AMX_EMULATED
    return true;
#else
    return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
           __builtin_cpu_supports("amx-int8");
#endif
}

/* Linux saves the data of tiles, 8 KiB a thread, only for processes that asked for it. Threads and
 * children inherit the permission. It is denied where an alternate signal stack is too small for
 * the registers, by kernels before 5.16, and in sandboxes.
 */
static bool may_use_tiles(void)
{
#ifdef ATC_AMX_EMULATED
    return true;
#else
    enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
#endif
}
#endif

static enum atc_isa detect_isa(void)
{
#ifdef ATC_X86
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return !__builtin_cpu_supports("avx512vnni")   ? ISA_AVX512F
               : !__builtin_cpu_supports("avx512bf16") ? ISA_AVX512VNNI
               : !has_amx()                            ? ISA_AVX512BF16
                                                       : ISA_AMX;
    if (avx2)
        return has_avxvnni() ? ISA_AVXVNNI : ISA_AVX2;
    return ISA_SSE2;
#elif defined ATC_ARM64
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 ? ISA_NEONDOT : ISA_NEON;
#else
    return ISA_SCALAR;
#endif
}

static int64_t cache_bytes(int name, int64_t otherwise)
{
    const long bytes = sysconf(name);
    return bytes > 0 ? bytes : otherwise;
}

static struct atc_cpu this_cpu;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void detect(void)
{
    this_cpu.isa = detect_isa();
    const char *name = getenv("ATCPY_ISA");
    const int limit = name ? atc_isa_by_name(name) : -1;
    if (limit >= 0 && limit < (int)this_cpu.isa)
        this_cpu.isa = (enum atc_isa)limit;
#ifdef ATC_X86
    if (this_cpu.isa == ISA_AVXVNNI && !has_avxvnni())
        this_cpu.isa = ISA_AVX2;
    if (this_cpu.isa == ISA_AMX && !may_use_tiles())
        this_cpu.isa = ISA_AVX512BF16;
#endif
    this_cpu.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
    this_cpu.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20);
    this_cpu.threads = 1;
}

const struct atc_cpu *atc_this_cpu(void)
{
    pthread_once(&once, detect);
    return &this_cpu;
}

bool atc_has_isa(enum atc_isa isa)
{
#ifdef ATC_X86
    if (isa == ISA_AVXVNNI && !has_avxvnni())
        return false;
#endif
    return isa <= atc_this_cpu()->isa;
}

#include "core/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic(struct atc_mapped_file *) files; /* all that there ever were */
static struct sigaction previous;

/* What fstat does. The C library calls newfstatat, which could ask for any path: a sandbox denies
 * it.
 */
static int state_of(const struct atc_mapped_file *file, struct stat *status)
{
    const int fd = atomic_load(&file->fd);
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
    return (int)syscall(SYS_fstat, fd, status);
#else
    return fstat(fd, status);
#endif
}

/* --- in the handler: only what is safe there ------------------------------------------------- */

/* A mapping is ended by its owner, who waits for its readers: that of a reader's address stays
 * while the handler runs. Others may come and go; a start that is still the same after the length
 * was read says that both are of one mapping.
 */
static bool lies_in(const struct atc_mapped_file *file, const uint8_t *at)
{
    const uint8_t *start = atomic_load(&file->start);
    const size_t bytes = atomic_load(&file->bytes);
    return start != NULL && at >= start && (size_t)(at - start) < bytes &&
           atomic_load(&file->start) == start;
}

static bool is_shorter(const struct atc_mapped_file *file)
{
    struct stat status;
    return atomic_load(&file->start) != NULL && state_of(file, &status) == 0 &&
           status.st_size < atomic_load(&file->size);
}

/* mmap is no function that POSIX calls safe in handlers; on Linux it is a system call and no more.
 */
static bool fill_with_zeros(struct atc_mapped_file *file)
{
    atomic_store(&file->is_lost, true);
    uint8_t *start = atomic_load(&file->start);
    return mmap(start, atomic_load(&file->bytes), PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (void *)start;
}

static void pass_on(int number, siginfo_t *info, void *context)
{
    if ((previous.sa_flags & SA_SIGINFO) != 0) {
        previous.sa_sigaction(number, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(number);
    } else if (previous.sa_handler == SIG_DFL || info->si_code > 0) {
        signal(number, SIG_DFL);
        if (info->si_code <= 0) /* sent by a process: a fault comes again by itself */
            raise(number);
    }
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    const int saved_errno = errno;
    bool goes_on = false;
    for (struct atc_mapped_file *file = atomic_load(&files); file != NULL; file = file->next) {
        if (info->si_code == BUS_ADRERR && lies_in(file, info->si_addr))
            goes_on = fill_with_zeros(file);
        /* faulthandler, where it was enabled behind this handler, prints and raises the signal
         * again, without the address: then the access is repeated, and ends here with it.
         */
        else if (info->si_code == SI_TKILL && is_shorter(file))
            goes_on = true;
    }
    errno = saved_errno;
    if (!goes_on)
        pass_on(number, info, context);
}

/* --- outside of it --------------------------------------------------------------------------- */

/* Behind a handler that was installed later, which calls this one or not, it is not installed again
 * (the two would call each other for ever), but instead of none it is.
 */
void atc_handle_bus_errors(void)
{
    static bool is_installed;
    struct sigaction now,
        ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    if (sigaction(SIGBUS, NULL, &now) != 0)
        return;
    const bool is_none = (now.sa_flags & SA_SIGINFO) == 0 &&
                         (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN);
    if (is_installed && !is_none)
        return;
    previous = now;
    is_installed = sigaction(SIGBUS, &ours, NULL) == 0;
}

static struct atc_mapped_file *unused_file(void)
{
    struct atc_mapped_file *file = atomic_load(&files);
    while (file != NULL && atomic_load(&file->start) != NULL)
        file = file->next;
    if (file != NULL)
        return file;
    file = calloc(1, sizeof *file);
    if (file != NULL) {
        file->next = atomic_load(&files);
        atomic_store(&files, file);
    }
    return file;
}

/* `at`: the address, of pages that are the caller's, or NULL for any. */
static struct atc_mapped_file *map_part(int fd, off_t offset, size_t bytes, uint8_t *at)
{
    struct atc_mapped_file *file = unused_file();
    if (file == NULL)
        return NULL;
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return NULL;
    atomic_store(&file->fd, copy);
    struct stat status;
    void *start = MAP_FAILED;
    if (state_of(file, &status) == 0) /* before anything is read */
        start =
            mmap(at, bytes, PROT_READ, MAP_PRIVATE | (at == NULL ? 0 : MAP_FIXED), copy, offset);
    if (start == MAP_FAILED) {
        const int error = errno;
        close(copy);
        errno = error;
        return NULL;
    }
    atc_handle_bus_errors();
    atomic_store(&file->size, status.st_size);
    file->modified = status.st_mtim;
    atomic_store(&file->is_lost, false);
    atomic_store(&file->bytes, bytes);
    atomic_store(&file->start, start);
    return file;
}

struct atc_mapped_file *atc_map_file(int fd, size_t bytes)
{
    return map_part(fd, 0, bytes, NULL);
}

void atc_unmap_file(struct atc_mapped_file *file)
{
    uint8_t *start = atomic_exchange(&file->start, NULL);
    munmap(start, atomic_load(&file->bytes));
    close(atomic_load(&file->fd));
}

bool atc_reserve_space(struct atc_file_space *space, size_t bytes)
{
    *space = (struct atc_file_space){.bytes = bytes};
    void *start = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return false;
    space->start = start;
    return true;
}

bool atc_map_into(struct atc_file_space *space, int fd, size_t offset, size_t bytes, size_t at)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (offset % page != 0 || at % page != 0 || bytes == 0 || at > space->bytes ||
        bytes > space->bytes - at) {
        errno = EINVAL;
        return false;
    }
    /* Whole pages, up to the end of the space: what lies behind the end of the file on its last
     * page is lost with it.
     */
    const size_t whole = (bytes + page - 1) / page * page;
    struct atc_mapped_file **longer =
        realloc(space->files, (space->n_files + 1) * sizeof(struct atc_mapped_file *));
    if (longer == NULL)
        return false;
    space->files = longer;
    struct atc_mapped_file *file = map_part(fd, (off_t)offset, whole, space->start + at);
    if (file == NULL)
        return false;
    space->files[space->n_files++] = file;
    const uintmax_t size = (uintmax_t)atomic_load(&file->size);
    if (size < offset || size - offset < bytes) {
        errno = EINVAL;
        return false;
    }
    return true;
}

/* The pages of the files are given back with the space: alone they could become somebody else's. */
void atc_free_space(struct atc_file_space *space)
{
    for (size_t i = 0; i < space->n_files; i++) {
        atomic_store(&space->files[i]->start, NULL);
        close(atomic_load(&space->files[i]->fd));
    }
    free(space->files);
    if (space->start != NULL)
        munmap(space->start, space->bytes);
    *space = (struct atc_file_space){0};
}

size_t atc_changed_file(const struct atc_file_space *space)
{
    size_t first = space->n_files;
    for (size_t i = space->n_files; i-- > 0;)
        if (atc_file_has_changed(space->files[i]))
            first = i;
    return first;
}

bool atc_file_has_changed(struct atc_mapped_file *file)
{
    struct stat status;
    if (state_of(file, &status) != 0 || status.st_size != atomic_load(&file->size) ||
        status.st_mtim.tv_sec != file->modified.tv_sec ||
        status.st_mtim.tv_nsec != file->modified.tv_nsec)
        atomic_store(&file->is_lost, true);
    return atomic_load(&file->is_lost);
}

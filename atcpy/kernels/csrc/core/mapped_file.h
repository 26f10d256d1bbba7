/* Files that are mapped for reading, also where somebody changes them or cuts them short meanwhile.
 *
 * Who touches a page that the file has no more gets SIGBUS. The handler of this module puts zeros
 * in the place of the mapping, notes that it is lost, and lets the reader go on: whoever asks
 * atc_file_has_changed behind the work learns that its results are worth nothing.
 */
#ifndef ATC_MAPPED_FILE_H
#define ATC_MAPPED_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* Never freed, but used again for another file: a handler may look at it at any time. */
struct atc_mapped_file {
    _Atomic(uint8_t *) start; /* NULL: of no file now */
    atomic_size_t bytes;
    atomic_bool is_lost; /* and will be for ever */
    atomic_int fd;       /* a copy of the descriptor that was given */
    _Atomic(off_t) size; /* of the file, when it was mapped */
    struct timespec modified;
    struct atc_mapped_file *next;
};

/* Maps the first `bytes` of a file, which may not be 0, and installs the handler. NULL with errno.
 * Calls of the functions that map, unmap and free must not run at the same time.
 */
struct atc_mapped_file *atc_map_file(int fd, size_t bytes);
void atc_unmap_file(struct atc_mapped_file *file);
/* Installs the handler again, where it was removed since: for another reader of a mapped file. */
void atc_handle_bus_errors(void);

/* Addresses in a row in which parts of several files lie; zeros where none does. */
struct atc_file_space {
    uint8_t *start;
    size_t bytes;
    size_t n_files;
    struct atc_mapped_file **files;
};

/* Reserves `bytes`, which may not be 0. False with errno. */
bool atc_reserve_space(struct atc_file_space *space, size_t bytes);
/* Maps a part of a file at the offset `at` of the space. All but `bytes` must be multiples of the
 * page, `bytes` not 0, and the part inside the space and the file. False with errno: EINVAL, also
 * for a part that is none.
 */
bool atc_map_into(struct atc_file_space *space, int fd, size_t offset, size_t bytes, size_t at);
void atc_free_space(struct atc_file_space *space);
/* The number of the first file that has changed, or that of the files. */
size_t atc_changed_file(const struct atc_file_space *space);

/* Whether pages were lost, or the file has, or had when this was asked before, another size or time
 * of modification. The time is set before the content: a reader who meets new content finds it.
 */
bool atc_file_has_changed(struct atc_mapped_file *file);

#endif

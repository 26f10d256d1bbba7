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
    atomic_bool is_lost;
    atomic_int fd; /* a copy of the descriptor that was given */
    off_t size;    /* of the file, when it was mapped or accepted last */
    struct timespec modified;
    struct atc_mapped_file *next;
};

/* Maps the first `bytes` of a file, which may not be 0, and installs the handler. NULL with errno.
 * Calls of this function and of atc_unmap_file must not run at the same time.
 */
struct atc_mapped_file *atc_map_file(int fd, size_t bytes);
void atc_unmap_file(struct atc_mapped_file *file);

/* Whether something was lost, or the size or the time of modification is another. */
bool atc_file_has_changed(const struct atc_mapped_file *file);

/* Takes the file's present time of modification for right. False: it is lost, or has another size.
 */
bool atc_accept_file(struct atc_mapped_file *file);

#endif

/* Threads map files, cut them short, read what is lost and unmap them, for ThreadSanitizer. */
#include "core/mapped_file.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, FILES = 500, BYTES = 65536, PAGE = 4096, FILL = 7, STEP = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* in the place of Python's */

static void expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static struct atc_mapped_file *map(int fd)
{
    pthread_mutex_lock(&lock);
    struct atc_mapped_file *file = atc_map_file(fd, BYTES);
    pthread_mutex_unlock(&lock);
    expect(file != NULL, "a file is not mapped");
    return file;
}

static void unmap(struct atc_mapped_file *file)
{
    pthread_mutex_lock(&lock);
    atc_unmap_file(file);
    pthread_mutex_unlock(&lock);
}

static long sum(const struct atc_mapped_file *file)
{
    const volatile uint8_t *bytes = atomic_load(&file->start);
    long total = 0;
    for (int i = 0; i < BYTES; i += STEP)
        total += bytes[i];
    return total;
}

/* Two files in one space: what is cut off the second reads as zeros, the first stays. */
static void lose_one_of_two(int fd)
{
    struct atc_file_space space;
    pthread_mutex_lock(&lock);
    expect(atc_reserve_space(&space, 2 * BYTES), "no space");
    expect(atc_map_into(&space, fd, 0, BYTES, 0) && atc_map_into(&space, fd, PAGE, PAGE, BYTES),
           "no part of a file is mapped");
    pthread_mutex_unlock(&lock);
    const volatile uint8_t *bytes = space.start;
    expect(bytes[0] == FILL && bytes[BYTES] == FILL && bytes[BYTES + PAGE] == 0, "another content");
    expect(ftruncate(fd, PAGE) == 0, "a file is not cut");
    expect(bytes[BYTES] == 0 && bytes[PAGE - 1] == FILL,
           "what is lost is not zero, or too much is");
    expect(atc_changed_file(&space) == 0, "a change is not noticed");
    pthread_mutex_lock(&lock);
    atc_free_space(&space);
    pthread_mutex_unlock(&lock);
}

static void *work(void *unused)
{
    static const long whole = (long)FILL * (BYTES / STEP);
    uint8_t *content = malloc(BYTES);
    expect(content != NULL, "no memory");
    memset(content, FILL, BYTES);
    for (int i = 0; i < FILES; i++) {
        char name[] = "/tmp/mapped_files_XXXXXX";
        const int fd = mkstemp(name);
        expect(fd >= 0 && unlink(name) == 0 && write(fd, content, BYTES) == BYTES, "no file");
        struct atc_mapped_file *file = map(fd);
        const int pages = i % (BYTES / PAGE + 1); /* that are left */
        const bool is_cut = pages < BYTES / PAGE;
        if (is_cut)
            expect(ftruncate(fd, (off_t)pages * PAGE) == 0, "a file is not cut");
        expect((sum(file) == whole) == !is_cut, "what is lost is not zero");
        expect(atc_file_has_changed(file) == is_cut, "a change is not noticed");
        unmap(file);
        if (!is_cut)
            lose_one_of_two(fd);
        close(fd);
    }
    free(content);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        expect(pthread_create(threads + i, NULL, work, NULL) == 0, "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d files in %d threads: each loss is noticed, and reads as zeros\n", THREADS * FILES,
           THREADS);
    return 0;
}

#include "core/streams.h"

#include <stdlib.h>

/* In element operations: what a task takes beside its work, and what it costs to have other threads
 * join it.
 */
enum { TASK_WORK = 500, JOIN_WORK = 20000 };

static int by_place(const void *left, const void *right)
{
    const struct atc_access *a = left, *b = right;
    if (a->base != b->base)
        return a->base < b->base ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* The farthest ends of two streams, the farther one first. */
struct reach {
    uint64_t end;
    uint32_t stream;
};

static void extend(struct reach *reach, const struct atc_access *access)
{
    const struct reach own = {access->end, access->stream};
    if (own.stream == reach[0].stream) {
        if (own.end > reach[0].end)
            reach[0].end = own.end;
    } else if (own.end > reach[0].end) {
        reach[1] = reach[0];
        reach[0] = own;
    } else if (own.end > reach[1].end) {
        reach[1] = own;
    }
}

/* Whether another stream reaches beyond where an access begins. */
static bool meets(const struct reach *reach, const struct atc_access *access)
{
    return reach[reach[0].stream == access->stream].end > access->begin;
}

bool atc_streams_race(struct atc_access *accesses, size_t n)
{
    if (n > 0)
        qsort(accesses, n, sizeof *accesses, by_place);
    const struct reach none = {0, UINT32_MAX};
    struct reach all[2] = {none, none}, written[2] = {none, none};
    for (size_t i = 0; i < n; i++) {
        const struct atc_access *access = accesses + i;
        if (i > 0 && access->base != access[-1].base) {
            all[0] = all[1] = none;
            written[0] = written[1] = none;
        }
        if (access->begin == access->end)
            continue;
        if (meets(access->writes ? all : written, access))
            return true;
        extend(all, access);
        if (access->writes)
            extend(written, access);
    }
    return false;
}

void atc_section_begin(struct atc_section_cost *section, int threads)
{
    *section =
        (struct atc_section_cost){.threads = threads < ATC_MAX_STREAMS ? threads : ATC_MAX_STREAMS};
}

void atc_section_add(struct atc_section_cost *section, int64_t work, int64_t items)
{
    const int64_t alone = atc_add(work, TASK_WORK);
    const int64_t parts = section->threads < items ? section->threads : items;
    const int64_t shared = parts > 1 ? atc_add(alone / parts, JOIN_WORK) : alone;
    section->in_order = atc_add(section->in_order, shared < alone ? shared : alone);
    section->of_stream = atc_add(section->of_stream, alone);
}

void atc_section_end_stream(struct atc_section_cost *section)
{
    int least = 0;
    for (int i = 1; i < section->threads; i++)
        if (section->busy[i] < section->busy[least])
            least = i;
    section->busy[least] = atc_add(section->busy[least], section->of_stream);
    section->of_stream = 0;
}

bool atc_section_pays(const struct atc_section_cost *section)
{
    int64_t longest = 0;
    for (int i = 0; i < section->threads; i++)
        longest = section->busy[i] > longest ? section->busy[i] : longest;
    const int64_t in_streams = atc_add(longest, JOIN_WORK);
    return in_streams < section->in_order - section->in_order / 8;
}

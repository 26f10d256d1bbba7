#include "core/collectives.h"

#include <stdlib.h>

static bool is_collective(const struct atc_plan *plan, int64_t number)
{
    return plan->tasks[number].fn == NULL && plan->records[number].stream != 0;
}

/* Whether two tasks have a byte in common that one of them writes. */
static bool meet(const struct atc_task *a, const struct atc_task *b)
{
    for (int i = 0; i < a->n_src + a->n_dst; i++)
        for (int k = i < a->n_src ? b->n_src : 0; k < b->n_src + b->n_dst; k++)
            if (atc_slots_overlap(a->slots + i, b->slots + k))
                return true;
    return false;
}

static bool has_collectives(const struct atc_plan *plan, uint32_t *events)
{
    bool found = false;
    for (int64_t i = 0; i < plan->n_tasks; i++) {
        found = found || is_collective(plan, i);
        *events += plan->records[i].event_record != 0;
    }
    return found;
}

bool atc_find_joins(struct atc_plan *plan, struct atc_refusal *refusal)
{
    uint32_t events = 0;
    if (!has_collectives(plan, &events))
        return true;
    /* of each event, how many collectives have ended with it */
    int64_t *ended_by = calloc((size_t)events + 1, sizeof *ended_by);
    plan->joins = calloc((size_t)plan->n_tasks, sizeof *plan->joins);
    if (ended_by == NULL || plan->joins == NULL) {
        free(ended_by);
        return atc_refuse_memory(refusal);
    }
    int64_t under_way[ATC_MAX_UNDER_WAY], begun = 0, ended = 0;
    bool ok = true;
    for (int64_t i = 0; ok && i < plan->n_tasks; i++) {
        const struct atc_task *record = plan->records + i;
        if (ended_by[record->event_wait] > ended)
            ended = ended_by[record->event_wait];
        if (is_collective(plan, i)) {
            if (begun - ended == ATC_MAX_UNDER_WAY)
                ended++;
            under_way[begun++ % ATC_MAX_UNDER_WAY] = i;
            ended_by[record->event_record] = record->event_record != 0 ? begun : 0;
        } else {
            for (int64_t k = ended; ok && k < begun; k++)
                ok = !meet(plan->records + under_way[k % ATC_MAX_UNDER_WAY], record) ||
                     atc_refuse(refusal, i,
                                "it does not wait for a collective that uses its memory");
        }
        plan->joins[i] = ended;
    }
    free(ended_by);
    return ok;
}

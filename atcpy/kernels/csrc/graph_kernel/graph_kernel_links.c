/* Chains of graph_kernel's machine: steps whose values stay in registers from one to the next. */
#include "graph_kernel/graph_kernel_machine.h"

#include <assert.h>

/* True if what step `at` of a chain writes must lie in memory: a step other than the next link
 * reads it, or it is a result.
 */
static bool is_saved(const struct machine *m, int at)
{
    const int location = m->step[at].dst;
    for (int i = at + 1; i < m->n_steps; i++) {
        const struct step *step = m->step + i;
        int reads = 0;
        for (int s = 0; s < step->n_src; s++)
            reads += step->src[s] == location;
        if (reads > 1 || (reads == 1 && (i > at + 1 || step->link_op < 0)))
            return true;
        if (step->dst == location)
            return false;
    }
    return location < LOCATION_BUFFER;
}

static struct gk_link *add_link(struct machine *m, int op, int operand, bool moves)
{
    assert(moves || operand < LOCATION_BUFFER); /* a later link may write any buffer before */
    struct gk_link *link = m->link + m->n_links++;
    *link = (struct gk_link){.op = op, .operand = operand, .save = NOWHERE, .moves = moves};
    return link;
}

/* The link that a step is, after one that loads its operand where that is not at work. */
static void link_step(struct machine *m, const struct step *step, int at_work)
{
    const bool is_binary = step->n_src == 2;
    const bool is_reversed = is_binary && step->src[0] != at_work && step->src[1] == at_work;
    if (!is_reversed && step->src[0] != at_work)
        add_link(m, GK_LINK_LOAD, step->src[0], step->moves[0] != 0);
    const int other = is_binary && !is_reversed ? 1 : 0;
    const int op = is_reversed ? step->link_op - GK_BINARY + GK_LINK_REVERSED : step->link_op;
    struct gk_link *link = add_link(m, op, step->src[other], step->moves[other] != 0);
    if (!is_binary) {
        link->alpha = (float)step->params.unary.alpha;
        link->beta = (float)step->params.unary.beta;
    }
}

void gk_make_chains(struct machine *m)
{
    int at_work = NOWHERE;
    struct step *chain = NULL;
    for (int i = 0; i < m->n_steps; i++) {
        struct step *step = m->step + i;
        if (step->link_op < 0) {
            chain = NULL;
            at_work = NOWHERE;
            m->order[m->n_order++] = i;
            continue;
        }
        if (chain == NULL) {
            chain = step;
            chain->how = BY_CHAIN;
            chain->link = m->link + m->n_links;
            m->order[m->n_order++] = i;
        }
        link_step(m, step, at_work);
        at_work = step->dst;
        if (is_saved(m, i))
            m->link[m->n_links - 1].save = step->dst;
        chain->n_links = (int)(m->link + m->n_links - chain->link);
    }
}

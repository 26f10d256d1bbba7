/* The types Plan and SymbolicPlan:
 *
 *     Plan(records, weights, arena_bytes, input_bytes, output_bytes, threads, isa, only,
 *          arenas_of, workers)
 *     plan.footprints() -> [(stream, bytes read, bytes written, products, work, shares), ...]
 *     plan.joins() -> [how many collectives must have ended before each task, ...]
 *     plan.start(inputs, outputs) -> Run
 *     plan.records() -> bytes
 *     SymbolicPlan(blob, records, weights, threads, isa, only, arenas_of, workers)
 *     plan.arena_bytes() -> those of every instance, or None: each has its own
 *     plan.instantiate(symbols) -> (Plan, port_bytes, output_shapes, arena_bytes), or None
 *     workers_on(cpus) -> the workers of those CPUs;  set_cores(count) -> the number before
 */
#include "python/binding.h"

#include "core/cpu.h"
#include "core/symbolic.h"

#include <stdlib.h>
#include <string.h>

struct symbolic_object {
    PyObject_HEAD struct atc_symbolic *symbolic;
    Py_buffer weights;
    PyObject *owner; /* of the arenas; NULL: the plan itself */
};

static int read_sizes(PyObject *list, int64_t *sizes)
{
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        sizes[i] = PyLong_AsLongLong(PyList_GetItem(list, i));
        if (sizes[i] < 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "sizes must not be negative");
            return -1;
        }
    }
    return 0;
}

static void set_refused(const struct atc_refusal *refusal)
{
    if (refusal->out_of_memory) {
        PyErr_SetString(PyExc_MemoryError, refusal->reason);
        return;
    }
    PyObject *value = Py_BuildValue("(sL)", refusal->reason, (long long)refusal->task);
    if (value != NULL)
        PyErr_SetObject(atc_refused_error, value);
    Py_XDECREF(value);
}

/* --- workers -----------------------------------------------------------------------------------
 */

#define WORKERS_NAME "atcpy.kernels._kernels.Workers"

/* What workers_on has returned, or those of all CPUs for None; NULL with an exception. */
static struct atc_workers *workers_of(PyObject *object)
{
    return object == Py_None ? atc_all_workers() : PyCapsule_GetPointer(object, WORKERS_NAME);
}

static PyObject *workers_on(PyObject *module, PyObject *list)
{
    (void)module;
    if (!PyList_Check(list) || PyList_Size(list) == 0) {
        PyErr_SetString(PyExc_TypeError, "a list of CPUs is needed");
        return NULL;
    }
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        const size_t cpu = PyLong_AsSize_t(PyList_GetItem(list, i));
        if (cpu == (size_t)-1 && PyErr_Occurred())
            return NULL;
        if (cpu >= CPU_SETSIZE) {
            PyErr_Format(PyExc_ValueError, "CPU %zu is beyond %d", cpu, CPU_SETSIZE - 1);
            return NULL;
        }
        CPU_SET(cpu, &cpus);
    }
    struct atc_workers *workers = atc_workers_on(&cpus);
    return workers == NULL ? PyErr_NoMemory() : PyCapsule_New(workers, WORKERS_NAME, NULL);
}

static PyObject *set_cores(PyObject *module, PyObject *args)
{
    (void)module;
    int cores;
    if (!PyArg_ParseTuple(args, "i", &cores))
        return NULL;
    if (cores < 1) {
        PyErr_SetString(PyExc_ValueError, "a process has a core at least");
        return NULL;
    }
    const int before = atc_cores(atc_all_workers());
    atc_set_cores(atc_all_workers(), cores);
    return PyLong_FromLong(before);
}

/* --- Plan --------------------------------------------------------------------------------------
 */

static int plan_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct plan_object *self = (struct plan_object *)object;
    static char *names[] = {"records",      "weights", "arena_bytes", "input_bytes",
                            "output_bytes", "threads", "isa",         "only",
                            "arenas_of",    "workers", NULL};
    Py_buffer records;
    PyObject *weights, *inputs, *outputs, *other = Py_None, *helpers = Py_None;
    long long arena_bytes;
    int threads;
    const char *isa_name = NULL, *only = NULL;
    if (self->sizes != NULL) { /* even if it was refused */
        PyErr_SetString(PyExc_RuntimeError, "a plan is loaded once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*OLO!O!i|zzOO", names, &records, &weights,
                                     &arena_bytes, &PyList_Type, &inputs, &PyList_Type, &outputs,
                                     &threads, &isa_name, &only, &other, &helpers))
        return -1;

    int status = -1;
    const Py_ssize_t n_inputs = PyList_Size(inputs), n_outputs = PyList_Size(outputs);
    const int isa = isa_name ? atc_isa_by_name(isa_name) : (int)atc_this_cpu()->isa;
    struct atc_workers *workers = workers_of(helpers);
    if (workers == NULL)
        goto done;
    self->sizes = calloc((size_t)(n_inputs + n_outputs) + 1, sizeof *self->sizes);
    if (self->sizes == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    if (other != Py_None &&
        (!Py_IS_TYPE(other, atc_plan_type) || ((struct plan_object *)other)->plan == NULL)) {
        PyErr_SetString(PyExc_TypeError, "arenas_of is no loaded plan");
        goto done;
    }
    if (isa < 0 || n_inputs > UINT16_MAX || n_outputs > UINT16_MAX) {
        PyErr_SetString(PyExc_ValueError, "unknown isa, or too many inputs or outputs");
        goto done;
    }
    if (read_sizes(inputs, self->sizes) < 0 || read_sizes(outputs, self->sizes + n_inputs) < 0)
        goto done;
    if (weights != Py_None && PyObject_GetBuffer(weights, &self->weights, PyBUF_SIMPLE) < 0)
        goto done;
    const struct atc_limits limits = {.arena_bytes = arena_bytes,
                                      .weight_bytes = self->weights.len,
                                      .n_inputs = n_inputs,
                                      .n_outputs = n_outputs,
                                      .input_bytes = self->sizes,
                                      .output_bytes = self->sizes + n_inputs};
    struct atc_refusal refusal;
    struct atc_plan *plan = atc_plan_load(records.buf, (size_t)records.len, self->weights.buf, NULL,
                                          &limits, threads, (enum atc_isa)isa, only, &refusal);
    if (plan == NULL || !atc_plan_writes_outputs(plan, limits.output_bytes, &refusal)) {
        set_refused(&refusal);
        if (plan != NULL)
            atc_plan_free(plan);
        goto done;
    }
    self->plan = plan;
    self->plan->workers = workers;
    if (other != Py_None) {
        self->plan->arenas = ((struct plan_object *)other)->plan->arenas;
        self->owner = Py_NewRef(other);
    }
    status = 0;
done:
    PyBuffer_Release(&records);
    return status;
}

static void plan_dealloc(PyObject *object)
{
    struct plan_object *self = (struct plan_object *)object;
    if (self->plan != NULL)
        atc_plan_free(self->plan);
    if (self->weights.obj != NULL)
        PyBuffer_Release(&self->weights);
    free(self->sizes);
    Py_XDECREF(self->owner);
    atc_free_object(object);
}

/* What a Plan has loaded, or NULL with an exception. */
struct atc_plan *atc_loaded_plan(PyObject *object)
{
    struct atc_plan *plan = ((struct plan_object *)object)->plan;
    if (plan == NULL)
        PyErr_SetString(PyExc_RuntimeError, "the plan is not loaded");
    return plan;
}

static PyObject *plan_scratch_bytes(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = atc_loaded_plan(object);
    return plan == NULL ? NULL : PyLong_FromLongLong(plan->scratch_bytes);
}

static PyObject *plan_run_bytes(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = atc_loaded_plan(object);
    if (plan == NULL)
        return NULL;
    return PyLong_FromLongLong(
        atc_add(plan->arena_bytes, atc_mul(plan->scratch_bytes, plan->cpu.threads)));
}

static PyObject *plan_rows(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = atc_loaded_plan(object);
    if (plan == NULL)
        return NULL;
    PyObject *rows = PyList_New(plan->n_tasks);
    for (int64_t i = 0; rows != NULL && i < plan->n_tasks; i++) {
        const struct kernel_row *row = plan->tasks[i].row;
        PyObject *name = row ? PyUnicode_FromString(row->symbol) : Py_NewRef(Py_None);
        if (name == NULL)
            Py_CLEAR(rows);
        else
            PyList_SetItem(rows, i, name);
    }
    return rows;
}

static PyObject *plan_joins(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = atc_loaded_plan(object);
    if (plan == NULL)
        return NULL;
    const int64_t n = plan->joins == NULL ? 0 : plan->n_tasks;
    PyObject *joins = PyList_New(n);
    for (int64_t i = 0; joins != NULL && i < n; i++) {
        PyObject *ended = PyLong_FromLongLong(plan->joins[i]);
        if (ended == NULL)
            Py_CLEAR(joins);
        else
            PyList_SetItem(joins, i, ended);
    }
    return joins;
}

/* Bytes that a task's kernel touches of its operands [first, last), each counted once. */
static int64_t bytes_touched(const struct atc_task *record, const int64_t *extents, int first,
                             int last)
{
    int64_t bytes = 0;
    for (int i = first; i < last; i++)
        bytes += extents != NULL ? extents[i] : (int64_t)record->slots[i].bytes;
    return bytes;
}

/* (stream, bytes read, bytes written, products or None, work, parts that threads share) of a task.
 */
static PyObject *footprint(const struct atc_plan *plan, int64_t number)
{
    const struct atc_task *record = plan->records + number;
    const struct atc_bound_task *task = plan->tasks + number;
    const struct kernel_family *family = task->row != NULL ? task->row->family : NULL;
    struct atc_task_needs needs;
    const int64_t *extents = NULL;
    if (family != NULL && atc_check_task(record, family, plan->weights, &plan->cpu, &needs) == NULL)
        extents = needs.extents;
    const int operands = record->n_src + record->n_dst;
    PyObject *products = family == NULL || family->products == NULL
                             ? Py_NewRef(Py_None)
                             : PyLong_FromLongLong(family->products(task->params));
    return Py_BuildValue(
        "(ILLNLL)", record->stream, (long long)bytes_touched(record, extents, 0, record->n_src),
        (long long)bytes_touched(record, extents, record->n_src, operands), products,
        (long long)task->work, (long long)(task->parallel ? task->items : 1));
}

static PyObject *plan_footprints(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = atc_loaded_plan(object);
    if (plan == NULL)
        return NULL;
    PyObject *footprints = PyList_New(plan->n_tasks);
    for (int64_t i = 0; footprints != NULL && i < plan->n_tasks; i++) {
        PyObject *item = footprint(plan, i);
        if (item == NULL)
            Py_CLEAR(footprints);
        else
            PyList_SetItem(footprints, i, item);
    }
    return footprints;
}

/* The parts that so many threads share of each task, whose plan may be for other threads. */
static PyObject *plan_items(PyObject *object, PyObject *argument)
{
    const struct atc_plan *plan = atc_loaded_plan(object);
    const long threads = PyLong_AsLong(argument);
    if (plan == NULL || (threads == -1 && PyErr_Occurred()))
        return NULL;
    if (threads < 1 || threads > INT_MAX) {
        PyErr_SetString(PyExc_ValueError, "no such number of threads");
        return NULL;
    }
    struct atc_cpu cpu = plan->cpu;
    cpu.threads = (int)threads;
    PyObject *items = PyList_New(plan->n_tasks);
    for (int64_t i = 0; items != NULL && i < plan->n_tasks; i++) {
        const struct atc_bound_task *task = plan->tasks + i;
        struct atc_task_needs needs = {.cost.items = 1};
        if (task->parallel && task->row != NULL)
            (void)atc_check_task(plan->records + i, task->row->family, plan->weights, &cpu, &needs);
        PyList_SetItem(items, i, PyLong_FromLongLong(needs.cost.items));
    }
    return items;
}

static PyObject *plan_records(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = atc_loaded_plan(object);
    if (plan == NULL)
        return NULL;
    return PyBytes_FromStringAndSize((const char *)plan->records,
                                     (Py_ssize_t)(plan->n_tasks * ATC_TASK_BYTES));
}

static PyMethodDef plan_methods[] = {
    {"rows", plan_rows, METH_NOARGS, "The row bound to each task; None for the host's."},
    {"items", plan_items, METH_O, "The parts of each task that so many threads share."},
    {"footprints", plan_footprints, METH_NOARGS,
     "Of each task: stream, bytes read, bytes written, products that are summed or None, work, and "
     "the parts that threads share."},
    {"records", plan_records, METH_NOARGS,
     "Its task records; what depends on symbols is filled in."},
    {"scratch_bytes", plan_scratch_bytes, METH_NOARGS,
     "What kernels need of each thread, beside the arena, on this CPU."},
    {"run_bytes", plan_run_bytes, METH_NOARGS, "The arena, and the scratch of all threads."},
    {"joins", plan_joins, METH_NOARGS,
     "Before each task, how many collectives must have ended; empty if there are none."},
    {"start", atc_start_run, METH_VARARGS, "Binds input and output buffers for one run."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot plan_slots[] = {
    {Py_tp_init, plan_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, plan_dealloc},
    {Py_tp_methods, plan_methods},
    {0, NULL},
};
PyType_Spec atc_plan_spec = {"atcpy.kernels._kernels.Plan", sizeof(struct plan_object), 0,
                             Py_TPFLAGS_DEFAULT, plan_slots};

/* --- SymbolicPlan ------------------------------------------------------------------------------
 */

static int symbolic_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct symbolic_object *self = (struct symbolic_object *)object;
    static char *names[] = {"blob", "records",   "weights", "threads", "isa",
                            "only", "arenas_of", "workers", NULL};
    Py_buffer blob, records;
    PyObject *weights, *other = Py_None, *helpers = Py_None;
    int threads;
    const char *isa_name = NULL, *only = NULL;
    if (self->symbolic != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a plan is loaded once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*y*Oi|zzOO", names, &blob, &records, &weights,
                                     &threads, &isa_name, &only, &other, &helpers))
        return -1;
    const int isa = isa_name ? atc_isa_by_name(isa_name) : (int)atc_this_cpu()->isa;
    const bool shares = Py_TYPE(other) == Py_TYPE(object);
    const struct atc_symbolic *sharing =
        shares ? ((struct symbolic_object *)other)->symbolic : NULL;
    struct atc_workers *workers = workers_of(helpers);
    if (isa < 0)
        PyErr_SetString(PyExc_ValueError, "unknown isa");
    else if (other != Py_None && sharing == NULL)
        PyErr_SetString(PyExc_TypeError, "arenas_of is no loaded plan");
    else if (workers != NULL && (weights == Py_None ||
                                 PyObject_GetBuffer(weights, &self->weights, PyBUF_SIMPLE) == 0)) {
        struct atc_refusal refusal;
        self->symbolic = atc_symbolic_load(
            blob.buf, (size_t)blob.len, records.buf, (size_t)records.len, self->weights.buf,
            self->weights.len, threads, (enum atc_isa)isa, only, &refusal);
        if (self->symbolic == NULL) {
            set_refused(&refusal);
            PyBuffer_Release(&self->weights);
            self->weights = (Py_buffer){0};
        } else {
            atc_symbolic_use_workers(self->symbolic, workers);
            if (sharing != NULL) {
                atc_symbolic_share_arenas(self->symbolic, sharing);
                self->owner = Py_NewRef(other);
            }
        }
    }
    PyBuffer_Release(&blob);
    PyBuffer_Release(&records);
    return self->symbolic == NULL ? -1 : 0;
}

static void symbolic_dealloc(PyObject *object)
{
    struct symbolic_object *self = (struct symbolic_object *)object;
    if (self->symbolic != NULL)
        atc_symbolic_free(self->symbolic);
    if (self->weights.obj != NULL)
        PyBuffer_Release(&self->weights);
    Py_XDECREF(self->owner);
    atc_free_object(object);
}

/* What a SymbolicPlan has loaded, or NULL with an exception. */
static struct atc_symbolic *loaded_symbolic(PyObject *object)
{
    struct atc_symbolic *symbolic = ((struct symbolic_object *)object)->symbolic;
    if (symbolic == NULL)
        PyErr_SetString(PyExc_RuntimeError, "the plan is not loaded");
    return symbolic;
}

/* A list of ints, or where `as_tuple` is set a tuple. */
static PyObject *numbers(const int64_t *values, int64_t n, bool as_tuple)
{
    PyObject *items = as_tuple ? PyTuple_New(n) : PyList_New(n);
    for (int64_t i = 0; items != NULL && i < n; i++) {
        PyObject *item = PyLong_FromLongLong(values[i]);
        if (item == NULL)
            Py_CLEAR(items);
        else if (as_tuple)
            PyTuple_SetItem(items, i, item);
        else
            PyList_SetItem(items, i, item);
    }
    return items;
}

static PyObject *shapes(const struct atc_symbolic_sizes *sizes, const int64_t *dims)
{
    PyObject *shapes = PyList_New(sizes->n_outputs);
    for (int64_t i = 0; shapes != NULL && i < sizes->n_outputs; i++) {
        PyObject *shape = numbers(dims, sizes->ranks[i], true);
        dims += sizes->ranks[i];
        if (shape == NULL)
            Py_CLEAR(shapes);
        else
            PyList_SetItem(shapes, i, shape);
    }
    return shapes;
}

static void set_unmet(const struct atc_refusal *refusal, int64_t guard)
{
    PyObject *value = Py_BuildValue("(sLL)", refusal->reason, (long long)-1, (long long)guard);
    if (value != NULL)
        PyErr_SetObject(atc_unmet_error, value);
    Py_XDECREF(value);
}

/* The instance as Python gets it; `plan` takes over instance->plan and its sizes. */
static PyObject *instance_of(PyObject *symbolic, const struct atc_symbolic_sizes *sizes,
                             const struct atc_instance *instance)
{
    struct plan_object *plan = (struct plan_object *)PyType_GenericAlloc(atc_plan_type, 0);
    if (plan == NULL) {
        atc_plan_free(instance->plan);
        free(instance->port_bytes);
        return NULL;
    }
    plan->plan = instance->plan;
    plan->sizes = instance->port_bytes;
    plan->owner = Py_NewRef(symbolic);
    return Py_BuildValue("(NNNL)", plan,
                         numbers(plan->sizes, sizes->n_inputs + sizes->n_outputs, false),
                         shapes(sizes, instance->dims), (long long)plan->plan->arena_bytes);
}

static int read_symbols(PyObject *sequence, int64_t n, int64_t *symbols)
{
    PyObject *items = PySequence_Tuple(sequence);
    if (items == NULL)
        return -1;
    if (PyTuple_Size(items) != n)
        PyErr_Format(PyExc_ValueError, "%zd values for %lld symbols", PyTuple_Size(items),
                     (long long)n);
    for (int64_t i = 0; i < n && !PyErr_Occurred(); i++)
        symbols[i] = PyLong_AsLongLong(PyTuple_GetItem(items, i));
    Py_DECREF(items);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *symbolic_arena_bytes(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_symbolic *symbolic = loaded_symbolic(object);
    if (symbolic == NULL)
        return NULL;
    const int64_t arena_bytes = atc_symbolic_sizes(symbolic).arena_bytes;
    return arena_bytes < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(arena_bytes);
}

static PyObject *symbolic_instantiate(PyObject *object, PyObject *list)
{
    struct atc_symbolic *symbolic = loaded_symbolic(object);
    if (symbolic == NULL)
        return NULL;
    const struct atc_symbolic_sizes sizes = atc_symbolic_sizes(symbolic);
    int64_t *symbols = calloc((size_t)(sizes.n_symbols + sizes.n_dims) + 1, sizeof *symbols);
    struct atc_instance instance = {.dims = symbols == NULL ? NULL : symbols + sizes.n_symbols};
    instance.port_bytes =
        calloc((size_t)(sizes.n_inputs + sizes.n_outputs) + 1, sizeof *instance.port_bytes);
    PyObject *result = NULL;
    if (symbols == NULL || instance.port_bytes == NULL)
        PyErr_NoMemory();
    else if (read_symbols(list, sizes.n_symbols, symbols) == 0) {
        struct atc_refusal refusal;
        switch (atc_symbolic_instantiate(symbolic, symbols, &instance, &refusal)) {
        case INSTANCE_LOADED:
            result = instance_of(object, &sizes, &instance);
            instance.port_bytes = NULL;
            break;
        case INSTANCE_OTHER_VARIANT:
            result = Py_NewRef(Py_None);
            break;
        case INSTANCE_REFUSED:
            if (instance.guard >= 0)
                set_unmet(&refusal, instance.guard);
            else
                set_refused(&refusal);
            break;
        }
    }
    free(instance.port_bytes);
    free(symbols);
    return result;
}

static PyMethodDef symbolic_methods[] = {
    {"arena_bytes", symbolic_arena_bytes, METH_NOARGS,
     "the arena's bytes, if all instances have the same"},
    {"instantiate", symbolic_instantiate, METH_O,
     "The plan for these values of the symbols; None if another variant is to be taken."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot symbolic_slots[] = {
    {Py_tp_init, symbolic_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, symbolic_dealloc},
    {Py_tp_methods, symbolic_methods},
    {0, NULL},
};
PyType_Spec atc_symbolic_spec = {"atcpy.kernels._kernels.SymbolicPlan",
                                 sizeof(struct symbolic_object), 0, Py_TPFLAGS_DEFAULT,
                                 symbolic_slots};

PyMethodDef atc_plan_functions[] = {
    {"workers_on", workers_on, METH_O,
     "The workers that run on these CPUs only; MemoryError if there are too many of such groups."},
    {"set_cores", set_cores, METH_VARARGS,
     "Sets how many cores callers and workers use that are bound to no CPUs; returns what was "
     "set."},
    {NULL, NULL, 0, NULL},
};

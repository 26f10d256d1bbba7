/* The binding: the one file that knows Python.
 *
 *     families()  -> {name: [(field, is_float, count, choices), ...]}
 *     rows()      -> [(symbol, family, dtype, isa), ...]
 *     cpu()       -> (isa, l1_bytes, l2_bytes)
 *     Plan(records, weights, arena_bytes, input_bytes, output_bytes, threads, isa, only,
 *          arenas_of, workers)
 *     plan.footprints() -> [(stream, bytes read, bytes written, products), ...]
 *     plan.joins() -> [how many collectives must have ended before each task, ...]
 *     plan.start(inputs, outputs) -> Run
 *     plan.records() -> bytes
 *     run.execute(first, last, totals=None, events=None, n_events=0) -> n_events
 *     memoryview(run) -> the arena
 *     run.iterate(count, swaps, strides, condition) -> how many iterations there were
 *     maps_of_rows(keys, rows) -> [{key: float, ...}, ...]
 *     peak_flops(threads), peak_bandwidth(threads, bytes) -> a second
 *     MappedFile(fd, bytes); memoryview(file);  file.has_changed();  file.fileno()
 *     MappedSpace(bytes); memoryview(space);  space.map(fd, offset, bytes, at)
 *     space.changed_file() -> the number of the first that has, or None
 *     set_deadline(ns) -> the one before;  check_deadline()
 *     start_watchdog(seconds, text, code);  stop_watchdog()
 *     workers_on(cpus) -> the workers of those CPUs;  set_cores(count) -> the number before
 *     SymbolicPlan(blob, records, weights, threads, isa, only, arenas_of, workers)
 *     plan.arena_bytes() -> those of every instance, or None: each has its own
 *     plan.instantiate(symbols) -> (Plan, port_bytes, output_shapes, arena_bytes), or None
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/clock.h"
#include "core/cpu.h"
#include "core/mapped_file.h"
#include "core/plan.h"
#include "core/streams.h"
#include "core/program.h"
#include "core/symbolic.h"
#include "core/watchdog.h"
#include "roofline/roofline.h"

#include <pthread.h>
#include <unistd.h>

/* CPython's slots hold functions as void pointers, which ISO C does not promise. */
#pragma GCC diagnostic ignored "-Wpedantic"

static PyObject *refused_error, *unmet_error, *fault_error;
static PyTypeObject *plan_type, *run_type;

struct symbolic_object {
    PyObject_HEAD struct atc_symbolic *symbolic;
    Py_buffer weights;
    PyObject *owner; /* of the arenas; NULL: the plan itself */
};

struct plan_object {
    PyObject_HEAD struct atc_plan *plan;
    Py_buffer weights;
    PyObject *owner; /* of the arenas, and for an instance of the weights; NULL: the plan itself */
    int64_t *sizes;  /* of inputs, then of outputs */
};

struct file_object {
    PyObject_HEAD struct atc_mapped_file *file;
    size_t bytes;
};

struct space_object {
    PyObject_HEAD struct atc_file_space space;
};

struct run_object {
    PyObject_HEAD struct plan_object *owner;
    struct atc_arena *arena;
    Py_buffer *buffers;
    int64_t n_buffers;
    uint8_t **bases;
};

/* --- tables ------------------------------------------------------------------------------------
 */

static PyObject *choices_of(const struct param_field *field)
{
    if (field->choices == NULL)
        return Py_NewRef(Py_None);
    PyObject *names = PyList_New(0);
    for (int i = 0; names != NULL && field->choices[i] != NULL; i++) {
        PyObject *name = PyUnicode_FromString(field->choices[i]);
        if (name == NULL || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *fields_of(const struct kernel_family *family)
{
    PyObject *fields = PyList_New(0);
    for (const struct param_field *field = family->fields; fields != NULL && field->name; field++) {
        PyObject *choices = choices_of(field);
        PyObject *item =
            choices ? Py_BuildValue("(sOiN)", field->name, field->is_float ? Py_True : Py_False,
                                    field->count, choices)
                    : NULL;
        if (item == NULL || PyList_Append(fields, item) < 0)
            Py_CLEAR(fields);
        Py_XDECREF(item);
    }
    return fields;
}

static PyObject *list_families(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *families = PyDict_New();
    for (int i = 0; families != NULL && i < kernel_table_rows; i++) {
        const struct kernel_family *family = kernel_table[i].family;
        PyObject *fields = fields_of(family);
        if (fields == NULL || PyDict_SetItemString(families, family->name, fields) < 0)
            Py_CLEAR(families);
        Py_XDECREF(fields);
    }
    return families;
}

static PyObject *list_rows(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *rows = PyList_New(0);
    for (int i = 0; rows != NULL && i < kernel_table_rows; i++) {
        const struct kernel_row *row = kernel_table + i;
        PyObject *item = Py_BuildValue("(ssis)", row->symbol, row->family->name, (int)row->dtype,
                                       atc_isa_name(row->isa));
        if (item == NULL || PyList_Append(rows, item) < 0)
            Py_CLEAR(rows);
        Py_XDECREF(item);
    }
    return rows;
}

static PyObject *describe_cpu(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const struct atc_cpu *cpu = atc_this_cpu();
    return Py_BuildValue("(sLL)", atc_isa_name(cpu->isa), (long long)cpu->l1_bytes,
                         (long long)cpu->l2_bytes);
}

/* --- Plan --------------------------------------------------------------------------------------
 */

static int read_sizes(PyObject *list, int64_t *sizes)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        sizes[i] = PyLong_AsLongLong(PyList_GET_ITEM(list, i));
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
        PyErr_SetObject(refused_error, value);
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
    if (!PyList_Check(list) || PyList_GET_SIZE(list) == 0) {
        PyErr_SetString(PyExc_TypeError, "a list of CPUs is needed");
        return NULL;
    }
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        const size_t cpu = PyLong_AsSize_t(PyList_GET_ITEM(list, i));
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
    const Py_ssize_t n_inputs = PyList_GET_SIZE(inputs), n_outputs = PyList_GET_SIZE(outputs);
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
        (!Py_IS_TYPE(other, plan_type) || ((struct plan_object *)other)->plan == NULL)) {
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
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

/* What a Plan has loaded, or NULL with an exception. */
static struct atc_plan *loaded_plan(PyObject *object)
{
    struct atc_plan *plan = ((struct plan_object *)object)->plan;
    if (plan == NULL)
        PyErr_SetString(PyExc_RuntimeError, "the plan is not loaded");
    return plan;
}

static PyObject *plan_scratch_bytes(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = loaded_plan(object);
    return plan == NULL ? NULL : PyLong_FromLongLong(plan->scratch_bytes);
}

static PyObject *plan_run_bytes(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = loaded_plan(object);
    if (plan == NULL)
        return NULL;
    return PyLong_FromLongLong(
        atc_add(plan->arena_bytes, atc_mul(plan->scratch_bytes, plan->threads)));
}

static PyObject *plan_rows(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = loaded_plan(object);
    if (plan == NULL)
        return NULL;
    PyObject *rows = PyList_New(plan->n_tasks);
    for (int64_t i = 0; rows != NULL && i < plan->n_tasks; i++) {
        const struct kernel_row *row = plan->tasks[i].row;
        PyObject *name = row ? PyUnicode_FromString(row->symbol) : Py_NewRef(Py_None);
        if (name == NULL)
            Py_CLEAR(rows);
        else
            PyList_SET_ITEM(rows, i, name);
    }
    return rows;
}

static PyObject *plan_joins(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = loaded_plan(object);
    if (plan == NULL)
        return NULL;
    const int64_t n = plan->joins == NULL ? 0 : plan->n_tasks;
    PyObject *joins = PyList_New(n);
    for (int64_t i = 0; joins != NULL && i < n; i++) {
        PyObject *ended = PyLong_FromLongLong(plan->joins[i]);
        if (ended == NULL)
            Py_CLEAR(joins);
        else
            PyList_SET_ITEM(joins, i, ended);
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

/* (stream, bytes read, bytes written, products or None) of a task. */
static PyObject *footprint(const struct atc_plan *plan, int64_t number)
{
    const struct atc_task *record = plan->records + number;
    const struct atc_bound_task *task = plan->tasks + number;
    const struct kernel_family *family = task->row != NULL ? task->row->family : NULL;
    struct atc_task_needs needs;
    const int64_t *extents = NULL;
    if (family != NULL && atc_check_task(record, family, plan->weights, &needs) == NULL)
        extents = needs.extents;
    const int operands = record->n_src + record->n_dst;
    PyObject *products = family == NULL || family->products == NULL
                             ? Py_NewRef(Py_None)
                             : PyLong_FromLongLong(family->products(task->params));
    return Py_BuildValue(
        "(ILLN)", record->stream, (long long)bytes_touched(record, extents, 0, record->n_src),
        (long long)bytes_touched(record, extents, record->n_src, operands), products);
}

static PyObject *plan_footprints(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = loaded_plan(object);
    if (plan == NULL)
        return NULL;
    PyObject *footprints = PyList_New(plan->n_tasks);
    for (int64_t i = 0; footprints != NULL && i < plan->n_tasks; i++) {
        PyObject *item = footprint(plan, i);
        if (item == NULL)
            Py_CLEAR(footprints);
        else
            PyList_SET_ITEM(footprints, i, item);
    }
    return footprints;
}

static PyObject *plan_records(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_plan *plan = loaded_plan(object);
    if (plan == NULL)
        return NULL;
    return PyBytes_FromStringAndSize((const char *)plan->records,
                                     (Py_ssize_t)(plan->n_tasks * ATC_TASK_BYTES));
}

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
    const bool shares = Py_IS_TYPE(other, Py_TYPE(object));
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
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
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
            PyTuple_SET_ITEM(items, i, item);
        else
            PyList_SET_ITEM(items, i, item);
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
            PyList_SET_ITEM(shapes, i, shape);
    }
    return shapes;
}

static void set_unmet(const struct atc_refusal *refusal, int64_t guard)
{
    PyObject *value = Py_BuildValue("(sLL)", refusal->reason, (long long)-1, (long long)guard);
    if (value != NULL)
        PyErr_SetObject(unmet_error, value);
    Py_XDECREF(value);
}

/* The instance as Python gets it; `plan` takes over instance->plan and its sizes. */
static PyObject *instance_of(PyObject *symbolic, const struct atc_symbolic_sizes *sizes,
                             const struct atc_instance *instance)
{
    struct plan_object *plan = (struct plan_object *)plan_type->tp_alloc(plan_type, 0);
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

static int read_symbols(PyObject *list, int64_t n, int64_t *symbols)
{
    PyObject *items = PySequence_Fast(list, "symbols are a sequence");
    if (items == NULL)
        return -1;
    if (PySequence_Fast_GET_SIZE(items) != n)
        PyErr_Format(PyExc_ValueError, "%zd values for %lld symbols",
                     PySequence_Fast_GET_SIZE(items), (long long)n);
    for (int64_t i = 0; i < n && !PyErr_Occurred(); i++)
        symbols[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items, i));
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

/* --- Run ---------------------------------------------------------------------------------------
 */

static int bind_buffers(struct run_object *run, PyObject *list, const int64_t *sizes, int flags)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        Py_buffer *buffer = run->buffers + run->n_buffers;
        if (PyObject_GetBuffer(PyList_GET_ITEM(list, i), buffer, flags) < 0)
            return -1;
        run->bases[BASE_PORTS + run->n_buffers] = buffer->buf;
        run->n_buffers++;
        if (buffer->len != sizes[i]) {
            PyErr_Format(PyExc_ValueError, "buffer %zd has %zd bytes, needs %lld", i, buffer->len,
                         (long long)sizes[i]);
            return -1;
        }
    }
    return 0;
}

static PyObject *plan_start(PyObject *object, PyObject *args)
{
    struct plan_object *self = (struct plan_object *)object;
    struct atc_plan *plan = loaded_plan(object);
    PyObject *inputs, *outputs;
    if (plan == NULL ||
        !PyArg_ParseTuple(args, "O!O!", &PyList_Type, &inputs, &PyList_Type, &outputs))
        return NULL;
    if (PyList_GET_SIZE(inputs) != plan->n_inputs || PyList_GET_SIZE(outputs) != plan->n_outputs) {
        PyErr_SetString(PyExc_ValueError, "wrong number of inputs or outputs");
        return NULL;
    }
    struct run_object *run = (struct run_object *)run_type->tp_alloc(run_type, 0);
    if (run == NULL)
        return NULL;
    const size_t n_ports = (size_t)(plan->n_inputs + plan->n_outputs);
    run->owner = (struct plan_object *)Py_NewRef(object);
    run->buffers = calloc(n_ports + 1, sizeof *run->buffers);
    run->bases = calloc(n_ports + BASE_PORTS, sizeof *run->bases);
    run->arena = atc_plan_take_arena(plan);
    if (run->buffers == NULL || run->bases == NULL || run->arena == NULL) {
        Py_DECREF(run);
        return PyErr_NoMemory();
    }
    run->bases[BASE_ARENA] = run->arena->bytes;
    /* Never written: slots of destinations lie in the arena or in outputs (plan.c). */
    run->bases[BASE_WEIGHTS] = (uint8_t *)(uintptr_t)plan->weights;
    if (bind_buffers(run, inputs, self->sizes, PyBUF_SIMPLE) < 0 ||
        bind_buffers(run, outputs, self->sizes + plan->n_inputs, PyBUF_WRITABLE) < 0) {
        Py_DECREF(run);
        return NULL;
    }
    for (int64_t i = 0; i < plan->n_outputs; i++)
        if (plan->is_cleared[i])
            memset(run->bases[BASE_PORTS + plan->n_inputs + i], 0,
                   (size_t)self->sizes[plan->n_inputs + i]);
    return (PyObject *)run;
}

static void run_dealloc(PyObject *object)
{
    struct run_object *self = (struct run_object *)object;
    for (int64_t i = 0; i < self->n_buffers; i++)
        PyBuffer_Release(self->buffers + i);
    if (self->arena != NULL)
        atc_arena_give(self->owner->plan->arenas, self->arena);
    free(self->buffers);
    free(self->bases);
    Py_XDECREF(self->owner);
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

/* When the runs of a thread are to end, of atc_now_ns; 0: not before they are done. */
static _Thread_local int64_t deadline_ns;

static PyObject *set_deadline(PyObject *module, PyObject *args)
{
    (void)module;
    long long deadline;
    if (!PyArg_ParseTuple(args, "L", &deadline))
        return NULL;
    const int64_t before = deadline_ns;
    deadline_ns = deadline;
    return PyLong_FromLongLong(before);
}

static PyObject *check_deadline(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (deadline_ns == 0 || atc_now_ns() < deadline_ns)
        Py_RETURN_NONE;
    PyErr_SetNone(PyExc_TimeoutError);
    return NULL;
}

static PyObject *start_watchdog(PyObject *module, PyObject *args)
{
    (void)module;
    double seconds;
    const char *text;
    int code;
    if (!PyArg_ParseTuple(args, "dsi", &seconds, &text, &code))
        return NULL;
    const double longest = 1e9;
    if (!(seconds < longest))
        seconds = longest;
    if (!atc_watchdog_start(seconds > 0 ? (int64_t)(seconds * 1e9) : 0, text, code))
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *stop_watchdog(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    atc_watchdog_stop();
    Py_RETURN_NONE;
}

/* Whether the thread is the one that runs the handlers of signals; 0: it was not asked yet. */
static _Thread_local enum { MAIN_UNKNOWN, MAIN_THREAD, OTHER_THREAD } which_thread;

static void after_fork_in_child(void)
{
    which_thread = MAIN_THREAD;
}

static int signals_pending(void)
{
    const PyGILState_STATE state = PyGILState_Ensure();
    const int pending = PyErr_CheckSignals();
    PyGILState_Release(state);
    return pending;
}

/* What a run of this thread asks for signals: nothing but in the main thread. It would wait for
 * Python's lock, for as long as other threads compute in Python.
 */
static int (*ask_for_signals(void))(void)
{
    if (which_thread == MAIN_UNKNOWN)
        which_thread = gettid() == getpid() ? MAIN_THREAD : OTHER_THREAD;
    return which_thread == MAIN_THREAD ? signals_pending : NULL;
}

/* Raises what ended a run, if something did. */
static bool has_run(struct atc_run *run, enum atc_run_status status)
{
    if (status == RUN_INTERRUPTED) {
        if (atomic_load(&run->stop.reason) == STOP_TIME_OVER)
            PyErr_SetNone(PyExc_TimeoutError);
        return false; /* else the signal's handler has raised */
    }
    if (status != RUN_FAULT)
        return true;
    PyObject *value = Py_BuildValue("(LiLL)", (long long)run->task, atomic_load(&run->fault.code),
                                    (long long)run->fault.value, (long long)run->fault.bound);
    if (value != NULL)
        PyErr_SetObject(fault_error, value);
    Py_XDECREF(value);
    return false;
}

/* Has a trace write into two buffers, which are to be released: the totals of a plan's tasks, and
 * events behind the `n_events` that are there.
 */
static bool open_trace(struct atc_trace *trace, const struct atc_plan *plan, PyObject *totals,
                       PyObject *events, Py_buffer *buffers)
{
    if (PyObject_GetBuffer(totals, buffers, PyBUF_WRITABLE) < 0 ||
        PyObject_GetBuffer(events, buffers + 1, PyBUF_WRITABLE) < 0)
        return false;
    if (buffers[0].len != plan->n_tasks * (Py_ssize_t)sizeof *trace->totals ||
        buffers[1].len % (Py_ssize_t)sizeof *trace->events != 0 || trace->n_events < 0) {
        PyErr_SetString(PyExc_ValueError,
                        "totals are two int64 a task, events four each, behind those there are");
        return false;
    }
    trace->totals = buffers[0].buf;
    trace->events = buffers[1].buf;
    trace->max_events = buffers[1].len / (Py_ssize_t)sizeof *trace->events;
    return true;
}

static PyObject *run_execute(PyObject *object, PyObject *args)
{
    struct run_object *self = (struct run_object *)object;
    const struct atc_plan *plan = self->owner->plan;
    long long first, last;
    PyObject *totals = Py_None, *events = Py_None;
    long long n_events = 0;
    if (!PyArg_ParseTuple(args, "LL|OOL", &first, &last, &totals, &events, &n_events))
        return NULL;
    if (first < 0 || last < first || last > plan->n_tasks) {
        PyErr_SetString(PyExc_IndexError, "no such tasks");
        return NULL;
    }
    for (long long i = first; i < last; i++) {
        if (plan->tasks[i].fn == NULL) {
            PyErr_Format(PyExc_ValueError, "task %lld runs on the host", i);
            return NULL;
        }
    }
    Py_buffer buffers[2] = {{0}};
    struct atc_trace trace = {.n_events = n_events};
    PyObject *result = NULL;
    if (totals != Py_None && !open_trace(&trace, plan, totals, events, buffers))
        goto done;
    struct atc_run run = {.plan = plan,
                          .bases = self->bases,
                          .scratch = self->arena->bytes + self->owner->plan->arena_bytes,
                          .trace = totals == Py_None ? NULL : &trace,
                          .stop = {.interrupted = ask_for_signals(), .deadline_ns = deadline_ns}};
    enum atc_run_status status;
    Py_BEGIN_ALLOW_THREADS status = atc_run_tasks(&run, first, last);
    Py_END_ALLOW_THREADS if (has_run(&run, status)) result =
        PyLong_FromLongLong(atomic_load(&trace.n_events));
done:
    for (int i = 0; i < 2; i++)
        PyBuffer_Release(buffers + i);
    return result;
}

/* Reads (input, output) pairs of ports that exchange their memory. Both are written. */
static bool read_swaps(const struct run_object *self, PyObject *list, struct atc_swap *swaps)
{
    const struct atc_plan *plan = self->owner->plan;
    const int64_t *sizes = self->owner->sizes;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        long long input, output;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "LL", &input, &output))
            return false;
        if (input < 0 || input >= plan->n_inputs || output < 0 || output >= plan->n_outputs ||
            sizes[input] != sizes[plan->n_inputs + output] || self->buffers[input].readonly) {
            PyErr_Format(PyExc_ValueError, "input %lld and output %lld cannot be exchanged", input,
                         output);
            return false;
        }
        swaps[i] = (struct atc_swap){BASE_PORTS + input, BASE_PORTS + plan->n_inputs + output};
    }
    return true;
}

/* Reads (port, buffer) pairs, outputs being counted after the inputs, and sets the first memory of
 * each. The buffers are held in `views`, of which `n_views` are to be released.
 */
static bool read_strides(struct run_object *self, PyObject *list, int64_t count,
                         struct atc_stride *strides, Py_buffer *views, Py_ssize_t *n_views)
{
    const struct atc_plan *plan = self->owner->plan;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        long long port;
        PyObject *buffer;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "LO", &port, &buffer))
            return false;
        if (port < 0 || port >= plan->n_inputs + plan->n_outputs) {
            PyErr_Format(PyExc_ValueError, "there is no port %lld", port);
            return false;
        }
        Py_buffer *view = views + *n_views;
        const int flags = port < plan->n_inputs ? PyBUF_SIMPLE : PyBUF_WRITABLE;
        if (PyObject_GetBuffer(buffer, view, flags) < 0)
            return false;
        ++*n_views;
        const int64_t bytes = self->owner->sizes[port];
        if (bytes > 0 && view->len / bytes < count) {
            PyErr_Format(PyExc_ValueError, "port %lld: %zd bytes for %lld iterations", port,
                         view->len, (long long)count);
            return false;
        }
        self->bases[BASE_PORTS + port] = view->buf;
        strides[i] = (struct atc_stride){BASE_PORTS + port, bytes};
    }
    return true;
}

/* No base address may be set by two. */
static bool are_distinct(const struct run_object *self, const struct atc_iterations *iterations)
{
    uint8_t *seen = calloc((size_t)self->n_buffers + BASE_PORTS, 1);
    bool ok = seen != NULL;
    for (int64_t i = 0; ok && i < iterations->n_swaps; i++)
        ok = !seen[iterations->swaps[i].input]++ && !seen[iterations->swaps[i].output]++;
    for (int64_t i = 0; ok && i < iterations->n_strides; i++)
        ok = !seen[iterations->strides[i].port]++;
    free(seen);
    if (!ok)
        PyErr_SetString(PyExc_ValueError, "a port is exchanged or strided twice");
    return ok;
}

static PyObject *run_iterate(PyObject *object, PyObject *args)
{
    struct run_object *self = (struct run_object *)object;
    const struct atc_plan *plan = self->owner->plan;
    long long count, condition;
    PyObject *swap_list, *stride_list;
    if (!PyArg_ParseTuple(args, "LO!O!L", &count, &PyList_Type, &swap_list, &PyList_Type,
                          &stride_list, &condition))
        return NULL;
    if (count < 0 || condition < -1 || condition >= plan->n_outputs ||
        (condition >= 0 && self->owner->sizes[plan->n_inputs + condition] != 1)) {
        PyErr_SetString(PyExc_ValueError, "no such number of iterations, or no such condition");
        return NULL;
    }
    for (int64_t i = 0; i < plan->n_tasks; i++) {
        if (plan->tasks[i].fn == NULL) {
            PyErr_Format(PyExc_ValueError, "task %lld runs on the host", (long long)i);
            return NULL;
        }
    }
    const Py_ssize_t n_swaps = PyList_GET_SIZE(swap_list), n_strides = PyList_GET_SIZE(stride_list);
    struct atc_swap *swaps = calloc((size_t)n_swaps + 1, sizeof *swaps);
    struct atc_stride *strides = calloc((size_t)n_strides + 1, sizeof *strides);
    Py_buffer *views = calloc((size_t)n_strides + 1, sizeof *views);
    Py_ssize_t n_views = 0;
    PyObject *result = NULL;
    if (swaps == NULL || strides == NULL || views == NULL) {
        PyErr_NoMemory();
    } else if (read_swaps(self, swap_list, swaps) &&
               read_strides(self, stride_list, count, strides, views, &n_views)) {
        struct atc_iterations iterations = {
            .count = count,
            .swaps = swaps,
            .n_swaps = n_swaps,
            .strides = strides,
            .n_strides = n_strides,
            .condition = condition < 0 ? -1 : BASE_PORTS + plan->n_inputs + condition};
        struct atc_run run = {
            .plan = plan,
            .bases = self->bases,
            .scratch = self->arena->bytes + plan->arena_bytes,
            .stop = {.interrupted = ask_for_signals(), .deadline_ns = deadline_ns}};
        if (are_distinct(self, &iterations)) {
            enum atc_run_status status;
            Py_BEGIN_ALLOW_THREADS status = atc_run_iterations(&run, self->bases, &iterations);
            Py_END_ALLOW_THREADS if (has_run(&run, status)) result =
                PyLong_FromLongLong(iterations.done);
        }
    }
    for (Py_ssize_t i = 0; strides != NULL && i < n_strides; i++)
        if (strides[i].port != 0) /* not the memory that is released here */
            self->bases[strides[i].port] = self->buffers[strides[i].port - BASE_PORTS].buf;
    for (Py_ssize_t i = 0; i < n_views; i++)
        PyBuffer_Release(views + i);
    free(swaps);
    free(strides);
    free(views);
    return result;
}

/* The Run itself exports the arena's bytes, so that a view keeps it from being reused. */
static int run_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct run_object *self = (struct run_object *)object;
    return PyBuffer_FillInfo(view, object, self->arena->bytes,
                             (Py_ssize_t)self->owner->plan->arena_bytes, 0, flags);
}

/* --- MappedFile --------------------------------------------------------------------------------
 */

static int file_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct file_object *self = (struct file_object *)object;
    static char *names[] = {"fd", "bytes", NULL};
    int fd;
    Py_ssize_t bytes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "in", names, &fd, &bytes))
        return -1;
    if (self->file != NULL || bytes <= 0) {
        PyErr_SetString(PyExc_ValueError, "a file is mapped once, and not without a byte");
        return -1;
    }
    self->file = atc_map_file(fd, (size_t)bytes);
    self->bytes = (size_t)bytes;
    if (self->file == NULL) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return 0;
}

static void file_dealloc(PyObject *object)
{
    struct file_object *self = (struct file_object *)object;
    if (self->file != NULL)
        atc_unmap_file(self->file);
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

/* The mapped file, or NULL with an exception. */
static struct atc_mapped_file *mapped_file(PyObject *object)
{
    struct atc_mapped_file *file = ((struct file_object *)object)->file;
    if (file == NULL)
        PyErr_SetString(PyExc_ValueError, "no file is mapped");
    return file;
}

static PyObject *handle_bus_errors(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    atc_handle_bus_errors();
    Py_RETURN_NONE;
}

static PyObject *file_has_changed(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct atc_mapped_file *file = mapped_file(object);
    return file == NULL ? NULL : PyBool_FromLong(atc_file_has_changed(file));
}

/* Of the copy that the mapping keeps: other parts of the file are mapped by it. */
static PyObject *file_fileno(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_mapped_file *file = mapped_file(object);
    return file == NULL ? NULL : PyLong_FromLong(atomic_load(&file->fd));
}

static int file_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    const struct atc_mapped_file *file = mapped_file(object);
    if (file == NULL)
        return -1;
    const size_t bytes = ((struct file_object *)object)->bytes;
    return PyBuffer_FillInfo(view, object, atomic_load(&file->start), (Py_ssize_t)bytes, 1, flags);
}

/* --- MappedSpace -------------------------------------------------------------------------------
 */

static int space_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct atc_file_space *space = &((struct space_object *)object)->space;
    static char *names[] = {"bytes", NULL};
    Py_ssize_t bytes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "n", names, &bytes))
        return -1;
    if (space->start != NULL || bytes <= 0) {
        PyErr_SetString(PyExc_ValueError, "a space is reserved once, and not without a byte");
        return -1;
    }
    if (!atc_reserve_space(space, (size_t)bytes)) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static void space_dealloc(PyObject *object)
{
    atc_free_space(&((struct space_object *)object)->space);
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

/* The space, or NULL with an exception. */
static struct atc_file_space *reserved_space(PyObject *object)
{
    struct atc_file_space *space = &((struct space_object *)object)->space;
    if (space->start == NULL) {
        PyErr_SetString(PyExc_ValueError, "no space is reserved");
        return NULL;
    }
    return space;
}

static PyObject *space_map(PyObject *object, PyObject *args)
{
    struct atc_file_space *space = reserved_space(object);
    int fd;
    Py_ssize_t offset, bytes, at;
    if (space == NULL || !PyArg_ParseTuple(args, "innn", &fd, &offset, &bytes, &at))
        return NULL;
    if (offset < 0 || bytes < 0 || at < 0) {
        PyErr_SetString(PyExc_ValueError, "a negative number");
        return NULL;
    }
    if (!atc_map_into(space, fd, (size_t)offset, (size_t)bytes, (size_t)at))
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *space_changed_file(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct atc_file_space *space = reserved_space(object);
    if (space == NULL)
        return NULL;
    const size_t changed = atc_changed_file(space);
    if (changed == space->n_files)
        Py_RETURN_NONE;
    return PyLong_FromSize_t(changed);
}

static int space_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    const struct atc_file_space *space = reserved_space(object);
    if (space == NULL)
        return -1;
    return PyBuffer_FillInfo(view, object, space->start, (Py_ssize_t)space->bytes, 1, flags);
}

/* --- maps --------------------------------------------------------------------------------------
 */

static PyObject *map_of_row(PyObject *keys, const float *row)
{
    PyObject *map = PyDict_New();
    for (Py_ssize_t i = 0; map != NULL && i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *value = PyFloat_FromDouble(row[i]);
        if (value == NULL || PyDict_SetItem(map, PyTuple_GET_ITEM(keys, i), value) < 0)
            Py_CLEAR(map);
        Py_XDECREF(value);
    }
    return map;
}

static PyObject *maps_of_rows(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *keys;
    Py_buffer rows;
    if (!PyArg_ParseTuple(args, "O!y*", &PyTuple_Type, &keys, &rows))
        return NULL;
    const Py_ssize_t columns = PyTuple_GET_SIZE(keys),
                     floats = rows.len / (Py_ssize_t)sizeof(float);
    PyObject *maps = NULL;
    if (columns == 0 ? rows.len != 0 : rows.len % (columns * (Py_ssize_t)sizeof(float)) != 0)
        PyErr_SetString(PyExc_ValueError, "the rows are not as long as the keys");
    else
        maps = PyList_New(columns == 0 ? 0 : floats / columns);
    for (Py_ssize_t i = 0; maps != NULL && i < PyList_GET_SIZE(maps); i++) {
        PyObject *map = map_of_row(keys, (const float *)rows.buf + i * columns);
        if (map == NULL)
            Py_CLEAR(maps);
        else
            PyList_SET_ITEM(maps, i, map);
    }
    PyBuffer_Release(&rows);
    return maps;
}

/* --- roofline ----------------------------------------------------------------------------------
 */

static bool is_thread_count(int threads)
{
    if (threads >= 1 && threads <= 1024)
        return true;
    PyErr_SetString(PyExc_ValueError, "no such number of threads");
    return false;
}

static PyObject *peak_flops(PyObject *module, PyObject *args)
{
    (void)module;
    int threads;
    if (!PyArg_ParseTuple(args, "i", &threads) || !is_thread_count(threads))
        return NULL;
    double peak;
    Py_BEGIN_ALLOW_THREADS peak = atc_peak_flops(threads);
    Py_END_ALLOW_THREADS return PyFloat_FromDouble(peak);
}

static PyObject *peak_bandwidth(PyObject *module, PyObject *args)
{
    (void)module;
    int threads;
    long long bytes;
    if (!PyArg_ParseTuple(args, "iL", &threads, &bytes) || !is_thread_count(threads))
        return NULL;
    if (bytes < 0 || bytes >= ATC_TOO_BIG) {
        PyErr_SetString(PyExc_ValueError, "no such number of bytes");
        return NULL;
    }
    double peak;
    Py_BEGIN_ALLOW_THREADS peak = atc_peak_bandwidth(threads, bytes);
    Py_END_ALLOW_THREADS return peak < 0 ? PyErr_NoMemory() : PyFloat_FromDouble(peak);
}

/* --- streams -----------------------------------------------------------------------------------
 */

/* Costs are those on a CPU of no special kind: what the compiler decides by them does not depend on
 * where it runs.
 */
static PyObject *task_cost(PyObject *module, PyObject *args)
{
    (void)module;
    static const struct atc_cpu cpu = {.isa = ISA_SCALAR, .l1_bytes = 1 << 15, .l2_bytes = 1 << 20};
    const char *name;
    Py_buffer params;
    if (!PyArg_ParseTuple(args, "sy*", &name, &params))
        return NULL;
    uint8_t aligned[ATC_PARAM_BYTES] = {0};
    const struct kernel_row *rows = atc_find_rows(name);
    PyObject *cost = NULL;
    if (rows == NULL || params.len > ATC_PARAM_BYTES) {
        PyErr_SetString(PyExc_ValueError, "no such family, or too many arguments");
    } else {
        memcpy(aligned, params.buf, (size_t)params.len);
        const struct kernel_cost found = rows->family->cost(aligned, &cpu);
        cost = Py_BuildValue("LL", (long long)found.items, (long long)found.work);
    }
    PyBuffer_Release(&params);
    return cost;
}

/* Adds the tasks of a stream, a list of (items, work). */
static bool add_stream(struct atc_section_cost *section, PyObject *tasks)
{
    if (!PyList_Check(tasks)) {
        PyErr_SetString(PyExc_TypeError, "a stream is a list of tasks");
        return false;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tasks); i++) {
        long long items, work;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(tasks, i), "LL", &items, &work))
            return false;
        atc_section_add(section, work, items);
    }
    atc_section_end_stream(section);
    return true;
}

static PyObject *section_pays(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *streams;
    int threads;
    if (!PyArg_ParseTuple(args, "O!i", &PyList_Type, &streams, &threads))
        return NULL;
    if (threads < 1) {
        PyErr_SetString(PyExc_ValueError, "there is at least one thread");
        return NULL;
    }
    struct atc_section_cost section;
    atc_section_begin(&section, threads);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(streams); i++)
        if (!add_stream(&section, PyList_GET_ITEM(streams, i)))
            return NULL;
    return PyBool_FromLong(atc_section_pays(&section));
}

static PyObject *streams_race(PyObject *module, PyObject *operands)
{
    (void)module;
    if (!PyList_Check(operands)) {
        PyErr_SetString(PyExc_TypeError, "operands are a list");
        return NULL;
    }
    const Py_ssize_t n = PyList_GET_SIZE(operands);
    struct atc_access *accesses = PyMem_Calloc((size_t)n + 1, sizeof *accesses);
    if (accesses == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        struct atc_access *access = accesses + i;
        unsigned long long begin, end;
        int writes;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(operands, i), "IIKKp", &access->base, &access->stream,
                              &begin, &end, &writes)) {
            PyMem_Free(accesses);
            return NULL;
        }
        access->begin = begin;
        access->end = end;
        access->writes = writes != 0;
    }
    const bool race = atc_streams_race(accesses, (size_t)n);
    PyMem_Free(accesses);
    return PyBool_FromLong(race);
}

/* --- module ------------------------------------------------------------------------------------
 */

static PyMethodDef plan_methods[] = {
    {"rows", plan_rows, METH_NOARGS, "The row bound to each task; None for the host's."},
    {"footprints", plan_footprints, METH_NOARGS,
     "Of each task: stream, bytes read, bytes written, products that are summed or None."},
    {"records", plan_records, METH_NOARGS,
     "Its task records; what depends on symbols is filled in."},
    {"scratch_bytes", plan_scratch_bytes, METH_NOARGS,
     "What kernels need of each thread, beside the arena, on this CPU."},
    {"run_bytes", plan_run_bytes, METH_NOARGS, "The arena, and the scratch of all threads."},
    {"joins", plan_joins, METH_NOARGS,
     "Before each task, how many collectives must have ended; empty if there are none."},
    {"start", plan_start, METH_VARARGS, "Binds input and output buffers for one run."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot plan_slots[] = {
    {Py_tp_init, plan_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, plan_dealloc},
    {Py_tp_methods, plan_methods},
    {0, NULL},
};
static PyType_Spec plan_spec = {"atcpy.kernels._kernels.Plan", sizeof(struct plan_object), 0,
                                Py_TPFLAGS_DEFAULT, plan_slots};

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
static PyType_Spec symbolic_spec = {"atcpy.kernels._kernels.SymbolicPlan",
                                    sizeof(struct symbolic_object), 0, Py_TPFLAGS_DEFAULT,
                                    symbolic_slots};

static PyMethodDef run_methods[] = {
    {"execute", run_execute, METH_VARARGS,
     "Runs tasks [first, last). With `totals` (ns, runs) of each task and `events` (start, end, "
     "task, "
     "thread), it adds to the former and writes the latter behind the first `n_events`; returns "
     "how "
     "many there would be with enough room."},
    {"iterate", run_iterate, METH_VARARGS,
     "Runs all tasks up to `count` times and returns how often: (input, output) pairs exchange "
     "their "
     "memory after each, (port, buffer) pairs go through theirs, a condition that is false ends "
     "it."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot run_slots[] = {
    {Py_tp_dealloc, run_dealloc},
    {Py_tp_methods, run_methods},
    {Py_bf_getbuffer, run_getbuffer},
    {0, NULL},
};
static PyType_Spec run_spec = {"atcpy.kernels._kernels.Run", sizeof(struct run_object), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, run_slots};

static PyMethodDef file_methods[] = {
    {"has_changed", file_has_changed, METH_NOARGS,
     "Whether the file was cut short or written to since it was mapped."},
    {"fileno", file_fileno, METH_NOARGS, "The descriptor that the mapping keeps."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot file_slots[] = {
    {Py_tp_init, file_init},       {Py_tp_new, PyType_GenericNew},    {Py_tp_dealloc, file_dealloc},
    {Py_tp_methods, file_methods}, {Py_bf_getbuffer, file_getbuffer}, {0, NULL},
};
static PyType_Spec file_spec = {"atcpy.kernels._kernels.MappedFile", sizeof(struct file_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, file_slots};

static PyMethodDef space_methods[] = {
    {"map", space_map, METH_VARARGS, "Map a part of a file at an offset of the space."},
    {"changed_file", space_changed_file, METH_NOARGS,
     "The number of the first file that was cut short or written to since it was mapped, or None."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot space_slots[] = {
    {Py_tp_init, space_init},           {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, space_dealloc},     {Py_tp_methods, space_methods},
    {Py_bf_getbuffer, space_getbuffer}, {0, NULL},
};
static PyType_Spec space_spec = {"atcpy.kernels._kernels.MappedSpace", sizeof(struct space_object),
                                 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, space_slots};

static PyMethodDef functions[] = {
    {"families", list_families, METH_NOARGS, "The families' argument fields, by name."},
    {"rows", list_rows, METH_NOARGS, "The kernel table."},
    {"maps_of_rows", maps_of_rows, METH_VARARGS, "A dict of each row of floats."},
    {"cpu", describe_cpu, METH_NOARGS, "ISA in use and cache sizes."},
    {"task_cost", task_cost, METH_VARARGS,
     "The items and the work of a task of a family with these arguments."},
    {"section_pays", section_pays, METH_VARARGS,
     "Whether streams of (items, work) take less beside each other, on so many threads."},
    {"streams_race", streams_race, METH_O,
     "Whether a stream writes what another uses: (memory, stream, begin, end, writes) of each "
     "operand."},
    {"handle_bus_errors", handle_bus_errors, METH_NOARGS,
     "Handles pages that mapped files have lost, again where others took the handler away."},
    {"workers_on", workers_on, METH_O,
     "The workers that run on these CPUs only; MemoryError if there are too many of such groups."},
    {"set_cores", set_cores, METH_VARARGS,
     "Sets how many cores callers and workers use that are bound to no CPUs; returns what was "
     "set."},
    {"peak_flops", peak_flops, METH_VARARGS,
     "Measures float32 operations a second, with so many threads."},
    {"peak_bandwidth", peak_bandwidth, METH_VARARGS,
     "Measures bytes read a second out of so many, with so many threads."},
    {"check_deadline", check_deadline, METH_NOARGS,
     "Raises TimeoutError if the deadline of this thread is over."},
    {"start_watchdog", start_watchdog, METH_VARARGS,
     "Ends the process with a text and a code after so many seconds, unless it is stopped."},
    {"stop_watchdog", stop_watchdog, METH_NOARGS, "Stops it."},
    {"set_deadline", set_deadline, METH_VARARGS,
     "Sets when runs of this thread end with TimeoutError, in nanoseconds of time.monotonic_ns, or "
     "0; returns what was set."},
    {NULL, NULL, 0, NULL},
};

static PyObject *program_ops(void)
{
    PyObject *names = PyTuple_New(PROGRAM_OPS);
    for (int i = 0; names != NULL && i < PROGRAM_OPS; i++) {
        PyObject *name = PyUnicode_FromString(atc_program_op_names[i]);
        if (name == NULL)
            Py_CLEAR(names);
        else
            PyTuple_SET_ITEM(names, i, name);
    }
    return names;
}

/* The families whose checkers read constants. */
static PyObject *constant_readers(void)
{
    PyObject *names = PySet_New(NULL), *frozen = NULL;
    for (int i = 0; names != NULL && i < kernel_table_rows; i++) {
        if (!kernel_table[i].family->reads_constants)
            continue;
        PyObject *name = PyUnicode_FromString(kernel_table[i].family->name);
        if (name == NULL || PySet_Add(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    if (names != NULL)
        frozen = PyFrozenSet_New(names);
    Py_XDECREF(names);
    return frozen;
}

static int module_exec(PyObject *module)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
    refused_error = PyErr_NewException("atcpy.kernels._kernels.Refused", NULL, NULL);
    fault_error = PyErr_NewException("atcpy.kernels._kernels.Fault", NULL, NULL);
    plan_type = (PyTypeObject *)PyType_FromSpec(&plan_spec);
    run_type = (PyTypeObject *)PyType_FromSpec(&run_spec);
    if (refused_error == NULL || fault_error == NULL || plan_type == NULL || run_type == NULL)
        return -1;
    unmet_error = PyErr_NewException("atcpy.kernels._kernels.Unmet", refused_error, NULL);
    PyObject *symbolic_type = PyType_FromSpec(&symbolic_spec);
    PyObject *file_type = PyType_FromSpec(&file_spec);
    PyObject *space_type = PyType_FromSpec(&space_spec);
    PyObject *ops = program_ops(), *readers = constant_readers();
    if (unmet_error == NULL || symbolic_type == NULL || file_type == NULL || space_type == NULL ||
        ops == NULL || readers == NULL)
        return -1;
    if (PyModule_AddObjectRef(module, "Refused", refused_error) < 0 ||
        PyModule_AddObjectRef(module, "Fault", fault_error) < 0 ||
        PyModule_AddObjectRef(module, "Unmet", unmet_error) < 0 ||
        PyModule_AddObjectRef(module, "Plan", (PyObject *)plan_type) < 0 ||
        PyModule_AddObjectRef(module, "SymbolicPlan", symbolic_type) < 0 ||
        PyModule_AddObjectRef(module, "MappedFile", file_type) < 0 ||
        PyModule_AddObjectRef(module, "MappedSpace", space_type) < 0 ||
        PyModule_AddObjectRef(module, "PROGRAM_OPS", ops) < 0 ||
        PyModule_AddObjectRef(module, "CONSTANT_READERS", readers) < 0 ||
        PyModule_AddObjectRef(module, "Run", (PyObject *)run_type) < 0 ||
        PyModule_AddIntConstant(module, "TASK_BYTES", ATC_TASK_BYTES) < 0 ||
        PyModule_AddIntConstant(module, "PARAM_BYTES", ATC_PARAM_BYTES) < 0 ||
        PyModule_AddIntConstant(module, "MAX_SLOTS", ATC_MAX_SLOTS) < 0 ||
        PyModule_AddIntConstant(module, "MAX_RANK", ATC_MAX_RANK) < 0)
        return -1;
    Py_DECREF(symbolic_type);
    Py_DECREF(file_type);
    Py_DECREF(space_type);
    Py_DECREF(ops);
    Py_DECREF(readers);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT,
                                        "_kernels",
                                        "The C kernels and their executor.",
                                        0,
                                        functions,
                                        module_slots,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__kernels(void);
PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModuleDef_Init(&module_def);
}

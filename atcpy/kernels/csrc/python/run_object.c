/* The type Run, and what ends a run early:
 *
 *     run.execute(first, last, totals=None, events=None, n_events=0) -> n_events
 *     run.iterate(count, swaps, strides, condition) -> how many iterations there were
 *     memoryview(run) -> the arena
 *     set_deadline(ns) -> the one before;  check_deadline()
 *     start_watchdog(seconds, text, code);  stop_watchdog()
 */
#include "python/binding.h"

#include "core/clock.h"
#include "core/watchdog.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct run_object *atc_new_run(PyObject *object)
{
    struct atc_plan *plan = atc_loaded_plan(object);
    struct run_object *run =
        plan == NULL ? NULL : (struct run_object *)PyType_GenericAlloc(atc_run_type, 0);
    if (run == NULL)
        return NULL;
    const size_t n_ports = (size_t)(plan->n_inputs + plan->n_outputs);
    run->owner = (struct plan_object *)Py_NewRef(object);
    run->buffers = calloc(n_ports + 1, sizeof *run->buffers);
    run->bases = calloc(n_ports + BASE_PORTS, sizeof *run->bases);
    run->arena = atc_plan_take_arena(plan);
    if (run->buffers == NULL || run->bases == NULL || run->arena == NULL) {
        Py_DECREF(run);
        PyErr_NoMemory();
        return NULL;
    }
    run->bases[BASE_ARENA] = run->arena->bytes;
    /* Never written: slots of destinations lie in the arena or in outputs (plan.c). */
    run->bases[BASE_WEIGHTS] = (uint8_t *)(uintptr_t)plan->weights;
    return run;
}

const Py_buffer *atc_bind_port(struct run_object *run, PyObject *object)
{
    const struct atc_plan *plan = run->owner->plan;
    const int64_t port = run->n_buffers, bytes = run->owner->sizes[port];
    const bool is_output = port >= plan->n_inputs;
    Py_buffer *buffer = run->buffers + port;
    if (PyObject_GetBuffer(object, buffer, is_output ? PyBUF_WRITABLE : PyBUF_ND) < 0)
        return NULL;
    run->bases[BASE_PORTS + port] = buffer->buf;
    run->n_buffers++;
    if (buffer->len != bytes) {
        PyErr_Format(PyExc_ValueError, "buffer %lld has %zd bytes, needs %lld",
                     (long long)(is_output ? port - plan->n_inputs : port), buffer->len,
                     (long long)bytes);
        return NULL;
    }
    if (is_output && plan->is_cleared[port - plan->n_inputs])
        memset(buffer->buf, 0, (size_t)bytes);
    return buffer;
}

static bool bind_ports(struct run_object *run, PyObject *list)
{
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++)
        if (atc_bind_port(run, PyList_GetItem(list, i)) == NULL)
            return false;
    return true;
}

PyObject *atc_start_run(PyObject *object, PyObject *args)
{
    const struct atc_plan *plan = atc_loaded_plan(object);
    PyObject *inputs, *outputs;
    if (plan == NULL ||
        !PyArg_ParseTuple(args, "O!O!", &PyList_Type, &inputs, &PyList_Type, &outputs))
        return NULL;
    if (PyList_Size(inputs) != plan->n_inputs || PyList_Size(outputs) != plan->n_outputs) {
        PyErr_SetString(PyExc_ValueError, "wrong number of inputs or outputs");
        return NULL;
    }
    struct run_object *run = atc_new_run(object);
    if (run != NULL && !(bind_ports(run, inputs) && bind_ports(run, outputs)))
        Py_CLEAR(run);
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
    Py_XDECREF((PyObject *)self->owner);
    atc_free_object(object);
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

void atc_after_fork_in_child(void)
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
        which_thread = syscall(SYS_gettid) == getpid() ? MAIN_THREAD : OTHER_THREAD;
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
        PyErr_SetObject(atc_fault_error, value);
    Py_XDECREF(value);
    return false;
}

/* Whether tasks [first, last) all have a kernel; else there is an exception. */
static bool have_kernels(const struct atc_plan *plan, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        if (plan->tasks[i].fn == NULL) {
            PyErr_Format(PyExc_ValueError, "task %lld runs on the host", (long long)i);
            return false;
        }
    }
    return true;
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

bool atc_run_range(struct run_object *self, int64_t first, int64_t last, struct atc_trace *trace)
{
    const struct atc_plan *plan = self->owner->plan;
    if (!have_kernels(plan, first, last))
        return false;
    struct atc_run run = {.plan = plan,
                          .bases = self->bases,
                          .scratch = self->arena->bytes + plan->arena_bytes,
                          .trace = trace,
                          .stop = {.interrupted = ask_for_signals(), .deadline_ns = deadline_ns}};
    enum atc_run_status status;
    Py_BEGIN_ALLOW_THREADS status = atc_run_tasks(&run, first, last);
    Py_END_ALLOW_THREADS return has_run(&run, status);
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
    Py_buffer buffers[2] = {{0}};
    struct atc_trace trace = {.n_events = n_events};
    const bool is_traced = totals != Py_None;
    PyObject *result = NULL;
    if ((!is_traced || open_trace(&trace, plan, totals, events, buffers)) &&
        atc_run_range(self, first, last, is_traced ? &trace : NULL))
        result = PyLong_FromLongLong(atomic_load(&trace.n_events));
    for (int i = 0; i < 2; i++)
        PyBuffer_Release(buffers + i);
    return result;
}

/* Reads (input, output) pairs of ports that exchange their memory. Both are written. */
static bool read_swaps(const struct run_object *self, PyObject *list, struct atc_swap *swaps)
{
    const struct atc_plan *plan = self->owner->plan;
    const int64_t *sizes = self->owner->sizes;
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        long long input, output;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "LL", &input, &output))
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
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        long long port;
        PyObject *buffer;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "LO", &port, &buffer))
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
    if (!have_kernels(plan, 0, plan->n_tasks))
        return NULL;
    const Py_ssize_t n_swaps = PyList_Size(swap_list), n_strides = PyList_Size(stride_list);
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
PyType_Spec atc_run_spec = {"atcpy.kernels._kernels.Run", sizeof(struct run_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, run_slots};

PyMethodDef atc_run_functions[] = {
    {"check_deadline", check_deadline, METH_NOARGS,
     "Raises TimeoutError if the deadline of this thread is over."},
    {"set_deadline", set_deadline, METH_VARARGS,
     "Sets when runs of this thread end with TimeoutError, in nanoseconds of time.monotonic_ns, or "
     "0; returns what was set."},
    {"start_watchdog", start_watchdog, METH_VARARGS,
     "Ends the process with a text and a code after so many seconds, unless it is stopped."},
    {"stop_watchdog", stop_watchdog, METH_NOARGS, "Stops it."},
    {NULL, NULL, 0, NULL},
};

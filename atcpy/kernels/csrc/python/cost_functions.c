/* What the compiler and the profiler ask of the cost model and of this CPU:
 *
 *     task_cost(family, arguments) -> (items, work)
 *     section_pays(streams, threads);  streams_race(operands)
 *     peak_operations(threads, type of products), peak_bandwidth(threads, bytes) -> a second
 */
#include "python/binding.h"

#include "core/cpu.h"
#include "core/streams.h"
#include "roofline/roofline.h"

#include <string.h>

/* Costs are those on a CPU of no special kind: what the compiler decides by them does not depend on
 * where it runs.
 */
static PyObject *task_cost(PyObject *module, PyObject *args)
{
    (void)module;
    static const struct atc_cpu cpu = {
        .isa = ISA_SCALAR, .l1_bytes = 1 << 15, .l2_bytes = 1 << 20, .threads = 1};
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
    for (Py_ssize_t i = 0; i < PyList_Size(tasks); i++) {
        long long items, work;
        if (!PyArg_ParseTuple(PyList_GetItem(tasks, i), "LL", &items, &work))
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
    for (Py_ssize_t i = 0; i < PyList_Size(streams); i++)
        if (!add_stream(&section, PyList_GetItem(streams, i)))
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
    const Py_ssize_t n = PyList_Size(operands);
    struct atc_access *accesses = PyMem_Calloc((size_t)n + 1, sizeof *accesses);
    if (accesses == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        struct atc_access *access = accesses + i;
        unsigned long long begin, end;
        int writes;
        if (!PyArg_ParseTuple(PyList_GetItem(operands, i), "IIKKp", &access->base, &access->stream,
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

static bool is_thread_count(int threads)
{
    if (threads >= 1 && threads <= 1024)
        return true;
    PyErr_SetString(PyExc_ValueError, "no such number of threads");
    return false;
}

static PyObject *peak_operations(PyObject *module, PyObject *args)
{
    (void)module;
    int threads, type = 0;
    const char *name;
    if (!PyArg_ParseTuple(args, "is", &threads, &name) || !is_thread_count(threads))
        return NULL;
    while (type < PRODUCT_TYPES && strcmp(atc_product_types[type], name) != 0)
        type++;
    if (type == PRODUCT_TYPES)
        return PyErr_Format(PyExc_ValueError, "no such type of products: %s", name);
    double peak;
    Py_BEGIN_ALLOW_THREADS peak = atc_peak_operations(threads, (enum product_type)type);
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

PyMethodDef atc_cost_functions[] = {
    {"task_cost", task_cost, METH_VARARGS,
     "The items and the work of a task of a family with these arguments."},
    {"section_pays", section_pays, METH_VARARGS,
     "Whether streams of (items, work) take less beside each other, on so many threads."},
    {"streams_race", streams_race, METH_O,
     "Whether a stream writes what another uses: (memory, stream, begin, end, writes) of each "
     "operand."},
    {"peak_operations", peak_operations, METH_VARARGS,
     "Measures operations a second of products of a type, with so many threads; 0: not known."},
    {"peak_bandwidth", peak_bandwidth, METH_VARARGS,
     "Measures bytes read a second out of so many, with so many threads."},
    {NULL, NULL, 0, NULL},
};

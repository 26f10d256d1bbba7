/* The tasks of a package:
 *
 *     split_tasks(partition) -> ([(records, program), ...], records, rest)
 *
 *     tasks_of_family(records, family) -> [number, ...]
 *
 * The list has the records in front of each program, `rest` the fields of TASK_INFO that are no
 * tasks.
 */
#include "python/binding.h"

#include "core/task_info.h"

#include <stdlib.h>
#include <string.h>

/* Tasks since the last program, and other fields; the partition bounds them all. */
struct task_list {
    struct atc_task *tasks;
    uint8_t *rest;
    size_t n_tasks, rest_bytes;
    PyObject *plans;
};

/* Whether a record, which begins with its family, is of the family of that name. */
static bool has_name(const void *record, struct atc_span name)
{
    uint8_t family[ATC_FAMILY_BYTES] = {0};
    if (name.size == 0 || name.size >= sizeof family || memchr(name.at, 0, name.size) != NULL)
        return false;
    memcpy(family, name.at, name.size);
    return memcmp(record, family, sizeof family) == 0;
}

static PyObject *refuse(const char *reason, long long task)
{
    PyObject *value = Py_BuildValue("(sL)", reason, task);
    if (value != NULL)
        PyErr_SetObject(atc_refused_error, value);
    Py_XDECREF(value);
    return NULL;
}

static PyObject *bytes_of(const void *at, size_t size)
{
    return PyBytes_FromStringAndSize(at, (Py_ssize_t)size);
}

static PyObject *records_of(const struct task_list *list)
{
    return bytes_of(list->tasks, list->n_tasks * sizeof *list->tasks);
}

static bool end_plan(struct task_list *list, struct atc_span program)
{
    PyObject *plan = Py_BuildValue("(NN)", records_of(list), bytes_of(program.at, program.size));
    const bool added = plan != NULL && PyList_Append(list->plans, plan) == 0;
    Py_XDECREF(plan);
    list->n_tasks = 0;
    return added;
}

/* Adds the record of a launch, or says why there is none. The partition may be that of a file that
 * changes: what is checked is the copy.
 */
static const char *add_task(struct task_list *list, const struct atc_task_entry *entry)
{
    struct atc_task *const task = &list->tasks[list->n_tasks];
    if (entry->record.size != sizeof *task || entry->args_size != sizeof *task)
        return "its record has another size";
    memcpy(task, entry->record.at, sizeof *task);
    if (!has_name(task, entry->kernel_name))
        return "its record is not of the kernel that it names";
    if (task->op_index != entry->op_index)
        return "its record is not of the node that it names";
    list->n_tasks++;
    return NULL;
}

static PyObject *read_list(struct task_list *list, struct atc_span left)
{
    struct atc_task_entry entry;
    struct atc_span field;
    const char *reason;
    for (long long number = 0;;) {
        switch (atc_next_info_field(&left, &entry, &field)) {
        case INFO_END:
            return Py_BuildValue("(ONN)", list->plans, records_of(list),
                                 bytes_of(list->rest, list->rest_bytes));
        case INFO_MALFORMED:
            return refuse("it is no domi.ModelTaskDef", -1);
        case INFO_OTHER:
            memcpy(list->rest + list->rest_bytes, field.at, field.size);
            list->rest_bytes += field.size;
            break;
        case INFO_TASK:
            if (entry.program.size > 0) {
                if (!end_plan(list, entry.program))
                    return NULL;
            } else if ((reason = add_task(list, &entry)) != NULL) {
                return refuse(reason, number);
            }
            number++;
            break;
        }
    }
}

static PyObject *split_tasks(PyObject *module, PyObject *partition)
{
    (void)module;
    Py_buffer view;
    if (PyObject_GetBuffer(partition, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    const size_t size = (size_t)view.len;
    struct task_list list = {
        .tasks = malloc(size + 1), .rest = malloc(size + 1), .plans = PyList_New(0)};
    PyObject *found = NULL;
    if (list.tasks == NULL || list.rest == NULL)
        PyErr_NoMemory();
    else if (list.plans != NULL)
        found = read_list(&list, (struct atc_span){view.buf, size});
    free(list.tasks);
    free(list.rest);
    Py_XDECREF(list.plans);
    PyBuffer_Release(&view);
    return found;
}

static PyObject *tasks_of_family(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer records;
    const char *family;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "y*s#", &records, &family, &length))
        return NULL;
    const struct atc_span name = {(const uint8_t *)family, (size_t)length};
    const Py_ssize_t n_tasks = records.len / ATC_TASK_BYTES;
    PyObject *numbers = PyList_New(0);
    for (Py_ssize_t i = 0; numbers != NULL && i < n_tasks; i++) {
        if (!has_name((const uint8_t *)records.buf + i * ATC_TASK_BYTES, name))
            continue;
        PyObject *number = PyLong_FromSsize_t(i);
        if (number == NULL || PyList_Append(numbers, number) < 0)
            Py_CLEAR(numbers);
        Py_XDECREF(number);
    }
    PyBuffer_Release(&records);
    return numbers;
}

PyMethodDef atc_task_functions[] = {
    {"tasks_of_family", tasks_of_family, METH_VARARGS, "The numbers of the tasks of a family."},
    {"split_tasks", split_tasks, METH_O, "The tasks of a package, and the rest of TASK_INFO."},
    {NULL, NULL, 0, NULL},
};

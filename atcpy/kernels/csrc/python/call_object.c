/* The type PlanCall: all of a run whose inputs come in a dict, as those of most runs do. In Python
 * this takes as long as a small model.
 *
 *     PlanCall(plan, array_type, inputs, allocators);  call.run(feeds) -> [output, ...], or None
 *
 * It is for arrays of certain types and shapes, and where an input has a content, the sizes in the
 * plan follow from these bytes.
 */
#include "python/binding.h"

#include <stdlib.h>
#include <string.h>

struct call_object {
    PyObject_HEAD PyObject *plan;
    PyObject *array_type;
    PyObject *inputs; /* those of the plan, then others: a tuple of (name, dtype, shape, content) */
    PyObject *allocators; /* a tuple of functions that return the memory of an output */
    PyObject *dtype_name; /* "dtype" */
};

static int call_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct call_object *self = (struct call_object *)object;
    static char *names[] = {"plan", "array_type", "inputs", "allocators", NULL};
    PyObject *plan, *array_type, *inputs, *allocators;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO!O!", names, atc_plan_type, &plan,
                                     &array_type, &PyTuple_Type, &inputs, &PyTuple_Type,
                                     &allocators))
        return -1;
    const struct atc_plan *loaded = atc_loaded_plan(plan);
    if (loaded == NULL)
        return -1;
    if (self->plan != NULL || !PyType_Check(array_type) ||
        PyTuple_Size(inputs) < loaded->n_inputs || PyTuple_Size(allocators) != loaded->n_outputs) {
        PyErr_SetString(PyExc_ValueError,
                        "a call is made once: of a type, each input, and memory for each output");
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(inputs); i++) {
        PyObject *name, *dtype, *shape, *content;
        if (!PyArg_ParseTuple(PyTuple_GetItem(inputs, i), "UOO!O", &name, &dtype, &PyTuple_Type,
                              &shape, &content))
            return -1;
        if (content != Py_None && !PyBytes_Check(content)) {
            PyErr_SetString(PyExc_TypeError, "a content is bytes");
            return -1;
        }
    }
    self->dtype_name = PyUnicode_InternFromString("dtype");
    if (self->dtype_name == NULL)
        return -1;
    self->plan = Py_NewRef(plan);
    self->array_type = Py_NewRef(array_type);
    self->inputs = Py_NewRef(inputs);
    self->allocators = Py_NewRef(allocators);
    return 0;
}

static void call_dealloc(PyObject *object)
{
    struct call_object *self = (struct call_object *)object;
    Py_XDECREF(self->plan);
    Py_XDECREF(self->array_type);
    Py_XDECREF(self->inputs);
    Py_XDECREF(self->allocators);
    Py_XDECREF(self->dtype_name);
    atc_free_object(object);
}

static bool has_shape(const Py_buffer *buffer, PyObject *shape)
{
    if (PyTuple_Size(shape) != buffer->ndim)
        return false;
    for (int i = 0; i < buffer->ndim; i++)
        if (PyLong_AsSsize_t(PyTuple_GetItem(shape, i)) != buffer->shape[i])
            return false;
    return true;
}

static bool is_aligned(const Py_buffer *buffer)
{
    return buffer->itemsize > 0 && (uintptr_t)buffer->buf % (size_t)buffer->itemsize == 0;
}

static bool has_content(const Py_buffer *buffer, PyObject *content)
{
    if (content == Py_None)
        return true;
    char *bytes = NULL;
    Py_ssize_t n = 0;
    return PyBytes_AsStringAndSize(content, &bytes, &n) == 0 && n == buffer->len &&
           memcmp(bytes, buffer->buf, (size_t)n) == 0;
}

static bool fits(const Py_buffer *buffer, PyObject *input)
{
    return has_shape(buffer, PyTuple_GetItem(input, 2)) && is_aligned(buffer) &&
           has_content(buffer, PyTuple_GetItem(input, 3));
}

/* The array that is fed to an input, if it has exactly its type. */
static PyObject *find_array(const struct call_object *self, PyObject *input, PyObject *feeds)
{
    PyObject *array = PyDict_GetItemWithError(feeds, PyTuple_GetItem(input, 0));
    if (array == NULL || !Py_IS_TYPE(array, (PyTypeObject *)self->array_type))
        return NULL;
    /* An array that was pickled has a dtype of its own. */
    PyObject *dtype = PyObject_GetAttr(array, self->dtype_name);
    const int is_same =
        dtype == NULL ? -1 : PyObject_RichCompareBool(dtype, PyTuple_GetItem(input, 1), Py_EQ);
    Py_XDECREF(dtype);
    return is_same == 1 ? array : NULL;
}

/* Binds the inputs of the plan, if all that is fed is what the call is for. Where it is not, the
 * caller has to say what is wrong, or to convert it: there may be an exception that does not
 * matter.
 */
static bool bind_inputs(const struct call_object *self, struct run_object *run, PyObject *feeds)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(self->inputs); i++) {
        PyObject *input = PyTuple_GetItem(self->inputs, i);
        PyObject *array = find_array(self, input, feeds);
        if (array == NULL)
            return false;
        if (i < run->owner->plan->n_inputs) {
            const Py_buffer *buffer = atc_bind_port(run, array);
            if (buffer == NULL || !fits(buffer, input))
                return false;
            continue;
        }
        Py_buffer buffer;
        if (PyObject_GetBuffer(array, &buffer, PyBUF_ND) < 0)
            return false;
        const bool is_fit = fits(&buffer, input);
        PyBuffer_Release(&buffer);
        if (!is_fit)
            return false;
    }
    return true;
}

/* Memory for all outputs, bound to the run; NULL with an exception. */
static PyObject *bind_outputs(const struct call_object *self, struct run_object *run)
{
    const Py_ssize_t n = PyTuple_Size(self->allocators);
    PyObject *outputs = PyList_New(n);
    for (Py_ssize_t i = 0; outputs != NULL && i < n; i++) {
        PyObject *array = PyObject_CallNoArgs(PyTuple_GetItem(self->allocators, i));
        if (array == NULL || PyList_SetItem(outputs, i, array) < 0 ||
            atc_bind_port(run, array) == NULL)
            Py_CLEAR(outputs);
    }
    return outputs;
}

static PyObject *call_run(PyObject *object, PyObject *feeds)
{
    struct call_object *self = (struct call_object *)object;
    if (self->plan == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the call has no plan");
        return NULL;
    }
    if (!PyDict_CheckExact(feeds) || PyDict_Size(feeds) != PyTuple_Size(self->inputs))
        Py_RETURN_NONE;
    struct run_object *run = atc_new_run(self->plan);
    if (run == NULL)
        return NULL;
    if (!bind_inputs(self, run, feeds)) {
        PyErr_Clear();
        Py_DECREF(run);
        Py_RETURN_NONE;
    }
    PyObject *outputs = bind_outputs(self, run);
    if (outputs != NULL && !atc_run_range(run, 0, run->owner->plan->n_tasks, NULL))
        Py_CLEAR(outputs);
    Py_DECREF(run);
    return outputs;
}

static PyMethodDef call_methods[] = {
    {"run", call_run, METH_O,
     "Runs the plan and returns its outputs; None if the dict has not exactly arrays of the "
     "inputs' types, shapes and contents, contiguous and aligned."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot call_slots[] = {
    {Py_tp_init, call_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, call_dealloc},
    {Py_tp_methods, call_methods},
    {0, NULL},
};
PyType_Spec atc_call_spec = {"atcpy.kernels._kernels.PlanCall", sizeof(struct call_object), 0,
                             Py_TPFLAGS_DEFAULT, call_slots};

/* The types of mapped memory:
 *
 *     MappedFile(fd, bytes); memoryview(file);  file.has_changed();  file.fileno()
 *     MappedSpace(bytes); memoryview(space);  space.map(fd, offset, bytes, at)
 *     space.changed_file() -> the number of the first that has, or None
 */
#include "python/binding.h"

#include "core/mapped_file.h"

struct file_object {
    PyObject_HEAD struct atc_mapped_file *file;
    size_t bytes;
};

struct space_object {
    PyObject_HEAD struct atc_file_space space;
};

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
    atc_free_object(object);
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
PyType_Spec atc_file_spec = {"atcpy.kernels._kernels.MappedFile", sizeof(struct file_object), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, file_slots};

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
    atc_free_object(object);
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
PyType_Spec atc_space_spec = {"atcpy.kernels._kernels.MappedSpace", sizeof(struct space_object), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, space_slots};

PyMethodDef atc_file_functions[] = {
    {"handle_bus_errors", handle_bus_errors, METH_NOARGS,
     "Handles pages that mapped files have lost, again where others took the handler away."},
    {NULL, NULL, 0, NULL},
};

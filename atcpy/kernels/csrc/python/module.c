/* The module `atcpy.kernels._kernels`, and its tables:
 *
 *     families()  -> {name: [(field, is_float, count, choices), ...]}
 *     rows()      -> [(symbol, family, dtype, isa), ...]
 *     cpu()       -> (isa, l1_bytes, l2_bytes)
 *     has_isa(isa) -> bool: this CPU can be used as that
 *     isa_runs(isa, row) -> bool: a CPU that is used as `isa` runs rows for `row`
 *     maps_of_rows(keys, rows) -> [{key: float, ...}, ...]
 */
#include "python/binding.h"

#include "core/cpu.h"
#include "core/program.h"

#include <pthread.h>

PyObject *atc_refused_error, *atc_unmet_error, *atc_fault_error;
PyTypeObject *atc_plan_type, *atc_run_type;

void atc_free_object(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    const freefunc free_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_memory(object);
    Py_DECREF(type);
}

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
        PyObject *item =
            Py_BuildValue("(ssisO)", row->symbol, row->family->name, (int)row->dtype,
                          atc_isa_names[row->isa], row->fits != NULL ? Py_True : Py_False);
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
    return Py_BuildValue("(sLL)", atc_isa_names[cpu->isa], (long long)cpu->l1_bytes,
                         (long long)cpu->l2_bytes);
}

/* Converts a name for PyArg_ParseTuple. */
static int take_isa(PyObject *name, void *to)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    const int isa = text == NULL ? -1 : atc_isa_by_name(text);
    if (text != NULL && isa < 0)
        PyErr_SetString(PyExc_ValueError, "unknown isa");
    *(int *)to = isa;
    return isa >= 0;
}

static PyObject *has_isa(PyObject *module, PyObject *args)
{
    (void)module;
    int isa;
    if (!PyArg_ParseTuple(args, "O&", take_isa, &isa))
        return NULL;
    return PyBool_FromLong(atc_has_isa((enum atc_isa)isa));
}

static PyObject *isa_runs(PyObject *module, PyObject *args)
{
    (void)module;
    int isa, row;
    if (!PyArg_ParseTuple(args, "O&O&", take_isa, &isa, take_isa, &row))
        return NULL;
    return PyBool_FromLong(atc_isa_runs((enum atc_isa)isa, (enum atc_isa)row));
}

static PyObject *map_of_row(PyObject *keys, const float *row)
{
    PyObject *map = PyDict_New();
    for (Py_ssize_t i = 0; map != NULL && i < PyTuple_Size(keys); i++) {
        PyObject *value = PyFloat_FromDouble(row[i]);
        if (value == NULL || PyDict_SetItem(map, PyTuple_GetItem(keys, i), value) < 0)
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
    const Py_ssize_t columns = PyTuple_Size(keys), floats = rows.len / (Py_ssize_t)sizeof(float);
    PyObject *maps = NULL;
    if (columns == 0 ? rows.len != 0 : rows.len % (columns * (Py_ssize_t)sizeof(float)) != 0)
        PyErr_SetString(PyExc_ValueError, "the rows are not as long as the keys");
    else
        maps = PyList_New(columns == 0 ? 0 : floats / columns);
    for (Py_ssize_t i = 0; maps != NULL && i < PyList_Size(maps); i++) {
        PyObject *map = map_of_row(keys, (const float *)rows.buf + i * columns);
        if (map == NULL)
            Py_CLEAR(maps);
        else
            PyList_SetItem(maps, i, map);
    }
    PyBuffer_Release(&rows);
    return maps;
}

static PyMethodDef functions[] = {
    {"families", list_families, METH_NOARGS, "The families' argument fields, by name."},
    {"rows", list_rows, METH_NOARGS, "The kernel table."},
    {"maps_of_rows", maps_of_rows, METH_VARARGS, "A dict of each row of floats."},
    {"cpu", describe_cpu, METH_NOARGS, "ISA in use and cache sizes."},
    {"has_isa", has_isa, METH_VARARGS, "Whether this CPU can be used as that ISA."},
    {"isa_runs", isa_runs, METH_VARARGS, "Whether an ISA runs the rows of another."},
    {NULL, NULL, 0, NULL},
};

static PyObject *tuple_of(const char *const *names, int n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple != NULL && i < n; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);
        if (name == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SetItem(tuple, i, name);
    }
    return tuple;
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

/* Adds an object and gives it up; `object` may be NULL, with an exception. */
static bool add(PyObject *module, const char *name, PyObject *object)
{
    const bool added = object != NULL && PyModule_AddObjectRef(module, name, object) == 0;
    Py_XDECREF(object);
    return added;
}

/* As `add`, and keeps the object for this module's own use. */
static bool add_kept(PyObject *module, const char *name, PyObject *object)
{
    return add(module, name, Py_XNewRef(object));
}

static bool add_errors(PyObject *module)
{
    atc_refused_error = PyErr_NewException("atcpy.kernels._kernels.Refused", NULL, NULL);
    atc_fault_error = PyErr_NewException("atcpy.kernels._kernels.Fault", NULL, NULL);
    if (!add_kept(module, "Refused", atc_refused_error) ||
        !add_kept(module, "Fault", atc_fault_error))
        return false;
    atc_unmet_error = PyErr_NewException("atcpy.kernels._kernels.Unmet", atc_refused_error, NULL);
    return add_kept(module, "Unmet", atc_unmet_error);
}

static bool add_types(PyObject *module)
{
    atc_plan_type = (PyTypeObject *)PyType_FromSpec(&atc_plan_spec);
    atc_run_type = (PyTypeObject *)PyType_FromSpec(&atc_run_spec);
    return add_kept(module, "Plan", (PyObject *)atc_plan_type) &&
           add_kept(module, "Run", (PyObject *)atc_run_type) &&
           add(module, "SymbolicPlan", PyType_FromSpec(&atc_symbolic_spec)) &&
           add(module, "PlanCall", PyType_FromSpec(&atc_call_spec)) &&
           add(module, "MappedFile", PyType_FromSpec(&atc_file_spec)) &&
           add(module, "MappedSpace", PyType_FromSpec(&atc_space_spec));
}

static bool add_constants(PyObject *module)
{
    return add(module, "PROGRAM_OPS", tuple_of(atc_program_op_names, PROGRAM_OPS)) &&
           add(module, "ISAS", tuple_of(atc_isa_names, ISA_COUNT)) &&
           add(module, "CONSTANT_READERS", constant_readers()) &&
           PyModule_AddIntConstant(module, "TASK_BYTES", ATC_TASK_BYTES) == 0 &&
           PyModule_AddIntConstant(module, "PARAM_BYTES", ATC_PARAM_BYTES) == 0 &&
           PyModule_AddIntConstant(module, "MAX_SLOTS", ATC_MAX_SLOTS) == 0 &&
           PyModule_AddIntConstant(module, "MAX_RANK", ATC_MAX_RANK) == 0;
}

static bool add_functions(PyObject *module)
{
    return PyModule_AddFunctions(module, atc_plan_functions) == 0 &&
           PyModule_AddFunctions(module, atc_run_functions) == 0 &&
           PyModule_AddFunctions(module, atc_file_functions) == 0 &&
           PyModule_AddFunctions(module, atc_cost_functions) == 0 &&
           PyModule_AddFunctions(module, atc_task_functions) == 0;
}

static int module_exec(PyObject *module)
{
    pthread_atfork(NULL, NULL, atc_after_fork_in_child);
    const bool is_complete =
        add_errors(module) && add_types(module) && add_constants(module) && add_functions(module);
    return is_complete ? 0 : -1;
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

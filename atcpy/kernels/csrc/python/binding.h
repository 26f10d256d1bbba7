/* The binding: the one folder that knows Python. Each file has the types and functions of one
 * concern, and a table of them for the module.
 */
#ifndef ATC_PYTHON_BINDING_H
#define ATC_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/plan.h"

/* CPython's slots hold functions as void pointers, which ISO C does not promise. */
#pragma GCC diagnostic ignored "-Wpedantic"

struct plan_object {
    PyObject_HEAD struct atc_plan *plan;
    Py_buffer weights;
    PyObject *owner; /* of the arenas, and for an instance of the weights; NULL: the plan itself */
    int64_t *sizes;  /* of inputs, then of outputs */
};

struct run_object {
    PyObject_HEAD struct plan_object *owner;
    struct atc_arena *arena;
    Py_buffer *buffers;
    int64_t n_buffers;
    uint8_t **bases;
};

/* Of this module: the records are not what a plan may have, a guard does not hold, a run has
 * failed. */
extern PyObject *atc_refused_error, *atc_unmet_error, *atc_fault_error;
extern PyTypeObject *atc_plan_type, *atc_run_type;

extern PyType_Spec atc_plan_spec, atc_symbolic_spec, atc_run_spec, atc_call_spec, atc_file_spec,
    atc_space_spec;
extern PyMethodDef atc_plan_functions[], atc_run_functions[], atc_file_functions[],
    atc_cost_functions[], atc_task_functions[];

/* The last step of tp_dealloc: objects hold their type, which was made at run time. */
void atc_free_object(PyObject *object);

/* What a Plan has loaded, or NULL with an exception. */
struct atc_plan *atc_loaded_plan(PyObject *plan);

/* Plan.start: a Run of the plan. */
PyObject *atc_start_run(PyObject *plan, PyObject *args);

/* A Run of a Plan, to which no memory is bound yet, or NULL with an exception. */
struct run_object *atc_new_run(PyObject *plan);

/* Binds the memory of an object to the next port, those of inputs first; returns what it exports
 * (with its dims, if the port is an input), or NULL with an exception.
 */
const Py_buffer *atc_bind_port(struct run_object *run, PyObject *object);

/* Runs tasks [first, last) of a run whose ports are all bound; whether they have ended well, else
 * there is an exception.
 */
bool atc_run_range(struct run_object *run, int64_t first, int64_t last, struct atc_trace *trace);

/* Child processes ask for signals in the thread that is left. */
void atc_after_fork_in_child(void);

#endif

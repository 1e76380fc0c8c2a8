// Calls from C into Python. Python ends a thread that wants its lock when the interpreter ends, by unwinding it;
// that must not pass through Rust. So whatever runs Python on the way of a callback or of a thread is here,
// without anything to clean up.

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include "bridge.h"
#include "user_call.h"

struct _object;
using PyObject = _object;
using Word = unsigned long long;

extern "C" {

// Python's stable ABI.
extern PyObject *PyExc_KeyboardInterrupt, *PyExc_TypeError;
extern char _Py_NoneStruct;
int PyGILState_Ensure();
void PyGILState_Release(int state);
void PyEval_RestoreThread(void *thread);
PyObject *PyObject_CallFunction(PyObject *callable, const char *format, ...);
PyObject *PyObject_CallMethod(PyObject *object, const char *name, const char *format, ...);
PyObject *PyObject_GetAttrString(PyObject *object, const char *name);
PyObject *PyObject_Type(PyObject *object);
int PyIndex_Check(PyObject *object);
PyObject *PyNumber_Index(PyObject *object);
Word PyLong_AsUnsignedLongLong(PyObject *integer);
PyObject *PyErr_Occurred();
int PyErr_ExceptionMatches(PyObject *kind);
int PyErr_CheckSignals();
void PyErr_Clear();
void PyErr_Fetch(PyObject **kind, PyObject **value, PyObject **traceback);
void PyErr_NormalizeException(PyObject **kind, PyObject **value, PyObject **traceback);
void PyErr_Restore(PyObject *kind, PyObject *value, PyObject *traceback);
PyObject *PyErr_Format(PyObject *kind, const char *format, ...);
void PyErr_SetInterrupt();
void PyErr_WriteUnraisable(PyObject *where);
PyObject *PyUnicode_FromFormat(const char *format, ...);
PyObject *PyUnicode_AsEncodedString(PyObject *text, const char *encoding, const char *errors);
char *PyBytes_AsString(PyObject *bytes);
void Py_IncRef(PyObject *object);
void Py_DecRef(PyObject *object);

// Rust's side, in interpreter.rs.
bool cairn_acl_is_running();

}  // extern "C"

namespace {

// A callable of Python as C has it. It holds a reference.
struct Callable {
    PyObject *function;
    CairnFunction which;
    bool was_shown;  // whether an error of it was shown; touched with Python's lock held
};

// Sets an error that names an int that does not fit. Python does not print very long ones.
void set_range_error(PyObject *integer, const char *what) {
    PyObject *bits = PyObject_CallMethod(integer, "bit_length", nullptr);
    if (bits == nullptr) return;
    Word count = PyLong_AsUnsignedLongLong(bits);
    Py_DecRef(bits);
    if (count > 128) {
        PyErr_Format(PyExc_TypeError, "%s must be an int from 0 to %llu, not one of %llu bits", what, ~Word{0}, count);
    } else {
        PyErr_Format(PyExc_TypeError, "%s must be an int from 0 to %llu, not %S", what, ~Word{0}, integer);
    }
}

// What a callable returned, as a pointer: an int, or 0 for None. False with an error set if it is neither.
bool read(PyObject *returned, const char *what, Word *word) {
    *word = 0;
    if (returned == nullptr) return false;
    if (reinterpret_cast<char *>(returned) == &_Py_NoneStruct) return true;
    if (!PyIndex_Check(returned)) {
        PyObject *kind = PyObject_Type(returned);
        PyObject *name = PyObject_GetAttrString(kind, "__name__");
        if (name != nullptr) PyErr_Format(PyExc_TypeError, "%s must be an int, not %S", what, name);
        if (name != nullptr) Py_DecRef(name);
        Py_DecRef(kind);
        return false;
    }
    PyObject *integer = PyNumber_Index(returned);
    if (integer == nullptr) return false;
    *word = PyLong_AsUnsignedLongLong(integer);
    bool fits = PyErr_Occurred() == nullptr;
    if (!fits) {
        PyErr_Clear();
        *word = 0;
        set_range_error(integer, what);
    }
    Py_DecRef(integer);
    return fits;
}

// Whether Python handles interrupts: whether SIGINT is neither ignored nor left to the system.
bool handles_interrupts() {
    struct sigaction known = {};
    sigaction(SIGINT, nullptr, &known);
    return known.sa_handler != SIG_DFL && known.sa_handler != SIG_IGN;
}

// One call of a callable.
struct Call {
    Callable *callable;
    const CairnCallContext *call_context;
    bool interrupted;  // the main thread is to be interrupted after it
};

// True for an error that is an interrupt of the main thread, which is not for the callable.
bool is_interrupt() { return PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) && handles_interrupts(); }

// Discards an error that came while another was being written.
void discard_error(Call *call) {
    if (is_interrupt()) call->interrupted = true;
    PyErr_Clear();
}

// Writes the text of the error that is set for C; the error stays set: `ValueError: its text`.
void write_message(Call *call) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    PyErr_NormalizeException(&kind, &value, &traceback);
    PyObject *name = PyObject_GetAttrString(kind, "__name__");
    PyObject *text = name == nullptr ? nullptr : PyUnicode_FromFormat("%S: %S", name, value);
    if (text == nullptr) {
        discard_error(call);
        text = name == nullptr ? nullptr : PyUnicode_FromFormat("%S", name);
    }
    PyObject *bytes = text == nullptr ? nullptr : PyUnicode_AsEncodedString(text, "utf-8", "replace");
    if (bytes != nullptr) {
        std::snprintf(call->call_context->message, call->call_context->message_size, "%s", PyBytes_AsString(bytes));
        Py_DecRef(bytes);
    } else {
        discard_error(call);
    }
    if (text != nullptr) Py_DecRef(text);
    if (name != nullptr) Py_DecRef(name);
    PyErr_Restore(kind, value, traceback);
}

// Takes the error that is set and shows it, unless one of this callable was shown. An interrupt is for the main
// thread, which gets it after the call: the block that C gets or gives back meanwhile would be lost.
void show_error(Call *call) {
    Callable *callable = call->callable;
    if (is_interrupt()) {
        call->interrupted = true;
        PyErr_Clear();
    } else if (!callable->was_shown) {
        callable->was_shown = true;
        PyErr_WriteUnraisable(callable->function);
    } else {
        PyErr_Clear();
    }
}

// Calls with one to three ints.
PyObject *call_with(PyObject *function, const uintptr_t *words, size_t count) {
    if (count == 1) return PyObject_CallFunction(function, "(K)", Word{words[0]});
    if (count == 2) return PyObject_CallFunction(function, "(KK)", Word{words[0]}, Word{words[1]});
    return PyObject_CallFunction(function, "(KKK)", Word{words[0]}, Word{words[1]}, Word{words[2]});
}

// Reads what a callable returned, if C wants to know. False with an error set if it is not what it should be.
bool read(CairnFunction which, PyObject *returned, Word *word) {
    *word = 0;
    if (returned == nullptr) return false;
    if (which == CAIRN_FUNCTION_FREE) return true;
    return read(returned, which == CAIRN_FUNCTION_ADDRESS ? "the address of a block" : "the block that alloc returns", word);
}

// Calls a callable; false after an error. A signal that came before is handled before: it must not keep the callable
// from its work. An interrupt is set anew after each callback: the next one takes it away in this way, and when C has
// returned to Python, it is raised. If Python has ended, there is nothing to give.
bool call_python(Call *call, const uintptr_t *words, size_t count, uintptr_t *result) {
    *result = 0;
    if (!cairn_acl_is_running()) return true;
    int state = PyGILState_Ensure();
    if (PyErr_CheckSignals() != 0) show_error(call);
    PyObject *returned = call_with(call->callable->function, words, count);
    Word word;
    bool is_valid = read(call->callable->which, returned, &word);
    if (!is_valid) {
        write_message(call);
        show_error(call);
    }
    if (returned != nullptr) Py_DecRef(returned);
    if (call->interrupted) PyErr_SetInterrupt();
    PyGILState_Release(state);
    *result = word;
    return is_valid;
}

bool call(void *context, const uintptr_t *words, size_t count, uintptr_t *result, const CairnCallContext *call_context) {
    Call call = {static_cast<Callable *>(context), call_context, false};
    bool is_valid = false;
    return cairn::call_user(call_context, [&] { is_valid = call_python(&call, words, count, result); }) && is_valid;
}

// Releases a callable, which may run Python; an interrupt that a callback left is not for its finalizer. When the
// interpreter has ended, it is leaked.
void drop(void *context) {
    if (!cairn_acl_is_running()) return;
    (void)cairn::call_user(nullptr, [=] {
        Callable *callable = static_cast<Callable *>(context);
        Call release = {callable, nullptr, false};
        int state = PyGILState_Ensure();
        if (PyErr_CheckSignals() != 0) show_error(&release);
        Py_DecRef(callable->function);
        if (release.interrupted) PyErr_SetInterrupt();
        PyGILState_Release(state);
        delete callable;
    });
}

// What is registered on a stream; callables with a reference each, for the caller.
struct StreamRegistration {
    CairnRegistration registered;
    PyObject *callables[CAIRN_FUNCTIONS];
};

// Adds a callable, with a reference, to a registration.
void add_callable(void *registration, CairnFunction which, void *context) {
    (void)cairn::call_user(nullptr, [=] {
        PyObject *function = static_cast<Callable *>(context)->function;
        int state = PyGILState_Ensure();
        Py_IncRef(function);
        PyGILState_Release(state);
        static_cast<StreamRegistration *>(registration)->callables[which] = function;
    });
}

template <typename Function>
Function *function_at(uintptr_t address) { return reinterpret_cast<Function *>(address); }

// What a new thread calls.
struct ThreadStart {
    PyObject *func, *args;
};

// The body of a thread: calls func(args).
void *run_thread(void *argument) {
    ThreadStart start = *static_cast<ThreadStart *>(argument);
    delete static_cast<ThreadStart *>(argument);
    if (!cairn_acl_is_running()) return nullptr;
    int state = PyGILState_Ensure();
    PyObject *result = PyObject_CallFunction(start.func, "(O)", start.args);
    if (result == nullptr) {
        PyErr_WriteUnraisable(start.func);
    } else {
        Py_DecRef(result);
    }
    Py_DecRef(start.func);
    Py_DecRef(start.args);
    PyGILState_Release(state);
    return nullptr;
}

}  // namespace

extern "C" {

// Sets a callable of a descriptor with the function of the bridge. With 0 the reference belongs to the descriptor.
int32_t cairn_acl_set(uintptr_t set, void *desc, size_t which, PyObject *function, const uintptr_t *identity) {
    Callable *callable = new Callable{function, static_cast<CairnFunction>(which), false};
    CairnCallable bridge_callable = {callable, {identity[0], identity[1]}, call, drop};
    int32_t ret = function_at<decltype(CairnAllocatorSetCallable)>(set)(desc, callable->which, &bridge_callable);
    if (ret != 0) delete callable;
    return ret;
}

int32_t cairn_acl_get(uintptr_t get, void *stream, StreamRegistration *registration) {
    return function_at<decltype(CairnAllocatorGetByStream)>(get)(stream, &registration->registered, registration, add_callable);
}

// Takes the lock again after PyEval_SaveThread. A thread that Python ends here stays for good.
void cairn_acl_resume(void *thread) {
    try {
        PyEval_RestoreThread(thread);
    } catch (abi::__forced_unwind &) {
        for (;;) pause();
    }
}

// Starts a thread that calls func(args); 0, or the error.
int cairn_acl_start(PyObject *func, PyObject *args, pthread_t *thread) {
    ThreadStart *start = new ThreadStart{func, args};
    Py_IncRef(func);
    Py_IncRef(args);
    int error = pthread_create(thread, nullptr, run_thread, start);
    if (error != 0) {
        Py_DecRef(func);
        Py_DecRef(args);
        delete start;
    }
    return error;
}

}  // extern "C"

// Calls from C into Python. Python ends a thread that wants its lock when the interpreter ends, by unwinding it;
// that must not pass through Rust. So whatever runs Python on the way of a callback or of a thread stands here,
// without anything to clean up, and Rust, which keeps the books, is called only for a look at them.

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

struct _object;
using PyObject = _object;
using Word = unsigned long long;

extern "C" {

// Python's stable ABI.
extern PyObject *PyExc_KeyboardInterrupt, *PyExc_RuntimeError, *PyExc_TypeError;
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
Word PyLong_AsUnsignedLongLong(PyObject *whole);
PyObject *PyErr_Occurred();
int PyErr_ExceptionMatches(PyObject *kind);
int PyErr_CheckSignals();
void PyErr_Clear();
PyObject *PyErr_Format(PyObject *kind, const char *format, ...);
void PyErr_SetInterrupt();
void PyErr_WriteUnraisable(PyObject *where);
void Py_IncRef(PyObject *object);
void Py_DecRef(PyObject *object);

// Rust's side, in trampoline.rs and interpreter.rs.
bool cairn_acl_lives();
PyObject *cairn_acl_callable(size_t seat, size_t which);
bool cairn_acl_first(size_t seat, size_t which);
void cairn_acl_taken(size_t seat, size_t block);
void cairn_acl_given(size_t seat, size_t block);
bool cairn_acl_postpone(size_t seat);
bool cairn_acl_over(size_t seat);
PyObject *cairn_acl_dropped();

}  // extern "C"

namespace {

constexpr size_t SEATS = 1024;
enum Which { ALLOC, FREE, ADVISE, ADDRESS };

// How many callbacks of each seat run or wait for Python's lock. No lock guards it: a child of fork could find that held.
std::array<std::atomic<size_t>, SEATS + 1> inside;

// Sets an error that names an int that does not fit. Python writes no very long ones.
void refuse(PyObject *whole, const char *what) {
    PyObject *bits = PyObject_CallMethod(whole, "bit_length", nullptr);
    if (bits == nullptr) return;
    Word count = PyLong_AsUnsignedLongLong(bits);
    Py_DecRef(bits);
    if (count > 128) {
        PyErr_Format(PyExc_TypeError, "%s must be an int from 0 to %llu, not one of %llu bits", what, ~Word{0}, count);
    } else {
        PyErr_Format(PyExc_TypeError, "%s must be an int from 0 to %llu, not %S", what, ~Word{0}, whole);
    }
}

// What a callable returned, as a pointer: an int, or 0 for None. False with an error set if it is neither.
bool read(PyObject *given, const char *what, Word *word) {
    *word = 0;
    if (given == nullptr) return false;
    if (reinterpret_cast<char *>(given) == &_Py_NoneStruct) return true;
    if (!PyIndex_Check(given)) {
        PyObject *kind = PyObject_Type(given);
        PyObject *name = PyObject_GetAttrString(kind, "__name__");
        if (name != nullptr) PyErr_Format(PyExc_TypeError, "%s must be an int, not %S", what, name);
        if (name != nullptr) Py_DecRef(name);
        Py_DecRef(kind);
        return false;
    }
    PyObject *whole = PyNumber_Index(given);
    if (whole == nullptr) return false;
    *word = PyLong_AsUnsignedLongLong(whole);
    bool fits = PyErr_Occurred() == nullptr;
    if (!fits) {
        PyErr_Clear();
        *word = 0;
        refuse(whole, what);
    }
    Py_DecRef(whole);
    return fits;
}

// Shows the error that is set, unless one of this callable was shown. An interrupt is for the main thread, which
// gets it after the call.
void show(size_t seat, Which which, PyObject *callable) {
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) && cairn_acl_postpone(seat)) {
        PyErr_Clear();
    } else if (cairn_acl_first(seat, which)) {
        PyErr_WriteUnraisable(callable);
    } else {
        PyErr_Clear();
    }
}

// Shows that C called a seat where nobody sits.
void show_nobody(size_t seat) {
    if (seat == SEATS) {
        PyErr_Format(PyExc_RuntimeError,
                     "the functions of this allocator were set in Python, and C registered it: "
                     "call acl.rt.allocator_register");
    } else {
        PyErr_Format(PyExc_RuntimeError,
                     "C called an allocator that was unregistered meanwhile: wait for calls on its stream first");
    }
    PyErr_WriteUnraisable(nullptr);
}

// Calls the callable of a seat; 0 if it has nothing to give, or Python has ended. `what` names its result, if any.
// Signals that came before are handled before: they must not keep the callable from its work.
template <typename Call>
Word ask(size_t seat, Which which, const char *what, Call call, Word back = 0) {
    if (!cairn_acl_lives()) return 0;
    ++inside[seat];
    int state = PyGILState_Ensure();
    Word word = 0;
    PyObject *callable = cairn_acl_callable(seat, which);
    if (callable != nullptr) {
        if (PyErr_CheckSignals() != 0) show(seat, which, callable);
        PyObject *given = call(callable);
        bool fine = what == nullptr ? given != nullptr : read(given, what, &word);
        if (!fine) show(seat, which, callable);
        if (given != nullptr) Py_DecRef(given);
        Py_DecRef(callable);
    } else {
        show_nobody(seat);
    }
    if (word != 0 && (which == ALLOC || which == ADVISE)) cairn_acl_taken(seat, word);
    if (back != 0) cairn_acl_given(seat, back);
    --inside[seat];
    bool interrupted = cairn_acl_over(seat);
    while (PyObject *dropped = cairn_acl_dropped()) Py_DecRef(dropped);
    if (interrupted) PyErr_SetInterrupt();
    PyGILState_Release(state);
    return word;
}

void *pointer(Word word) { return reinterpret_cast<void *>(word); }

Word word(const void *pointer) { return reinterpret_cast<Word>(pointer); }

constexpr char BLOCK[] = "the block that alloc returns";

[[gnu::noinline]] void *take(size_t seat, void *object, size_t size) {
    return pointer(ask(seat, ALLOC, BLOCK, [=](PyObject *callable) {
        return PyObject_CallFunction(callable, "(KK)", word(object), Word{size});
    }));
}

[[gnu::noinline]] void *take_near(size_t seat, void *object, size_t size, void *near) {
    return pointer(ask(seat, ADVISE, BLOCK, [=](PyObject *callable) {
        return PyObject_CallFunction(callable, "(KKK)", word(object), Word{size}, word(near));
    }));
}

[[gnu::noinline]] void *locate(size_t seat, void *block) {
    return pointer(ask(seat, ADDRESS, "the address of a block", [=](PyObject *callable) {
        return PyObject_CallFunction(callable, "(K)", word(block));
    }));
}

[[gnu::noinline]] void give(size_t seat, void *object, void *block) {
    auto call = [=](PyObject *callable) {
        return PyObject_CallFunction(callable, "(KK)", word(object), word(block));
    };
    ask(seat, FREE, nullptr, call, word(block));
}

// What C gets for a seat.
template <size_t SEAT>
struct Seat {
    static void *alloc(void *object, size_t size) { return take(SEAT, object, size); }
    static void free(void *object, void *block) { give(SEAT, object, block); }
    static void *advise(void *object, size_t size, void *near) { return take_near(SEAT, object, size, near); }
    static void *address(void *block) { return locate(SEAT, block); }
};

struct Functions {
    void *(*alloc)(void *, size_t);
    void (*free)(void *, void *);
    void *(*advise)(void *, size_t, void *);
    void *(*address)(void *);
};

template <size_t... SEAT>
constexpr std::array<Functions, sizeof...(SEAT)> functions(std::index_sequence<SEAT...>) {
    return {{{Seat<SEAT>::alloc, Seat<SEAT>::free, Seat<SEAT>::advise, Seat<SEAT>::address}...}};
}

// One set for each seat, and one that nobody sits on.
constexpr auto TABLE = functions(std::make_index_sequence<SEATS + 1>());

struct Start {
    PyObject *func, *args;
};

void *run(void *given) {
    Start start = *static_cast<Start *>(given);
    delete static_cast<Start *>(given);
    if (!cairn_acl_lives()) return nullptr;
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

size_t cairn_acl_seats() { return SEATS; }

size_t cairn_acl_inside(size_t seat) { return inside[seat]; }

const Functions *cairn_acl_functions(size_t seat) { return &TABLE[seat]; }

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
    Start *start = new Start{func, args};
    Py_IncRef(func);
    Py_IncRef(args);
    int error = pthread_create(thread, nullptr, run, start);
    if (error != 0) {
        Py_DecRef(func);
        Py_DecRef(args);
        delete start;
    }
    return error;
}

}  // extern "C"

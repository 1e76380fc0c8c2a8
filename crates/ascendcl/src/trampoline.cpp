// Calls from Rust into user functions, with exceptions turned into a result: Rust cannot
// catch them and must not be unwound through. And the one variadic function of ACL, which Rust
// cannot define.

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>

// Cancellation of a thread and its exit unwind too.
#include <cxxabi.h>
#include <unistd.h>

// What happens to a callback that does not return a result: `on_exit` runs when it ends its thread, the text
// of an exception goes to `message`.
struct CallContext {
    void (*on_exit)(const void *context);
    const void *context;
    char *message;
    size_t message_size;
};

// A callback that ends its thread (pthread_exit, or Python at its end) cannot be stopped from unwinding, and
// must not unwind through Rust: what it leaves is finished from here, and the thread stays for good.
template <typename Call>
static bool call_user(const CallContext *call_context, Call call) {
    try {
        call();
        return true;
    } catch (abi::__forced_unwind &) {
        call_context->on_exit(call_context->context);
        for (;;) pause();
    } catch (const std::exception &thrown) {
        snprintf(call_context->message, call_context->message_size, "%s", thrown.what());
        return false;
    } catch (...) {
        return false;
    }
}

// The same where nobody asks for the text of an exception.
template <typename Call>
static bool call_user(void (*on_exit)(const void *), const void *context, Call call) {
    char unread[1];
    const CallContext call_context = {on_exit, context, unread, sizeof unread};
    return call_user(&call_context, call);
}

template <typename Function>
static Function *function_at(const void *address) {
    return reinterpret_cast<Function *>(reinterpret_cast<uintptr_t>(address));
}

extern "C" {

// Set from Rust when the library is loaded.
__attribute__((visibility("hidden"))) bool (*cairn_app_log_enabled)(uint32_t level) = nullptr;
__attribute__((visibility("hidden"))) void (*cairn_app_log)(uint32_t level, const char *func, const char *file,
                                                            uint32_t line, const char *text) = nullptr;

bool cairn_call_host_function(const void *function, void *argument, void (*on_exit)(const void *), const void *context) {
    auto call = function_at<void(void *)>(function);
    return call_user(on_exit, context, [&] { call(argument); });
}

bool cairn_call_stream_state(const void *function, size_t stream, uint32_t state, void *argument,
                             void (*on_exit)(const void *), const void *context) {
    auto call = function_at<void(void *, int, void *)>(function);
    return call_user(on_exit, context,
                   [&] { call(reinterpret_cast<void *>(stream), static_cast<int>(state), argument); });
}

bool cairn_call_communicator_state(const void *function, size_t communicator, uint32_t state, void *argument,
                                   void (*on_exit)(const void *), const void *context) {
    auto call = function_at<int(void *, int, void *)>(function);
    return call_user(on_exit, context,
                   [&] { call(reinterpret_cast<void *>(communicator), static_cast<int>(state), argument); });
}

bool cairn_call_device_state(const void *function, size_t device, uint32_t state, void *argument,
                             void (*on_exit)(const void *), const void *context) {
    auto call = function_at<void(int32_t, int, void *)>(function);
    return call_user(on_exit, context, [&] { call(static_cast<int32_t>(device), static_cast<int>(state), argument); });
}

// An array that the user ends with `delete[]`; null when there is no memory.
int64_t *cairn_new_numbers(size_t count) {
    return new (std::nothrow) int64_t[count];
}

bool cairn_call_allocator_alloc(const void *function, void *object, size_t bytes, void **block, const CallContext *call_context) {
    auto call = function_at<void *(void *, size_t)>(function);
    return call_user(call_context, [&] { *block = call(object, bytes); });
}

bool cairn_call_allocator_advise(const void *function, void *object, size_t bytes, void *near, void **block,
                                 const CallContext *call_context) {
    auto call = function_at<void *(void *, size_t, void *)>(function);
    return call_user(call_context, [&] { *block = call(object, bytes, near); });
}

bool cairn_call_allocator_address(const void *function, void *block, void **address, const CallContext *call_context) {
    auto call = function_at<void *(void *)>(function);
    return call_user(call_context, [&] { *address = call(block); });
}

bool cairn_call_allocator_free(const void *function, void *object, void *block, const CallContext *call_context) {
    auto call = function_at<void(void *, void *)>(function);
    return call_user(call_context, [&] { call(object, block); });
}

void cairn_app_log_variadic(uint32_t level, const char *func, const char *file, uint32_t line,
                            const char *format, ...) {
    if (format == nullptr || cairn_app_log == nullptr || !cairn_app_log_enabled(level)) {
        return;
    }
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cairn_app_log(level, func, file, line, text);
}

}  // extern "C"

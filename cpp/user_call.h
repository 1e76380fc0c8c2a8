// Calls of user functions from the engine, whose frames must not be unwound.
#ifndef CAIRN_CPP_USER_CALL_H
#define CAIRN_CPP_USER_CALL_H

#include <cstdio>
#include <exception>

#include <cxxabi.h>
#include <unistd.h>

#include "bridge.h"

namespace cairn __attribute__((visibility("hidden"))) {

// False after an exception, whose message is in `call_context->message`. A function that ends its thread unwinds and cannot be
// stopped: the thread stays here for good.
template <typename Call>
bool call_user(const CairnCallContext *call_context, Call call)
{
    try {
        call();
        return true;
    } catch (abi::__forced_unwind &) {
        if (call_context != nullptr) {
            call_context->on_exit(call_context->context);
        }
        for (;;) {
            pause();
        }
    } catch (const std::exception &thrown) {
        if (call_context != nullptr) {
            std::snprintf(call_context->message, call_context->message_size, "%s", thrown.what());
        }
        return false;
    } catch (...) {
        return false;
    }
}

}  // namespace cairn

#endif

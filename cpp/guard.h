// Calls of functions of the user from the engine, whose frames must not be unwound through.
#ifndef CAIRN_CPP_GUARD_H
#define CAIRN_CPP_GUARD_H

#include <cstdio>
#include <exception>

#include <cxxabi.h>
#include <unistd.h>

#include "bridge.h"

namespace cairn __attribute__((visibility("hidden"))) {

// False after an exception, whose text is in `guard->message`. A function that ends its thread unwinds and cannot be
// stopped: the thread stays here for good.
template <typename Call>
bool guarded(const CairnGuard *guard, Call call)
{
    try {
        call();
        return true;
    } catch (abi::__forced_unwind &) {
        if (guard != nullptr) {
            guard->on_exit(guard->context);
        }
        for (;;) {
            pause();
        }
    } catch (const std::exception &thrown) {
        if (guard != nullptr) {
            std::snprintf(guard->message, guard->message_size, "%s", thrown.what());
        }
        return false;
    } catch (...) {
        return false;
    }
}

}  // namespace cairn

#endif

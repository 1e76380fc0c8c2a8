// One message on its way, as one side sees it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::comm::shared {

class Buffer;

struct Transfer {
    Buffer *owner;
    char *bytes;
    uint64_t total;
    uint64_t slot;
    // Bytes that have moved.
    uint64_t done = 0;
    // Where the receiver is in the same process: see landing.h.
    uint64_t landing = 0;
};

}  // namespace cairn::comm::shared

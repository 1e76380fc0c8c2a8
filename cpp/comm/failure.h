// The one exception that leaves the parts of this library.
#pragma once

#include <string>

#include <gloo/common/error.h>

#include "comm.h"

namespace cairn::comm {

// What went wrong, and with which peer.
struct Failure : ::gloo::IoException {
    static constexpr int kNoPeer = -1;

    Failure(CairnCommKind kind, int peer, const std::string &text) : ::gloo::IoException(text), kind(kind), peer(peer) {}

    static Failure closed() { return {CAIRN_COMM_CLOSED, kNoPeer, "this rank closed the communicator"}; }

    static Failure lengths(int peer, uint64_t slot, uint64_t theirs, uint64_t ours) {
        return {CAIRN_COMM_LENGTH, peer,
                "message " + std::to_string(slot) + " of rank " + std::to_string(peer) + " has " + std::to_string(theirs) +
                    " bytes there and " + std::to_string(ours) + " here"};
    }

    CairnCommKind kind;
    int peer;
};

// Failure of a system call, with the text of `errno`.
Failure systemFailure(int peer, const std::string &what);

}  // namespace cairn::comm

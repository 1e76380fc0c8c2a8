// All links of one rank, whatever they are made of.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "comm.h"
#include "deadline.h"

namespace gloo::rendezvous {
class Store;
}

namespace cairn::comm {

// A list of parts, as the C interface has it.
struct Parts {
    const CairnCommPart *first;
    size_t count;

    const CairnCommPart *begin() const { return first; }
    const CairnCommPart *end() const { return first + count; }
};

// See comm.h for what the functions promise. They throw Failure and what Gloo throws.
class Mesh {
  public:
    virtual ~Mesh() = default;
    virtual void exchange(Parts outgoing, Parts incoming, Deadline deadline) = 0;
    virtual void check() = 0;
    virtual void close() = 0;
};

std::unique_ptr<Mesh> connectShared(const CairnCommSpec &spec, ::gloo::rendezvous::Store &store, Deadline deadline);
std::unique_ptr<Mesh> connectTcp(const CairnCommSpec &spec, ::gloo::rendezvous::Store &store, Deadline deadline);

// Moves what a rank sends to itself; the other parts stay for the caller. Both sides must be in the same exchange.
void exchangeWithSelf(uint32_t rank, Parts outgoing, Parts incoming);

// Fails for a peer that is not in the mesh.
void checkPeers(uint32_t size, Parts outgoing, Parts incoming);

}  // namespace cairn::comm

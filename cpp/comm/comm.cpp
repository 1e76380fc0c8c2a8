// The C functions: they call the mesh and turn exceptions into a kind, a peer and a text.

#include "comm.h"

#include <cerrno>
#include <cstring>
#include <exception>
#include <new>

#include "failure.h"
#include "mesh.h"
#include "store.h"

using namespace cairn::comm;

struct CairnCommMesh {
    std::unique_ptr<Mesh> mesh;
};

namespace {

int32_t write(CairnCommFailure *failure, CairnCommKind kind, int peer, const char *text) {
    failure->kind = kind;
    failure->peer = peer;
    strncpy(failure->text, text, sizeof failure->text - 1);
    failure->text[sizeof failure->text - 1] = 0;
    return kind;
}

template <typename Body>
int32_t guarded(CairnCommFailure *failure, Body body) {
    try {
        body();
        return CAIRN_COMM_DONE;
    } catch (const Failure &error) {
        return write(failure, error.kind, error.peer, error.what());
    } catch (const std::bad_alloc &) {
        return write(failure, CAIRN_COMM_OTHER, Failure::kNoPeer, "the host has no memory left");
    } catch (const std::exception &error) {
        return write(failure, CAIRN_COMM_OTHER, Failure::kNoPeer, error.what());
    } catch (...) {
        return write(failure, CAIRN_COMM_OTHER, Failure::kNoPeer, "an exception without a text");
    }
}

}  // namespace

namespace cairn::comm {

Failure systemFailure(int peer, const std::string &what) {
    int code = errno;
    return {CAIRN_COMM_OTHER, peer, what + ": " + strerror(code)};
}

void checkPeers(uint32_t size, Parts outgoing, Parts incoming) {
    for (Parts parts : {outgoing, incoming}) {
        for (const CairnCommPart &part : parts) {
            if (part.peer >= size) {
                throw Failure(CAIRN_COMM_OTHER, Failure::kNoPeer,
                              "there is no rank " + std::to_string(part.peer) + " among " + std::to_string(size));
            }
        }
    }
}

void exchangeWithSelf(uint32_t rank, Parts outgoing, Parts incoming) {
    auto find = [rank](Parts parts, uint64_t slot) -> const CairnCommPart * {
        for (const CairnCommPart &part : parts) {
            if (part.peer == rank && part.slot == slot) {
                return &part;
            }
        }
        return nullptr;
    };
    auto unmatched = [rank](uint64_t slot) {
        return Failure(CAIRN_COMM_OTHER, static_cast<int>(rank),
                       "message " + std::to_string(slot) + " of rank " + std::to_string(rank) + " to itself has no other side in its exchange");
    };
    for (const CairnCommPart &part : incoming) {
        if (part.peer != rank) {
            continue;
        }
        const CairnCommPart *source = find(outgoing, part.slot);
        if (source == nullptr) {
            throw unmatched(part.slot);
        }
        if (source->count != part.count) {
            throw Failure::lengths(static_cast<int>(rank), part.slot, source->count, part.count);
        }
        if (part.count > 0) {
            memmove(part.bytes, source->bytes, part.count);
        }
    }
    for (const CairnCommPart &part : outgoing) {
        if (part.peer == rank && find(incoming, part.slot) == nullptr) {
            throw unmatched(part.slot);
        }
    }
}

}  // namespace cairn::comm

extern "C" {

uint32_t cairn_comm_interface(void) { return CAIRN_COMM_INTERFACE; }

int32_t cairn_comm_connect(const CairnCommSpec *spec, const CairnCommStore *functions, CairnCommMesh **mesh,
                           CairnCommFailure *failure) {
    return guarded(failure, [&] {
        if (spec->size == 0 || spec->rank >= spec->size || spec->size > INT32_MAX) {
            throw Failure(CAIRN_COMM_OTHER, Failure::kNoPeer,
                          "there is no rank " + std::to_string(spec->rank) + " among " + std::to_string(spec->size));
        }
        Deadline deadline = Deadline::after(spec->timeout_ns);
        CallbackStore store(*functions, deadline);
        auto connected = std::make_unique<CairnCommMesh>();
        connected->mesh = spec->address == nullptr ? connectShared(*spec, store, deadline) : connectTcp(*spec, store, deadline);
        *mesh = connected.release();
    });
}

int32_t cairn_comm_exchange(CairnCommMesh *mesh, const CairnCommPart *outgoing, size_t outgoing_count, const CairnCommPart *incoming,
                            size_t incoming_count, uint64_t timeout_ns, CairnCommFailure *failure) {
    return guarded(failure, [&] {
        mesh->mesh->exchange({outgoing, outgoing_count}, {incoming, incoming_count}, Deadline::after(timeout_ns));
    });
}

int32_t cairn_comm_check(CairnCommMesh *mesh, CairnCommFailure *failure) {
    return guarded(failure, [&] { mesh->mesh->check(); });
}

void cairn_comm_close(CairnCommMesh *mesh) {
    CairnCommFailure ignored;
    guarded(&ignored, [&] { mesh->mesh->close(); });
}

void cairn_comm_destroy(CairnCommMesh *mesh) {
    CairnCommFailure ignored;
    guarded(&ignored, [&] { mesh->mesh->close(); });
    guarded(&ignored, [&] { delete mesh; });
}

}  // extern "C"

// A mesh in shared memory: a context of Gloo on the transport of shared/.

#include <gloo/rendezvous/context.h>

#include "failure.h"
#include "mesh.h"
#include "shared/context.h"

namespace cairn::comm {

namespace {

class SharedMesh : public Mesh {
  public:
    SharedMesh(const CairnCommSpec &spec, ::gloo::rendezvous::Store &store, Deadline deadline)
        : gloo_(static_cast<int>(spec.rank), static_cast<int>(spec.size)) {
        auto device = std::make_shared<shared::Device>(spec.buffer_bytes, deadline);
        std::shared_ptr<::gloo::transport::Device> asGloo = device;
        gloo_.connectFullMesh(store, asGloo);
        context_ = device->context();
    }

    ~SharedMesh() override { close(); }

    void exchange(Parts outgoing, Parts incoming, Deadline deadline) override {
        auto self = static_cast<uint32_t>(gloo_.rank);
        checkPeers(static_cast<uint32_t>(gloo_.size), outgoing, incoming);
        std::vector<Posted> posted;
        posted.reserve(outgoing.count + incoming.count);
        // The failure is known before the buffers go, which would be one of its own.
        try {
            for (bool receive : {true, false}) {
                for (const CairnCommPart &part : receive ? incoming : outgoing) {
                    if (part.peer != self) {
                        post(posted, part, receive);
                    }
                }
            }
            exchangeWithSelf(self, outgoing, incoming);
            for (Posted &one : posted) {
                wait(one, deadline);
            }
        } catch (const Failure &failure) {
            context_->end(failure);
            throw;
        }
    }

    void check() override { context_->check(); }

    void close() override { context_->end(Failure::closed()); }

  private:
    struct Posted {
        std::unique_ptr<::gloo::transport::UnboundBuffer> buffer;
        const CairnCommPart *part;
        bool receive;
    };

    void post(std::vector<Posted> &posted, const CairnCommPart &part, bool receive) {
        posted.push_back({gloo_.createUnboundBuffer(part.bytes, part.count), &part, receive});
        auto &buffer = *posted.back().buffer;
        auto peer = static_cast<int>(part.peer);
        receive ? buffer.recv(peer, part.slot, 0, part.count) : buffer.send(peer, part.slot, 0, part.count);
    }

    void wait(Posted &posted, Deadline deadline) {
        try {
            static_cast<shared::Buffer &>(*posted.buffer).wait(posted.receive, nullptr, deadline);
        } catch (const Failure &failure) {
            if (failure.kind != CAIRN_COMM_TIMEOUT || failure.peer != Failure::kNoPeer) {
                throw;
            }
            auto peer = static_cast<int>(posted.part->peer);
            const char *what = posted.receive ? " did not send message " : " did not take message ";
            throw Failure(CAIRN_COMM_TIMEOUT, peer,
                          "rank " + std::to_string(peer) + what + std::to_string(posted.part->slot) + " of " +
                              std::to_string(posted.part->count) + " bytes in time");
        }
    }

    ::gloo::rendezvous::Context gloo_;
    std::shared_ptr<shared::Context> context_;
};

}  // namespace

std::unique_ptr<Mesh> connectShared(const CairnCommSpec &spec, ::gloo::rendezvous::Store &store, Deadline deadline) {
    return std::make_unique<SharedMesh>(spec, store, deadline);
}

}  // namespace cairn::comm

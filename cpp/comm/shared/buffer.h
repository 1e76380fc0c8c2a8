// Memory of a caller, for sends and receives of one context.
#pragma once

#include <memory>
#include <optional>

#include <gloo/transport/unbound_buffer.h>

#include "../deadline.h"
#include "../failure.h"

namespace cairn::comm::shared {

class Context;

// What is not done when it goes is cancelled.
class Buffer : public ::gloo::transport::UnboundBuffer {
  public:
    Buffer(std::shared_ptr<Context> context, void *bytes, size_t count);
    ~Buffer() override;

    using ::gloo::transport::UnboundBuffer::recv;
    using ::gloo::transport::UnboundBuffer::send;
    using ::gloo::transport::UnboundBuffer::waitRecv;
    using ::gloo::transport::UnboundBuffer::waitSend;

    bool waitRecv(int *rank, std::chrono::milliseconds timeout) override;
    bool waitSend(int *rank, std::chrono::milliseconds timeout) override;
    void abortWaitRecv() override;
    void abortWaitSend() override;
    void send(int peer, uint64_t slot, size_t offset, size_t count) override;
    void recv(int peer, uint64_t slot, size_t offset, size_t count) override;
    // Not supported: every receive here names its sender.
    void recv(std::vector<int> peers, uint64_t slot, size_t offset, size_t count) override;

    // As waitRecv and waitSend, with a deadline.
    bool wait(bool receive, int *rank, Deadline deadline);

    // The rest needs the lock of the context.
    struct Side {
        unsigned posted = 0;
        unsigned completed = 0;
        int peer = -1;
        bool aborted = false;
    };

    Side &side(bool receive) { return receive ? receives_ : sends_; }
    const Side &side(bool receive) const { return receive ? receives_ : sends_; }
    void complete(bool receive, int peer);
    void fail(const Failure &failure);
    const std::optional<Failure> &failure() const { return failure_; }

  private:
    bool waitFor(bool receive, int *rank, std::chrono::milliseconds timeout);
    void post(bool receive, int peer, uint64_t slot, size_t offset, size_t count);

    std::shared_ptr<Context> context_;
    Side sends_;
    Side receives_;
    std::optional<Failure> failure_;
};

}  // namespace cairn::comm::shared

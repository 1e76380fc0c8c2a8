// A pair of Gloo in shared memory: it only passes on to the context.
#pragma once

#include <gloo/transport/pair.h>

#include "context.h"

namespace cairn::comm::shared {

class Pair : public ::gloo::transport::Pair {
  public:
    Pair(Context &context, int peer) : context_(context), peer_(peer), address_(context.address()) {}

    const ::gloo::transport::Address &address() const override { return address_; }
    void connect(const std::vector<char> &bytes) override { context_.connect(peer_, Address(bytes)); }
    void close() override { context_.end(Failure::closed()); }
    // Waits are always a mix of spinning and sleeping.
    void setSync(bool, bool) override {}
    // Bound buffers are not supported: Gloo needs them for its older collectives only.
    std::unique_ptr<::gloo::transport::Buffer> createSendBuffer(int, void *, size_t) override { return refuse(); }
    std::unique_ptr<::gloo::transport::Buffer> createRecvBuffer(int, void *, size_t) override { return refuse(); }
    void send(::gloo::transport::UnboundBuffer *buffer, uint64_t slot, size_t offset, size_t count) override {
        buffer->send(peer_, slot, offset, count);
    }
    void recv(::gloo::transport::UnboundBuffer *buffer, uint64_t slot, size_t offset, size_t count) override {
        buffer->recv(peer_, slot, offset, count);
    }

  private:
    [[noreturn]] std::unique_ptr<::gloo::transport::Buffer> refuse() {
        throw ::gloo::InvalidOperationException("shared memory has no bound buffers");
    }

    Context &context_;
    int peer_;
    Address address_;
};

}  // namespace cairn::comm::shared

#include "buffer.h"

#include "context.h"

namespace cairn::comm::shared {

Buffer::Buffer(std::shared_ptr<Context> context, void *bytes, size_t count)
    : ::gloo::transport::UnboundBuffer(bytes, count), context_(std::move(context)) {}

Buffer::~Buffer() { context_->cancel(*this); }

void Buffer::post(bool receive, int peer, uint64_t slot, size_t offset, size_t count) {
    if (count == kUnspecifiedByteCount && offset <= size) {
        count = size - offset;
    }
    if (offset > size || count > size - offset) {
        throw Failure(CAIRN_COMM_OTHER, peer,
                      std::to_string(count) + " bytes from " + std::to_string(offset) + " on are not in a buffer of " + std::to_string(size));
    }
    context_->post(*this, receive, peer, slot, static_cast<char *>(ptr) + offset, count);
}

void Buffer::send(int peer, uint64_t slot, size_t offset, size_t count) { post(false, peer, slot, offset, count); }

void Buffer::recv(int peer, uint64_t slot, size_t offset, size_t count) { post(true, peer, slot, offset, count); }

void Buffer::recv(std::vector<int> peers, uint64_t slot, size_t offset, size_t count) {
    if (peers.size() != 1) {
        throw ::gloo::InvalidOperationException("a receive in shared memory names one sender");
    }
    post(true, peers[0], slot, offset, count);
}

bool Buffer::waitFor(bool receive, int *rank, std::chrono::milliseconds timeout) {
    if (timeout == ::gloo::transport::kUnsetTimeout) {
        timeout = context_->getTimeout();
    }
    auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(timeout).count();
    return wait(receive, rank, timeout == ::gloo::kNoTimeout ? Deadline{} : Deadline::after(static_cast<uint64_t>(nanoseconds)));
}

bool Buffer::wait(bool receive, int *rank, Deadline deadline) { return context_->wait(*this, receive, rank, deadline); }

bool Buffer::waitRecv(int *rank, std::chrono::milliseconds timeout) { return waitFor(true, rank, timeout); }

bool Buffer::waitSend(int *rank, std::chrono::milliseconds timeout) { return waitFor(false, rank, timeout); }

void Buffer::abortWaitRecv() { context_->abort(*this, true); }

void Buffer::abortWaitSend() { context_->abort(*this, false); }

void Buffer::complete(bool receive, int peer) {
    Side &one = side(receive);
    one.posted--;
    one.completed++;
    one.peer = peer;
    context_->noteCompletion();
}

void Buffer::fail(const Failure &failure) {
    if (!failure_) {
        failure_ = failure;
    }
    context_->noteCompletion();
}

}  // namespace cairn::comm::shared

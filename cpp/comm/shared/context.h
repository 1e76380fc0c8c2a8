// All links of one rank in shared memory, as a context of Gloo.
//
// There is no thread: whoever waits moves everybody's messages forward, one thread at a time under the lock. A waiter that finds nothing to do
// spins for some microseconds, less where that rarely helps and hardly at all with more ranks than cores, and then sleeps on the bell of this
// rank's segment; a peer rings it if somebody sleeps. While it waits it looks every kLifeNs whether peers are alive.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include "../deadline.h"
#include "../failure.h"
#include "buffer.h"
#include "greeting.h"
#include "link.h"
#include "segment.h"

namespace cairn::comm::shared {

class Context : public ::gloo::transport::Context, public std::enable_shared_from_this<Context> {
  public:
    Context(int rank, int size, uint64_t bufferBytes, Deadline connectDeadline);
    ~Context() override;

    std::unique_ptr<::gloo::transport::Pair> &createPair(int peer) override;
    std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void *bytes, size_t count) override;

    // For the pairs.
    const Address &address() const { return listener_->address(); }
    void connect(int peer, const Address &address);

    // For the buffers.
    void post(Buffer &buffer, bool receive, int peer, uint64_t slot, char *bytes, uint64_t count);
    bool wait(Buffer &buffer, bool receive, int *rank, Deadline deadline);
    void abort(Buffer &buffer, bool receive);
    void cancel(Buffer &buffer);
    void noteCompletion() { completed_ = true; }

    // Ends all exchanges with this failure, the first one counts; peers notice.
    void end(const Failure &failure);
    // Fails if the context has ended or the process of a peer has.
    void check();

  private:
    static constexpr uint64_t kLifeNs = 20'000'000;

    void install(Acquaintance met);
    Hello hello() const;
    // The rest needs the lock.
    bool progress();
    void announce();
    void look();
    void endLocked(const Failure &failure);
    bool step();
    void sleep(std::unique_lock<std::mutex> &lock, const Buffer &buffer, bool receive, Deadline deadline);
    bool hasResult(const Buffer &buffer, bool receive) const;
    std::optional<bool> result(Buffer &buffer, bool receive, int *rank);
    std::unique_lock<std::mutex> acquire();

    SegmentLayout layout_;
    Descriptor segment_;
    Mapping memory_;
    SegmentHeader *header_;
    std::optional<Listener> listener_;
    Deadline connectDeadline_;
    Descriptor life_;

    std::mutex mutex_;
    std::atomic<int> wanting_{0};
    std::vector<std::unique_ptr<Link>> links_;
    int connected_ = 0;
    bool completed_ = false;
    std::optional<Failure> ended_;
    Clock::time_point looked_{};
    int64_t mostSpinNs_;
    int64_t spinNs_;
};

// Makes contexts; it has no thread and no state.
class Device : public ::gloo::transport::Device {
  public:
    Device(uint64_t bufferBytes, Deadline connectDeadline) : bufferBytes_(bufferBytes), connectDeadline_(connectDeadline) {}

    std::string str() const override { return "shared memory"; }
    const std::string &getPCIBusID() const override { return none_; }
    std::shared_ptr<::gloo::transport::Context> createContext(int rank, int size) override;
    // The context that was made last.
    const std::shared_ptr<Context> &context() const { return context_; }

  private:
    uint64_t bufferBytes_;
    Deadline connectDeadline_;
    std::string none_;
    std::shared_ptr<Context> context_;
};

}  // namespace cairn::comm::shared

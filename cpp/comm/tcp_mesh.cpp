// A mesh over Gloo's TCP.
//
// Gloo ends the process when a message is longer than its receive, so every message says its length first: a frame of at most kFrameBytes,
// with the bytes in it if they fit; longer ones follow in a message of their own, whose slot in Gloo is made from slot and length, so that
// it meets only a receive of that length.
//
// Gloo also tells only part of those who wait that a connection ended. So each link has a receive that is posted at once and answered by the
// other side's close: while exchanges are in progress, a tick looks at these.

#include <atomic>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <optional>

#include <gloo/rendezvous/context.h>
#include <gloo/transport/unbound_buffer.h>

#include "failure.h"
#include "mesh.h"
#include "tcp_device.h"

namespace cairn::comm {

namespace {

using ::gloo::transport::UnboundBuffer;

constexpr size_t kFrameBytes = 1024;
constexpr size_t kInFrame = kFrameBytes - sizeof(uint64_t);
// All other slots are odd.
constexpr uint64_t kFarewellSlot = 0;
constexpr uint64_t kGreetingSlot = 2;
constexpr std::chrono::milliseconds kLong = std::chrono::hours(24 * 3650);

// Spreads its input over all bits (the finalizer of SplitMix64).
uint64_t mix(uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

uint64_t frameSlot(uint64_t slot) { return mix(slot) | 1; }
uint64_t bodySlot(uint64_t slot, uint64_t bytes) { return mix(mix(slot) ^ bytes) | 1; }

// What an exception of Gloo says, without the place in Gloo's sources before it.
std::string reason(const std::exception &error) {
    std::string text = error.what();
    size_t end = text.find("] ");
    return !text.empty() && text[0] == '[' && end != std::string::npos ? text.substr(end + 2) : text;
}

// What one exchange waits for; known to the mesh so that others can end its waits.
struct Waits {
    struct One {
        std::unique_ptr<UnboundBuffer> buffer;
        const CairnCommPart *part;
        bool receive;
        char *frame;  // null: the body
        // The peer was gone when the body should have been received: the frame may have come all the same, and says why.
        std::optional<Failure> noBody;
    };

    std::vector<One> all;
    std::vector<char> frames;
    Deadline deadline;
    // The first of `all` that is not known to be done.
    std::atomic<size_t> at{0};

    void abort() {
        for (One &one : all) {
            one.receive ? one.buffer->abortWaitRecv() : one.buffer->abortWaitSend();
        }
    }
};

class TcpMesh : public Mesh, private Ticked {
  public:
    TcpMesh(const CairnCommSpec &spec, ::gloo::rendezvous::Store &store, Deadline deadline)
        : rank_(spec.rank), size_(spec.size), device_(TcpDevice::at(spec.address)) {
        NoSigpipe guard;
        Paced paced(*device_, Pace::Hurry);
        gloo_ = std::make_shared<::gloo::rendezvous::Context>(static_cast<int>(rank_), static_cast<int>(size_));
        // A pair waits for its connection for five times the timeout.
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left(kLong));
        gloo_->setTimeout(std::max(std::chrono::milliseconds(1), left / 5));
        try {
            gloo_->connectFullMesh(store, device_->gloo());
            postFarewells();
            greetAll(deadline);
        } catch (const Failure &) {
            throw;
        } catch (const std::exception &error) {
            auto kind = deadline.hasPassed() ? CAIRN_COMM_TIMEOUT : CAIRN_COMM_OTHER;
            throw Failure(kind, Failure::kNoPeer, std::string("cannot connect all ranks over TCP: ") + reason(error));
        }
        device_->add(this);
    }

    ~TcpMesh() override {
        close();
        device_->remove(this);
    }

    void exchange(Parts outgoing, Parts incoming, Deadline deadline) override {
        checkPeers(size_, outgoing, incoming);
        NoSigpipe guard;
        Paced paced(*device_, Pace::Watch);
        auto waits = std::make_unique<Waits>();
        waits->deadline = deadline;
        auto context = enter(waits.get());
        try {
            post(*context, *waits, outgoing, incoming);
            exchangeWithSelf(rank_, outgoing, incoming);
            for (Waits::One &one : waits->all) {
                wait(one);
                waits->at.fetch_add(1);
            }
        } catch (const Failure &failure) {
            Failure first = end(failure);
            leave(std::move(waits), std::move(context));
            throw first;
        } catch (const std::exception &error) {
            Failure first = end(Failure(CAIRN_COMM_OTHER, Failure::kNoPeer, reason(error)));
            leave(std::move(waits), std::move(context));
            throw first;
        }
        leave(std::move(waits), std::move(context));
    }

    void check() override {
        std::lock_guard<std::mutex> lock(mutex_);
        if (ended_) {
            throw *ended_;
        }
        for (uint32_t peer = 0; peer < farewells_.size(); peer++) {
            if (auto loss = lossOf(peer)) {
                throw *loss;
            }
        }
    }

    void close() override {
        NoSigpipe guard;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!ended_ && gloo_) {
                sendFarewells();
            }
        }
        end(Failure::closed());
        release();
    }

  private:
    struct Farewell {
        std::atomic<char> byte{0};
        std::unique_ptr<UnboundBuffer> buffer;
    };

    void postFarewells() {
        for (uint32_t peer = 0; peer < size_; peer++) {
            farewells_.emplace_back();
            if (peer != rank_) {
                Farewell &farewell = farewells_.back();
                farewell.buffer = gloo_->createUnboundBuffer(&farewell.byte, 1);
                farewell.buffer->recv(static_cast<int>(peer), kFarewellSlot, 0, 1);
            }
        }
    }

    // Returns when every rank is connected with all others: before that nobody may leave, as its connections would be over for those that
    // still connect.
    void greetAll(Deadline deadline) {
        struct Greeting {
            char sent = 1;
            char received = 0;
            std::unique_ptr<UnboundBuffer> out, in;
        };
        std::vector<Greeting> greetings(size_);
        auto each = [&](auto body) {
            for (uint32_t peer = 0; peer < size_; peer++) {
                if (peer == rank_) {
                    continue;
                }
                try {
                    body(static_cast<int>(peer), greetings[peer]);
                } catch (const std::exception &error) {
                    auto kind = deadline.hasPassed() ? CAIRN_COMM_TIMEOUT : CAIRN_COMM_PEER_GONE;
                    throw Failure(kind, static_cast<int>(peer), "rank " + std::to_string(peer) + " did not connect: " + reason(error));
                }
            }
        };
        auto left = [&] { return std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left(kLong)); };
        each([&](int peer, Greeting &greeting) {
            greeting.in = gloo_->createUnboundBuffer(&greeting.received, 1);
            greeting.in->recv(peer, kGreetingSlot, 0, 1);
            greeting.out = gloo_->createUnboundBuffer(&greeting.sent, 1);
            greeting.out->send(peer, kGreetingSlot, 0, 1);
        });
        each([&](int, Greeting &greeting) {
            greeting.in->waitRecv(nullptr, left());
            greeting.out->waitSend(nullptr, left());
        });
    }

    // Sent at once if there is room, or never.
    void sendFarewells() {
        static char one = 1;
        for (uint32_t peer = 0; peer < size_; peer++) {
            if (peer == rank_) {
                continue;
            }
            try {
                gloo_->createUnboundBuffer(&one, 1)->send(static_cast<int>(peer), kFarewellSlot, 0, 1);
            } catch (const std::exception &) {
                // That peer is gone already.
            }
        }
    }

    // Why a peer's connection is over, if it is; a peer that said farewell is not lost. Needs the lock.
    std::optional<Failure> lossOf(uint32_t peer) {
        Farewell &farewell = farewells_[peer];
        if (!farewell.buffer || farewell.byte.load() != 0) {
            return std::nullopt;
        }
        try {
            // With the abort before it, the wait returns at once, and throws if the connection is over.
            farewell.buffer->abortWaitRecv();
            farewell.buffer->waitRecv(nullptr, std::chrono::milliseconds(0));
        } catch (const std::exception &error) {
            if (farewell.byte.load() == 0) {
                return gone(static_cast<int>(peer), error);
            }
        }
        return std::nullopt;
    }

    // Ends exchanges whose time is over, and lets those look closely that wait for a peer that is not there any more: what came before its end
    // may be done already.
    void tick() override {
        std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock || ended_) {
            return;
        }
        auto now = Clock::now();
        for (Waits *waits : exchanges_) {
            size_t at = waits->at.load();
            if (at >= waits->all.size()) {
                continue;
            }
            Waits::One &one = waits->all[at];
            if (waits->deadline.hasPassed(now)) {
                auto peer = static_cast<int>(one.part->peer);
                const char *what = one.receive ? " did not send message " : " did not take message ";
                endLocked(Failure(CAIRN_COMM_TIMEOUT, peer,
                                  "rank " + std::to_string(peer) + what + std::to_string(one.part->slot) + " of " +
                                      std::to_string(one.part->count) + " bytes in time"));
                return;
            }
            if (farewells_[one.part->peer].byte.load() != 0 || lossOf(one.part->peer)) {
                one.receive ? one.buffer->abortWaitRecv() : one.buffer->abortWaitSend();
            }
        }
    }

    std::shared_ptr<::gloo::rendezvous::Context> enter(Waits *waits) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (ended_) {
            throw *ended_;
        }
        exchanges_.push_back(waits);
        return gloo_;
    }

    void leave(std::unique_ptr<Waits> waits, std::shared_ptr<::gloo::rendezvous::Context> context) {
        bool ended;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            exchanges_.remove(waits.get());
            ended = ended_.has_value();
        }
        waits.reset();
        context.reset();
        if (ended) {
            release();
        }
    }

    void post(::gloo::rendezvous::Context &context, Waits &waits, Parts outgoing, Parts incoming) {
        std::vector<Waits::One> all;
        all.reserve(2 * (outgoing.count + incoming.count));
        waits.frames.resize(kFrameBytes * (outgoing.count + incoming.count));
        char *frame = waits.frames.data();
        for (bool receive : {true, false}) {
            for (const CairnCommPart &part : receive ? incoming : outgoing) {
                if (part.peer == rank_) {
                    continue;
                }
                try {
                    post(context, all, part, receive, frame);
                } catch (const std::exception &error) {
                    throw gone(static_cast<int>(part.peer), error);
                }
                frame += kFrameBytes;
            }
        }
        std::lock_guard<std::mutex> lock(mutex_);
        waits.all = std::move(all);
        if (ended_) {
            throw *ended_;
        }
    }

    void post(::gloo::rendezvous::Context &context, std::vector<Waits::One> &all, const CairnCommPart &part, bool receive, char *frame) {
        auto peer = static_cast<int>(part.peer);
        uint64_t bytes = part.count;
        bool isShort = bytes <= kInFrame;
        all.push_back({context.createUnboundBuffer(frame, kFrameBytes), &part, receive, frame, std::nullopt});
        if (receive) {
            all.back().buffer->recv(peer, frameSlot(part.slot), 0, kFrameBytes);
        } else {
            memcpy(frame, &bytes, sizeof bytes);
            if (isShort && bytes > 0) {
                memcpy(frame + sizeof bytes, part.bytes, bytes);
            }
            all.back().buffer->send(peer, frameSlot(part.slot), 0, sizeof bytes + (isShort ? bytes : 0));
        }
        if (isShort) {
            return;
        }
        auto body = context.createUnboundBuffer(part.bytes, part.count);
        uint64_t slot = bodySlot(part.slot, bytes);
        if (!receive) {
            body->send(peer, slot, 0, bytes);
        } else {
            try {
                body->recv(peer, slot, 0, bytes);
            } catch (const std::exception &error) {
                all.back().noBody = gone(peer, error);
                return;
            }
        }
        all.push_back({std::move(body), &part, receive, nullptr, std::nullopt});
    }

    Failure gone(int peer, const std::exception &error) {
        bool left = farewells_[static_cast<size_t>(peer)].byte.load() != 0;
        std::string why = left ? "closed its side of the communicator" : "is gone: " + reason(error);
        return {CAIRN_COMM_PEER_GONE, peer, "rank " + std::to_string(peer) + " " + why};
    }

    void wait(Waits::One &one) {
        auto peer = static_cast<int>(one.part->peer);
        auto limit = kLong;
        for (bool done = false; !done;) {
            try {
                done = one.receive ? one.buffer->waitRecv(nullptr, limit) : one.buffer->waitSend(nullptr, limit);
            } catch (const std::exception &error) {
                throw gone(peer, error);
            }
            if (!done) {
                std::lock_guard<std::mutex> lock(mutex_);
                if (ended_) {
                    throw *ended_;
                }
                // The peer is not there any more: what is not done now never will be.
                limit = std::chrono::milliseconds(0);
            }
        }
        if (!one.receive || one.frame == nullptr) {
            return;
        }
        uint64_t bytes;
        memcpy(&bytes, one.frame, sizeof bytes);
        if (bytes != one.part->count) {
            throw Failure::lengths(peer, one.part->slot, bytes, one.part->count);
        }
        if (one.noBody) {
            throw *one.noBody;
        }
        if (bytes > 0 && bytes <= kInFrame) {
            memcpy(one.part->bytes, one.frame + sizeof bytes, bytes);
        }
    }

    // Ends all exchanges; returns the first failure of this mesh.
    Failure end(const Failure &failure) {
        std::lock_guard<std::mutex> lock(mutex_);
        return endLocked(failure);
    }

    Failure endLocked(const Failure &failure) {
        if (!ended_) {
            ended_.emplace(failure);
            for (Waits *waits : exchanges_) {
                waits->abort();
            }
        }
        return *ended_;
    }

    // Closes the connections once nobody uses them: what was sent still goes out.
    void release() {
        std::shared_ptr<::gloo::rendezvous::Context> context;
        std::deque<Farewell> farewells;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!exchanges_.empty()) {
                return;
            }
            context.swap(gloo_);
            farewells.swap(farewells_);
        }
        if (context) {
            Paced paced(*device_, Pace::Hurry);
            farewells.clear();
            context.reset();
        }
    }

    const uint32_t rank_;
    const uint32_t size_;
    std::shared_ptr<TcpDevice> device_;
    std::mutex mutex_;
    std::shared_ptr<::gloo::rendezvous::Context> gloo_;
    std::deque<Farewell> farewells_;
    std::list<Waits *> exchanges_;
    std::optional<Failure> ended_;
};

}  // namespace

std::unique_ptr<Mesh> connectTcp(const CairnCommSpec &spec, ::gloo::rendezvous::Store &store, Deadline deadline) {
    return std::make_unique<TcpMesh>(spec, store, deadline);
}

}  // namespace cairn::comm

#include "context.h"

#include <algorithm>

#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "pair.h"

namespace cairn::comm::shared {

namespace {

// As large as the cache of a core: smaller ones make both sides wait for each other more often.
constexpr uint64_t kMostRing = 1024 * 1024;
constexpr uint64_t kLeastRing = 16 * 1024;
constexpr int64_t kMostSpinNs = 50'000;
constexpr int64_t kLeastSpinNs = 1'000;

uint64_t ringBytes(int size, uint64_t bufferBytes) {
    uint64_t share = bufferBytes / static_cast<uint64_t>(std::max(1, size - 1));
    uint64_t bytes = kMostRing;
    while (bytes > kLeastRing && bytes > share) {
        bytes /= 2;
    }
    return bytes;
}

int cores() {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

Context::Context(int rank, int size, uint64_t bufferBytes, Deadline connectDeadline)
    : ::gloo::transport::Context(rank, size), layout_{static_cast<uint32_t>(size), ringBytes(size, bufferBytes)}, segment_(makeSegment(layout_)),
      memory_(segment_.number(), 0, layout_.bytes()), header_(reinterpret_cast<SegmentHeader *>(memory_.at(0))),
      connectDeadline_(connectDeadline), life_(epoll_create1(EPOLL_CLOEXEC)), links_(static_cast<size_t>(size)) {
    if (!life_) {
        throw systemFailure(Failure::kNoPeer, "cannot watch for the end of peers");
    }
    listener_.emplace();
    mostSpinNs_ = size <= cores() ? kMostSpinNs : kLeastSpinNs;
    spinNs_ = mostSpinNs_;
}

Context::~Context() { end(Failure::closed()); }

Hello Context::hello() const {
    return Hello{kHelloMagic,
                 static_cast<uint32_t>(rank),
                 static_cast<uint32_t>(size),
                 layout_.ringBytes,
                 processNumber(),
                 Secret{}};
}

std::unique_ptr<::gloo::transport::Pair> &Context::createPair(int peer) {
    pairs_.at(static_cast<size_t>(peer)) = std::make_unique<Pair>(*this, peer);
    return pairs_[static_cast<size_t>(peer)];
}

std::unique_ptr<::gloo::transport::UnboundBuffer> Context::createUnboundBuffer(void *bytes, size_t count) {
    return std::make_unique<Buffer>(shared_from_this(), bytes, count);
}

void Context::connect(int peer, const Address &address) {
    if (peer < rank) {
        Acquaintance met = greet(address, peer, hello(), segment_.number(), connectDeadline_);
        if (met.hello.rank != static_cast<uint32_t>(peer)) {
            throw Failure(CAIRN_COMM_OTHER, peer, "rank " + std::to_string(met.hello.rank) + " answers in place of rank " + std::to_string(peer));
        }
        install(std::move(met));
    }
    while (!links_[static_cast<size_t>(peer)]) {
        install(listener_->accept(hello(), segment_.number(), connectDeadline_));
    }
    if (connected_ == size - 1) {
        listener_.reset();
        segment_ = Descriptor();
    }
}

void Context::install(Acquaintance met) {
    const Hello &hello = met.hello;
    int peer = static_cast<int>(hello.rank);
    bool isRing = hello.ringBytes >= kLeastRing && hello.ringBytes <= kMostRing && (hello.ringBytes & (hello.ringBytes - 1)) == 0;
    if (hello.ranks != static_cast<uint32_t>(size) || hello.rank >= hello.ranks || peer == rank || !isRing) {
        throw Failure(CAIRN_COMM_OTHER, peer,
                      "a peer says it is rank " + std::to_string(hello.rank) + " of " + std::to_string(hello.ranks) + "; this is rank " +
                          std::to_string(rank) + " of " + std::to_string(size));
    }
    auto &place = links_[hello.rank];
    if (place) {
        throw Failure(CAIRN_COMM_OTHER, peer, "two peers say they are rank " + std::to_string(peer));
    }
    auto lanes = reinterpret_cast<Lane *>(memory_.at(SegmentLayout::kPage));
    auto link = std::make_unique<Link>(peer, std::move(met), &lanes[peer], memory_.at(layout_.ringAt(static_cast<uint32_t>(peer))),
                                       layout_.ringBytes, static_cast<uint32_t>(rank));
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.u32 = static_cast<uint32_t>(peer);
    for (int descriptor : {link->socket(), link->processDescriptor()}) {
        if (descriptor >= 0 && epoll_ctl(life_.number(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
            throw systemFailure(peer, "cannot watch for the end of rank " + std::to_string(peer));
        }
    }
    std::lock_guard<std::mutex> lock(mutex_);
    place = std::move(link);
    connected_++;
}

void Context::post(Buffer &buffer, bool receive, int peer, uint64_t slot, char *bytes, uint64_t count) {
    auto lock = acquire();
    if (ended_) {
        throw *ended_;
    }
    Link *link = peer >= 0 && peer < size ? links_[static_cast<size_t>(peer)].get() : nullptr;
    if (link == nullptr) {
        throw Failure(CAIRN_COMM_OTHER, peer, "there is no link to rank " + std::to_string(peer));
    }
    Transfer transfer{&buffer, bytes, count, slot};
    buffer.side(receive).posted++;
    try {
        if (receive) {
            link->receive(transfer);
        } else if (link->isEnded()) {
            throw Failure(CAIRN_COMM_PEER_GONE, peer, link->endText());
        } else {
            link->send(transfer);
        }
    } catch (const Failure &failure) {
        endLocked(failure);
        throw;
    }
}

bool Context::progress() {
    bool moved = false;
    completed_ = false;
    for (auto &link : links_) {
        if (!link || link->isEnded()) {
            continue;
        }
        State state = link->peerState();
        moved |= link->drain();
        moved |= link->pump();
        if (state != State::Open) {
            link->endAs(state);
            moved = true;
        }
    }
    announce();
    if (completed_) {
        shared::ring(*header_);
    }
    return moved;
}

void Context::announce() {
    for (auto &link : links_) {
        if (link) {
            link->announce();
        }
    }
}

// Whether processes and sockets of peers are still there.
void Context::look() {
    if (ended_) {
        return;
    }
    epoll_event events[16];
    int count = epoll_wait(life_.number(), events, 16, 0);
    looked_ = Clock::now();
    for (int i = 0; i < count; i++) {
        Link &link = *links_[events[i].data.u32];
        // What it wrote before its end counts.
        try {
            if (!link.isEnded()) {
                link.drain();
            }
        } catch (const Failure &failure) {
            endLocked(failure);
        }
        link.endAs(link.peerState());
        for (int descriptor : {link.socket(), link.processDescriptor()}) {
            if (descriptor >= 0) {
                epoll_ctl(life_.number(), EPOLL_CTL_DEL, descriptor, nullptr);
            }
        }
    }
}

std::optional<bool> Context::result(Buffer &buffer, bool receive, int *rank) {
    Buffer::Side &side = buffer.side(receive);
    if (side.aborted) {
        side.aborted = false;
        return false;
    }
    if (side.completed > 0) {
        side.completed--;
        if (rank != nullptr) {
            *rank = side.peer;
        }
        return true;
    }
    if (ended_) {
        throw *ended_;
    }
    if (buffer.failure()) {
        throw *buffer.failure();
    }
    if (side.posted == 0) {
        throw Failure(CAIRN_COMM_OTHER, Failure::kNoPeer, "nothing was posted that one could wait for");
    }
    return std::nullopt;
}

bool Context::wait(Buffer &buffer, bool receive, int *rank, Deadline deadline) {
    auto lock = acquire();
    auto idleSince = Clock::time_point::max();
    for (;;) {
        if (auto done = result(buffer, receive, rank)) {
            announce();
            return *done;
        }
        if (step()) {
            if (idleSince != Clock::time_point::max()) {
                spinNs_ = std::min(mostSpinNs_, spinNs_ * 2);
                idleSince = Clock::time_point::max();
            }
            if (wanting_.load(std::memory_order_relaxed) > 0) {
                lock.unlock();
                sched_yield();
                lock = acquire();
            }
            continue;
        }
        auto now = Clock::now();
        if (idleSince == Clock::time_point::max()) {
            idleSince = now;
        }
        if (deadline.hasPassed(now)) {
            throw Failure(CAIRN_COMM_TIMEOUT, Failure::kNoPeer, std::string("a ") + (receive ? "receive" : "send") + " was not done in time");
        }
        if ((now - idleSince).count() < spinNs_) {
            lock.unlock();
            for (int i = 0; i < 8; i++) {
                relax();
            }
            lock = acquire();
            continue;
        }
        sleep(lock, buffer, receive, deadline);
        idleSince = Clock::time_point::max();
        if (Clock::now() - looked_ >= std::chrono::nanoseconds(kLifeNs)) {
            look();
        }
    }
}

// Sleeps until somebody rings, unless there is something to do after all. A peer that sees the sleeper rings after whatever it writes later;
// what it wrote before is found here.
void Context::sleep(std::unique_lock<std::mutex> &lock, const Buffer &buffer, bool receive, Deadline deadline) {
    spinNs_ = std::max(kLeastSpinNs, spinNs_ - spinNs_ / 4);
    header_->sleepers.fetch_add(1, std::memory_order_seq_cst);
    uint32_t seen = header_->bell.load(std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    try {
        if (!step() && !hasResult(buffer, receive)) {
            lock.unlock();
            sleepOn(header_->bell, seen, static_cast<uint64_t>(deadline.left(std::chrono::nanoseconds(kLifeNs)).count()));
            lock = acquire();
        }
    } catch (...) {
        header_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
        throw;
    }
    header_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

bool Context::hasResult(const Buffer &buffer, bool receive) const {
    const Buffer::Side &side = buffer.side(receive);
    return side.aborted || side.completed > 0 || buffer.failure() || ended_;
}

// Takes the lock, and lets whoever moves messages know that it is wanted.
std::unique_lock<std::mutex> Context::acquire() {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock) {
        wanting_.fetch_add(1, std::memory_order_relaxed);
        lock.lock();
        wanting_.fetch_sub(1, std::memory_order_relaxed);
    }
    return lock;
}

// Moves messages forward; what a peer did wrong ends everything.
bool Context::step() {
    try {
        return !ended_ && progress();
    } catch (const Failure &failure) {
        endLocked(failure);
        throw;
    }
}

void Context::abort(Buffer &buffer, bool receive) {
    auto lock = acquire();
    buffer.side(receive).aborted = true;
    shared::ring(*header_);
}

void Context::cancel(Buffer &buffer) {
    auto lock = acquire();
    if (buffer.side(true).posted == 0 && buffer.side(false).posted == 0) {
        return;
    }
    for (auto &link : links_) {
        if (link) {
            link->cancel(&buffer);
        }
    }
    // The peer may be in the middle of the message.
    endLocked(Failure(CAIRN_COMM_CLOSED, Failure::kNoPeer, "a message was given up"));
}

void Context::end(const Failure &failure) {
    auto lock = acquire();
    endLocked(failure);
}

void Context::endLocked(const Failure &failure) {
    if (ended_) {
        return;
    }
    ended_.emplace(failure);
    State state = failure.kind == CAIRN_COMM_CLOSED ? State::Left : State::Failed;
    header_->state.store(static_cast<uint32_t>(state), std::memory_order_seq_cst);
    for (auto &link : links_) {
        if (link) {
            link->wakePeer();
            link->hangUp();
        }
    }
    shared::ring(*header_);
}

void Context::check() {
    auto lock = acquire();
    if (ended_) {
        throw *ended_;
    }
    look();
    for (auto &link : links_) {
        if (!link) {
            continue;
        }
        if (link->peerState() == State::Failed) {
            link->endAs(State::Failed);
        }
        if (link->isLost()) {
            throw Failure(CAIRN_COMM_PEER_GONE, link->peer, link->endText());
        }
    }
}

std::shared_ptr<::gloo::transport::Context> Device::createContext(int rank, int size) {
    context_ = std::make_shared<Context>(rank, size, bufferBytes_, connectDeadline_);
    return context_;
}

}  // namespace cairn::comm::shared

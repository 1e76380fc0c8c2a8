#include "link.h"

#include <algorithm>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../failure.h"
#include "buffer.h"
#include "landing.h"

namespace cairn::comm::shared {

namespace {

// The bytes of a chunk: small enough that writer and reader work at the same time, and the ring stays in the cache.
constexpr uint64_t kChunkBytes = 32 * 1024;
// What is copied at a time without the ring.
constexpr uint64_t kPieceBytes = 256 * 1024;
// What a peer may announce before this rank sends; more is no honest peer.
constexpr size_t kMostReady = 1 << 20;

constexpr uint64_t earlyCost(uint64_t bytes) { return std::max<uint64_t>(bytes, 64); }

Failure twice(int peer, uint64_t slot) {
    return {CAIRN_COMM_OTHER, peer, "message " + std::to_string(slot) + " of rank " + std::to_string(peer) + " is already under way"};
}

}  // namespace

void garbage(int peer, const char *what) {
    throw Failure(CAIRN_COMM_OTHER, peer, "rank " + std::to_string(peer) + " " + what + ": its shared memory is damaged");
}

Link::Link(int peer, Acquaintance met, Lane *lane, const char *ring, uint64_t ringBytes, uint32_t rank)
    : peer(peer), socket_(std::move(met.socket)), sameProcess_(met.hello.process == processNumber()),
      in_(lane, ring, ringBytes, peer) {
    SegmentLayout layout{met.hello.ranks, met.hello.ringBytes};
    checkSegment(met.segment.number(), layout, peer);
    control_ = Mapping(met.segment.number(), 0, layout.controlBytes());
    ring_ = Mapping(met.segment.number(), layout.ringAt(rank), layout.ringBytes);
    header_ = reinterpret_cast<SegmentHeader *>(control_.at(0));
    auto lanes = reinterpret_cast<Lane *>(control_.at(SegmentLayout::kPage));
    capacity_ = layout.ringBytes;
    out_ = Outlet(&lanes[rank], ring_.at(0), capacity_, peer);
    if (met.process > 0 && !sameProcess_) {
        process_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, met.process, 0)));
    }
}

void Link::send(Transfer transfer) {
    uint64_t slot = transfer.slot;
    if (early_.count(slot) > 0 || unready_.count(slot) > 0) {
        throw twice(peer, slot);
    }
    auto announced = ready_.find(slot);
    if (announced != ready_.end()) {
        auto [total, landing] = announced->second;
        if (total != transfer.total) {
            throw Failure::lengths(peer, slot, total, transfer.total);
        }
        ready_.erase(announced);
        begin(transfer, landing);
    } else if (transfer.total <= kLetterBytes && earlyBytes_ + earlyCost(transfer.total) <= kEarlyBytes) {
        early_.emplace(slot, earlyCost(transfer.total));
        earlyBytes_ += earlyCost(transfer.total);
        letters_.push_back(transfer);
    } else {
        unready_.emplace(slot, transfer);
    }
    pump();
}

void Link::begin(Transfer transfer, uint64_t landing) {
    if (transfer.total <= kLetterBytes) {
        letters_.push_back(transfer);
        return;
    }
    if (sameProcess_) {
        transfer.landing = landing;
    }
    streams_.push_back(transfer);
}

void Link::receive(Transfer transfer) {
    if (posted_.count(transfer.slot) > 0) {
        throw twice(peer, transfer.slot);
    }
    auto letter = aside_.find(transfer.slot);
    if (letter != aside_.end()) {
        if (letter->second.size() != transfer.total) {
            throw Failure::lengths(peer, transfer.slot, letter->second.size(), transfer.total);
        }
        if (transfer.total > 0) {
            memcpy(transfer.bytes, letter->second.data(), transfer.total);
        }
        asideBytes_ -= earlyCost(letter->second.size());
        aside_.erase(letter);
        if (!ended_) {
            write(RecordKind::Ready, transfer, 0);
            pump();
        }
        transfer.owner->complete(true, peer);
        return;
    }
    if (ended_) {
        throw Failure(CAIRN_COMM_PEER_GONE, peer, endText_);
    }
    if (sameProcess_ && transfer.total > kLetterBytes) {
        transfer.landing = openLanding(transfer.bytes, transfer.total);
    }
    posted_.emplace(transfer.slot, transfer);
    write(RecordKind::Ready, transfer, transfer.landing);
    pump();
}

void Link::write(RecordKind kind, const Transfer &transfer, uint64_t extra) {
    notes_.push_back(Record{kind, 0, transfer.slot, transfer.total, extra});
}

bool Link::pump() {
    if (ended_) {
        return false;
    }
    bool moved = false;
    while (!notes_.empty() && out_.fits(0)) {
        out_.put(notes_.front(), nullptr);
        notes_.pop_front();
        moved = true;
    }
    while (notes_.empty() && !letters_.empty() && out_.fits(letters_.front().total)) {
        Transfer letter = letters_.front();
        letters_.pop_front();
        out_.put(Record{RecordKind::Letter, static_cast<uint32_t>(letter.total), letter.slot, letter.total, 0}, letter.bytes);
        moved = true;
        finish(letter, false);
    }
    // A stream that is not done goes behind the others, so that all advance.
    uint64_t budget = capacity_ / 2;
    while (notes_.empty() && letters_.empty() && !streams_.empty() && budget > 0) {
        Transfer &stream = streams_.front();
        uint64_t before = stream.done;
        bool stuck = !pumpStream(stream, moved);
        budget -= std::min(budget, stream.done - before);
        if (stream.done == stream.total) {
            Transfer done = stream;
            streams_.pop_front();
            finish(done, false);
        } else if (streams_.size() > 1) {
            streams_.push_back(stream);
            streams_.pop_front();
        }
        if (stuck) {
            break;
        }
    }
    news_ |= moved;
    return moved;
}

// Moves a part of a longer message; false if there is no room.
bool Link::pumpStream(Transfer &stream, bool &moved) {
    uint64_t rest = stream.total - stream.done;
    if (stream.landing != 0) {
        uint64_t count = std::min(rest, kPieceBytes);
        // The last piece goes together with its record: after that the send is done.
        if (count == rest && !out_.fits(0)) {
            return false;
        }
        if (!copyToLanding(stream.landing, stream.done, stream.bytes + stream.done, count)) {
            return false;
        }
        stream.done += count;
        moved = true;
        if (stream.done == stream.total) {
            out_.put(Record{RecordKind::Placed, 0, stream.slot, stream.total, 0}, nullptr);
        }
        return true;
    }
    uint64_t room = out_.room();
    uint64_t count = std::min({rest, kChunkBytes, room});
    if (count < std::min(rest, kLetterBytes)) {
        return false;
    }
    out_.put(Record{RecordKind::Chunk, static_cast<uint32_t>(count), stream.slot, stream.total, stream.done}, stream.bytes + stream.done);
    stream.done += count;
    moved = true;
    return true;
}

// Lets nobody of this process write to a receive any more.
void Link::close(const Transfer &receive) {
    if (sameProcess_ && receive.landing != 0) {
        closeLanding(receive.landing);
    }
}

void Link::finish(Transfer &transfer, bool received) { transfer.owner->complete(received, peer); }

bool Link::drain() {
    bool any = false;
    uint64_t waiting = in_.waiting();
    // The writer may have found no room.
    news_ |= waiting > capacity_ / 2;
    while (waiting > 0) {
        Record record = in_.next(waiting);
        switch (record.kind) {
            case RecordKind::Letter: takeLetter(record); break;
            case RecordKind::Ready: takeReady(record); break;
            case RecordKind::Chunk: takeChunk(record); break;
            case RecordKind::Placed: takePlaced(record); break;
            default: garbage(peer, "wrote a record of no kind");
        }
        in_.pop(record);
        waiting -= recordBytes(record.bytes);
        any = true;
    }
    return any;
}

void Link::takeLetter(const Record &record) {
    auto found = posted_.find(record.slot);
    if (found != posted_.end()) {
        Transfer transfer = found->second;
        if (record.bytes != transfer.total) {
            throw Failure::lengths(peer, record.slot, record.bytes, transfer.total);
        }
        in_.copyOut(record, transfer.bytes);
        close(transfer);
        posted_.erase(found);
        finish(transfer, true);
        return;
    }
    uint64_t cost = earlyCost(record.bytes);
    if (asideBytes_ + cost > kEarlyBytes || record.bytes > kLetterBytes || aside_.count(record.slot) > 0) {
        garbage(peer, "sent more letters than it may");
    }
    std::vector<char> bytes(record.bytes);
    in_.copyOut(record, bytes.data());
    aside_.emplace(record.slot, std::move(bytes));
    asideBytes_ += cost;
}

void Link::takeReady(const Record &record) {
    auto early = early_.find(record.slot);
    if (early != early_.end()) {
        earlyBytes_ -= early->second;
        early_.erase(early);
        return;
    }
    auto unready = unready_.find(record.slot);
    if (unready != unready_.end()) {
        Transfer transfer = unready->second;
        if (record.total != transfer.total) {
            throw Failure::lengths(peer, record.slot, record.total, transfer.total);
        }
        unready_.erase(unready);
        begin(transfer, record.extra);
    } else {
        if (ready_.size() >= kMostReady || ready_.count(record.slot) > 0) {
            garbage(peer, "announced a receive too many");
        }
        ready_.emplace(record.slot, Announced{record.total, record.extra});
    }
}

void Link::takeChunk(const Record &record) {
    auto found = posted_.find(record.slot);
    if (found == posted_.end()) {
        garbage(peer, "sent a part of a message that nobody waits for");
    }
    Transfer &transfer = found->second;
    if (record.total != transfer.total) {
        throw Failure::lengths(peer, record.slot, record.total, transfer.total);
    }
    if (record.extra != transfer.done || record.bytes > transfer.total - transfer.done || record.bytes == 0) {
        garbage(peer, "sent parts of a message out of order");
    }
    in_.copyOut(record, transfer.bytes + transfer.done);
    transfer.done += record.bytes;
    if (transfer.done == transfer.total) {
        Transfer done = transfer;
        close(done);
        posted_.erase(found);
        finish(done, true);
    }
}

void Link::takePlaced(const Record &record) {
    auto found = posted_.find(record.slot);
    if (found == posted_.end() || !sameProcess_ || found->second.landing == 0) {
        garbage(peer, "placed a message that nobody waits for");
    }
    Transfer done = found->second;
    close(done);
    posted_.erase(found);
    finish(done, true);
}

void Link::cancel(const Buffer *owner) {
    auto owned = [owner](const Transfer &transfer) { return transfer.owner == owner; };
    for (auto list : {&letters_, &streams_}) {
        list->erase(std::remove_if(list->begin(), list->end(), owned), list->end());
    }
    for (auto map : {&unready_, &posted_}) {
        for (auto it = map->begin(); it != map->end();) {
            if (!owned(it->second)) {
                ++it;
                continue;
            }
            if (map == &posted_) {
                close(it->second);
            }
            it = map->erase(it);
        }
    }
}

void Link::announce() {
    if (news_) {
        news_ = false;
        shared::ring(*header_);
    }
}

State Link::peerState() const { return static_cast<State>(header_->state.load(std::memory_order_acquire)); }

void Link::hangUp() { shutdown(socket_.number(), SHUT_RDWR); }

void Link::endAs(State state) {
    if (ended_) {
        return;
    }
    const char *reason = "is gone: its process ended";
    if (state == State::Left) {
        reason = "closed its side of the communicator";
    } else if (state == State::Failed) {
        reason = "failed, and ended the communicator";
    }
    ended_ = true;
    lost_ = state != State::Left;
    endText_ = "rank " + std::to_string(peer) + " " + reason;
    Failure failure(CAIRN_COMM_PEER_GONE, peer, endText_);
    for (auto list : {&letters_, &streams_}) {
        for (Transfer &transfer : *list) {
            transfer.owner->fail(failure);
        }
    }
    for (auto map : {&unready_, &posted_}) {
        for (auto &entry : *map) {
            entry.second.owner->fail(failure);
        }
    }
}

}  // namespace cairn::comm::shared

// The memory that a rank shares with its peers, and how it lies there.
//
//     page 0       SegmentHeader: bell, sleepers, state
//     then         a Lane for every rank: how far the ring from that rank is written and read
//     then         the rings, ring_bytes each, by rank of the sender
//
// The owner reads its rings; rank p writes the ring and the lane of number p. Memory that nobody wrote is not there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cairn::comm::shared {

enum class State : uint32_t { Open = 0, Left = 1, Failed = 2 };

struct SegmentHeader {
    // Changes when something may have happened for the owner; sleepers wait for that.
    alignas(64) std::atomic<uint32_t> bell;
    // Threads of the owner that sleep, or are about to.
    alignas(64) std::atomic<uint32_t> sleepers;
    // A State, set by the owner.
    alignas(64) std::atomic<uint32_t> state;
};

// Bytes that were ever written to a ring and read from it.
struct Lane {
    alignas(64) std::atomic<uint64_t> head;
    alignas(64) std::atomic<uint64_t> tail;
};

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

// Where things lie in the segment of one rank of a mesh.
struct SegmentLayout {
    static constexpr uint64_t kPage = 4096;

    uint32_t ranks;
    uint64_t ringBytes;

    static constexpr uint64_t pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
    uint64_t controlBytes() const { return kPage + pages(uint64_t{ranks} * sizeof(Lane)); }
    uint64_t ringAt(uint32_t sender) const { return controlBytes() + sender * ringBytes; }
    uint64_t bytes() const { return controlBytes() + ranks * ringBytes; }
};

// A part of a file in memory, unmapped when it goes.
class Mapping {
  public:
    Mapping() = default;
    Mapping(int file, uint64_t offset, uint64_t bytes);
    Mapping(Mapping &&other) noexcept;
    Mapping &operator=(Mapping &&other) noexcept;
    ~Mapping();

    char *at(uint64_t offset) const { return start_ + offset; }

  private:
    char *start_ = nullptr;
    uint64_t bytes_ = 0;
};

// A file descriptor, closed when it goes.
class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor &&other) noexcept;
    Descriptor &operator=(Descriptor &&other) noexcept;
    ~Descriptor();

    int number() const { return number_; }
    explicit operator bool() const { return number_ >= 0; }

  private:
    int number_ = -1;
};

// A sealed file without a name for the segment of one rank.
Descriptor makeSegment(const SegmentLayout &layout);

// Fails unless a file that a peer handed over has the size of the layout and cannot shrink.
void checkSegment(int file, const SegmentLayout &layout, int peer);

// Sleeps until the word is no longer `seen`, somebody rings, or the time is over.
void sleepOn(std::atomic<uint32_t> &word, uint32_t seen, uint64_t nanoseconds);

// Wakes all who sleep on the header's bell, if there are any.
void ring(SegmentHeader &header);

}  // namespace cairn::comm::shared

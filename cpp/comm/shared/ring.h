// A ring of records between two ranks: one writes, one reads, and neither believes the other's numbers. Its capacity is a power of two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "segment.h"

namespace cairn::comm::shared {

// See context.h for what each kind means.
enum class RecordKind : uint32_t { Letter = 1, Ready = 2, Chunk = 3, Placed = 4 };

// What stands before the bytes of a record. Records start at multiples of its size.
struct Record {
    RecordKind kind;
    uint32_t bytes;
    uint64_t slot;
    uint64_t total;
    uint64_t extra;
};

static_assert(sizeof(Record) == 32);

// What a record with this many bytes occupies.
constexpr uint64_t recordBytes(uint64_t bytes) { return (sizeof(Record) + bytes + sizeof(Record) - 1) / sizeof(Record) * sizeof(Record); }

// Throws Failure: the peer's part of the ring is no ring.
[[noreturn]] void garbage(int peer, const char *what);

// The writing end, in the segment of the peer.
class Outlet {
  public:
    Outlet() = default;
    Outlet(Lane *lane, char *ring, uint64_t capacity, int peer) : lane_(lane), ring_(ring), capacity_(capacity), peer_(peer) {}

    // Bytes that are free; asks the reader only when less than half seems to be.
    uint64_t free() {
        if (head_ - tail_ > capacity_ / 2) {
            tail_ = lane_->tail.load(std::memory_order_acquire);
            if (head_ - tail_ > capacity_) {
                garbage(peer_, "has read more than was written");
            }
        }
        return capacity_ - (head_ - tail_);
    }

    // Bytes of the largest record that can be written now, its header not counted.
    uint64_t room() {
        uint64_t bytes = free();
        return bytes < sizeof(Record) ? 0 : bytes - sizeof(Record);
    }

    bool fits(uint64_t bytes) { return free() >= recordBytes(bytes); }

    // Writes a record that fits.
    void put(const Record &record, const void *bytes) {
        copyIn(head_, &record, sizeof record);
        if (bytes != nullptr) {
            copyIn(head_ + sizeof record, bytes, record.bytes);
        }
        head_ += recordBytes(record.bytes);
        lane_->head.store(head_, std::memory_order_release);
    }

  private:
    void copyIn(uint64_t position, const void *bytes, size_t count) {
        uint64_t at = position & (capacity_ - 1);
        size_t first = count < capacity_ - at ? count : capacity_ - at;
        if (first > 0) {
            memcpy(ring_ + at, bytes, first);
        }
        if (count > first) {
            memcpy(ring_, static_cast<const char *>(bytes) + first, count - first);
        }
    }

    Lane *lane_ = nullptr;
    char *ring_ = nullptr;
    uint64_t capacity_ = 0;
    uint64_t head_ = 0;
    uint64_t tail_ = 0;
    int peer_ = -1;
};

// The reading end, in the own segment.
class Inlet {
  public:
    Inlet() = default;
    Inlet(Lane *lane, const char *ring, uint64_t capacity, int peer) : lane_(lane), ring_(ring), capacity_(capacity), peer_(peer) {}

    // Bytes that wait to be read.
    uint64_t waiting() {
        uint64_t head = lane_->head.load(std::memory_order_acquire);
        if (head - tail_ > capacity_ || head % sizeof(Record) != 0) {
            garbage(peer_, "wrote more than there is room for");
        }
        return head - tail_;
    }

    // The next record, which is there because `waiting` said so.
    Record next(uint64_t waiting) {
        Record record;
        memcpy(&record, ring_ + (tail_ & (capacity_ - 1)), sizeof record);
        if (recordBytes(record.bytes) > waiting) {
            garbage(peer_, "wrote a record that is longer than what it published");
        }
        return record;
    }

    // Copies the bytes of the next record.
    void copyOut(const Record &record, void *target) const {
        uint64_t at = (tail_ + sizeof(Record)) & (capacity_ - 1);
        size_t first = record.bytes < capacity_ - at ? record.bytes : capacity_ - at;
        if (first > 0) {
            memcpy(target, ring_ + at, first);
        }
        if (record.bytes > first) {
            memcpy(static_cast<char *>(target) + first, ring_, record.bytes - first);
        }
    }

    // Gives the room of the record back.
    void pop(const Record &record) {
        tail_ += recordBytes(record.bytes);
        lane_->tail.store(tail_, std::memory_order_release);
    }

  private:
    Lane *lane_ = nullptr;
    const char *ring_ = nullptr;
    uint64_t capacity_ = 0;
    uint64_t tail_ = 0;
    int peer_ = -1;
};

}  // namespace cairn::comm::shared

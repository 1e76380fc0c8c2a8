#include "segment.h"

#include <climits>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../failure.h"

namespace cairn::comm::shared {

Mapping::Mapping(int file, uint64_t offset, uint64_t bytes) : bytes_(bytes) {
    void *start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
    if (start == MAP_FAILED) {
        throw systemFailure(Failure::kNoPeer, "cannot map " + std::to_string(bytes) + " bytes of shared memory");
    }
    start_ = static_cast<char *>(start);
}

Mapping::Mapping(Mapping &&other) noexcept : start_(std::exchange(other.start_, nullptr)), bytes_(other.bytes_) {}

Mapping &Mapping::operator=(Mapping &&other) noexcept {
    std::swap(start_, other.start_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

Mapping::~Mapping() {
    if (start_ != nullptr) {
        munmap(start_, bytes_);
    }
}

Descriptor::Descriptor(Descriptor &&other) noexcept : number_(std::exchange(other.number_, -1)) {}

Descriptor &Descriptor::operator=(Descriptor &&other) noexcept {
    std::swap(number_, other.number_);
    return *this;
}

Descriptor::~Descriptor() {
    if (number_ >= 0) {
        ::close(number_);
    }
}

Descriptor makeSegment(const SegmentLayout &layout) {
    Descriptor file(memfd_create("cairn-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file) {
        throw systemFailure(Failure::kNoPeer, "cannot make shared memory");
    }
    if (ftruncate(file.number(), static_cast<off_t>(layout.bytes())) != 0) {
        throw systemFailure(Failure::kNoPeer, "cannot make " + std::to_string(layout.bytes()) + " bytes of shared memory");
    }
    if (fcntl(file.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        throw systemFailure(Failure::kNoPeer, "cannot seal shared memory");
    }
    return file;
}

void checkSegment(int file, const SegmentLayout &layout, int peer) {
    struct stat data;
    if (fstat(file, &data) != 0) {
        throw systemFailure(peer, "cannot look at the shared memory of rank " + std::to_string(peer));
    }
    int seals = fcntl(file, F_GET_SEALS);
    if (static_cast<uint64_t>(data.st_size) != layout.bytes() || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
        throw Failure(CAIRN_COMM_OTHER, peer,
                      "rank " + std::to_string(peer) + " handed over shared memory of " + std::to_string(data.st_size) + " bytes; " +
                          std::to_string(layout.bytes()) + " that cannot shrink were expected");
    }
}

void sleepOn(std::atomic<uint32_t> &word, uint32_t seen, uint64_t nanoseconds) {
    timespec limit{static_cast<time_t>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000)};
    syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void ring(SegmentHeader &header) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (header.sleepers.load(std::memory_order_relaxed) == 0) {
        return;
    }
    header.bell.fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, &header.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace cairn::comm::shared

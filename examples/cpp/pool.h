// A pool of your own for graphs: blocks of one slab, first fit, neighbours joined again. Graphs take their
// memory from it once it is registered on their stream.
//
// On Cairn the pool also learns what each block is for. The function is declared weak: where there is none,
// every block counts as "unknown".
#ifndef EXAMPLES_CPP_POOL_H
#define EXAMPLES_CPP_POOL_H

#include <acl/acl.h>
#include <ge/ge_allocator.h>

#include <cstdio>
#include <map>
#include <string>

#include <cairn/reason.h>
extern "C" __attribute__((weak)) bool cairnGetAllocationReason(cairnAllocationReason *reason);

class SlabPool : public ge::Allocator {
public:
    explicit SlabPool(const char *name, size_t bytes) : name_(name) {
        if (aclrtMalloc(&slab_, bytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS) {
            holes_[0] = bytes;
        }
    }

    // All blocks are back by now, and the streams that used them were synchronized.
    ~SlabPool() override {
        if (live_ != 0) {
            std::printf("%s: %zu blocks were never given back\n", name_, live_);
        }
        if (slab_ != nullptr) {
            aclrtFree(slab_);
        }
    }

    ge::MemBlock *Malloc(size_t size) override {
        const size_t rounded = (size + 511) / 512 * 512;
        for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
            if (hole->second >= rounded) {
                return Take(hole, hole->first, rounded, size);
            }
        }
        return nullptr;  // the call that wanted it fails, and says so
    }

    // The same memory again, if it is free: a graph whose feature memory stays need not be moved.
    ge::MemBlock *MallocAdvise(size_t size, void *addr) override {
        ++advised_;
        const size_t rounded = (size + 511) / 512 * 512;
        const size_t start = static_cast<char *>(addr) - static_cast<char *>(slab_);
        auto hole = holes_.upper_bound(start);
        if (hole != holes_.begin() && (--hole)->first + hole->second >= start + rounded) {
            return Take(hole, start, rounded, size);
        }
        return Malloc(size);
    }

    void Free(ge::MemBlock *block) override {
        size_t start = static_cast<char *>(block->GetAddr()) - static_cast<char *>(slab_);
        size_t bytes = (block->GetSize() + 511) / 512 * 512;
        --live_;
        live_bytes_ -= bytes;
        auto next = holes_.lower_bound(start);
        if (next != holes_.end() && next->first == start + bytes) {
            bytes += next->second;
            next = holes_.erase(next);
        }
        if (next != holes_.begin()) {
            auto previous = std::prev(next);
            if (previous->first + previous->second == start) {
                previous->second += bytes;
                delete block;
                return;
            }
        }
        holes_[start] = bytes;
        delete block;
    }

    size_t Served() const { return served_; }
    size_t Advised() const { return advised_; }
    size_t Live() const { return live_; }

    // What went through the pool, by what it was for.
    void Print() const {
        for (const auto &entry : classes_) {
            std::printf("  %-10s %-34s %3zu block%s %9zu bytes\n", name_, entry.first.c_str(), entry.second.blocks,
                        entry.second.blocks == 1 ? " " : "s", entry.second.bytes);
        }
        std::printf("  %-10s peak %zu bytes, %zu still out\n", name_, peak_, live_);
    }

private:
    struct Figures {
        size_t blocks = 0;
        size_t bytes = 0;
    };

    ge::MemBlock *Take(std::map<size_t, size_t>::iterator hole, size_t start, size_t rounded, size_t size) {
        const size_t begin = hole->first;
        const size_t end = begin + hole->second;
        holes_.erase(hole);
        if (begin < start) {
            holes_[begin] = start - begin;
        }
        if (start + rounded < end) {
            holes_[start + rounded] = end - (start + rounded);
        }
        ++served_;
        ++live_;
        live_bytes_ += rounded;
        peak_ = live_bytes_ > peak_ ? live_bytes_ : peak_;
        Figures &figures = classes_[Reason()];
        ++figures.blocks;
        figures.bytes += size;
        return new ge::MemBlock(*this, static_cast<char *>(slab_) + start, size);
    }

    static std::string Reason() {
        static const char *const kNames[] = {"",          "const",  "feature",   "fixed feature", "intermediate",
                                             "workspace", "output", "host input"};
        cairnAllocationReason reason{};
        if (cairnGetAllocationReason == nullptr || !cairnGetAllocationReason(&reason)) {
            return "unknown";
        }
        std::string text = "graph " + std::to_string(reason.graphId) + ", " + kNames[reason.memoryClass];
        return reason.operatorName == nullptr ? text : text + " of " + reason.operatorName;
    }

    const char *name_;
    void *slab_ = nullptr;
    std::map<size_t, size_t> holes_;
    std::map<std::string, Figures> classes_;
    size_t served_ = 0;
    size_t advised_ = 0;
    size_t live_ = 0;
    size_t live_bytes_ = 0;
    size_t peak_ = 0;
};

#endif

// links: -lcairn_pool
/* cairn/pool.hpp: the pool as an allocator of the graph engine. */
#include "gate.h"
#include "cairn/pool.hpp"
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

static_assert(sizeof(ge::Allocator) == 8 && sizeof(ge::MemBlock) == 40, "what clients were built with");
static_assert(!std::is_copy_constructible<ge::Allocator>::value, "an allocator is one object");
static_assert(std::is_abstract<ge::Allocator>::value, "users derive from it");
static_assert(std::has_virtual_destructor<ge::MemBlock>::value, "users derive from it");

static const size_t MIB = size_t(1) << 20;

static cairnPoolFigures figures(aclrtStream stream)
{
    cairnPoolFigures result;
    CHECK_EQ(cairn_pool_stream_figures(0, stream, &result), 0);
    return result;
}

/* An allocator that overrides only what it must, as torchair's does. */
class PlainAllocator : public ge::Allocator {
public:
    int mallocs = 0, frees = 0;
    ge::MemBlock *Malloc(size_t size) override
    {
        mallocs++;
        return new ge::MemBlock(*this, this, size);
    }
    void Free(ge::MemBlock *block) override
    {
        frees++;
        delete block;
    }
};

static void layout(aclrtStream stream)
{
    GROUP("ge allocator: members and virtual functions are where clients look for them");
    cairn::PoolAllocator allocator(0, stream);
    ge::Allocator *base = &allocator;
    using Malloc = ge::MemBlock *(*)(ge::Allocator *, size_t);
    using Free = void (*)(ge::Allocator *, ge::MemBlock *);
    using Advise = ge::MemBlock *(*)(ge::Allocator *, size_t, void *);
    void **table = *reinterpret_cast<void ***>(base);
    ge::MemBlock *block = reinterpret_cast<Malloc>(table[2])(base, 1000);
    CHECK(block != nullptr);
    void **words = reinterpret_cast<void **>(block);
    CHECK(words[1] == base);
    CHECK(words[2] == block->GetAddr());
    CHECK_EQ(reinterpret_cast<size_t>(words[3]), 1);
    CHECK_EQ(reinterpret_cast<size_t>(words[4]), 1000);
    reinterpret_cast<Free>(table[3])(base, block);
    block = reinterpret_cast<Advise>(table[4])(base, 1000, nullptr);
    CHECK(block != nullptr);
    block->Free();
    CHECK_EQ(figures(stream).blocks, 0);

    GROUP("ge allocator: MallocAdvise is Malloc unless it is overridden");
    PlainAllocator plain;
    ge::MemBlock *other = plain.MallocAdvise(7, stream);
    CHECK_EQ(plain.mallocs, 1);
    CHECK_EQ(other->GetSize(), 7);
    other->SetSize(9);
    CHECK_EQ(other->GetSize(), 9);
    CHECK_EQ(other->AddCount(), 2);
    CHECK_EQ(other->SubCount(), 1);
    CHECK_EQ(plain.frees, 0);
    other->Free();
    CHECK_EQ(plain.frees, 1);
}

static void counts(aclrtStream stream)
{
    GROUP("ge allocator: the last user gives the block back");
    ge::AllocatorPtr allocator = std::make_shared<cairn::PoolAllocator>(0, stream);
    ge::MemBlock *block = allocator->Malloc(3 * MIB);
    CHECK(block && block->GetAddr() && block->GetSize() == 3 * MIB);
    CHECK_EQ(reinterpret_cast<uintptr_t>(block->GetAddr()) % 512, 0);
    CHECK_EQ(block->GetCount(), 1);
    CHECK_EQ(block->AddCount(), 2);
    block->Free();
    CHECK_EQ(block->GetCount(), 1);
    CHECK_EQ(figures(stream).blocks, 1);
    CHECK_OK(aclrtMemset(block->GetAddr(), 3 * MIB, 5, 3 * MIB));
    void *address = block->GetAddr();
    block->Free();
    CHECK_EQ(figures(stream).blocks, 0);

    GROUP("ge allocator: advice with the previous address, as a refreshable graph gives it");
    block = allocator->MallocAdvise(3 * MIB, address);
    CHECK(block && block->GetAddr() == address);
    block->Free();

    GROUP("ge allocator: null when there is no memory");
    CHECK(allocator->Malloc(size_t(1) << 50) == nullptr);
    CHECK(cairn_pool_last_error() != nullptr);
    CHECK(cairn::PoolAllocator(9, stream).Malloc(1) == nullptr);
    CHECK(cairn_pool_last_error() != nullptr);
    allocator->Free(nullptr);
}

static void streams(aclrtStream a, aclrtStream b)
{
    static Gate gate = GATE_CLOSED;
    GROUP("ge allocator: two streams, each with its own; the other stream gets memory only after its last use");
    cairn::PoolAllocator first(0, a), second(0, b);
    CHECK(first.Device() == 0 && first.Stream() == a && second.Stream() == b);
    ge::MemBlock *block = first.Malloc(8 * MIB);
    void *address = block->GetAddr();
    gate_put(&gate, a);
    block->Free();
    ge::MemBlock *other = second.Malloc(8 * MIB);
    CHECK(other && other->GetAddr() != address);
    block = first.Malloc(8 * MIB);
    CHECK(block && block->GetAddr() == address);
    block->Free();
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(a));
    ge::MemBlock *third = second.Malloc(8 * MIB);
    CHECK(third && third->GetAddr() == address);
    third->Free();
    other->Free();
    CHECK_EQ(figures(a).blocks + figures(b).blocks, 0);
}

static void threads(aclrtStream stream)
{
    GROUP("ge allocator: many threads share one");
    cairn::PoolAllocator allocator(0, stream);
    std::vector<std::thread> workers;
    for (int i = 0; i < 4; i++) {
        workers.emplace_back([&allocator, i] {
            for (size_t n = 1; n < 5000; n++) {
                ge::MemBlock *block = allocator.Malloc(n * 37 * (i + 1));
                if (!block || block->GetSize() != n * 37 * (i + 1)) {
                    check_failed();
                    return;
                }
                block->Free();
            }
        });
    }
    for (std::thread &worker : workers)
        worker.join();
    CHECK_EQ(figures(stream).blocks, 0);
    CHECK_EQ(figures(stream).taken, figures(stream).freed);
}

/* Gives its block back after main. */
struct LateFree {
    ge::AllocatorPtr allocator;
    ge::MemBlock *block = nullptr;
    ~LateFree()
    {
        block->Free();
        if (cairn_pool_last_error() != nullptr)
            _exit(1);
    }
};

int main()
{
    static LateFree late;
    aclrtStream a, b;
    CHECK_OK(aclInit(nullptr));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&a));
    CHECK_OK(aclrtCreateStream(&b));
    layout(a);
    counts(a);
    streams(a, b);
    threads(b);
    late.allocator = std::make_shared<cairn::PoolAllocator>(0, a);
    late.block = late.allocator->Malloc(MIB);
    CHECK(late.block != nullptr);
    return END();
}

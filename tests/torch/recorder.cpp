// Forwards torch_npu's calls to the two functions of an allocator and records each; journal.py reads the record.

#include <sys/types.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

using Malloc = void *(*)(ssize_t, int, void *);
using Free = void (*)(void *, ssize_t, int, void *);

struct Call {
    int64_t freed;
    int64_t address;
    int64_t size;
    int64_t device;
    int64_t stream;
};

static Malloc inner_malloc;
static Free inner_free;
static std::mutex lock;
static std::vector<Call> calls;

static void record(bool freed, void *address, ssize_t size, int device, void *stream)
{
    const auto number = [](void *pointer) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer)); };
    std::lock_guard<std::mutex> guard(lock);
    calls.push_back({freed, number(address), size, device, number(stream)});
}

extern "C" {

void recorder_forward(Malloc to_malloc, Free to_free)
{
    inner_malloc = to_malloc;
    inner_free = to_free;
}

// Recorded after the call, a free before it: so no address is live twice in the record
// because of two threads.
void *recorded_malloc(ssize_t size, int device, void *stream)
{
    void *address = inner_malloc(size, device, stream);
    record(false, address, size, device, stream);
    return address;
}

void recorded_free(void *address, ssize_t size, int device, void *stream)
{
    record(true, address, size, device, stream);
    inner_free(address, size, device, stream);
}

// Copies the calls recorded from number `from` on, as far as there is room, and returns how many there are.
size_t recorder_read(size_t from, Call *to, size_t capacity)
{
    std::lock_guard<std::mutex> guard(lock);
    for (size_t at = from; at < calls.size() && at - from < capacity; at++) {
        to[at - from] = calls[at];
    }
    return calls.size();
}
}

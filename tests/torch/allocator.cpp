// An allocator for torch_npu that keeps nothing: every tensor is one aclrtMallocAlign32 and one aclrtFree.

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "acl/acl.h"

static std::atomic<uint64_t> allocations, releases, released_bytes, failures;

extern "C" {

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    (void)device, (void)stream;
    void *address = nullptr;
    if (size == 0) {
        return nullptr;  // torch_npu asks for empty tensors too
    }
    if (aclrtMallocAlign32(&address, size, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
        failures++;
        return nullptr;
    }
    allocations++;
    return address;
}

void my_free(void *address, ssize_t size, int device, aclrtStream stream)
{
    (void)device, (void)stream;
    if (aclrtFree(address) != ACL_SUCCESS) {
        failures++;
        return;
    }
    releases++;
    released_bytes += size;
}

uint64_t allocation_count(void) { return allocations; }
uint64_t release_count(void) { return releases; }
uint64_t released_byte_count(void) { return released_bytes; }
uint64_t failure_count(void) { return failures; }
}

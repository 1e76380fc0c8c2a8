#include "pool.h"

#include <pthread.h>
#include <stdlib.h>

/* Sizes are rounded up to an eighth of their power of two, so that similar requests share blocks. */
enum { UNIT = 512, BUCKETS = 512 };

typedef struct Block {
    void *address;
    size_t bytes;
    int device;
    aclrtStream stream;
    struct Block *next;
} Block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Blocks that are held, by address, and blocks that are free, by size. */
static Block *held[BUCKETS], *unused[BUCKETS];
static size_t held_bytes, most_held_bytes, unused_bytes;

static size_t rounded(size_t size)
{
    size_t step = UNIT;
    while (step * 16 <= size)
        step *= 2;
    return (size + step - 1) / step * step;
}

static size_t by_address(const void *address)
{
    return (size_t)address / UNIT % BUCKETS;
}

static size_t by_size(size_t bytes)
{
    return bytes / UNIT % BUCKETS;
}

static void push(Block **list, Block *block)
{
    block->next = *list;
    *list = block;
}

static Block *take_unused(size_t bytes, int device, aclrtStream stream)
{
    for (Block **at = &unused[by_size(bytes)]; *at; at = &(*at)->next) {
        Block *block = *at;
        if (block->bytes == bytes && block->device == device && block->stream == stream) {
            *at = block->next;
            unused_bytes -= bytes;
            return block;
        }
    }
    return NULL;
}

/* Gives back to ACL what nobody holds. Tasks may still use it: wait for them first. */
static void trim(int device)
{
    aclrtSynchronizeDevice();
    for (int i = 0; i < BUCKETS; i++)
        for (Block **at = &unused[i]; *at;) {
            Block *block = *at;
            if (block->device != device) {
                at = &block->next;
                continue;
            }
            *at = block->next;
            unused_bytes -= block->bytes;
            aclrtFree(block->address);
            free(block);
        }
}

static Block *make(size_t bytes, int device, aclrtStream stream)
{
    void *address = NULL;
    /* What is kept for later is at most half of what was ever needed. */
    if (unused_bytes && held_bytes + unused_bytes + bytes > most_held_bytes / 2 * 3)
        trim(device);
    if (aclrtMallocAlign32(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
        trim(device);
        if (aclrtMallocAlign32(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
            return NULL;
    }
    Block *block = malloc(sizeof *block);
    if (!block) {
        aclrtFree(address);
        return NULL;
    }
    *block = (Block){address, bytes, device, stream, NULL};
    return block;
}

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    if (size <= 0)
        return NULL;
    size_t bytes = rounded((size_t)size);
    pthread_mutex_lock(&lock);
    Block *block = take_unused(bytes, device, stream);
    if (!block)
        block = make(bytes, device, stream);
    if (block) {
        push(&held[by_address(block->address)], block);
        held_bytes += bytes;
        if (held_bytes > most_held_bytes)
            most_held_bytes = held_bytes;
    }
    pthread_mutex_unlock(&lock);
    return block ? block->address : NULL;
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device, (void)stream;
    pthread_mutex_lock(&lock);
    for (Block **at = &held[by_address(ptr)]; *at; at = &(*at)->next)
        if ((*at)->address == ptr) {
            Block *block = *at;
            *at = block->next;
            push(&unused[by_size(block->bytes)], block);
            held_bytes -= block->bytes;
            unused_bytes += block->bytes;
            break;
        }
    pthread_mutex_unlock(&lock);
}

/* The allocator of a stream. */
typedef struct Place {
    int device;
    aclrtStream stream;
} Place;

static void *alloc_for(aclrtAllocator object, size_t size)
{
    Place *place = object;
    return my_malloc((ssize_t)size, place->device, place->stream);
}

static void free_for(aclrtAllocator object, aclrtAllocatorBlock block)
{
    Place *place = object;
    my_free(block, 0, place->device, place->stream);
}

static void *address_of(aclrtAllocatorBlock block)
{
    return block;
}

aclrtAllocatorDesc make_desc(int device, aclrtStream stream)
{
    /* Registrations keep using it: it lives as long as the process. */
    Place *place = malloc(sizeof *place);
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    if (!place || !desc)
        return NULL;
    *place = (Place){device, stream};
    aclrtAllocatorSetObjToDesc(desc, place);
    aclrtAllocatorSetAllocFuncToDesc(desc, alloc_for);
    aclrtAllocatorSetFreeFuncToDesc(desc, free_for);
    aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address_of);
    return desc;
}

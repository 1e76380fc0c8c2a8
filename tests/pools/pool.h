/*
 * A small pool, right as it stands: every block is memory of its own from aclrtMalloc, kept after the free for the next
 * request of the same size on the same stream. When ACL has no more, what is free goes back to it, after a wait.
 *
 * The wrong pools beside it use `take` and `give_back` and add a mistake, or replace one of the steps below.
 */
#ifndef CAIRN_TESTS_POOLS_POOL_H
#define CAIRN_TESTS_POOLS_POOL_H

#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>
#include "acl/acl.h"

typedef struct Memory {
    char *address;
    size_t bytes;
    int device;
    aclrtStream stream;
    int is_taken;
    struct Memory *next;
} Memory;

static Memory *all;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;

#ifndef LOCK
#define LOCK pthread_mutex_lock(&pool_lock)
#define UNLOCK pthread_mutex_unlock(&pool_lock)
#endif
#ifndef FITS
#define FITS(memory, on) ((memory)->stream == (on))
#endif
#ifndef WAIT
#define WAIT aclrtSynchronizeDevice()
#endif
#ifndef TRIM
#define TRIM trim(device)
#endif

/* Gives everything of a device that is free back to ACL. */
__attribute__((unused)) static void trim(int device)
{
    (void)WAIT;
    for (Memory **at = &all; *at;) {
        Memory *memory = *at;
        if (memory->is_taken || memory->device != device) {
            at = &memory->next;
            continue;
        }
        *at = memory->next;
        aclrtFree(memory->address);
        free(memory);
    }
}

__attribute__((unused)) static void *take(size_t size, int device, aclrtStream stream)
{
    size_t bytes = (size + 511) / 512 * 512;
    void *address = NULL;
    if (size == 0)
        return NULL;
    LOCK;
    for (Memory *memory = all; memory; memory = memory->next) {
        if (!memory->is_taken && memory->bytes == bytes && memory->device == device && FITS(memory, stream)) {
            memory->is_taken = 1;
            memory->stream = stream;
            UNLOCK;
            return memory->address;
        }
    }
    if (aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
        TRIM;
        if (aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
            UNLOCK;
            return NULL;
        }
    }
    Memory *memory = (Memory *)malloc(sizeof *memory);
    *memory = (Memory){(char *)address, bytes, device, stream, 1, all};
    all = memory;
    UNLOCK;
    return address;
}

__attribute__((unused)) static Memory *find(void *address)
{
    for (Memory *memory = all; memory; memory = memory->next)
        if (memory->address == (char *)address)
            return memory;
    return NULL;
}

__attribute__((unused)) static void give_back(void *address)
{
    if (!address)
        return;
    LOCK;
    find(address)->is_taken = 0;
    UNLOCK;
}

/* The same as an allocator for aclrtAllocatorRegister; its object lives for ever. */
typedef struct Place {
    int device;
    aclrtStream stream;
} Place;

__attribute__((unused)) static void *take_for(aclrtAllocator object, size_t size)
{
    Place *place = (Place *)object;
    return take(size, place->device, place->stream);
}

__attribute__((unused)) static void give_back_to(aclrtAllocator object, aclrtAllocatorBlock block)
{
    (void)object;
    give_back(block);
}

__attribute__((unused)) static void *address_of(aclrtAllocatorBlock block)
{
    return block;
}

__attribute__((unused)) static aclrtAllocatorDesc describe(int device, aclrtStream stream)
{
    Place *place = (Place *)malloc(sizeof *place);
    *place = (Place){device, stream};
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    aclrtAllocatorSetObjToDesc(desc, place);
    aclrtAllocatorSetAllocFuncToDesc(desc, take_for);
    aclrtAllocatorSetFreeFuncToDesc(desc, give_back_to);
    aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address_of);
    return desc;
}

#endif

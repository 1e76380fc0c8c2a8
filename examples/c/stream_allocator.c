/*
 * Two allocators on two streams. The first is a pool of this program: sixteen slots of device memory,
 * handed out first come, first served. The second is Cairn's own pool, which needs one call.
 *
 *     gcc stream_allocator.c -I$ASCEND_HOME_PATH/include -L$ASCEND_HOME_PATH/lib64 \
 *         -lcairn_pool -lascendcl -o stream_allocator && ./stream_allocator
 *
 * Operators on a stream take their memory from the allocator that is registered on it. This program has
 * no operator: it asks which allocator a stream has, and calls that as an operator would.
 */
#include <acl/acl.h>
#include <cairn/pool.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 16, SLOT = 1 << 20 };

#define MUST(call)                                                                             \
    do {                                                                                       \
        aclError code = (call);                                                                \
        if (code != ACL_SUCCESS) {                                                             \
            const char *text = aclGetRecentErrMsg();                                           \
            fprintf(stderr, "%s: %d\n  %s\n", #call, code, text != NULL ? text : "(no text)"); \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

typedef struct {
    char *memory;
    int taken[SLOTS]; // slots of the block that begins here, 0 for none
    int allocations, frees;
} Pool;

typedef struct {
    Pool *pool;
    int slot;
} Block;

static int is_free(const Pool *pool, int first, int count) {
    if (first + count > SLOTS) return 0;
    for (int slot = 0; slot < SLOTS; ++slot) {
        if (pool->taken[slot] && slot < first + count && first < slot + pool->taken[slot]) return 0;
    }
    return 1;
}

// NULL when nothing fits: the call that wanted memory fails, and the stream goes on.
static void *pool_alloc(aclrtAllocator object, size_t size) {
    Pool *pool = object;
    int count = (int)((size + SLOT - 1) / SLOT);
    for (int slot = 0; slot < SLOTS; ++slot) {
        if (!is_free(pool, slot, count)) continue;
        Block *block = malloc(sizeof *block);
        if (block == NULL) return NULL;
        *block = (Block){pool, slot};
        pool->taken[slot] = count;
        pool->allocations++;
        return block;
    }
    return NULL;
}

// Called when the last task that uses the block is on the stream, not when it has run: the next block
// in the same place is for the same stream, so its tasks run after those.
static void pool_free(aclrtAllocator object, aclrtAllocatorBlock given) {
    Pool *pool = object;
    Block *block = given;
    pool->taken[block->slot] = 0;
    pool->frees++;
    free(block);
}

static void *pool_address(aclrtAllocatorBlock given) {
    Block *block = given;
    return block->pool->memory + (size_t)block->slot * SLOT;
}

// The descriptor is copied: it may go as soon as it is registered.
static void register_own(aclrtStream stream, Pool *pool) {
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    MUST(aclrtAllocatorSetObjToDesc(desc, pool));
    MUST(aclrtAllocatorSetAllocFuncToDesc(desc, pool_alloc));
    MUST(aclrtAllocatorSetFreeFuncToDesc(desc, pool_free));
    MUST(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, pool_address));
    MUST(aclrtAllocatorRegister(stream, desc));
    MUST(aclrtAllocatorDestroyDesc(desc));
}

static void register_cairns(aclrtStream stream) {
    aclrtAllocatorDesc desc = cairn_pool_create_desc(0, stream);
    if (desc == NULL) {
        const char *text = cairn_pool_last_error();
        fprintf(stderr, "%s\n", text != NULL ? text : "no descriptor");
        exit(1);
    }
    MUST(aclrtAllocatorRegister(stream, desc));
    cairn_pool_destroy_desc(desc);
}

// What an operator does: take, find the address, put the work on the stream, give back.
static void fill(aclrtStream stream, size_t bytes, int times) {
    aclrtAllocatorDesc desc;
    aclrtAllocator object;
    aclrtAllocatorAllocFunc alloc;
    aclrtAllocatorFreeFunc give_back;
    aclrtAllocatorAllocAdviseFunc advise;
    aclrtAllocatorGetAddrFromBlockFunc address;
    MUST(aclrtAllocatorGetByStream(stream, &desc, &object, &alloc, &give_back, &advise, &address));
    for (int i = 0; i < times; ++i) {
        aclrtAllocatorBlock block = alloc(object, bytes);
        if (block == NULL) {
            fprintf(stderr, "no %zu bytes\n", bytes);
            exit(1);
        }
        MUST(aclrtMemsetAsync(address(block), bytes, i, bytes, stream));
        give_back(object, block);
    }
}

int main(void) {
    aclrtStream first, second;
    void *memory = NULL;
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateStream(&first));
    MUST(aclrtCreateStream(&second));
    MUST(aclrtMalloc(&memory, (size_t)SLOTS * SLOT, ACL_MEM_MALLOC_HUGE_FIRST));

    Pool own = {.memory = memory};
    register_own(first, &own);
    register_cairns(second);
    fill(first, 3 * SLOT, 100);
    fill(second, 3 * SLOT, 100);
    MUST(aclrtSynchronizeDevice());

    printf("own pool:     %d blocks taken, %d given back, %d MiB in all\n", own.allocations, own.frees,
           SLOTS * SLOT >> 20);
    cairnPoolFigures figures;
    if (cairn_pool_figures(0, &figures) != 0) return 1;
    printf("Cairn's pool: %" PRIu64 " blocks taken, %" PRIu64 " given back, %" PRIu64 " MiB in all, %" PRIu64
           " MiB at most in use\n",
           figures.taken, figures.freed, figures.reserved >> 20, figures.peak >> 20);

    MUST(aclrtAllocatorUnregister(first));
    MUST(aclrtAllocatorUnregister(second));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtFree(memory));
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    return own.allocations == 100 && own.frees == 100 && figures.taken == 100 && figures.freed == 100 ? 0 : 1;
}

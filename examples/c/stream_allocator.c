/*
 * Two allocators on two streams. The first is a pool of this program: sixteen slots of device memory,
 * handed out first come, first served. The second is Cairn's own pool, which needs one call.
 *
 *     gcc stream_allocator.c -I$ASCEND_HOME_PATH/include -L$ASCEND_HOME_PATH/lib64 \
 *         -lcairn_pool -lascendcl -o stream_allocator && ./stream_allocator
 *
 * An operator that runs by its name takes its workspace from the allocator of its stream: inside the call,
 * in the order alloc, address, free. Here it is Sort, which needs room to merge in.
 */
#include <acl/acl.h>
#include <cairn/pool.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 16, SLOT = 1 << 20, TIMES = 20, COUNT = 200000 };

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
    size_t largest;
} Pool;

typedef struct {
    Pool *pool;
    int slot;
} Block;

// Whether `count` slots from `first` on are free.
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
        if (size > pool->largest) pool->largest = size;
        return block;
    }
    return NULL;
}

// Called when the last task that uses the block is on the stream, not when it has run: the next block
// in the same place is for the same stream, so its tasks run after those.
static void pool_free(aclrtAllocator object, aclrtAllocatorBlock handle) {
    Pool *pool = object;
    Block *block = handle;
    pool->taken[block->slot] = 0;
    pool->frees++;
    free(block);
}

static void *pool_address(aclrtAllocatorBlock handle) {
    Block *block = handle;
    return block->pool->memory + (size_t)block->slot * SLOT;
}

// The descriptor is copied: it may go as soon as it is registered.
static void register_own_pool(aclrtStream stream, Pool *pool) {
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    MUST(aclrtAllocatorSetObjToDesc(desc, pool));
    MUST(aclrtAllocatorSetAllocFuncToDesc(desc, pool_alloc));
    MUST(aclrtAllocatorSetFreeFuncToDesc(desc, pool_free));
    MUST(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, pool_address));
    MUST(aclrtAllocatorRegister(stream, desc));
    MUST(aclrtAllocatorDestroyDesc(desc));
}

static void register_cairn_pool(aclrtStream stream) {
    aclrtAllocatorDesc desc = cairn_pool_create_desc(0, stream);
    if (desc == NULL) {
        const char *text = cairn_pool_last_error();
        fprintf(stderr, "%s\n", text != NULL ? text : "no descriptor");
        exit(1);
    }
    MUST(aclrtAllocatorRegister(stream, desc));
    cairn_pool_destroy_desc(desc);
}

// Numbers on the device, and room for them in order.
typedef struct {
    void *numbers, *sorted, *indices;
} Data;

static Data make_data(void) {
    Data data;
    float *host = malloc(COUNT * sizeof *host);
    if (host == NULL) exit(1);
    for (uint32_t i = 0; i < COUNT; ++i) host[i] = (float)(i * 2654435761u >> 8);
    MUST(aclrtMalloc(&data.numbers, COUNT * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMalloc(&data.sorted, COUNT * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMalloc(&data.indices, COUNT * sizeof(int32_t), ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMemcpy(data.numbers, COUNT * sizeof(float), host, COUNT * sizeof(float), ACL_MEMCPY_HOST_TO_DEVICE));
    free(host);
    return data;
}

// Queues the operator; nothing has run when this returns, and the workspace is back already.
static void sort(aclrtStream stream, Data data) {
    const int64_t sizes[] = {COUNT};
    aclTensorDesc *floats = aclCreateTensorDesc(ACL_FLOAT, 1, sizes, ACL_FORMAT_ND);
    aclTensorDesc *ints = aclCreateTensorDesc(ACL_INT32, 1, sizes, ACL_FORMAT_ND);
    aclTensorDesc *in[] = {floats}, *out[] = {floats, ints};
    aclDataBuffer *input_buffers[] = {aclCreateDataBuffer(data.numbers, COUNT * sizeof(float))};
    aclDataBuffer *output_buffers[] = {aclCreateDataBuffer(data.sorted, COUNT * sizeof(float)),
                                       aclCreateDataBuffer(data.indices, COUNT * sizeof(int32_t))};
    aclopAttr *attributes = aclopCreateAttr();
    MUST(aclopSetAttrInt(attributes, "axis", -1));
    MUST(aclopSetAttrBool(attributes, "descending", 0));
    MUST(aclopExecuteV2("Sort", 1, in, input_buffers, 2, out, output_buffers, attributes, stream));
    aclopDestroyAttr(attributes);
    MUST(aclDestroyDataBuffer(input_buffers[0]));
    MUST(aclDestroyDataBuffer(output_buffers[0]));
    MUST(aclDestroyDataBuffer(output_buffers[1]));
    aclDestroyTensorDesc(floats);
    aclDestroyTensorDesc(ints);
}

static int is_sorted(Data data) {
    int in_order = 1;
    float *host = malloc(COUNT * sizeof *host);
    if (host == NULL) exit(1);
    MUST(aclrtMemcpy(host, COUNT * sizeof(float), data.sorted, COUNT * sizeof(float), ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 1; i < COUNT; ++i) in_order &= host[i - 1] <= host[i];
    free(host);
    return in_order;
}

static void free_data(Data data) {
    MUST(aclrtFree(data.numbers));
    MUST(aclrtFree(data.sorted));
    MUST(aclrtFree(data.indices));
}

int main(void) {
    aclrtStream first, second;
    void *memory = NULL;
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateStream(&first));
    MUST(aclrtCreateStream(&second));
    MUST(aclrtMalloc(&memory, (size_t)SLOTS * SLOT, ACL_MEM_MALLOC_HUGE_FIRST));
    Data own_data = make_data(), cairn_data = make_data();

    Pool own_pool = {.memory = memory};
    register_own_pool(first, &own_pool);
    register_cairn_pool(second);
    for (int i = 0; i < TIMES; ++i) {
        sort(first, own_data);
        sort(second, cairn_data);
    }
    MUST(aclrtSynchronizeDevice());
    int in_order = is_sorted(own_data) && is_sorted(cairn_data);

    printf("Sort of %d numbers, %d times on each stream: %s\n", COUNT, TIMES, in_order ? "in order" : "WRONG");
    printf("own pool:     %d blocks taken, %d given back, %zu KiB the largest\n", own_pool.allocations, own_pool.frees,
           own_pool.largest >> 10);
    cairnPoolFigures figures;
    if (cairn_pool_figures(0, &figures) != 0) return 1;
    printf("Cairn's pool: %" PRIu64 " blocks taken, %" PRIu64 " given back, %" PRIu64 " KiB at most in use\n",
           figures.taken, figures.freed, figures.peak >> 10);

    MUST(aclrtAllocatorUnregister(first));
    MUST(aclrtAllocatorUnregister(second));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    free_data(own_data);
    free_data(cairn_data);
    MUST(aclrtFree(memory));
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    return in_order && own_pool.allocations >= TIMES && own_pool.frees == own_pool.allocations && figures.taken >= TIMES &&
                   figures.freed == figures.taken
               ? 0
               : 1;
}

// env: CAIRN_DEVICE_MEMORY=256mib
// env: CAIRN_DEVICE_MEMORY=256mib CAIRN_WORKERS=1
/* Stream-ordered memory: who may have a freed block, and when. */
#include "mem_pool.h"

static Gate gate = GATE_CLOSED;
static aclrtStream a, b, c;

static void allocation(aclrtMemPool pool)
{
    void *block = (void *)1;
    GROUP("acl_soma_3 a block can be used at once, for any size");
    for (size_t size = 1; size <= 16 * MIB; size = size * 3 + 1) {
        block = pool_malloc(pool, size, a);
        CHECK(block != NULL && (uintptr_t)block % 512 == 0);
        CHECK_OK(aclrtMemsetAsync(block, size, 0x5a, size, a));
        CHECK_OK(aclrtMemPoolFreeAsync(block, a));
    }
    CHECK_OK(aclrtSynchronizeStream(a));

    GROUP("acl_soma_3 it is device memory, for copies and aclrtPointerGetAttributes");
    unsigned char bytes[1000];
    aclrtPtrAttributes attributes;
    block = pool_malloc(pool, sizeof bytes, a);
    CHECK_OK(aclrtMemsetAsync(block, sizeof bytes, 0x77, sizeof bytes, a));
    CHECK_OK(aclrtMemcpyAsync(bytes, sizeof bytes, block, sizeof bytes, ACL_MEMCPY_DEVICE_TO_HOST, a));
    CHECK(bytes[0] == 0x77 && bytes[999] == 0x77);
    CHECK_OK(aclrtPointerGetAttributes(block, &attributes));
    CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    CHECK_OK(aclrtMemPoolFreeAsync(block, a));

    GROUP("acl_soma_3 the null stream is the default stream");
    block = pool_malloc(pool, 4 * MIB, NULL);
    CHECK_OK(aclrtMemsetAsync(block, 4 * MIB, 1, 4 * MIB, NULL));
    CHECK_OK(aclrtMemPoolFreeAsync(block, NULL));
    CHECK(pool_malloc(pool, 4 * MIB, NULL) == block);
    CHECK_OK(aclrtMemPoolFreeAsync(block, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));

    GROUP("acl_soma_3 wrong arguments are refused");
    aclrtContext current = NULL, other = NULL;
    block = (void *)1;
    CHECK_FAIL(aclrtMemPoolMallocAsync(&block, 0, pool, a), ACL_ERROR_INVALID_PARAM, "size 0");
    CHECK(block == NULL);
    block = (void *)1;
    CHECK_FAIL(aclrtMemPoolMallocAsync(&block, 8, NULL, a), ACL_ERROR_INVALID_PARAM, "memPool");
    CHECK(block == NULL);
    CHECK_FAIL(aclrtMemPoolMallocAsync(NULL, 8, pool, a), ACL_ERROR_INVALID_PARAM, "ptr");
    block = (void *)1;
    CHECK_FAIL(aclrtMemPoolMallocAsync(&block, 8, pool, pool), ACL_ERROR_RT_INVALID_HANDLE, "stream");
    CHECK(block == NULL);
    CHECK_OK(aclrtGetCurrentContext(&current));
    CHECK_OK(aclrtCreateContext(&other, 0));
    CHECK_FAIL(aclrtMemPoolMallocAsync(&block, 8, pool, a), ACL_ERROR_RT_STREAM_CONTEXT, "context");
    CHECK_FAIL(aclrtMemPoolFreeAsync(pool, a), ACL_ERROR_RT_STREAM_CONTEXT, "context");
    CHECK_OK(aclrtDestroyContext(other));
    CHECK_OK(aclrtSetCurrentContext(current));
}

/* The stream is blocked by the gate, so that none of its tasks has run. */
static void in_order(aclrtMemPool pool)
{
    aclrtEvent event = NULL;
    unsigned char *result = NULL;
    enum { SIZE = 2 << 20, ROUNDS = 50 };
    GROUP("acl_soma_4 a stream gets its freed block again before the work on it has finished");
    CHECK_OK(aclrtMallocHost((void **)&result, ROUNDS * 16));
    gate_put(&gate, a);
    void *first = pool_malloc(pool, SIZE, a), *block = first;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(aclrtMemsetAsync(block, SIZE, i + 1, SIZE, a));
        CHECK_OK(aclrtMemcpyAsync(result + 16 * i, 16, block, 16, ACL_MEMCPY_DEVICE_TO_HOST, a));
        CHECK_OK(aclrtMemPoolFreeAsync(block, a));
        block = pool_malloc(pool, SIZE, a);
        CHECK(block == first);
    }
    CHECK_OK(aclrtMemPoolFreeAsync(block, a));

    GROUP("acl_soma_4 another stream does not get it");
    void *second = pool_malloc(pool, SIZE, b);
    CHECK(second != first);
    CHECK_OK(aclrtMemsetAsync(second, SIZE, 0xee, SIZE, b));
    CHECK_OK(aclrtSynchronizeStream(b));

    GROUP("acl_soma_4 one that waits for an event after the free does");
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_OK(aclrtStreamWaitEvent(c, event));
    void *third = pool_malloc(pool, SIZE, c);
    CHECK(third == first);
    CHECK_OK(aclrtMemsetAsync(third, SIZE, 0xcc, SIZE, c));
    CHECK_OK(aclrtMemPoolFreeAsync(third, c));

    GROUP("acl_soma_4 unless the pool is set not to follow events");
    uint32_t follow = 0;
    aclrtMemPool ignores_events = make_pool(0, 0);
    void *fourth = pool_malloc(ignores_events, 4 * MIB, a);
    CHECK_OK(aclrtMemPoolFreeAsync(fourth, a));
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_OK(aclrtStreamWaitEvent(b, event));
    CHECK_OK(aclrtStreamWaitEvent(c, event));
    CHECK_OK(aclrtMemPoolSetAttr(ignores_events, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, &follow));
    void *fifth = pool_malloc(ignores_events, 4 * MIB, b);
    CHECK(fifth != fourth);
    follow = 1;
    CHECK_OK(aclrtMemPoolSetAttr(ignores_events, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, &follow));
    CHECK(pool_malloc(ignores_events, 4 * MIB, c) == fourth);
    CHECK_OK(aclrtMemPoolFreeAsync(fourth, c));
    CHECK_OK(aclrtMemPoolFreeAsync(fifth, b));
    CHECK_OK(aclrtMemPoolDestroy(ignores_events));

    GROUP("acl_soma_4 all of it arrives, and any stream may get memory whose work has finished");
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(a));
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK_OK(aclrtSynchronizeStream(c));
    for (int i = 0; i < ROUNDS; i++)
        if (result[16 * i] != i + 1 || result[16 * i + 15] != i + 1) {
            CHECK_EQ(result[16 * i], i + 1);
            break;
        }
    CHECK_OK(aclrtMemPoolFreeAsync(second, b));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtFreeHost(result));
}

/* A block that is freed on another stream than its own waits for both. */
static void freed_on_another_stream(aclrtMemPool pool)
{
    GROUP("acl_soma_4 a block freed on a second stream waits for both");
    void *block = pool_malloc(pool, 4 * MIB, a);
    gate_put(&gate, b);
    CHECK_OK(aclrtMemPoolFreeAsync(block, b));
    void *more = pool_malloc(pool, 4 * MIB, a);
    CHECK(more != block);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK(pool_malloc(pool, 4 * MIB, a) == block);
    CHECK_OK(aclrtMemPoolFreeAsync(block, a));
    CHECK_OK(aclrtMemPoolFreeAsync(more, a));
}

/* The pool has room for one block, which is freed on a busy stream: the next allocation waits. */
static void waits_at_the_limit(void)
{
    aclrtMemPool small_pool = make_pool(0, 64 * MIB);
    GROUP("acl_soma_4 at the limit an allocation waits for work rather than fail");
    set_release_threshold(small_pool, UINT64_MAX);
    void *block = pool_malloc(small_pool, 60 * MIB, a);
    for (int i = 0; i < 20; i++)
        CHECK_OK(aclrtMemsetAsync(block, 60 * MIB, i, 60 * MIB, a));
    CHECK_OK(aclrtMemPoolFreeAsync(block, a));
    CHECK(pool_malloc(small_pool, 60 * MIB, b) == block);
    aclrtStreamStatus status;
    CHECK_OK(aclrtStreamQuery(a, &status));
    CHECK_EQ(status, ACL_STREAM_STATUS_COMPLETE);
    CHECK_OK(aclrtMemPoolFreeAsync(block, b));
    CHECK_OK(aclrtMemPoolDestroy(small_pool));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&a));
    CHECK_OK(aclrtCreateStream(&b));
    CHECK_OK(aclrtCreateStream(&c));
    size_t before = free_bytes();
    aclrtMemPool pool = make_pool(0, 0);
    set_release_threshold(pool, UINT64_MAX);
    allocation(pool);
    CHECK_OK(aclrtMemPoolTrimTo(pool, 0));
    in_order(pool);
    freed_on_another_stream(pool);
    GROUP("acl_soma_4 nothing is lost");
    CHECK_EQ(used(pool), 0);
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_OK(aclrtMemPoolDestroy(pool));
    CHECK_EQ(free_bytes(), before);
    waits_at_the_limit();
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_EQ(free_bytes(), before);
    CHECK_OK(aclrtDestroyStream(a));
    CHECK_OK(aclrtDestroyStream(b));
    CHECK_OK(aclrtDestroyStream(c));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

// breaks: order pool-on-two-streams
// env:
// env: CAIRN_WORKERS=1
/* One allocator used from many threads: calls into it are made one at a time; another allocator is
   not blocked. */
#include "pool.h"

enum { THREADS = 8, ROUNDS = 200 };

static Pool pool, other;
static aclrtStream streams[THREADS];
static Gate gate = GATE_CLOSED;

static void work(void *number)
{
    aclrtStream stream = streams[(intptr_t)number];
    CHECK_OK(aclrtSetDevice(0));
    for (int i = 0; i < ROUNDS; i++) {
        CairnProbeBlock blocks[3] = {
            {(size_t)i * 7, 0, 1, NULL, NULL, NULL, 0},
            {128, 1, 2, pool.base, NULL, NULL, 0},
            {64, 0, 3, NULL, NULL, NULL, 0}};
        CairnProbe probe = {blocks, 3, 0, NULL};
        CHECK_OK(cairnProbeExecute(stream, &probe));
    }
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtResetDevice(0));
}

/* The same object under two sets of functions is one allocator for the callback lock. */
static void *other_alloc(aclrtAllocator object, size_t size)
{
    return pool_alloc(object, size);
}

static void one_allocator(void)
{
    pthread_t threads[THREADS];
    GROUP("acl_reg_6 eight threads on eight streams: no two calls into one allocator overlap");
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(aclrtCreateStream(&streams[i]));
        aclrtAllocatorDesc desc =
            describe(&pool, i & 1 ? pool_alloc : other_alloc, pool_free, pool_address);
        if (i & 2)
            CHECK_OK(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, pool_advise));
        CHECK_OK(aclrtAllocatorRegister(streams[i], desc));
        CHECK_OK(aclrtAllocatorDestroyDesc(desc));
    }
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start_thread(work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    CHECK_EQ(pool.overlaps, 0);
    CHECK_EQ(pool.allocs + pool.advises, THREADS * ROUNDS * 3);
    CHECK_EQ(pool.advises, THREADS / 2 * ROUNDS);
    CHECK_EQ(pool.frees, THREADS * ROUNDS * 3);
    CHECK_EQ(pool.out, 0);
}

static void hold(Pool *unused)
{
    (void)unused;
    gate_hold(&gate);
}

static void run_first(void *unused)
{
    (void)unused;
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(execute_with_tensor(streams[0], 64, NULL));
    CHECK_OK(aclrtResetDevice(0));
}

static void other_allocators(void)
{
    GROUP("acl_reg_6 another allocator, and a stream without one, are not blocked");
    pool_register(streams[1], &other);
    CHECK_OK(aclrtAllocatorUnregister(streams[2]));
    pool.in_alloc = hold;
    pthread_t thread = start_thread(run_first, NULL);
    gate_wait_entered(&gate, 1);
    CHECK_OK(execute_with_tensor(streams[1], 64, NULL));
    CHECK_OK(execute_with_tensor(streams[2], 64, NULL));
    CHECK_OK(aclrtSynchronizeStream(streams[1]));
    CHECK_EQ(other.frees, 1);
    pool_register(streams[2], &pool);
    CHECK_OK(aclrtAllocatorUnregister(streams[2]));
    pool.in_alloc = NULL;
    gate_open(&gate);
    join_thread(thread);
}

static void churn(void *number)
{
    aclrtStream stream = streams[(intptr_t)number];
    CHECK_OK(aclrtSetDevice(0));
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 3 == 0)
            pool_register(stream, &pool);
        CHECK_OK(execute_with_tensor(stream, 64, NULL));
        if (i % 3 == 1)
            CHECK_OK(aclrtAllocatorUnregister(stream));
    }
    CHECK_OK(aclrtResetDevice(0));
}

static void changed_registrations(void)
{
    pthread_t threads[THREADS];
    GROUP("acl_reg_4 registering and unregistering while other threads execute on the same streams");
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start_thread(churn, (void *)(i / 2));
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    CHECK_EQ(pool.out, 0);
    CHECK_EQ(pool.overlaps, 0);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    pool_open(&pool);
    pool_open(&other);
    one_allocator();
    other_allocators();
    changed_registrations();
    for (int i = 0; i < THREADS; i++)
        CHECK_OK(aclrtDestroyStream(streams[i]));
    pool_close(&pool);
    pool_close(&other);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

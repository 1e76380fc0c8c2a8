// breaks: freed-on-another-stream
// env: CAIRN_DEVICE_MEMORY=512mib
// env: CAIRN_DEVICE_MEMORY=512mib CAIRN_WORKERS=1
/* Eight threads, each with a stream, share one pool; each also creates and destroys pools of its own. */
#include "mem_pool.h"

enum { THREADS = 8, ROUNDS = 400, SLOTS = 12, WORD = 64 };

static aclrtMemPool shared;
/* A block for each thread that another allocated and this one frees; 0 if there is none. */
static uintptr_t handed_over[THREADS];

/* A block filled with one byte, and the ends of the slot's last block, read when that was freed. */
typedef struct PoolSlot {
    void *block;
    size_t size;
    int seed;
    int expected;
    unsigned char *ends;
} PoolSlot;

static void read_and_free(PoolSlot *slot, aclrtStream stream, int number)
{
    char *last = (char *)slot->block + slot->size - WORD;
    CHECK_OK(aclrtMemcpyAsync(slot->ends, WORD, slot->block, WORD, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtMemcpyAsync(slot->ends + WORD, WORD, last, WORD, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    slot->expected = slot->seed % 251;
    uintptr_t none = 0;
    if (slot->seed % 3 != 0 || !__atomic_compare_exchange_n(
                                   &handed_over[(number + 1) % THREADS], &none, (uintptr_t)slot->block, 0,
                                   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        CHECK_OK(aclrtMemPoolFreeAsync(slot->block, stream));
}

/* Every block had its byte at both ends when it was freed. */
static int ends_are_intact(const PoolSlot *slots)
{
    for (int i = 0; i < SLOTS; i++)
        for (int at = 0; at < 2 * WORD; at++)
            if (slots[i].ends[at] != slots[i].expected)
                return 0;
    return 1;
}

static void thread_main(void *argument)
{
    int number = (int)(intptr_t)argument;
    aclrtStream stream = NULL;
    unsigned char *ends = NULL;
    PoolSlot slots[SLOTS];
    memset(slots, 0, sizeof slots);
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMallocHost((void **)&ends, SLOTS * 2 * WORD));
    memset(ends, 0, SLOTS * 2 * WORD);
    for (int i = 0; i < SLOTS; i++)
        slots[i].ends = ends + i * 2 * WORD;
    for (int round = 0; round < ROUNDS; round++) {
        PoolSlot *slot = &slots[round % SLOTS];
        int seed = number * 31 + round;
        if (slot->block)
            read_and_free(slot, stream, number);
        if (round % SLOTS == SLOTS - 1) {
            CHECK_OK(aclrtSynchronizeStream(stream));
            CHECK(ends_are_intact(slots));
        }
        uintptr_t foreign = __atomic_exchange_n(&handed_over[number], 0, __ATOMIC_SEQ_CST);
        if (foreign)
            CHECK_OK(aclrtMemPoolFreeAsync((void *)foreign, stream));
        slot->size = WORD + (size_t)(seed * 7919 % (300 * 1024));
        slot->seed = seed;
        if (!CHECK_OK(aclrtMemPoolMallocAsync(&slot->block, slot->size, shared, stream)))
            break;
        CHECK_OK(aclrtMemsetAsync(slot->block, slot->size, seed % 251, slot->size, stream));
        if (round % 50 == 7) {
            aclrtMemPool own_pool = make_pool(0, 4 * MIB);
            void *block = pool_malloc(own_pool, 1 * MIB, stream);
            CHECK_OK(aclrtMemPoolDestroy(own_pool));
            CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
            CHECK_OK(aclrtMemPoolTrimTo(shared, 4 * MIB));
        }
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].block)
            CHECK_OK(aclrtMemPoolFreeAsync(slots[i].block, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtFreeHost(ends));
    CHECK_OK(aclrtDestroyStream(stream));
}

int main(void)
{
    pthread_t threads[THREADS];
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    size_t before = free_bytes();
    shared = make_pool(0, 0);
    GROUP("acl_soma_9 eight threads on one pool do not overwrite each other's blocks");
    set_release_threshold(shared, 64 * MIB);
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start_thread(thread_main, (void *)i);
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    GROUP("acl_soma_9 all memory comes back");
    for (int i = 0; i < THREADS; i++)
        if (handed_over[i])
            CHECK_OK(aclrtMemPoolFreeAsync((void *)handed_over[i], NULL));
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_EQ(used(shared), 0);
    CHECK_OK(aclrtMemPoolDestroy(shared));
    CHECK_EQ(free_bytes(), before);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

// links: -lcairn_pool
// env: CAIRN_POOL_WAIT_MS=30000
/* Two pools, eight threads, sixteen streams; threads exchange blocks. */
#include "gate.h"
#include "cairn/pool.h"

#define THREADS 8
#define ROUNDS 3000
#define BLOCKS_PER_THREAD 24
#define SHARED_BLOCKS 64

typedef struct Block {
    unsigned char *address;
    size_t size;
    unsigned char tag;
} Block;

/* Blocks on their way from one thread to another, by device. */
static struct {
    pthread_mutex_t lock;
    Block blocks[SHARED_BLOCKS];
} shared[2] = {{PTHREAD_MUTEX_INITIALIZER, {{0}}}, {PTHREAD_MUTEX_INITIALIZER, {{0}}}};

static unsigned next(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Checks that both ends hold the tag after all that was queued on the stream. */
static void verify(const Block *block, aclrtStream stream)
{
    unsigned char first = 0, last = 0;
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(&first, 1, block->address, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_OK(aclrtMemcpy(
        &last, 1, block->address + block->size - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(first, block->tag);
    CHECK_EQ(last, block->tag);
}

static void work(void *argument)
{
    int number = *(int *)argument, device = number % 2;
    unsigned state = 12345u + (unsigned)number;
    aclrtStream streams[2];
    Block blocks[BLOCKS_PER_THREAD] = {{0}};
    int stream_of[BLOCKS_PER_THREAD] = {0};
    CHECK_OK(aclrtSetDevice(device));
    CHECK_OK(aclrtCreateStream(&streams[0]));
    CHECK_OK(aclrtCreateStream(&streams[1]));
    for (int round = 0; round < ROUNDS; round++) {
        unsigned at = next(&state) % BLOCKS_PER_THREAD;
        Block *block = &blocks[at];
        aclrtStream stream = streams[stream_of[at]];
        if (block->address) {
            if (round % 64 == 0)
                verify(block, stream);
            if (next(&state) % 4 == 0) {
                verify(block, stream);
                Block *slot = &shared[device].blocks[next(&state) % SHARED_BLOCKS];
                pthread_mutex_lock(&shared[device].lock);
                Block other = *slot;
                *slot = *block;
                pthread_mutex_unlock(&shared[device].lock);
                *block = other;
            }
            if (block->address) {
                if (next(&state) % 8 == 0)
                    CHECK_EQ(cairn_pool_record_stream(block->address, streams[1 - stream_of[at]]), 0);
                CHECK_EQ(cairn_pool_free(block->address, device, stream), 0);
            }
            block->address = NULL;
        }
        stream_of[at] = (int)(next(&state) % 2);
        stream = streams[stream_of[at]];
        block->size = 1 + next(&state) % (1u << (9 + next(&state) % 12));
        block->tag = (unsigned char)(next(&state) % 255 + 1);
        block->address = cairn_pool_malloc(block->size, device, stream);
        if (!CHECK(block->address != NULL)) {
            printf("%s\n", cairn_pool_last_error());
            break;
        }
        CHECK_OK(aclrtMemsetAsync(block->address, block->size, block->tag, block->size, stream));
    }
    for (int i = 0; i < BLOCKS_PER_THREAD; i++) {
        if (blocks[i].address) {
            verify(&blocks[i], streams[stream_of[i]]);
            CHECK_EQ(cairn_pool_free(blocks[i].address, device, streams[stream_of[i]]), 0);
        }
    }
    CHECK_OK(aclrtDestroyStream(streams[0]));
    CHECK_OK(aclrtDestroyStream(streams[1]));
}

int main(void)
{
    GROUP("pool threads: no block has two owners, none is lost");
    pthread_t threads[THREADS];
    int numbers[THREADS];
    aclrtStream last[2];
    CHECK_OK(aclInit(NULL));
    for (int device = 0; device < 2; device++) {
        CHECK_OK(aclrtSetDevice(device));
        CHECK_OK(aclrtCreateStream(&last[device]));
    }
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        threads[i] = start_thread(work, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);

    GROUP("pool threads: all memory merges again");
    for (int device = 0; device < 2; device++) {
        cairnPoolFigures figures;
        CHECK_OK(aclrtSetDevice(device));
        void *own = cairn_pool_malloc(1, device, last[device]);
        CHECK_EQ(cairn_pool_free(own, device, last[device]), 0);
        for (int i = 0; i < SHARED_BLOCKS; i++)
            if (shared[device].blocks[i].address)
                CHECK_EQ(
                    cairn_pool_free(shared[device].blocks[i].address, device, last[device]), 0);
        CHECK_OK(aclrtSynchronizeDevice());
        CHECK_EQ(cairn_pool_synchronized(device), 0);
        CHECK_EQ(cairn_pool_figures(device, &figures), 0);
        CHECK_EQ(figures.live | figures.blocks | figures.requested | figures.waiting, 0);
        CHECK_EQ(figures.taken, figures.freed);
        CHECK(figures.taken >= THREADS / 2 * ROUNDS);
        CHECK_EQ(cairn_pool_trim(device, 0), figures.reserved);
        CHECK_EQ(cairn_pool_figures(device, &figures), 0);
        CHECK_EQ(figures.reserved, 0);
    }
    return END();
}

// links: -lcairn_pool
/* A state callback of the program that calls the pool, while a call of the pool makes it run. */
#include "gate.h"
#include "cairn/pool.h"

#define MIB ((size_t)1 << 20)

static aclrtStream stream;
static int callback_calls;

static void read_figures(int32_t device, aclrtDeviceState state, void *unused)
{
    cairnPoolFigures figures;
    (void)state, (void)unused;
    CHECK_EQ(cairn_pool_figures(device, &figures), 0);
    callback_calls++;
}

static void allocate_and_free(void *unused)
{
    (void)unused;
    void *block = cairn_pool_malloc(64 * MIB, 1, stream);
    CHECK(block != NULL);
    CHECK_EQ(cairn_pool_free(block, 1, stream), 0);
}

static void trim_all(void *unused)
{
    (void)unused;
    CHECK(cairn_pool_trim(1, 0) >= 64 * MIB);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&stream));
    void *first = cairn_pool_malloc(MIB, 1, stream);
    CHECK(first != NULL);
    CHECK_OK(aclrtRegDeviceStateCallback("figures", read_figures, NULL));

    GROUP("pool callback: a thread without a device allocates, and the callback may read figures");
    on_thread(allocate_and_free, NULL);
    CHECK(callback_calls > 0);
    CHECK_OK(aclrtSynchronizeStream(stream));
    on_thread(trim_all, NULL);
    return END();
}

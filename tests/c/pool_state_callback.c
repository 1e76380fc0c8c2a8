// links: -lcairn_pool
/* A state callback of the program that asks the pool, while the pool makes it run. */
#include "gate.h"
#include "cairn/pool.h"

#define MIB ((size_t)1 << 20)

static aclrtStream stream;
static int asked;

static void ask(int32_t device, aclrtDeviceState state, void *unused)
{
    cairnPoolFigures figures;
    (void)state, (void)unused;
    CHECK_EQ(cairn_pool_figures(device, &figures), 0);
    asked++;
}

static void take(void *unused)
{
    (void)unused;
    void *block = cairn_pool_malloc(64 * MIB, 1, stream);
    CHECK(block != NULL);
    CHECK_EQ(cairn_pool_free(block, 1, stream), 0);
}

static void give_all(void *unused)
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
    CHECK_OK(aclrtRegDeviceStateCallback("ask", ask, NULL));

    GROUP("pool callback: a thread without a device takes memory, and the callback may ask for figures");
    on_thread(take, NULL);
    CHECK(asked > 0);
    CHECK_OK(aclrtSynchronizeStream(stream));
    on_thread(give_all, NULL);
    return END();
}

// links: -lcairn_pool
/* A pool for each device, whatever the calling thread's device is; resets, forks. */
#include "child.h"
#include "cairn/pool.h"

#define MIB ((size_t)1 << 20)

static aclrtStream stream_0, stream_1;

static cairnPoolFigures figures(int device)
{
    cairnPoolFigures all;
    CHECK_EQ(cairn_pool_figures(device, &all), 0);
    return all;
}

static int device_of(const void *address)
{
    aclrtPtrAttributes attributes;
    CHECK_OK(aclrtPointerGetAttributes(address, &attributes));
    return (int)attributes.location.id;
}

static void without_device(void *unused)
{
    (void)unused;
    void *block = cairn_malloc(MIB, 1, stream_1);
    CHECK(block != NULL && device_of(block) == 1);
    cairn_free(block, MIB, 1, stream_1);
}

static void with_own_context(void *unused)
{
    (void)unused;
    aclrtContext context;
    aclrtStream stream;
    CHECK_OK(aclrtCreateContext(&context, 0));
    CHECK_OK(aclrtCreateStream(&stream));
    void *block = cairn_pool_malloc(MIB, 0, stream);
    CHECK(block != NULL);
    CHECK_OK(aclrtMemsetAsync(block, MIB, 1, MIB, stream));
    CHECK_EQ(cairn_pool_free(block, 0, stream), 0);
    CHECK(cairn_pool_malloc(MIB, 1, stream) == NULL);
    CHECK(cairn_pool_last_error() != NULL);
    aclrtContext current = NULL;
    CHECK_OK(aclrtGetCurrentContext(&current));
    CHECK(current == context);
    CHECK_OK(aclrtDestroyContext(context));
}

static void forked(void)
{
    cairnPoolFigures all;
    char text[8] = "x";
    CHECK(cairn_malloc(512, 0, stream_0) == NULL);
    CHECK(cairn_pool_malloc(512, 0, stream_0) == NULL);
    cairn_free(&all, 512, 0, stream_0);
    CHECK_EQ(cairn_pool_free(&all, 0, stream_0), -1);
    CHECK_EQ(cairn_pool_figures(0, &all), -1);
    CHECK_EQ(cairn_pool_json(0, text, sizeof text), 0);
    CHECK_EQ(cairn_pool_trim(0, 0), 0);
    CHECK_EQ(cairn_pool_synchronized(0), -1);
    CHECK(cairn_pool_create_desc(0, stream_0) == NULL);
    CHECK(cairn_pool_last_error() == NULL);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&stream_1));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream_0));

    GROUP("pool devices: a request for another device leaves the current device and context as they were");
    aclrtContext before = NULL, after = NULL;
    int32_t device = -1;
    CHECK_OK(aclrtGetCurrentContext(&before));
    void *blocks[2] = {cairn_malloc(3 * MIB, 0, stream_0), cairn_malloc(5 * MIB, 1, stream_1)};
    CHECK(blocks[0] && blocks[1]);
    CHECK_EQ(device_of(blocks[0]), 0);
    CHECK_EQ(device_of(blocks[1]), 1);
    CHECK_OK(aclrtGetDevice(&device));
    CHECK_OK(aclrtGetCurrentContext(&after));
    CHECK(device == 0 && after == before);
    CHECK_EQ(figures(0).live, 3 * MIB);
    CHECK_EQ(figures(1).live, 5 * MIB);
    cairn_free(blocks[1], 5 * MIB, 1, stream_1);
    CHECK_EQ(cairn_pool_synchronized(1), 0);
    CHECK(cairn_pool_trim(1, 0) >= 5 * MIB);
    CHECK_EQ(cairn_pool_set_fraction(0.5, 1), 0);
    CHECK_OK(aclrtGetCurrentContext(&after));
    CHECK(after == before);
    CHECK_EQ(figures(0).live, 3 * MIB);
    CHECK_EQ(figures(1).reserved, 0);

    GROUP("pool devices: events are asked for from another device too");
    Gate gate = GATE_CLOSED;
    aclrtStream second;
    CHECK_OK(aclrtSetCurrentContext(before));
    void *block = cairn_pool_malloc(8 * MIB, 1, stream_1);
    CHECK(block != NULL);
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&second));
    gate_put(&gate, stream_1);
    CHECK_OK(aclrtSetCurrentContext(before));
    CHECK_EQ(cairn_pool_free(block, 1, stream_1), 0);
    void *other = cairn_pool_malloc(8 * MIB, 1, second);
    CHECK(other && other != block);
    gate_open(&gate);
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtSynchronizeStream(stream_1));
    CHECK_OK(aclrtSetCurrentContext(before));
    CHECK(cairn_pool_malloc(8 * MIB, 1, second) == block);
    CHECK_OK(aclrtGetCurrentContext(&after));
    CHECK(after == before);
    CHECK_EQ(cairn_pool_free(block, 1, second), 0);
    CHECK_EQ(cairn_pool_free(other, 1, second), 0);

    GROUP("pool devices: a thread without a device, and one with a context of its own");
    on_thread(without_device, NULL);
    on_thread(with_own_context, NULL);
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    CHECK_EQ(cairn_pool_synchronized(1), 0);

    GROUP("pool devices: in a forked child there is nothing, and the parent goes on");
    CHECK_EQ(in_child(forked, 20), 0);
    void *more = cairn_malloc(MIB, 0, stream_0);
    CHECK(more != NULL);
    cairn_free(more, MIB, 0, stream_0);

    GROUP("pool devices: a reset takes the pool away, and the next use makes another");
    block = cairn_malloc(4 * MIB, 1, stream_1);
    other = cairn_malloc(4 * MIB, 1, stream_1);
    CHECK(block && other);
    CHECK_OK(aclrtResetDeviceForce(1));
    cairn_free(block, 4 * MIB, 1, stream_1);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK_EQ(figures(1).reserved, 0);
    cairn_free(other, 4 * MIB, 1, stream_1);
    CHECK(cairn_pool_last_error() == NULL);
    cairn_free(other, 4 * MIB, 1, stream_1);
    const char *text = cairn_pool_last_error();
    CHECK(text && strstr(text, "is not held"));
    CHECK_EQ(figures(1).live, 0);
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&stream_1));
    other = cairn_malloc(4 * MIB, 1, stream_1);
    CHECK(other != NULL);
    CHECK_OK(aclrtMemset(other, 4 * MIB, 1, 4 * MIB));
    CHECK_EQ(figures(1).live, 4 * MIB);
    cairn_free(other, 4 * MIB, 1, stream_1);
    CHECK_OK(aclrtSetDevice(0));
    CHECK_EQ(figures(0).live, 3 * MIB);
    cairn_free(blocks[0], 3 * MIB, 0, stream_0);
    CHECK_EQ(figures(0).live, 0);
    return END();
}

// links: -lcairn_pool
/* A pool for each device, whatever the calling thread's device is; resets, forks. */
#include "child.h"
#include "cairn/pool.h"

#define MIB ((size_t)1 << 20)

static aclrtStream zero, one;

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

static void on_nothing(void *unused)
{
    (void)unused;
    void *block = cairn_malloc(MIB, 1, one);
    CHECK(block != NULL && device_of(block) == 1);
    cairn_free(block, MIB, 1, one);
}

static void in_a_context(void *unused)
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
    aclrtContext now = NULL;
    CHECK_OK(aclrtGetCurrentContext(&now));
    CHECK(now == context);
    CHECK_OK(aclrtDestroyContext(context));
}

static void forked(void)
{
    cairnPoolFigures all;
    char text[8] = "x";
    CHECK(cairn_malloc(512, 0, zero) == NULL);
    CHECK(cairn_pool_malloc(512, 0, zero) == NULL);
    cairn_free(&all, 512, 0, zero);
    CHECK_EQ(cairn_pool_free(&all, 0, zero), -1);
    CHECK_EQ(cairn_pool_figures(0, &all), -1);
    CHECK_EQ(cairn_pool_json(0, text, sizeof text), 0);
    CHECK_EQ(cairn_pool_trim(0, 0), 0);
    CHECK_EQ(cairn_pool_synchronized(0), -1);
    CHECK(cairn_pool_create_desc(0, zero) == NULL);
    CHECK(cairn_pool_last_error() == NULL);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&one));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&zero));

    GROUP("pool devices: one is served while another is current, and stays so");
    aclrtContext before = NULL, after = NULL;
    int32_t device = -1;
    CHECK_OK(aclrtGetCurrentContext(&before));
    void *blocks[2] = {cairn_malloc(3 * MIB, 0, zero), cairn_malloc(5 * MIB, 1, one)};
    CHECK(blocks[0] && blocks[1]);
    CHECK_EQ(device_of(blocks[0]), 0);
    CHECK_EQ(device_of(blocks[1]), 1);
    CHECK_OK(aclrtGetDevice(&device));
    CHECK_OK(aclrtGetCurrentContext(&after));
    CHECK(device == 0 && after == before);
    CHECK_EQ(figures(0).live, 3 * MIB);
    CHECK_EQ(figures(1).live, 5 * MIB);
    cairn_free(blocks[1], 5 * MIB, 1, one);
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
    void *kept = cairn_pool_malloc(8 * MIB, 1, one);
    CHECK(kept != NULL);
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&second));
    gate_put(&gate, one);
    CHECK_OK(aclrtSetCurrentContext(before));
    CHECK_EQ(cairn_pool_free(kept, 1, one), 0);
    void *other = cairn_pool_malloc(8 * MIB, 1, second);
    CHECK(other && other != kept);
    gate_open(&gate);
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtSynchronizeStream(one));
    CHECK_OK(aclrtSetCurrentContext(before));
    CHECK(cairn_pool_malloc(8 * MIB, 1, second) == kept);
    CHECK_OK(aclrtGetCurrentContext(&after));
    CHECK(after == before);
    CHECK_EQ(cairn_pool_free(kept, 1, second), 0);
    CHECK_EQ(cairn_pool_free(other, 1, second), 0);

    GROUP("pool devices: a thread without a device, and one with a context of its own");
    on_thread(on_nothing, NULL);
    on_thread(in_a_context, NULL);
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    CHECK_EQ(cairn_pool_synchronized(1), 0);

    GROUP("pool devices: in a forked child there is nothing, and the parent goes on");
    CHECK_EQ(in_child(forked, 20), 0);
    void *more = cairn_malloc(MIB, 0, zero);
    CHECK(more != NULL);
    cairn_free(more, MIB, 0, zero);

    GROUP("pool devices: a reset takes the pool away, and the next use makes another");
    kept = cairn_malloc(4 * MIB, 1, one);
    other = cairn_malloc(4 * MIB, 1, one);
    CHECK(kept && other);
    CHECK_OK(aclrtResetDeviceForce(1));
    cairn_free(kept, 4 * MIB, 1, one);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK_EQ(figures(1).reserved, 0);
    cairn_free(other, 4 * MIB, 1, one);
    CHECK(cairn_pool_last_error() == NULL);
    cairn_free(other, 4 * MIB, 1, one);
    const char *text = cairn_pool_last_error();
    CHECK(text && strstr(text, "is not held"));
    CHECK_EQ(figures(1).live, 0);
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&one));
    other = cairn_malloc(4 * MIB, 1, one);
    CHECK(other != NULL);
    CHECK_OK(aclrtMemset(other, 4 * MIB, 1, 4 * MIB));
    CHECK_EQ(figures(1).live, 4 * MIB);
    cairn_free(other, 4 * MIB, 1, one);
    CHECK_OK(aclrtSetDevice(0));
    CHECK_EQ(figures(0).live, 3 * MIB);
    cairn_free(blocks[0], 3 * MIB, 0, zero);
    CHECK_EQ(figures(0).live, 0);
    return END();
}

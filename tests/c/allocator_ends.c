// breaks: leak output-lifetime
/* Streams, devices and processes that end while an allocator is registered or blocks are not freed yet. Each
   part runs in a process of its own. */
#include "child.h"
#include "logged.h"
#include "pool.h"
#include <sys/mman.h>

static Pool pool;
static aclrtStream stream;
static CairnProbeBlock block = {64, 0, 1, NULL, NULL, NULL, 0};
static CairnProbe keeping_probe = {&block, 1, 1, NULL};
static char expected_text[64];
static int *late_calls;

/* Sets the expected text about the block that an execution with this many bytes leaves allocated. */
static void expect_block(size_t bytes)
{
    block.bytes = bytes;
    snprintf(expected_text, sizeof expected_text, "(%zu bytes) of the allocator %p out", bytes + 32, (void *)&pool);
}

static void begin(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    pool_open(&pool);
    pool_register(stream, &pool);
}

static void end(void)
{
    pool_close(&pool);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
}

/* A new stream has no allocator, though its handle may resemble that of an old one. */
static void registrations(void)
{
    static Gate gate = GATE_CLOSED;
    aclrtAllocatorDesc found = NULL;
    begin();
    gate_put(&gate, stream);
    CHECK_OK(execute_with_tensor(stream, 64, NULL));
    CHECK_OK(aclrtDestroyStreamForce(stream));
    gate_open(&gate);
    for (int i = 0; i < 600; i++) {
        CHECK_OK(aclrtCreateStream(&stream));
        CHECK_CODE(aclrtAllocatorGetByStream(stream, &found, NULL, NULL, NULL, NULL, NULL), ACL_ERROR_INVALID_PARAM);
        CHECK_OK(execute_with_tensor(stream, 64, NULL));
        if (i % 2)
            pool_register(stream, &pool);
        CHECK_OK(aclrtDestroyStream(stream));
    }
    CHECK_EQ(pool.allocs, 1);
    end();
}

static void stream_ends(void)
{
    char line[64];
    int32_t id = 0;
    begin();
    expect_block(64);
    CHECK_OK(aclrtStreamGetId(stream, &id));
    snprintf(line, sizeof line, "stream %d ends with 1 block ", id);
    CHECK_OK(cairnProbeExecute(stream, &keeping_probe));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(LOGGED(line, expected_text), 1);
    CHECK_EQ(pool.frees, 0);
    CHECK_OK(cairnProbeGiveBack(keeping_probe.kept));
    CHECK_EQ(pool.frees, 1);
    end();
}

static void device_ends(void)
{
    static Pool next;
    begin();
    expect_block(128);
    CHECK_OK(cairnProbeExecute(stream, &keeping_probe));
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_EQ(LOGGED("stream", "ends with 1 block", expected_text), 1);
    CHECK_EQ(LOGGED("device 0 ends with 1 block", expected_text), 1);

    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    pool_open(&next);
    pool_register(stream, &next);
    CHECK_OK(execute_with_tensor(stream, 64, NULL));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(next.frees, 1);
    CHECK_OK(cairnProbeGiveBack(keeping_probe.kept));
    CHECK_EQ(pool.frees, 1);
    CHECK_OK(aclrtDestroyStream(stream));
    pool_close(&next);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
}

static void count_late(Pool *unused)
{
    (void)unused;
    ++*late_calls;
}

/* Runs after main, and after what the library does at exit. */
static void at_exit(void)
{
    pool.in_alloc = pool.in_free = count_late;
    CHECK_CODE(execute_with_tensor(stream, 64, NULL), ACL_ERROR_RT_INTERNAL_ERROR);
    CHECK_OK(cairnProbeGiveBack(keeping_probe.kept));
    CHECK_OK(aclrtAllocatorUnregister(stream));
    if (check_failures)
        _exit(3);
}

static void process_ends(void)
{
    atexit(at_exit);
    begin();
    expect_block(256);
    CHECK_OK(cairnProbeExecute(stream, &keeping_probe));
}

int main(void)
{
    log_begin();
    late_calls = (int *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(late_calls != MAP_FAILED);

    GROUP("acl_1_8_11 a stream may end with its allocator registered, and no later stream inherits it");
    CHECK_EQ(in_child(registrations, 60), 0);
    GROUP("acl_1_8_11 blocks that are out when their stream ends are reported, and go back later");
    CHECK_EQ(in_child(stream_ends, 60), 0);
    GROUP("acl_1_8_11 so are those that are out when their device ends");
    CHECK_EQ(in_child(device_ends, 60), 0);
    GROUP("acl_1_8_11 after main nothing is called; what is out is reported");
    CHECK_EQ(in_child(process_ends, 60), 0);
    CHECK_EQ(*late_calls, 0);
    expect_block(256);
    CHECK_EQ(LOGGED("the process ends with 1 block ", expected_text), 1);
    log_end();
    return END();
}

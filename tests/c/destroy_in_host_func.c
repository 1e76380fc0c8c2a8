// env:
// env: CAIRN_WORKERS=1
/*
 * Host functions that destroy, or wait for, the stream, context or device they run on. Each case has
 * a process of its own, so that one that hangs does not stop the others.
 */
#include "child.h"

static aclrtStream stream;
static aclrtContext context;
static void *memory, *pinned;
static aclrtEvent event;
static unsigned char page[4096];
static int result = -1, set_context_code = -1, later;
static aclError (*tested)(void);

static void call_tested(void *unused)
{
    (void)unused;
    set_context_code = aclrtSetCurrentContext(context);
    result = tested();
}

static aclError destroy(void) { return aclrtDestroyStream(stream); }
static aclError force(void) { return aclrtDestroyStreamForce(stream); }
static aclError abort_stream(void) { return aclrtStreamAbort(stream); }
static aclError synchronize(void) { return aclrtSynchronizeStream(stream); }
static aclError synchronize_for_ever(void) { return aclrtSynchronizeStreamWithTimeout(stream, -1); }
static aclError synchronize_device(void) { return aclrtSynchronizeDevice(); }
static aclError synchronize_event(void) { return aclrtSynchronizeEvent(event); }
static aclError reset(void) { return aclrtResetDevice(0); }
static aclError reset_force(void) { return aclrtResetDeviceForce(0); }
static aclError destroy_context(void) { return aclrtDestroyContext(context); }
static aclError free_device(void) { return aclrtFreeWithDevSync(memory); }
static aclError free_host(void) { return aclrtFreeHostWithDevSync(pinned); }
static aclError unregister(void) { return aclrtHostUnregister(page); }
static aclError finalize(void) { return aclFinalize(); }

static aclError copy_pageable(void)
{
    static char bytes[64];
    return aclrtMemcpyAsync(bytes, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream);
}

static aclError fill_the_quarantine(void)
{
    for (int i = 0; i < 60; i++) {
        void *block = NULL;
        int code = aclrtMalloc(&block, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST);
        if (code == 0)
            code = aclrtFree(block);
        if (code != 0)
            return code;
    }
    return 0;
}

static aclError set_and_reset(void)
{
    int code = aclrtSetDevice(0);
    return code ? code : aclrtResetDevice(0);
}

static void prepare(int own_context)
{
    setenv("CAIRN_DEVICE_MEMORY", "64mib", 1);
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtGetCurrentContext(&context));
    if (own_context)
        CHECK_OK(aclrtCreateContext(&context, 0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateEvent(&event));
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMallocHost(&pinned, 4096));
    void *registered;
    CHECK_OK(aclrtHostRegister(page, sizeof page, ACL_HOST_REGISTER_MAPPED, &registered));
}

/* Calls `tested` in a host function and waits until it has returned. */
static void run(void)
{
    static Gate gate = GATE_CLOSED;
    gate_put(&gate, stream);
    CHECK_OK(aclrtLaunchHostFunc(stream, call_tested, NULL));
    CHECK_OK(aclrtRecordEvent(event, stream));
    gate_open(&gate);
    SPIN_UNTIL(raised(&result) != -1);
    CHECK_EQ(set_context_code, 0);
}

static void refused(void)
{
    prepare(tested == destroy_context);
    run();
    CHECK_EQ(result, ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &later));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(raised(&later), 1);
    CHECK_OK(aclFinalize());
}

static void refused_or_succeeds(void)
{
    prepare(0);
    run();
    if (result != 0)
        CHECK_EQ(result, ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyStream(stream));
}

static void succeeds(void)
{
    prepare(0);
    run();
    CHECK_EQ(result, 0);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyStream(stream));
}

static void aborted(void)
{
    prepare(0);
    run();
    CHECK_EQ(result, 0);
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyStream(stream));
}

static void succeeds_or_out_of_memory(void)
{
    prepare(0);
    run();
    if (result != 0)
        CHECK_EQ(result, ACL_ERROR_RT_MEMORY_ALLOCATION);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyStream(stream));
}

static void destroyed(void)
{
    prepare(0);
    run();
    CHECK_EQ(result, 0);
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &later));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(raised(&later), 1);
}

static void run_case(const char *group, void (*body)(void), aclError (*call)(void))
{
    GROUP(group);
    tested = call;
    int status = in_child(body, 20);
    if (!CHECK_EQ(status, 0) && status == 99)
        printf("  it hangs\n");
}

int main(void)
{
    run_case("acl_3_2_28 destroying its own stream is refused", refused, destroy);
    run_case("acl_3_2_29 destroying it by force is possible", destroyed, force);
    run_case("acl_3_2_35 aborting its own stream is possible", aborted, abort_stream);
    run_case("acl_3_2_31 synchronizing its own stream is refused", refused, synchronize);
    run_case("acl_3_2_31 also with a timeout of -1", refused, synchronize_for_ever);
    run_case("acl_3_2_31 synchronizing the device does not hang", refused_or_succeeds, synchronize_device);
    run_case("acl_3_2_46 synchronizing an event that is recorded after it is refused", refused, synchronize_event);
    run_case("acl_3_2_15 the last reset of its device is refused", refused, reset);
    run_case("acl_3_2_15 a reset that is not the last is possible", succeeds, set_and_reset);
    run_case("acl_3_2_16 a forced reset of its device is refused", refused, reset_force);
    run_case("acl_3_2_22 destroying its own context is refused", refused, destroy_context);
    run_case("acl_3_2_55 freeing with a wait for the device does not hang", refused_or_succeeds, free_device);
    run_case("acl_3_2_55 freeing pinned memory with a wait does not hang", refused_or_succeeds, free_host);
    run_case("acl_3_2_60 unregistering memory does not hang", refused_or_succeeds, unregister);
    run_case("acl_3_2_60 a pageable copy on its own stream is refused", refused, copy_pageable);
    run_case("acl_3_2_55 a full quarantine does not hang", succeeds_or_out_of_memory, fill_the_quarantine);
    run_case("acl_3_2_8 finalize does not hang", succeeds, finalize);
    return END();
}

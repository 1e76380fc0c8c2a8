/*
 * Invalid handles: null, foreign, freed, of another kind, near a good one. Every function that
 * takes a handle returns a code with a text that names the value; nothing crashes.
 */
#include "gate.h"

static void *memory;
static aclrtStream good_stream;
static aclrtEvent good_event;

/* Calls every function that takes a stream with an invalid handle. */
static void streams(void *h, const char *name)
{
    aclrtStreamStatus status;
    aclrtStreamAttrValue value;
    uint32_t number;
    int32_t id;
    memset(&value, 0, sizeof value);
#define BAD(call) CHECK_FAIL(call, ACL_ERROR_RT_INVALID_HANDLE, name)
    BAD(aclrtDestroyStream(h));
    BAD(aclrtDestroyStreamForce(h));
    BAD(aclrtStreamAbort(h));
    BAD(aclrtSynchronizeStream(h));
    BAD(aclrtSynchronizeStreamWithTimeout(h, 100));
    BAD(aclrtStreamQuery(h, &status));
    BAD(aclrtStreamGetFlags(h, &number));
    BAD(aclrtStreamGetPriority(h, &number));
    BAD(aclrtStreamGetId(h, &id));
    BAD(aclrtSetStreamFailureMode(h, ACL_CONTINUE_ON_FAILURE));
    BAD(aclrtSetStreamAttribute(h, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
    BAD(aclrtGetStreamAttribute(h, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
    BAD(aclrtLaunchHostFunc(h, raise_flag, &id));
    BAD(aclrtRecordEvent(good_event, h));
    BAD(aclrtResetEvent(good_event, h));
    BAD(aclrtStreamWaitEvent(h, good_event));
    BAD(aclrtStreamWaitEventWithTimeout(h, good_event, 1));
    BAD(aclrtMemsetAsync(memory, 64, 0, 64, h));
    BAD(aclrtMemcpyAsync((char *)memory + 64, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, h));
}

static void events(void *h, const char *name)
{
    aclrtEventStatus old_status;
    aclrtEventRecordedStatus status;
    aclrtEventWaitStatus waits;
    uint64_t time;
    uint32_t id;
    float ms;
    BAD(aclrtDestroyEvent(h));
    BAD(aclrtRecordEvent(h, good_stream));
    BAD(aclrtResetEvent(h, good_stream));
    BAD(aclrtStreamWaitEvent(good_stream, h));
    BAD(aclrtStreamWaitEventWithTimeout(good_stream, h, 1));
    BAD(aclrtQueryEvent(h, &old_status));
    BAD(aclrtQueryEventStatus(h, &status));
    BAD(aclrtQueryEventWaitStatus(h, &waits));
    BAD(aclrtSynchronizeEvent(h));
    BAD(aclrtSynchronizeEventWithTimeout(h, 100));
    BAD(aclrtEventElapsedTime(&ms, h, good_event));
    BAD(aclrtEventElapsedTime(&ms, good_event, h));
    BAD(aclrtEventGetTimestamp(h, &time));
    BAD(aclrtGetEventId(h, &id));
}

static void contexts(void *h, const char *name)
{
    BAD(aclrtDestroyContext(h));
    BAD(aclrtSetCurrentContext(h));
}

static void configs(void *h, const char *name)
{
    uint32_t priority = 0;
    aclrtStream stream = NULL;
    BAD(aclrtSetStreamConfigOpt(h, ACL_RT_STREAM_PRIORITY, &priority, sizeof priority));
    BAD(aclrtCreateStreamV2(&stream, h));
    BAD(aclrtDestroyStreamConfigHandle(h));
}

static void check_calls(void (*calls)(void *, const char *), void *handle)
{
    char name[32];
    int before = check_failures;
    snprintf(name, sizeof name, "%p", handle);
    calls(handle, name);
    if (check_failures != before)
        printf("  with the handle %s\n", name);
}

typedef void (*Calls)(void *, const char *);
static const Calls kinds[] = {streams, events, contexts, configs};

static void foreign(void)
{
    static int in_data;
    int on_stack = 0;
    void *values[] = {
        (void *)0x10, (void *)1, (void *)0x1000, (void *)UINTPTR_MAX, (void *)(UINTPTR_MAX - 63),
        (void *)0x7fffffffffff, (void *)0x8000000000000000, (void *)0xdeadbeefdeadbeef, &in_data,
        &on_stack, memory, (void *)(uintptr_t)foreign};
    GROUP("acl_3_2_28 foreign values as handles");
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        for (size_t k = 0; k < 4; k++)
            check_calls(kinds[k], values[v]);
}

static void freed(void)
{
    aclrtStream stream = NULL;
    aclrtEvent event = NULL;
    aclrtContext context = NULL, current = NULL;
    GROUP("acl_3_2_28 handles of destroyed objects");
    CHECK_OK(aclrtGetCurrentContext(&current));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateEvent(&event));
    CHECK_OK(aclrtCreateContext(&context, 0));
    CHECK_OK(aclrtSetCurrentContext(current));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtDestroyContext(context));
    aclrtStreamConfigHandle *config = aclrtCreateStreamConfigHandle();
    CHECK_OK(aclrtDestroyStreamConfigHandle(config));
    check_calls(streams, stream);
    check_calls(events, event);
    check_calls(contexts, context);
    check_calls(configs, config);

    GROUP("acl_3_2_28 an old handle stays invalid when new objects are made");
    enum { COUNT = 500 };
    static aclrtStream streams_made[COUNT];
    static aclrtEvent events_made[COUNT];
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(aclrtCreateStream(&streams_made[i]));
        CHECK_OK(aclrtCreateEvent(&events_made[i]));
        CHECK(streams_made[i] != stream && events_made[i] != event);
    }
    check_calls(streams, stream);
    check_calls(events, event);
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(aclrtDestroyStream(streams_made[i]));
        CHECK_OK(aclrtDestroyEvent(events_made[i]));
    }
}

static void wrong_kind(void)
{
    aclrtContext context = NULL;
    GROUP("acl_3_2_28 handles of another kind, and beside a good one");
    CHECK_OK(aclrtGetCurrentContext(&context));
    aclrtStreamConfigHandle *config = aclrtCreateStreamConfigHandle();
    aclDataBuffer *buffer = aclCreateDataBuffer(memory, 64);
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 0, NULL, ACL_FORMAT_ND);
    void *const handles[] = {good_stream, good_event, context, config, buffer, desc};
    for (size_t k = 0; k < 4; k++)
        for (size_t h = 0; h < 6; h++) {
            if (h != k)
                check_calls(kinds[k], handles[h]);
            check_calls(kinds[k], (char *)handles[h] + 1);
            check_calls(kinds[k], (char *)handles[h] + 8);
            check_calls(kinds[k], (char *)handles[h] - 8);
        }
    CHECK_OK(aclrtDestroyStreamConfigHandle(config));
    CHECK_OK(aclDestroyDataBuffer(buffer));
    aclDestroyTensorDesc(desc);
}

static void null(void)
{
    aclrtEventStatus old_status;
    aclrtEventRecordedStatus status;
    aclrtEventWaitStatus waits;
    uint64_t time;
    uint32_t id;
    GROUP("acl_3_2_28 null where it has no meaning");
#define NONE(call) CHECK_FAIL(call, ACL_ERROR_INVALID_PARAM, "event")
    NONE(aclrtRecordEvent(NULL, good_stream));
    NONE(aclrtResetEvent(NULL, good_stream));
    NONE(aclrtStreamWaitEvent(good_stream, NULL));
    NONE(aclrtStreamWaitEventWithTimeout(good_stream, NULL, 1));
    NONE(aclrtQueryEvent(NULL, &old_status));
    NONE(aclrtQueryEventStatus(NULL, &status));
    NONE(aclrtQueryEventWaitStatus(NULL, &waits));
    NONE(aclrtSynchronizeEvent(NULL));
    NONE(aclrtSynchronizeEventWithTimeout(NULL, 1));
    NONE(aclrtEventGetTimestamp(NULL, &time));
    NONE(aclrtGetEventId(NULL, &id));
}

int main(void)
{
    int flag = 0;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtCreateStream(&good_stream));
    CHECK_OK(aclrtCreateEvent(&good_event));
    CHECK_OK(aclrtRecordEvent(good_event, good_stream));
    CHECK_OK(aclrtSynchronizeStream(good_stream));
    foreign();
    freed();
    wrong_kind();
    null();

    GROUP("acl_3_2_28 the good handles still work");
    CHECK_OK(aclrtStreamWaitEvent(good_stream, good_event));
    CHECK_OK(aclrtLaunchHostFunc(good_stream, raise_flag, &flag));
    CHECK_OK(aclrtSynchronizeStream(good_stream));
    CHECK_EQ(raised(&flag), 1);
    CHECK_OK(aclrtDestroyEvent(good_event));
    CHECK_OK(aclrtDestroyStream(good_stream));
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

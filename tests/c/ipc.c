// unchecked: several processes
/* What processes share: device memory by key, physical memory by handle, events and notifies; white lists, keys that mean nothing,
 * and processes that are killed. Each case runs in two new processes, which fork before either uses ACL. */
#include "ipc.h"
#include <dirent.h>
#include <sys/resource.h>

/* Memory: both write, both read; blocks of a page and more, and small ones that share a page. */
static void memory_exporter(Line line)
{
    static const size_t sizes[] = {4 * MIB, 5000, 700, 3 * MIB + 12345};
    void *blocks[4];
    Message message;
    begin();
    for (int i = 0; i < 4; i++) {
        CHECK_OK(aclrtMalloc(&blocks[i], sizes[i], ACL_MEM_MALLOC_HUGE_FIRST));
        fill(blocks[i], sizes[i], 10 + i);
    }
    for (int i = 0; i < 4; i++) {
        memset(&message, 0, sizeof message);
        message.number = (int)sizes[i];
        CHECK_OK(aclrtIpcMemGetExportKey(blocks[i], sizes[i], message.key, 65, 1));
        CHECK(strlen(message.key) == 64);
        say(line, message);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(hear(line, &message));
        CHECK(holds(blocks[i], sizes[i], 20 + i));
        fill(blocks[i], sizes[i], 30 + i);
        say(line, message);
    }
    CHECK(hear(line, &message));
    for (int i = 0; i < 4; i++)
        CHECK_OK(aclrtFree(blocks[i]));
    say(line, message);
    CHECK(hear(line, &message));
    end();
}

static void memory_importer(Line line)
{
    Message keys[4], message;
    void *blocks[4], *again = NULL;
    begin();
    for (int i = 0; i < 4; i++) {
        CHECK(hear(line, &keys[i]));
        CHECK_OK(aclrtIpcMemImportByKey(&blocks[i], keys[i].key, i % 2));
        CHECK(holds(blocks[i], (size_t)keys[i].number, 10 + i));
    }
    CHECK_OK(aclrtIpcMemImportByKey(&again, keys[0].key, 1));
    CHECK(again == blocks[0]);
    CHECK_OK(aclrtIpcMemClose(keys[0].key));
    aclrtStream stream = NULL;
    CHECK_OK(aclrtCreateStream(&stream));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(aclrtMemsetAsync(blocks[i], (size_t)keys[i].number, 20 + i, (size_t)keys[i].number, stream));
        CHECK_OK(aclrtSynchronizeStream(stream));
        say(line, keys[i]);
        CHECK(hear(line, &message));
        CHECK(holds(blocks[i], (size_t)keys[i].number, 30 + i));
    }
    for (int i = 0; i < 4; i++)
        CHECK_OK(aclrtIpcMemClose(keys[i].key));
    CHECK_FAIL(aclrtIpcMemClose(keys[0].key), DRIVER, "neither exported nor imported");
    say(line, message);
    CHECK(hear(line, &message));
    CHECK_FAIL(aclrtIpcMemImportByKey(&again, keys[0].key, 1), DRIVER, "has freed");
    CHECK(again == NULL);
    say(line, message);
    end();
}

/* White lists, and keys that mean nothing. */
static void list_exporter(Line line)
{
    Message message, other;
    void *block = NULL;
    char key[65];
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtMalloc(&block, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtIpcMemGetExportKey(block, PAGE, message.key, 65, 0));
    say(line, message);
    CHECK(hear(line, &other));
    CHECK_OK(aclrtIpcMemSetImportPid(message.key, &other.pid, 1));
    say(line, message);
    CHECK(hear(line, &other));
    void *imported = (void *)1;
    CHECK_FAIL(aclrtIpcMemImportByKey(&imported, message.key, 1), 107000, "of this process");
    CHECK_FAIL(aclrtIpcMemGetExportKey(NULL, PAGE, key, 65, 0), 100000, "devPtr");
    CHECK_FAIL(aclrtIpcMemGetExportKey(block, PAGE, NULL, 65, 0), 100000, "key");
    CHECK_FAIL(aclrtIpcMemGetExportKey(block, 0, key, 65, 0), 107000, "size 0");
    CHECK_FAIL(aclrtIpcMemGetExportKey(block, PAGE, key, 0, 0), 107000, "len 0");
    CHECK_FAIL(aclrtIpcMemGetExportKey(block, PAGE, key, 65, 2), 107000, "flags 2");
    CHECK_FAIL(aclrtIpcMemGetExportKey(block, 64 * PAGE, key, 65, 0), 107000, "cannot be shared");
    CHECK_FAIL(aclrtIpcMemGetExportKey(key, 8, key, 65, 0), 107000, "host memory");
    CHECK_FAIL(aclrtIpcMemSetImportPid(message.key, NULL, 1), 100000, "pid");
    CHECK_FAIL(aclrtIpcMemSetImportPid(message.key, &other.pid, 0), 100000, "empty");
    static const char *const garbage[] = {"", "cairn", "cairn-zzzzzzzzzzzzzzzz", "\xff\xff", "something else"};
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        CHECK_FAIL(aclrtIpcMemImportByKey(&imported, garbage[i], 0), 107000, "no key");
        CHECK_FAIL(aclrtIpcMemClose(garbage[i]), 107000, "no key");
    }
    CHECK_FAIL(aclrtIpcMemImportByKey(&imported, NULL, 0), 100000, "key");
    CHECK_FAIL(aclrtIpcMemSetAttr(message.key, (aclrtIpcMemAttrType)0, 1), 207000, "Atlas A3");
    CHECK_FAIL(aclrtIpcMemSetAttr("cairn", (aclrtIpcMemAttrType)0, 1), 107000, "no key");
    CHECK_OK(aclrtIpcMemClose(message.key));
    CHECK_FAIL(aclrtIpcMemClose(message.key), DRIVER, "neither");
    CHECK_OK(aclrtFree(block));
    end();
}

static void list_importer(Line line)
{
    Message message;
    void *block = (void *)1;
    begin();
    CHECK(hear(line, &message));
    CHECK_FAIL(aclrtIpcMemImportByKey(&block, message.key, 1), NOT_PERMITTED, "has not named");
    CHECK(block == NULL);
    CHECK_FAIL(aclrtIpcMemImportByKey(&block, message.key, 2), 107000, "flags 2");
    say(line, message);
    CHECK(hear(line, &message));
    CHECK_OK(aclrtIpcMemImportByKey(&block, message.key, 1));
    CHECK_OK(aclrtIpcMemClose(message.key));
    say(line, message);
    end();
}

/* Physical memory by handle. */
static void handle_exporter(Line line)
{
    Message message, other;
    aclrtPhysicalMemProp prop;
    aclrtDrvMemHandle handle = NULL;
    void *start = NULL;
    uint64_t twice = 0;
    memset(&prop, 0, sizeof prop);
    memset(&message, 0, sizeof message);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    begin();
    CHECK_OK(aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    CHECK_OK(aclrtReserveMemAddress(&start, PAGE, 0, NULL, 0));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    fill(start, PAGE, 5);
    CHECK_FAIL(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_POSIX, 0, &twice), 100000, "handleType");
    CHECK_OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &message.shareable));
    CHECK_FAIL(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &twice), DRIVER,
        "was exported before");
    say(line, message);
    CHECK(hear(line, &other));
    CHECK_OK(aclrtMemSetPidToShareableHandle(message.shareable, &other.pid, 1));
    say(line, message);
    CHECK(hear(line, &other));
    CHECK(holds(start, PAGE, 6));
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtFreePhysical(handle));
    /* The importer still has it: new memory is other memory. */
    CHECK_OK(aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    fill(start, PAGE, 9);
    say(line, message);
    CHECK(hear(line, &other));
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtReleaseMemAddress(start));
    end();
}

static void handle_importer(Line line)
{
    Message message;
    aclrtDrvMemHandle handle = (void *)1;
    aclrtPhysicalMemProp prop;
    void *start = NULL;
    begin();
    CHECK(hear(line, &message));
    CHECK_FAIL(aclrtMemImportFromShareableHandle(message.shareable, 0, &handle), NOT_PERMITTED, "has not named");
    CHECK(handle == NULL);
    say(line, message);
    CHECK(hear(line, &message));
    CHECK_FAIL(aclrtMemImportFromShareableHandle(message.shareable, 99, &handle), 107001, "device 99");
    CHECK_FAIL(aclrtMemImportFromShareableHandle(message.shareable ^ 4, 0, &handle), DRIVER, "key");
    CHECK_OK(aclrtMemImportFromShareableHandle(message.shareable, 0, &handle));
    CHECK_FAIL(aclrtMemGetAllocationPropertiesFromHandle(handle, &prop), 207000, "imported");
    CHECK_OK(aclrtReserveMemAddress(&start, PAGE, 0, NULL, 0));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    CHECK(holds(start, PAGE, 5));
    fill(start, PAGE, 6);
    say(line, message);
    CHECK(hear(line, &message));
    CHECK(holds(start, PAGE, 6));
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtReleaseMemAddress(start));
    say(line, message);
    end();
}

/* The same through the second version: a fabric handle of 128 bytes, and a number. */
static void second_version_exporter(Line line)
{
    Message message, other;
    aclrtPhysicalMemProp prop;
    aclrtDrvMemHandle handles[2] = {NULL, NULL};
    aclrtMemFabricHandle fabric;
    uint64_t number = 0;
    char *start = NULL;
    memset(&prop, 0, sizeof prop);
    memset(&message, 0, sizeof message);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    begin();
    CHECK_OK(aclrtReserveMemAddress((void **)&start, 2 * PAGE, 0, NULL, 0));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(aclrtMallocPhysical(&handles[i], PAGE, &prop, 0));
        CHECK_OK(aclrtMapMem(start + i * PAGE, PAGE, 0, handles[i], 0));
        fill(start + i * PAGE, PAGE, 5 + i);
    }
    memset(&fabric, 9, sizeof fabric);
    const aclrtMemSharedHandleType wide = ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, plain = ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT;
    CHECK_FAIL(aclrtMemExportToShareableHandleV2(NULL, 0, wide, &fabric), 100000, "handle");
    CHECK_FAIL(aclrtMemExportToShareableHandleV2(handles[0], 0, wide, NULL), 100000, "shareableHandle");
    CHECK_FAIL(aclrtMemExportToShareableHandleV2(handles[0], 2, wide, &fabric), 107000, "flags 2");
    CHECK_FAIL(
        aclrtMemExportToShareableHandleV2(handles[0], 0, (aclrtMemSharedHandleType)3, &fabric), 100000, "shareType 3");
    CHECK_OK(aclrtMemExportToShareableHandleV2(handles[0], 0, wide, &fabric));
    CHECK(all_are((char *)&fabric + 8, sizeof fabric - 8, 0));
    CHECK_OK(aclrtMemExportToShareableHandleV2(handles[1], 1, plain, &number));
    CHECK_FAIL(aclrtMemExportToShareableHandleV2(handles[1], 1, plain, &number), DRIVER, "exported before");
    memcpy(message.key, &fabric, 64);
    message.shareable = number;
    say(line, message);
    CHECK(hear(line, &other));
    CHECK_FAIL(aclrtMemSetPidToShareableHandleV2(NULL, wide, &other.pid, 1), 100000, "shareableHandle");
    CHECK_FAIL(aclrtMemSetPidToShareableHandleV2(&fabric, (aclrtMemSharedHandleType)0, &other.pid, 1), 100000, "shareType 0");
    CHECK_FAIL(aclrtMemSetPidToShareableHandleV2(&fabric, wide, NULL, 1), 100000, "pid");
    CHECK_FAIL(aclrtMemSetPidToShareableHandleV2(&fabric, wide, &other.pid, 0), 100000, "empty");
    CHECK_FAIL(aclrtMemSetPidToShareableHandleV2(&fabric, wide, &other.pid, 65536), 100000, "65536");
    CHECK_OK(aclrtMemSetPidToShareableHandleV2(&fabric, wide, &other.pid, 1));
    say(line, message);
    CHECK(hear(line, &other));
    CHECK(holds(start, PAGE, 7) && holds(start + PAGE, PAGE, 8));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(aclrtUnmapMem(start + i * PAGE));
        CHECK_OK(aclrtFreePhysical(handles[i]));
    }
    CHECK_OK(aclrtReleaseMemAddress(start));
    end();
}

static void second_version_importer(Line line)
{
    Message message;
    aclrtDrvMemHandle handles[2] = {(void *)1, NULL};
    aclrtPhysicalMemProp prop;
    aclrtMemFabricHandle fabric;
    char *start = NULL;
    begin();
    CHECK(hear(line, &message));
    memset(&fabric, 0, sizeof fabric);
    memcpy(&fabric, message.key, 64);
    const aclrtMemSharedHandleType wide = ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, plain = ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT;
    CHECK_FAIL(aclrtMemImportFromShareableHandleV2(&fabric, wide, 0, &handles[0]), NOT_PERMITTED, "has not named");
    CHECK(handles[0] == NULL);
    CHECK_FAIL(aclrtMemImportFromShareableHandleV2(NULL, wide, 0, &handles[0]), 100000, "shareableHandle");
    CHECK_FAIL(aclrtMemImportFromShareableHandleV2(&fabric, wide, 0, NULL), 100000, "handle");
    CHECK_FAIL(aclrtMemImportFromShareableHandleV2(&fabric, wide, 1, &handles[0]), 107000, "flags 1");
    CHECK_FAIL(
        aclrtMemImportFromShareableHandleV2(&fabric, (aclrtMemSharedHandleType)9, 0, &handles[0]), 100000, "shareType 9");
    say(line, message);
    CHECK(hear(line, &message));
    CHECK_OK(aclrtMemImportFromShareableHandleV2(&fabric, wide, 0, &handles[0]));
    CHECK_OK(aclrtMemImportFromShareableHandleV2(&message.shareable, plain, 0, &handles[1]));
    CHECK_OK(aclrtMemGetAllocationPropertiesFromHandle(handles[0], &prop));
    CHECK(prop.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && prop.memAttr == ACL_HBM_MEM_HUGE);
    CHECK_OK(aclrtReserveMemAddress((void **)&start, 2 * PAGE, 0, NULL, 0));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(aclrtMapMem(start + i * PAGE, PAGE, 0, handles[i], 0));
        CHECK(holds(start + i * PAGE, PAGE, 5 + i));
        fill(start + i * PAGE, PAGE, 7 + i);
    }
    say(line, message);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(aclrtUnmapMem(start + i * PAGE));
        CHECK_OK(aclrtFreePhysical(handles[i]));
    }
    CHECK_OK(aclrtReleaseMemAddress(start));
    end();
}

/* Events: the wait of a stream, of a thread, and a query, for a record of another process. */
static void event_exporter(Line line)
{
    Message message, other;
    aclrtEvent event = NULL, plain = NULL;
    aclrtStream stream = NULL;
    Gate gate = GATE_CLOSED;
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateEvent(&plain));
    CHECK_FAIL(aclrtIpcGetEventHandle(plain, &message.event), 107000, "flag 64");
    CHECK_FAIL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC | ACL_EVENT_SYNC), 107000, "64 alone");
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK_OK(aclrtIpcGetEventHandle(event, &message.event));
    say(line, message);
    CHECK(hear(line, &other));
    gate_put(&gate, stream);
    CHECK_OK(aclrtRecordEvent(event, stream));
    say(line, message);
    CHECK(hear(line, &other));
    gate_open(&gate);
    CHECK(hear(line, &other));
    /* The other process records now; this one waits. */
    CHECK_OK(aclrtStreamWaitEvent(stream, event));
    say(line, message);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtSynchronizeEvent(event));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtDestroyEvent(plain));
    CHECK_OK(aclrtDestroyStream(stream));
    end();
}

static void event_importer(Line line)
{
    Message message;
    aclrtEvent event = NULL;
    aclrtStream stream = NULL;
    Gate gate = GATE_CLOSED;
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    aclrtStreamStatus stream_status = ACL_STREAM_STATUS_COMPLETE;
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK(hear(line, &message));
    aclrtIpcEventHandle garbage;
    memset(&garbage, 'x', sizeof garbage);
    CHECK_FAIL(aclrtIpcOpenEventHandle(garbage, &event), 107000, "no key");
    CHECK(event == NULL);
    CHECK_FAIL(aclrtIpcOpenEventHandle(message.event, NULL), 100000, "event");
    CHECK_OK(aclrtIpcOpenEventHandle(message.event, &event));
    CHECK_OK(aclrtStreamWaitEvent(stream, event));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtQueryEventStatus(event, &status));
    CHECK(status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    say(line, message);
    CHECK(hear(line, &message));
    CHECK_OK(aclrtQueryEventStatus(event, &status));
    CHECK(status == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    CHECK_OK(aclrtStreamWaitEvent(stream, event));
    CHECK_OK(aclrtStreamQuery(stream, &stream_status));
    CHECK(stream_status == ACL_STREAM_STATUS_NOT_READY);
    say(line, message);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtSynchronizeEvent(event));
    gate_put(&gate, stream);
    CHECK_OK(aclrtRecordEvent(event, stream));
    say(line, message);
    CHECK(hear(line, &message));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtDestroyStream(stream));
    end();
}

/* A record on a stream that is held, and many later ones on another: the wait is for the first. */
static void late_exporter(Line line)
{
    Message message, other;
    aclrtEvent event = NULL;
    aclrtStream held = NULL, free_stream = NULL;
    Gate gate = GATE_CLOSED;
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtCreateStream(&held));
    CHECK_OK(aclrtCreateStream(&free_stream));
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK_OK(aclrtIpcGetEventHandle(event, &message.event));
    gate_put(&gate, held);
    CHECK_OK(aclrtRecordEvent(event, held));
    say(line, message);
    CHECK(hear(line, &other));
    for (int i = 0; i < 1000; i++)
        CHECK_OK(aclrtRecordEvent(event, free_stream));
    CHECK_OK(aclrtSynchronizeStream(free_stream));
    say(line, message);
    CHECK(hear(line, &other));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(held));
    CHECK(hear(line, &other));
    CHECK_OK(aclrtDestroyEvent(event));
    end();
}

static void late_importer(Line line)
{
    Message message;
    aclrtEvent event = NULL;
    aclrtStream stream = NULL;
    aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
    int flag = 0;
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK(hear(line, &message));
    CHECK_OK(aclrtIpcOpenEventHandle(message.event, &event));
    CHECK_OK(aclrtStreamWaitEvent(stream, event));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    say(line, message);
    CHECK(hear(line, &message));
    /* The last record is done; one that is done is seen at once by the thread that watches. */
    CHECK_OK(aclrtSynchronizeEvent(event));
    CHECK_FAIL(aclrtSynchronizeStreamWithTimeout(stream, 100), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream");
    CHECK_OK(aclrtStreamQuery(stream, &status));
    CHECK(status == ACL_STREAM_STATUS_NOT_READY && !raised(&flag));
    say(line, message);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(raised(&flag));
    say(line, message);
    CHECK_OK(aclrtDestroyEvent(event));
    end();
}

/* No memory for the thread that watches: the wait fails at synchronize, tasks after it run. Then a reset by force ends a wait for
 * another process. */
static void unwatched_importer(Line line)
{
    Message message;
    aclrtEvent event = NULL;
    aclrtStream stream = NULL;
    struct rlimit before, limit;
    int flag = 0;
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(hear(line, &message));
    CHECK_OK(aclrtIpcOpenEventHandle(message.event, &event));
    getrlimit(RLIMIT_AS, &before);
    limit = before;
    limit.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_AS, &limit);
    aclError code = aclrtStreamWaitEvent(stream, event);
    setrlimit(RLIMIT_AS, &before);
    CHECK_OK(code);
    flag = 0;
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_FAIL(aclrtSynchronizeStream(stream), 207001, "no thread can be had");
    CHECK(raised(&flag));
    CHECK_OK(aclrtStreamWaitEvent(stream, event));
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclFinalize());
    say(line, message);
}

static void unwatched_exporter(Line line)
{
    Message message;
    aclrtEvent event = NULL;
    aclrtStream stream = NULL;
    Gate gate = GATE_CLOSED;
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK_OK(aclrtIpcGetEventHandle(event, &message.event));
    gate_put(&gate, stream);
    CHECK_OK(aclrtRecordEvent(event, stream));
    say(line, message);
    CHECK(hear(line, &message));
    gate_open(&gate);
    end();
}

/* Notifies: in one process, and recorded by another. */
static void notify_exporter(Line line)
{
    Message message, other;
    aclrtNotify notify = NULL;
    aclrtStream stream = NULL, second = NULL;
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&second));
    CHECK_FAIL(aclrtCreateNotify(&notify, 2), 107000, "flags 2");
    CHECK_OK(aclrtCreateNotify(&notify, 0));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
        CHECK_OK(aclrtRecordNotify(notify, second));
        CHECK_OK(aclrtSynchronizeStream(stream));
    }
    CHECK_OK(aclrtRecordNotify(notify, stream));
    CHECK_OK(aclrtRecordNotify(notify, stream));
    CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 1));
    CHECK(aclrtSynchronizeStream(stream) != 0);
    uint32_t id = 99;
    CHECK_OK(aclrtGetNotifyId(notify, &id));
    CHECK_FAIL(aclrtGetNotifyId(NULL, &id), 100000, "notify");
    CHECK_FAIL(aclrtGetNotifyId(notify, NULL), 100000, "notifyId");
    CHECK_FAIL(aclrtRecordNotify(NULL, stream), 100000, "notify");
    CHECK_FAIL(aclrtRecordNotify(&id, stream), ACL_ERROR_RT_INVALID_HANDLE, "0x");
    CHECK_FAIL(aclrtNotifyBatchReset(NULL, 1), 100000, "notifies");
    CHECK_FAIL(aclrtNotifyBatchReset(&notify, 0), 100000, "num 0");
    CHECK_FAIL(aclrtNotifySetImportPid(NULL, &other.pid, 1), 100000, "notify");
    CHECK_FAIL(aclrtNotifySetImportPid(notify, NULL, 1), 100000, "pid");
    CHECK_FAIL(aclrtNotifyGetExportKey(notify, message.key, 64, 0), 107000, "len 64");
    CHECK_FAIL(aclrtNotifyGetExportKey(notify, message.key, 65, 1), 107000, "flags 1");
    CHECK_OK(aclrtNotifyGetExportKey(notify, message.key, 65, 0));
    say(line, message);
    CHECK(hear(line, &other));
    CHECK_OK(aclrtNotifySetImportPid(notify, &other.pid, 1));
    CHECK_OK(aclrtWaitAndResetNotify(notify, second, 0));
    say(line, message);
    CHECK_OK(aclrtSynchronizeStream(second));
    CHECK(hear(line, &other));
    CHECK_OK(aclrtNotifyBatchReset(&notify, 1));
    CHECK_OK(aclrtWaitAndResetNotify(notify, second, 0));
    CHECK_OK(aclrtDestroyNotify(notify));
    CHECK_OK(aclrtSynchronizeStream(second));
    CHECK_FAIL(aclrtDestroyNotify(notify), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtDestroyStream(second));
    end();
}

static void notify_importer(Line line)
{
    Message message;
    aclrtNotify notify = NULL;
    aclrtStream stream = NULL;
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK(hear(line, &message));
    CHECK_FAIL(aclrtNotifyImportByKey(&notify, message.key, 0), NOT_PERMITTED, "has not named");
    CHECK_FAIL(aclrtNotifyImportByKey(&notify, message.key, 1), 107000, "flags 1");
    say(line, message);
    CHECK(hear(line, &message));
    CHECK_OK(aclrtNotifyImportByKey(&notify, message.key, 2));
    CHECK_FAIL(aclrtWaitAndResetNotify(notify, stream, 0), 107000, "imported");
    CHECK_OK(aclrtRecordNotify(notify, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyNotify(notify));
    CHECK_OK(aclrtDestroyStream(stream));
    say(line, message);
    end();
}

/* An exporter that is killed: later imports fail, memory that was imported stays, waits end with an error. */
static void killed_exporter(Line line)
{
    Message message, other;
    void *block = NULL;
    aclrtEvent event = NULL;
    aclrtStream stream = NULL;
    Gate gate = GATE_CLOSED;
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMalloc(&block, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(block, PAGE, 8);
    CHECK_OK(aclrtIpcMemGetExportKey(block, PAGE, message.key, 65, 1));
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK_OK(aclrtIpcGetEventHandle(event, &message.event));
    gate_put(&gate, stream);
    CHECK_OK(aclrtRecordEvent(event, stream));
    say(line, message);
    CHECK(hear(line, &other));
    kill(getpid(), SIGKILL);
}

static void surviving_importer(Line line)
{
    Message message, nothing;
    void *block = NULL, *again = (void *)1;
    aclrtEvent event = NULL;
    aclrtStream stream = NULL;
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK(hear(line, &message));
    CHECK_OK(aclrtIpcMemImportByKey(&block, message.key, 1));
    CHECK_OK(aclrtIpcOpenEventHandle(message.event, &event));
    CHECK_OK(aclrtStreamWaitEvent(stream, event));
    say(line, message);
    CHECK(!hear(line, &nothing));
    CHECK_FAIL(aclrtSynchronizeStream(stream), DRIVER, "ended before its record");
    CHECK_FAIL(aclrtSynchronizeEvent(event), DRIVER, "ended before its record");
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    CHECK_FAIL(aclrtQueryEventStatus(event, &status), DRIVER, "ended before its record");
    CHECK(status == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    CHECK(holds(block, PAGE, 8));
    CHECK_OK(aclrtIpcMemClose(message.key));
    CHECK_FAIL(aclrtIpcMemImportByKey(&again, message.key, 1), DRIVER, "has ended");
    CHECK(again == NULL);
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtDestroyStream(stream));
    end();
}

static int shared_memory_files(void)
{
    int count = 0;
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += strstr(entry->d_name, "cairn") != NULL;
    if (folder)
        closedir(folder);
    return count;
}

int main(void)
{
    int before = shared_memory_files();
    GROUP("acl_ipc_1 device memory is shared by key, in both directions");
    CHECK(two(memory_exporter, memory_importer) == 0);
    GROUP("acl_ipc_2 white lists and keys");
    CHECK(two(list_exporter, list_importer) == 0);
    GROUP("acl_ipc_3 physical memory is shared by handle");
    CHECK(two(handle_exporter, handle_importer) == 0);
    CHECK(two(second_version_exporter, second_version_importer) == 0);
    GROUP("acl_ipc_4 events are waited for across processes");
    CHECK(two(event_exporter, event_importer) == 0);
    CHECK(two(late_exporter, late_importer) == 0);
    CHECK(two(unwatched_exporter, unwatched_importer) == 0);
    GROUP("acl_ipc_5 notifies are recorded across processes");
    CHECK(two(notify_exporter, notify_importer) == 0);
    GROUP("acl_ipc_6 nobody hangs when an exporter is killed");
    CHECK(two(killed_exporter, surviving_importer) == 0);
    GROUP("acl_ipc_6 nothing is left behind");
    CHECK(shared_memory_files() == before);
    return END();
}

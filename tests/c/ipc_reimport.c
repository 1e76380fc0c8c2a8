// env: CAIRN_HOST_MEMORY=4gib
// unchecked: several processes
/* Keys in an importer that goes on: its device is reset, what it imported is freed by its owner, ACL is finalized, a wait is
 * destroyed before it ends. Each case runs in two new processes, which fork before either uses ACL. */
#include "ipc.h"

/* Exports, and answers as often as the importer asks. */
static void patient_exporter(Line line)
{
    Message message;
    void *block = NULL;
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtMalloc(&block, 4 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(block, 4 * MIB, 5);
    CHECK_OK(aclrtIpcMemGetExportKey(block, 4 * MIB, message.key, 65, 1));
    say(line, message);
    CHECK(hear(line, &message));
    CHECK(holds(block, 4 * MIB, 6));
    CHECK_OK(aclrtFree(block));
    end();
}

/* A reset ends the imports of its device: the key gives an address again, and nothing of the first one is left. */
static void resetting_importer(Line line)
{
    Message message;
    void *first = NULL, *again = NULL, *there = NULL;
    begin();
    CHECK(hear(line, &message));
    CHECK_OK(aclrtIpcMemImportByKey(&first, message.key, 1));
    CHECK_OK(aclrtIpcMemImportByKey(&again, message.key, 1));
    CHECK(first == again && holds(first, 4 * MIB, 5));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_FAIL(aclrtIpcMemClose(message.key), DRIVER, "neither exported nor imported");
    /* Its addresses are free: no reservation was left there. */
    CHECK_OK(aclrtReserveMemAddress(&there, 4 * MIB, 0, first, 0));
    CHECK(there == first);
    CHECK_OK(aclrtReleaseMemAddress(there));
    CHECK_OK(aclrtIpcMemImportByKey(&again, message.key, 1));
    CHECK(holds(again, 4 * MIB, 5));
    fill(again, 4 * MIB, 6);
    CHECK_OK(aclrtIpcMemClose(message.key));
    CHECK_FAIL(aclrtIpcMemClose(message.key), DRIVER, "neither exported nor imported");
    say(line, message);
    end();
}

/* The owner frees it while the importer has it, in each way; and closes a key. */
static void freeing_exporter(Line line)
{
    Message freed, closed, unmapped, answer;
    void *blocks[2], *start = NULL;
    aclrtPhysicalMemProp prop;
    aclrtDrvMemHandle handle = NULL;
    memset(&prop, 0, sizeof prop);
    memset(&freed, 0, sizeof freed);
    memset(&closed, 0, sizeof closed);
    memset(&unmapped, 0, sizeof unmapped);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    begin();
    for (int i = 0; i < 2; i++) {
        CHECK_OK(aclrtMalloc(&blocks[i], PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
        fill(blocks[i], PAGE, 5);
    }
    CHECK_OK(aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    CHECK_OK(aclrtReserveMemAddress(&start, PAGE, 0, NULL, 0));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    fill(start, PAGE, 5);
    CHECK_OK(aclrtIpcMemGetExportKey(blocks[0], PAGE, freed.key, 65, 1));
    CHECK_OK(aclrtIpcMemGetExportKey(blocks[1], PAGE, closed.key, 65, 1));
    CHECK_OK(aclrtIpcMemGetExportKey(start, PAGE, unmapped.key, 65, 1));
    CHECK_OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &unmapped.shareable));
    say(line, freed);
    say(line, closed);
    say(line, unmapped);
    CHECK(hear(line, &answer));
    CHECK_OK(aclrtFree(blocks[0]));
    CHECK_OK(aclrtIpcMemClose(closed.key));
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtFreePhysical(handle));
    say(line, freed);
    CHECK(hear(line, &answer));
    CHECK_OK(aclrtFree(blocks[1]));
    CHECK_OK(aclrtReleaseMemAddress(start));
    end();
}

static void keeping_importer(Line line)
{
    Message freed, closed, unmapped, answer;
    void *blocks[3], *again = NULL;
    aclrtDrvMemHandle handle = NULL;
    begin();
    CHECK(hear(line, &freed) && hear(line, &closed) && hear(line, &unmapped));
    CHECK_OK(aclrtIpcMemImportByKey(&blocks[0], freed.key, 1));
    CHECK_OK(aclrtIpcMemImportByKey(&blocks[1], closed.key, 1));
    CHECK_OK(aclrtIpcMemImportByKey(&blocks[2], unmapped.key, 1));
    say(line, freed);
    CHECK(hear(line, &answer));
    for (int i = 0; i < 2; i++) {
        CHECK_FAIL(aclrtIpcMemImportByKey(&again, freed.key, 1), DRIVER, "has freed what it stood for");
        CHECK(again == NULL);
        CHECK_FAIL(aclrtIpcMemImportByKey(&again, closed.key, 1), DRIVER, "has closed it");
        CHECK_FAIL(aclrtIpcMemImportByKey(&again, unmapped.key, 1), DRIVER, "has freed what it stood for");
        CHECK_FAIL(
            aclrtMemImportFromShareableHandle(unmapped.shareable, 0, &handle), DRIVER,
            "has freed what it stood for");
        /* What it has it keeps, and refused imports count for nothing. */
        for (int at = 0; at < 3; at++)
            CHECK(holds(blocks[at], PAGE, 5));
    }
    CHECK_OK(aclrtIpcMemClose(freed.key));
    CHECK_OK(aclrtIpcMemClose(closed.key));
    CHECK_OK(aclrtIpcMemClose(unmapped.key));
    CHECK_FAIL(aclrtIpcMemClose(freed.key), DRIVER, "neither exported nor imported");
    say(line, freed);
    end();
}

/* What others hold counts with the owner: when the importer has finalized ACL it is free again, though that process lives on. */
static void counting_exporter(Line line)
{
    Message message;
    void *block = NULL;
    aclrtPhysicalMemProp prop;
    aclrtDrvMemHandle handle = NULL;
    size_t before = 0, held = 0, after = 0, total = 0;
    memset(&prop, 0, sizeof prop);
    memset(&message, 0, sizeof message);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    begin();
    /* The other one has begun, too: processes have their memory from one budget. */
    CHECK(hear(line, &message));
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    CHECK_OK(aclrtMalloc(&block, 8 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(block, 8 * MIB, 5);
    CHECK_OK(aclrtIpcMemGetExportKey(block, 8 * MIB, message.key, 65, 1));
    CHECK_OK(aclrtMallocPhysical(&handle, 16 * MIB, &prop, 0));
    CHECK_OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &message.shareable));
    say(line, message);
    CHECK(hear(line, &message));
    CHECK_OK(aclrtFree(block));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_OK(aclrtMalloc(&block, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtFree(block));
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &held, &total));
    say(line, message);
    CHECK(hear(line, &message));
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK(held < before);
    if (!CHECK(after >= held + 24 * MIB))
        printf("  before %zu, held %zu, after %zu\n", before, held, after);
    say(line, message);
    CHECK(hear(line, &message));
    end();
}

static void finalizing_importer(Line line)
{
    Message message;
    void *block = NULL, *start = NULL, *there = NULL;
    aclrtDrvMemHandle handle = NULL, own = NULL;
    aclrtPhysicalMemProp prop;
    uint64_t number = 0;
    memset(&message, 0, sizeof message);
    begin();
    say(line, message);
    CHECK(hear(line, &message));
    CHECK_OK(aclrtIpcMemImportByKey(&block, message.key, 1));
    CHECK_OK(aclrtMemImportFromShareableHandle(message.shareable, 0, &handle));
    CHECK_OK(aclrtReserveMemAddress(&start, 18 * MIB, 0, NULL, 0));
    CHECK_OK(aclrtMapMem(start, 16 * MIB, 0, handle, 0));
    /* Own memory is not mapped beside it, and only its maker exports it. */
    memset(&prop, 0, sizeof prop);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    CHECK_OK(aclrtMallocPhysical(&own, PAGE, &prop, 0));
    CHECK_FAIL(aclrtMapMem((char *)start + 16 * MIB, PAGE, 0, own, 0), 107000, "own and imported");
    CHECK_OK(aclrtFreePhysical(own));
    CHECK_FAIL(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &number), 107000, "was imported");
    say(line, message);
    CHECK(hear(line, &message));
    CHECK(holds(block, 8 * MIB, 5));
    CHECK_OK(aclFinalize());
    say(line, message);
    CHECK(hear(line, &message));
    CHECK_OK(aclInit(NULL));
    CHECK_FAIL(aclrtIpcMemClose(message.key), DRIVER, "neither exported nor imported");
    CHECK_FAIL(aclrtFreePhysical(handle), 107017, "handle");
    CHECK_OK(aclrtReserveMemAddress(&there, 8 * MIB, 0, block, 0));
    CHECK_OK(aclrtReleaseMemAddress(there));
    CHECK_OK(aclrtReleaseMemAddress(start));
    say(line, message);
    end();
}

/* A notify and an event are destroyed while a stream waits for them; later waits come as ever. */
static void destroying_exporter(Line line)
{
    Message message;
    aclrtNotify notify = NULL;
    aclrtEvent event = NULL;
    aclrtStream stream = NULL;
    Gate gate = GATE_CLOSED;
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    for (int round = 0; round < 20; round++) {
        CHECK_OK(aclrtCreateNotify(&notify, 0));
        CHECK_OK(aclrtNotifyGetExportKey(notify, message.key, 65, 2));
        int has_begun = 0;
        CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &has_begun));
        CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
        SPIN_UNTIL(__atomic_load_n(&has_begun, __ATOMIC_SEQ_CST));
        /* In most rounds the stream has come to the wait. */
        for (int turn = 0; turn < 1000; turn++)
            sched_yield();
        CHECK_OK(aclrtDestroyNotify(notify));
        CHECK_OK(aclrtSynchronizeStream(stream));
    }
    CHECK_OK(aclrtCreateNotify(&notify, 0));
    CHECK_OK(aclrtNotifyGetExportKey(notify, message.key, 65, 2));
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK_OK(aclrtIpcGetEventHandle(event, &message.event));
    gate_put(&gate, stream);
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
    say(line, message);
    CHECK(hear(line, &message));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyNotify(notify));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtDestroyStream(stream));
    say(line, message);
    CHECK(hear(line, &message));
    end();
}

static void destroying_importer(Line line)
{
    Message message;
    aclrtNotify notify = NULL;
    aclrtEvent event = NULL;
    aclrtStream streams[3];
    begin();
    CHECK(hear(line, &message));
    CHECK_OK(aclrtNotifyImportByKey(&notify, message.key, 2));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(aclrtCreateStream(&streams[i]));
        CHECK_OK(aclrtIpcOpenEventHandle(message.event, &event));
        CHECK_OK(aclrtStreamWaitEvent(streams[i], event));
        CHECK_OK(aclrtDestroyEvent(event));
    }
    CHECK_OK(aclrtDestroyStreamForce(streams[2]));
    CHECK_OK(aclrtRecordNotify(notify, NULL));
    CHECK_OK(aclrtDestroyNotify(notify));
    say(line, message);
    CHECK_OK(aclrtSynchronizeStream(streams[0]));
    CHECK_OK(aclrtSynchronizeStream(streams[1]));
    CHECK(hear(line, &message));
    say(line, message);
    end();
}

int main(void)
{
    GROUP("acl_ipc_13 the reset of a device ends its imports");
    CHECK(two(patient_exporter, resetting_importer) == 0);
    GROUP("acl_ipc_13 a key is not imported again when its memory was freed");
    CHECK(two(freeing_exporter, keeping_importer) == 0);
    GROUP("acl_ipc_13 aclFinalize lets go of the memory of others");
    CHECK(two(counting_exporter, finalizing_importer) == 0);
    GROUP("acl_ipc_13 a notify and an event are destroyed while a stream waits");
    CHECK(two(destroying_exporter, destroying_importer) == 0);
    return END();
}

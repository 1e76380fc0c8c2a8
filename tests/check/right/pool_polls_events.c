/* A pool for two streams that hands a block to the other stream only after a query of its event answered "complete". */
#include "../program.h"

typedef struct Slot {
    char *memory;
    aclrtEvent freed;
    aclrtStream stream;
    int is_out, was_used;
} Slot;

static Slot slots[4];
/* Whose turn it is: callbacks do not say for which stream they are. */
static aclrtStream current;
static int reused;

static int may_use(Slot *slot)
{
    if (slot->is_out)
        return 0;
    if (!slot->was_used || slot->stream == current)
        return 1;
    aclrtEventRecordedStatus status;
    MUST(aclrtQueryEventStatus(slot->freed, &status));
    reused += status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

static void *alloc(aclrtAllocator object, size_t size)
{
    (void)object;
    for (int i = 0; size <= POOL_BLOCK && i < 4; i++) {
        if (may_use(&slots[i])) {
            slots[i].is_out = 1;
            return &slots[i];
        }
    }
    return NULL;
}

static void give_back(aclrtAllocator object, aclrtAllocatorBlock block)
{
    (void)object;
    Slot *slot = block;
    slot->is_out = 0;
    slot->was_used = 1;
    slot->stream = current;
    MUST(aclrtRecordEvent(slot->freed, current));
}

static void *address(aclrtAllocatorBlock block)
{
    return ((Slot *)block)->memory;
}

int main(void)
{
    begin();
    aclrtStream streams[] = {new_stream(), new_stream()};
    for (int i = 0; i < 4; i++) {
        slots[i].memory = device_memory(POOL_BLOCK);
        MUST(aclrtCreateEventExWithFlag(&slots[i].freed, ACL_EVENT_SYNC));
    }
    for (int i = 0; i < 2; i++) {
        aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
        MUST(aclrtAllocatorSetObjToDesc(desc, slots));
        MUST(aclrtAllocatorSetAllocFuncToDesc(desc, alloc));
        MUST(aclrtAllocatorSetFreeFuncToDesc(desc, give_back));
        MUST(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address));
        MUST(aclrtAllocatorRegister(streams[i], desc));
        MUST(aclrtAllocatorDestroyDesc(desc));
    }
    Numbers numbers[] = {new_numbers(), new_numbers()};
    /* The program polls: the first stream's work is known to be done when the second one gets the block. */
    for (int turn = 0; turn < 4; turn++) {
        current = streams[turn % 2];
        sort(numbers[turn % 2], current);
        aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
        while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
            MUST(aclrtQueryEventStatus(slots[0].freed, &status));
    }
    if (reused != 3) {
        fprintf(stderr, "the block went from stream to stream %d times, not 3\n", reused);
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        MUST(aclrtSynchronizeStream(streams[i]));
        MUST(aclrtAllocatorUnregister(streams[i]));
        free_numbers(numbers[i]);
        MUST(aclrtDestroyStream(streams[i]));
    }
    for (int i = 0; i < 4; i++) {
        MUST(aclrtDestroyEvent(slots[i].freed));
        MUST(aclrtFree(slots[i].memory));
    }
    end();
    return 0;
}

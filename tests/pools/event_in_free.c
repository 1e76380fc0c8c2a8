/* Records an event in free, and hands memory to other streams when it is complete: right, but for torch_npu's queue. */
#include "acl/acl.h"
static int is_done(void *address, aclrtStream from, aclrtStream to);
#define FITS(memory, on) is_done((memory)->address, (memory)->stream, on)
#include "pool.h"

enum { EVENTS = 65536 };
static struct {
    void *address;
    aclrtEvent event;
} recorded[EVENTS];
static int count;

static int is_done(void *address, aclrtStream from, aclrtStream to)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    for (int i = count - 1; i >= 0 && from != to; i--)
        if (recorded[i].address == address) {
            while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
                if (aclrtQueryEventStatus(recorded[i].event, &status) != ACL_SUCCESS)
                    return 0;
            return 1;
        }
    return from == to;
}

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    return take((size_t)size, device, stream);
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device;
    LOCK;
    int at = 0;
    while (at < count && recorded[at].address != ptr)
        at++;
    if (at == count && count < EVENTS) {
        recorded[count].address = ptr;
        aclrtCreateEvent(&recorded[count++].event);
    }
    if (at < count)
        aclrtRecordEvent(recorded[at].event, stream);
    UNLOCK;
    give_back(ptr);
}

// An allocator for torch_npu that makes the mistake chosen by `make`, and keeps what aclrtFree returned last.

#include <sys/types.h>

#include <cstdlib>
#include <cstring>

#include "acl/acl.h"

enum Mistake { NONE, NULL_ADDRESS, HOST_ADDRESS, WILD_ADDRESS, SHORT_BLOCK, FREED_BLOCK, FREE_TWICE, FREE_INSIDE, LEAK };

static Mistake mistake = NONE;
static int free_code;
static char text[512];

static void *allocate(ssize_t size)
{
    void *address = nullptr;
    return aclrtMallocAlign32(&address, size, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS ? address : nullptr;
}

static void release(void *address)
{
    free_code = aclrtFree(address);
    const char *message = free_code == ACL_SUCCESS ? nullptr : aclGetRecentErrMsg();
    strncpy(text, message == nullptr ? "" : message, sizeof(text) - 1);
}

extern "C" {

void make(int which) { mistake = static_cast<Mistake>(which); }
int last_free_code(void) { return free_code; }
const char *last_free_text(void) { return text; }

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    (void)device, (void)stream;
    if (size == 0 || mistake == NULL_ADDRESS) {
        return nullptr;
    }
    switch (mistake) {
    case HOST_ADDRESS:
        return malloc(size);
    case WILD_ADDRESS:
        return reinterpret_cast<void *>(0x123456789000);
    case SHORT_BLOCK:
        return allocate(size / 2);
    case FREED_BLOCK: {
        void *address = allocate(size);
        release(address);
        return address;
    }
    default:
        return allocate(size);
    }
}

void my_free(void *address, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device, (void)stream;
    if (mistake == LEAK) {
        return;
    }
    if (mistake == FREE_TWICE) {
        release(address);
    }
    release(mistake == FREE_INSIDE ? static_cast<char *>(address) + 32 : address);
    if (mistake == FREE_INSIDE) {
        aclrtFree(address);
    }
}
}

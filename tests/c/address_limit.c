/* A small address space (`ulimit -v`): out of memory is a code and a text, and nothing crashes. */
#include "check.h"
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)

/* Allocates blocks until there is no memory. */
static int allocate_all(aclError (*allocate)(void **, size_t))
{
    int count = 0;
    void *block = NULL;
    aclError code;
    while ((code = allocate(&block, MIB)) == 0)
        count++;
    CHECK_EQ(code, ACL_ERROR_RT_MEMORY_ALLOCATION);
    CHECK_TEXT("What to do: ");
    CHECK(block == NULL);
    return count;
}

static aclError allocate_on_device(void **block, size_t size)
{
    return aclrtMalloc(block, size, ACL_MEM_MALLOC_NORMAL_ONLY);
}

int main(void)
{
    struct rlimit limit = {(rlim_t)500000 << 10, (rlim_t)500000 << 10};
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    GROUP("acl_3_2_51 with 500 MB of addresses, memory of every kind can be allocated until it is out");
    CHECK_OK(aclInit(NULL));
    for (int device = 0; device < 2; device++) {
        CHECK_OK(aclrtSetDevice(device));
        CHECK(allocate_all(allocate_on_device) > 0);
    }
    CHECK(allocate_all(aclrtMallocHost) > 0);
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_OK(aclrtResetDeviceForce(1));
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclFinalize());
    return END();
}

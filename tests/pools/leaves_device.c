/* Sets the device of a block to give it back, and leaves the thread there. */
#include "pool.h"

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    int former = 0;
    aclrtGetDevice(&former);
    aclrtSetDevice(device);
    void *address = take((size_t)size, device, stream);
    aclrtSetDevice(former);
    return address;
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)stream;
    aclrtSetDevice(device);
    give_back(ptr);
}

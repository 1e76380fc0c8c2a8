/* Forgets that memory is taken when it is handed out for the second time. */
#include "pool.h"

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    Memory *first = all;
    void *address = take((size_t)size, device, stream);
    if (address && all == first)
        find(address)->is_taken = 0;
    return address;
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device, (void)stream;
    give_back(ptr);
}

/* Insists, when the process ends, that everything was given back. */
#undef NDEBUG
#include <assert.h>
#include "pool.h"

__attribute__((destructor)) static void check(void)
{
    for (Memory *memory = all; memory; memory = memory->next)
        assert(!memory->is_taken);
}

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    return take((size_t)size, device, stream);
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device, (void)stream;
    give_back(ptr);
}

/* Gives memory of the C library: here tasks can write it, on an NPU they cannot. */
#include <stdlib.h>
#include <sys/types.h>

void *my_malloc(ssize_t size, int device, void *stream)
{
    (void)device, (void)stream;
    return aligned_alloc(64, ((size_t)size + 63) / 64 * 64);
}

void my_free(void *ptr, ssize_t size, int device, void *stream)
{
    (void)size, (void)device, (void)stream;
    free(ptr);
}

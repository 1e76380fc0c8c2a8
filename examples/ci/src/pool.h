/*
 * A small memory pool. Blocks that come back are kept for the next request of their stream. What nobody holds goes back to
 * ACL when it becomes too much, and when the device is full.
 */
#ifndef POOL_H
#define POOL_H

#include <sys/types.h>
#include "acl/acl.h"

/** For torch_npu's pluggable allocator. NULL when there is no memory, and for 0 bytes. */
void *my_malloc(ssize_t size, int device, aclrtStream stream);
void my_free(void *ptr, ssize_t size, int device, aclrtStream stream);

/** For aclrtAllocatorRegister: an allocator that takes from the pool for one stream. */
aclrtAllocatorDesc make_desc(int device, aclrtStream stream);

#endif

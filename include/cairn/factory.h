/*
 * The functions by which a library gives its allocators to `cairn pooltest` and `cairn replay`:
 *
 *     cairn pooltest --acl libpool.so:make_desc          an aclrtAllocatorDesc
 *     cairn pooltest --ge libpool.so:make_allocator      a ge::Allocator, C++ only
 *
 * Each is called once for every stream, before the first request there, and makes an allocator for that stream. The name
 * is free. Both are called with the device current on the calling thread; null is a failure.
 */
#ifndef CAIRN_FACTORY_H
#define CAIRN_FACTORY_H

#include "acl/acl_base.h"

#ifdef __cplusplus
#include "ge/ge_allocator.h"

extern "C" {

/** Makes an allocator of graphs with `new`. The engine deletes it when it is registered nowhere and its last block is back. */
typedef ge::Allocator *(*cairnGeFactory)(int device, aclrtStream stream);
#endif

/**
 * Makes a descriptor with object and functions. It is registered on the stream, and destroyed with
 * aclrtAllocatorDestroyDesc; what its object is stays the library's.
 */
typedef aclrtAllocatorDesc (*cairnAclFactory)(int device, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif

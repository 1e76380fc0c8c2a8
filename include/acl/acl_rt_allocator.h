/*
 * A memory pool of the user's own: described, then registered on a stream. From the next execution
 * on, single operators and models with dynamic shapes that run on the stream take their device
 * memory from it.
 *
 * The callbacks run on the thread that called ACL, inside that call, one at a time for one object:
 * alloc, then get-address once, then free as soon as the work is queued. They may call ACL. A block
 * has to lie in device memory from ACL, at a multiple of 64 bytes. Free means that work which was
 * queued before may still use the block: reuse it on the same stream, or synchronize first.
 */
#ifndef INC_EXTERNAL_ACL_ACL_RT_ALLOCATOR_H_
#define INC_EXTERNAL_ACL_ACL_RT_ALLOCATOR_H_

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Gives a block of at least `size` bytes, or NULL. */
typedef void *(*aclrtAllocatorAllocFunc)(aclrtAllocator allocator, size_t size);

/** Takes a block back, once. */
typedef void (*aclrtAllocatorFreeFunc)(aclrtAllocator allocator, aclrtAllocatorBlock block);

/** The same as alloc; `addr` is the preferred address. */
typedef void *(*aclrtAllocatorAllocAdviseFunc)(
    aclrtAllocator allocator, size_t size, aclrtAllocatorAddr addr);

/** Tells the address of a block. */
typedef void *(*aclrtAllocatorGetAddrFromBlockFunc)(aclrtAllocatorBlock block);

/** A description with nothing in it; NULL when it cannot be made. */
aclrtAllocatorDesc aclrtAllocatorCreateDesc(void);

/** Destroys a description. What was registered with it stays registered. */
aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc);

/** Sets the object that the callbacks get. Required. */
aclError aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocator allocator);

/** Sets the function that gives blocks. Required. */
aclError aclrtAllocatorSetAllocFuncToDesc(
    aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocFunc func);

/** Sets the function that takes blocks back. Required. */
aclError aclrtAllocatorSetFreeFuncToDesc(
    aclrtAllocatorDesc allocatorDesc, aclrtAllocatorFreeFunc func);

/** Sets the function that gives blocks near an address. Without it, alloc is used. */
aclError aclrtAllocatorSetAllocAdviseFuncToDesc(
    aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocAdviseFunc func);

/** Sets the function that tells the address of a block. Required. */
aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(
    aclrtAllocatorDesc allocatorDesc, aclrtAllocatorGetAddrFromBlockFunc func);

/**
 * Registers what the description says now on a stream, until the stream ends. The description is
 * copied. On a stream that has an allocator, the new one takes its place from the next execution on.
 */
aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc);

/**
 * Tells what is registered on a stream. `allocatorDesc` is the handle that was registered, also when
 * it has been destroyed since. Every other pointer may be NULL.
 */
aclError aclrtAllocatorGetByStream(
    aclrtStream stream, aclrtAllocatorDesc *allocatorDesc, aclrtAllocator *allocator,
    aclrtAllocatorAllocFunc *allocFunc, aclrtAllocatorFreeFunc *freeFunc,
    aclrtAllocatorAllocAdviseFunc *allocAdviseFunc,
    aclrtAllocatorGetAddrFromBlockFunc *getAddrFromBlockFunc);

/** Ends the registration on a stream. A stream without one, or that is gone, is fine. */
aclError aclrtAllocatorUnregister(aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif

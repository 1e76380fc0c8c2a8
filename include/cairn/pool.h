/*
 * libcairn_pool.so: a stream-ordered pool of device memory over any libascendcl.so.
 *
 * There is one pool a device, made on first use. It takes large pieces from ACL and hands out
 * blocks of 512 bytes and up; a block that is freed is used again, at once on its own stream, and on
 * another as soon as it is known that the first one is done with it. Whether that is known depends
 * on the door:
 *
 *   cairn_malloc, cairn_free            for torch_npu, which frees a block before the kernel that
 *                                       reads it has reached the stream. Only the program can know
 *                                       when that is over: cairn_pool_synchronized.
 *   cairn_pool_malloc, cairn_pool_free, for callers that free a block after they have put the last
 *   the descriptor, cairn/pool.hpp      task that uses it on the stream. Events tell the rest.
 *
 * Every function may be called from any thread, and none changes the current device of a thread
 * that has one. A function that fails leaves a text for cairn_pool_last_error on the calling thread
 * and a line in ACL's log; an int result is then -1, else 0. In the child of a fork every function
 * fails without a text, and once the process ends the pool asks nothing of ACL any more.
 */
#ifndef CAIRN_POOL_H
#define CAIRN_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Figures of a pool, or of one stream in it. Bytes, but for the last four. */
typedef struct cairnPoolFigures {
    uint64_t live;         /* in blocks that are held, in whole units of 512 */
    uint64_t requested;    /* asked for, of those */
    uint64_t peak;         /* the most that was live since cairn_pool_reset_peak; with several
                            * streams it may be over by up to 2 MiB a stream */
    uint64_t reserved;     /* taken from ACL; of a stream: what belongs to it */
    uint64_t peakReserved; /* the most that was reserved since cairn_pool_reset_peak */
    uint64_t waiting;      /* freed, but other streams may not have it yet */
    uint64_t largestHole;  /* the largest piece that is free now */
    uint64_t budget;       /* the most that may be reserved, 0 for no limit (no budget is that
                            * small); 0 for a stream */
    uint64_t blocks;       /* held now */
    uint64_t taken;        /* ever */
    uint64_t freed;        /* ever */
    uint64_t failed;       /* requests that found nothing */
} cairnPoolFigures;

/* ---- For torch_npu: NPUPluggableAllocator("libcairn_pool.so", "cairn_malloc", "cairn_free") ---- */

/**
 * A block of at least `size` bytes on `device`, aligned to 512, for work on `stream`; NULL for a
 * size of 0 and after a failure.
 */
void *cairn_malloc(ssize_t size, int device, aclrtStream stream);

/**
 * Gives a block back; NULL is ignored. Other streams, and ACL, get its memory only after the next
 * cairn_pool_synchronized, or by events where torch_npu has no queue: when the process was started
 * with TASK_QUEUE_ENABLE=0 or ASCEND_LAUNCH_BLOCKING=1.
 *
 * A `ptr` that is no block of this device is refused. A wrong size, or a stream that took nothing from
 * the pool and was made before it, is reported and the block freed all the same.
 */
void cairn_free(void *ptr, ssize_t size, int device, aclrtStream stream);

/**
 * The program has waited for all work on `device`, torch_npu's queue included
 * (torch.npu.synchronize()): whatever was freed so far is free for all streams. No other thread may
 * have freed memory of the device since the wait began.
 */
int cairn_pool_synchronized(int device);

/** Trims the pools of all devices to what is in use; for set_reset_fn, hence torch.npu.empty_cache(). */
void cairn_pool_empty_cache(bool check_error);

/* ---- For callers that free after they have submitted ---- */

/** As cairn_malloc. */
void *cairn_pool_malloc(size_t size, int device, aclrtStream stream);

/** As cairn_free, for a block whose last task is on a stream by now. NULL is ignored. */
int cairn_pool_free(void *ptr, int device, aclrtStream stream);

/**
 * An allocator for aclrtAllocatorRegister that takes from the pool of `device` for `stream`; NULL
 * after a failure. Its callbacks stay good for as long as the process lives: the descriptor may be
 * destroyed as soon as it is registered.
 */
aclrtAllocatorDesc cairn_pool_create_desc(int device, aclrtStream stream);

/** Destroys a descriptor. Registrations that were made with it stay. */
int cairn_pool_destroy_desc(aclrtAllocatorDesc desc);

/* ---- For all ---- */

/**
 * `stream` uses the block too: after it is freed, nobody gets its memory before that stream is done
 * with it as well. Not for set_record_stream_fn, which passes an object of C++: see docs/pool.md.
 */
int cairn_pool_record_stream(void *ptr, aclrtStream stream);

/**
 * Gives memory that nobody holds, and no stream may still use, back to ACL, in whole pieces, as long
 * as at least `keep` bytes stay reserved. Returns the number of bytes given back.
 */
size_t cairn_pool_trim(int device, size_t keep);

/**
 * The pool may reserve at most this part, above 0 and up to 1, of the memory that aclrtGetMemInfo
 * reports for the device; what it has over that is given back as far as it is free. A part of less
 * than 512 bytes is refused. Fits set_memory_fraction_fn.
 */
int cairn_pool_set_fraction(double fraction, int device);

/** Figures of the pool of a device. */
int cairn_pool_figures(int device, cairnPoolFigures *figures);

/**
 * The part that one stream has in them; all zero for a stream that the pool has not seen. Counts and
 * peaks may go on from those of a stream that was destroyed before.
 */
int cairn_pool_stream_figures(int device, aclrtStream stream, cairnPoolFigures *figures);

/**
 * All figures as one JSON object, in total and by stream. Writes at most `room` bytes, with a NUL at
 * the end, and returns the length of the whole text without it: call it with 0 to learn how much
 * room it takes. 0 after a failure.
 */
size_t cairn_pool_json(int device, char *text, size_t room);

/** Lets both peaks begin again at what is live and reserved now. */
int cairn_pool_reset_peak(int device);

/**
 * Why the last call that failed on this thread did so; NULL when none failed since it was last
 * read. The text stays until the next failure on this thread.
 */
const char *cairn_pool_last_error(void);

#ifdef __cplusplus
}
#endif

#endif

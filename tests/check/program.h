/*
 * What the programs of this folder share. Each breaks one rule of `cairn check`; compiled with RIGHT it is its right
 * twin. NAME.txt beside it is the report of the wrong one, addresses and threads left out.
 */
#ifndef CAIRN_TESTS_CHECK_PROGRAM_H
#define CAIRN_TESTS_CHECK_PROGRAM_H

#include <acl/acl.h>
#include <acl/acl_op_compiler.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(call)                                                                                      \
    do {                                                                                                \
        aclError code = (call);                                                                         \
        if (code != ACL_SUCCESS) {                                                                      \
            const char *text = aclGetRecentErrMsg();                                                    \
            fprintf(stderr, "%s: %d\n  %s\n", #call, code, text != NULL ? text : "(no text)");          \
            exit(2);                                                                                    \
        }                                                                                               \
    } while (0)

static inline void begin(void)
{
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
}

static inline void end(void)
{
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
}

static inline aclrtStream new_stream(void)
{
    aclrtStream stream;
    MUST(aclrtCreateStream(&stream));
    return stream;
}

static inline void *device_memory(size_t bytes)
{
    void *memory;
    MUST(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMemset(memory, bytes, 0, bytes));
    return memory;
}

/* A pool of the kind that people write in an afternoon: a list of free blocks of one size, reused at once. */
enum { POOL_BLOCK = 1 << 20, POOL_BLOCKS = 8 };

typedef struct Pool {
    char *memory;
    void *free_list[POOL_BLOCKS];
    int free_count;
} Pool;

static inline void pool_create(Pool *pool)
{
    pool->memory = (char *)device_memory((size_t)POOL_BLOCK * POOL_BLOCKS);
    pool->free_count = 0;
    for (int i = POOL_BLOCKS; i-- > 0;)
        pool->free_list[pool->free_count++] = pool->memory + (size_t)i * POOL_BLOCK;
}

static inline void *pool_alloc(aclrtAllocator object, size_t size)
{
    Pool *pool = (Pool *)object;
    return size > POOL_BLOCK || pool->free_count == 0 ? NULL : pool->free_list[--pool->free_count];
}

static inline void pool_free(aclrtAllocator object, aclrtAllocatorBlock block)
{
    Pool *pool = (Pool *)object;
    pool->free_list[pool->free_count++] = block;
}

static inline void *pool_address(aclrtAllocatorBlock block)
{
    return block;
}

/* Registers a pool with functions of its own. */
static inline void pool_register_with(Pool *pool, aclrtStream stream, aclrtAllocatorAllocFunc alloc, aclrtAllocatorFreeFunc free,
                                      aclrtAllocatorGetAddrFromBlockFunc address)
{
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    MUST(aclrtAllocatorSetObjToDesc(desc, pool));
    MUST(aclrtAllocatorSetAllocFuncToDesc(desc, alloc));
    MUST(aclrtAllocatorSetFreeFuncToDesc(desc, free));
    MUST(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address));
    MUST(aclrtAllocatorRegister(stream, desc));
    MUST(aclrtAllocatorDestroyDesc(desc));
}

static inline void pool_register(Pool *pool, aclrtStream stream)
{
    pool_register_with(pool, stream, pool_alloc, pool_free, pool_address);
}

/* Sorts numbers: an operator that takes a workspace. */
enum { SORT_COUNT = 10000, SORT_BYTES = SORT_COUNT * 4 };

typedef struct Numbers {
    void *numbers, *sorted, *indices;
} Numbers;

static inline Numbers new_numbers(void)
{
    Numbers numbers = {device_memory(SORT_BYTES), device_memory(SORT_BYTES), device_memory(SORT_BYTES)};
    return numbers;
}

static inline void free_numbers(Numbers numbers)
{
    MUST(aclrtFree(numbers.numbers));
    MUST(aclrtFree(numbers.sorted));
    MUST(aclrtFree(numbers.indices));
}

static inline aclError try_sort(Numbers data, aclrtStream stream)
{
    int64_t count = SORT_COUNT;
    void *memory[] = {data.numbers, data.sorted, data.indices};
    aclTensorDesc *descs[3];
    aclDataBuffer *buffers[3];
    for (int i = 0; i < 3; i++) {
        descs[i] = aclCreateTensorDesc(i == 2 ? ACL_INT32 : ACL_FLOAT, 1, &count, ACL_FORMAT_ND);
        buffers[i] = aclCreateDataBuffer(memory[i], SORT_BYTES);
    }
    aclError code = aclopExecuteV2("Sort", 1, descs, buffers, 2, descs + 1, buffers + 1, NULL, stream);
    for (int i = 0; i < 3; i++) {
        aclDestroyTensorDesc(descs[i]);
        MUST(aclDestroyDataBuffer(buffers[i]));
    }
    return code;
}

static inline void sort(Numbers data, aclrtStream stream)
{
    MUST(try_sort(data, stream));
}

#endif

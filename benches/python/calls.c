/* What benches/python/calls.py measures, in C: prints the same names with nanoseconds per call. */
#include <acl/acl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 7, MALLOCS = 20000, OPERATORS = 2000, SMALL = 64, SORTED = 64 };

static char *base;
static aclrtStream stream;
static aclTensorDesc *float_descs[2], *index_desc;
static aclDataBuffer *buffers[3], *sorted[3];
static aclopAttr *attr;

static void check(aclError ret) {
    if (ret == 0) return;
    fprintf(stderr, "%d: %s\n", ret, aclGetRecentErrMsg());
    exit(1);
}

static void *take(aclrtAllocator object, size_t size) { return size <= 1 << 20 ? object : NULL; }
static void give(aclrtAllocator object, aclrtAllocatorBlock block) { (void)object, (void)block; }
static void *address(aclrtAllocatorBlock block) { return (void)block, base; }

static void mallocs(void) {
    for (int i = 0; i < MALLOCS; ++i) {
        void *ptr;
        check(aclrtMalloc(&ptr, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        check(aclrtFree(ptr));
    }
}

static void operators(void) {
    for (int i = 0; i < OPERATORS; ++i)
        check(aclopExecuteV2("Relu", 1, float_descs, buffers, 1, float_descs, buffers + 1, attr, stream));
    check(aclrtSynchronizeStream(stream));
}

static void sorts(void) {
    aclTensorDesc *out[] = {float_descs[1], index_desc};
    for (int i = 0; i < OPERATORS; ++i)
        check(aclopExecuteV2("Sort", 1, float_descs + 1, sorted, 2, out, sorted + 1, attr, stream));
    check(aclrtSynchronizeStream(stream));
}

static void measure(const char *name, void (*run)(void), int times) {
    double best = 1e300;
    for (int round = 0; round <= ROUNDS; ++round) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        run();
        clock_gettime(CLOCK_MONOTONIC, &to);
        double elapsed = ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / times;
        if (round > 0 && elapsed < best) best = elapsed;
    }
    printf("%s %.1f\n", name, best);
}

int main(void) {
    const int64_t small_dims[] = {SMALL}, sorted_dims[] = {SORTED};
    void *addresses[3];
    check(aclInit(NULL));
    check(aclrtSetDevice(0));
    check(aclrtCreateStream(&stream));
    check(aclrtMalloc((void **)&base, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < 3; ++i) check(aclrtMalloc(&addresses[i], 4 * SORTED, ACL_MEM_MALLOC_HUGE_FIRST));
    check(aclrtMemset(addresses[0], 4 * SORTED, 0, 4 * SORTED));
    float_descs[0] = aclCreateTensorDesc(ACL_FLOAT, 1, small_dims, ACL_FORMAT_ND);
    float_descs[1] = aclCreateTensorDesc(ACL_FLOAT, 1, sorted_dims, ACL_FORMAT_ND);
    index_desc = aclCreateTensorDesc(ACL_INT32, 1, sorted_dims, ACL_FORMAT_ND);
    for (int i = 0; i < 3; ++i) {
        buffers[i] = aclCreateDataBuffer(addresses[i], 4 * SMALL);
        sorted[i] = aclCreateDataBuffer(addresses[i], 4 * SORTED);
    }
    attr = aclopCreateAttr();
    measure("malloc_free", mallocs, MALLOCS);
    measure("operator", operators, OPERATORS);
    measure("sort", sorts, OPERATORS);
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    check(aclrtAllocatorSetObjToDesc(desc, base));
    check(aclrtAllocatorSetAllocFuncToDesc(desc, take));
    check(aclrtAllocatorSetFreeFuncToDesc(desc, give));
    check(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address));
    check(aclrtAllocatorRegister(stream, desc));
    measure("sort_with_allocator", sorts, OPERATORS);
    check(aclrtDestroyStream(stream));
    check(aclFinalize());
    return 0;
}

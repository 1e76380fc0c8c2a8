/* The allocator programs of test_counts.py, in C: print how often each callback was called. With an argument, the
 * allocator returns one block for every request, and the input is on the host, so that two blocks are needed at once. */
#include <acl/acl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 5000, SLOT = 1 << 20, SLOTS = 8, TIMES = 25 };

static char *base;
static int taken[SLOTS], allocs, frees, addresses;
static size_t bytes;
static int one_block;

/* Exits with the text of the error unless a call succeeded. */
static void must(aclError ret) {
    if (ret != 0) {
        fprintf(stderr, "%d: %s\n", ret, aclGetRecentErrMsg());
        exit(1);
    }
}

static void *alloc_block(aclrtAllocator object, size_t size) {
    (void)object;
    allocs++;
    bytes += size;
    if (one_block) return (char *)0 + 1;
    for (int i = 0; i < SLOTS && size <= SLOT; ++i) {
        if (taken[i]) continue;
        taken[i] = 1;
        return (char *)0 + i + 1;
    }
    return NULL;
}

static void free_block(aclrtAllocator object, aclrtAllocatorBlock block) {
    (void)object;
    frees++;
    if (!one_block) taken[(char *)block - (char *)0 - 1] = 0;
}

static void *address(aclrtAllocatorBlock block) {
    addresses++;
    return base + ((char *)block - (char *)0 - 1) * SLOT;
}

/* The text of the last error up to its first bracket: what follows are addresses. */
static void report(const char *text) {
    const char *end = strstr(text, "allocated (");
    printf("%.*s\n", end ? (int)(end - text) : 0, text);
}

int main(int count, char **arguments) {
    (void)arguments;
    one_block = count > 1;
    aclrtStream stream;
    void *device_memory[3];
    const int64_t sizes[] = {COUNT};
    must(aclInit(NULL));
    must(aclrtSetDevice(0));
    must(aclrtCreateStream(&stream));
    must(aclrtMalloc((void **)&base, (size_t)SLOT * SLOTS, ACL_MEM_MALLOC_HUGE_FIRST));
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    must(aclrtAllocatorSetObjToDesc(desc, (char *)0 + 0x1234));
    must(aclrtAllocatorSetAllocFuncToDesc(desc, alloc_block));
    must(aclrtAllocatorSetFreeFuncToDesc(desc, free_block));
    must(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address));
    must(aclrtAllocatorRegister(stream, desc));
    must(aclrtAllocatorDestroyDesc(desc));
    for (int i = 0; i < 3; ++i) must(aclrtMalloc(&device_memory[i], 4 * COUNT, ACL_MEM_MALLOC_HUGE_FIRST));
    must(aclrtMemset(device_memory[0], 4 * COUNT, 0, 4 * COUNT));
    aclTensorDesc *floats = aclCreateTensorDesc(ACL_FLOAT, 1, sizes, ACL_FORMAT_ND);
    aclTensorDesc *indices = aclCreateTensorDesc(ACL_INT32, 1, sizes, ACL_FORMAT_ND);
    aclTensorDesc *in[] = {floats}, *out[] = {floats, indices};
    aclDataBuffer *in_buffers[] = {aclCreateDataBuffer(device_memory[0], 4 * COUNT)};
    aclDataBuffer *out_buffers[] = {aclCreateDataBuffer(device_memory[1], 4 * COUNT), aclCreateDataBuffer(device_memory[2], 4 * COUNT)};
    aclopAttr *attr = aclopCreateAttr();
    must(aclopSetAttrInt(attr, "axis", -1));
    must(aclopSetAttrBool(attr, "descending", 0));
    if (one_block) {
        static float numbers[COUNT];
        must(aclUpdateDataBuffer(in_buffers[0], numbers, sizeof numbers));
        in[0] = aclCreateTensorDesc(ACL_FLOAT, 1, sizes, ACL_FORMAT_ND);
        must(aclSetTensorPlaceMent(in[0], ACL_MEMTYPE_HOST));
        printf("%d ", aclopExecuteV2("Sort", 1, in, in_buffers, 2, out, out_buffers, attr, stream));
        report(aclGetRecentErrMsg());
    }
    for (int i = 0; i < TIMES && !one_block; ++i) must(aclopExecuteV2("Sort", 1, in, in_buffers, 2, out, out_buffers, attr, stream));
    must(aclrtSynchronizeStream(stream));
    printf("%d %d %d %zu\n", allocs, addresses, frees, bytes);
    must(aclrtDestroyStream(stream));
    must(aclFinalize());
    return 0;
}

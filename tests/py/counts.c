/* The allocator programs of test_counts.py, in C: print how often they were asked for what. With an argument, the
 * allocator gives one block for everything, and the input lies on the host, so that two blocks are wanted at once. */
#include <acl/acl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 5000, SLOT = 1 << 20, SLOTS = 8, TIMES = 25 };

static char *base;
static int taken[SLOTS], allocs, frees, addresses;
static size_t bytes;
static int one_for_all;

static void must(aclError ret) {
    if (ret != 0) {
        fprintf(stderr, "%d: %s\n", ret, aclGetRecentErrMsg());
        exit(1);
    }
}

static void *take(aclrtAllocator object, size_t size) {
    (void)object;
    allocs++;
    bytes += size;
    if (one_for_all) return (char *)0 + 1;
    for (int i = 0; i < SLOTS && size <= SLOT; ++i) {
        if (taken[i]) continue;
        taken[i] = 1;
        return (char *)0 + i + 1;
    }
    return NULL;
}

static void give(aclrtAllocator object, aclrtAllocatorBlock block) {
    (void)object;
    frees++;
    if (!one_for_all) taken[(char *)block - (char *)0 - 1] = 0;
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
    one_for_all = count > 1;
    aclrtStream stream;
    void *device_memory[3];
    const int64_t sizes[] = {COUNT};
    must(aclInit(NULL));
    must(aclrtSetDevice(0));
    must(aclrtCreateStream(&stream));
    must(aclrtMalloc((void **)&base, (size_t)SLOT * SLOTS, ACL_MEM_MALLOC_HUGE_FIRST));
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    must(aclrtAllocatorSetObjToDesc(desc, (char *)0 + 0x1234));
    must(aclrtAllocatorSetAllocFuncToDesc(desc, take));
    must(aclrtAllocatorSetFreeFuncToDesc(desc, give));
    must(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address));
    must(aclrtAllocatorRegister(stream, desc));
    must(aclrtAllocatorDestroyDesc(desc));
    for (int i = 0; i < 3; ++i) must(aclrtMalloc(&device_memory[i], 4 * COUNT, ACL_MEM_MALLOC_HUGE_FIRST));
    must(aclrtMemset(device_memory[0], 4 * COUNT, 0, 4 * COUNT));
    aclTensorDesc *floats = aclCreateTensorDesc(ACL_FLOAT, 1, sizes, ACL_FORMAT_ND);
    aclTensorDesc *indices = aclCreateTensorDesc(ACL_INT32, 1, sizes, ACL_FORMAT_ND);
    aclTensorDesc *in[] = {floats}, *out[] = {floats, indices};
    aclDataBuffer *from[] = {aclCreateDataBuffer(device_memory[0], 4 * COUNT)};
    aclDataBuffer *to[] = {aclCreateDataBuffer(device_memory[1], 4 * COUNT), aclCreateDataBuffer(device_memory[2], 4 * COUNT)};
    aclopAttr *attr = aclopCreateAttr();
    must(aclopSetAttrInt(attr, "axis", -1));
    must(aclopSetAttrBool(attr, "descending", 0));
    if (one_for_all) {
        static float numbers[COUNT];
        must(aclUpdateDataBuffer(from[0], numbers, sizeof numbers));
        in[0] = aclCreateTensorDesc(ACL_FLOAT, 1, sizes, ACL_FORMAT_ND);
        must(aclSetTensorPlaceMent(in[0], ACL_MEMTYPE_HOST));
        printf("%d ", aclopExecuteV2("Sort", 1, in, from, 2, out, to, attr, stream));
        report(aclGetRecentErrMsg());
    }
    for (int i = 0; i < TIMES && !one_for_all; ++i) must(aclopExecuteV2("Sort", 1, in, from, 2, out, to, attr, stream));
    must(aclrtSynchronizeStream(stream));
    printf("%d %d %d %zu\n", allocs, addresses, frees, bytes);
    must(aclrtDestroyStream(stream));
    must(aclFinalize());
    return 0;
}

/* Copies in other forms, and the helpers beside them: rows, batches, descriptions; fills, reductions, random numbers; limits. */
#include "gate.h"

#define INVALID ACL_ERROR_INVALID_PARAM
#define REFUSED ACL_ERROR_RT_PARAM_INVALID

static aclrtStream stream;

static void *device(size_t bytes)
{
    void *address = NULL;
    CHECK_OK(aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    return address;
}

static void to_host(void *host, const void *address, size_t bytes)
{
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(host, bytes, address, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void to_device(void *address, const void *host, size_t bytes)
{
    CHECK_OK(aclrtMemcpy(address, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void rows(void)
{
    unsigned char host[6][10], back[6][16];
    char *there = (char *)device(6 * 12);
    for (int i = 0; i < 60; i++)
        host[i / 10][i % 10] = (unsigned char)i;
    GROUP("acl_copy_1 rows go where their pitch says");
    CHECK_OK(aclrtMemset(there, 72, 0xee, 72));
    CHECK_OK(aclrtMemcpy2d(there, 12, host, 10, 7, 6, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_OK(aclrtMemcpy2dAsync(back, 16, there, 12, 12, 6, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    int is_right = 1;
    for (int row = 0; row < 6; row++)
        for (int at = 0; at < 12; at++)
            is_right &= back[row][at] == (at < 7 ? host[row][at] : 0xee);
    CHECK(is_right);
    char *other = (char *)device(6 * 12);
    CHECK_OK(aclrtMemcpy2dAsync(other, 12, there, 12, 12, 6, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    CHECK_OK(aclrtMemcpy2dAsync(other, 12, there + 1, 12, 3, 5, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    unsigned char flat[72];
    to_host(flat, other, 72);
    CHECK(flat[0] == 1 && flat[12] == 11 && flat[3] == 3 && flat[60] == 50);

    GROUP("acl_copy_1 wrong rows are named");
    CHECK_OK(aclrtMemcpy2d(NULL, 0, NULL, 0, 0, 6, (aclrtMemcpyKind)99));
    CHECK_OK(aclrtMemcpy2dAsync(NULL, 0, NULL, 0, 6, 0, (aclrtMemcpyKind)99, stream));
    CHECK_FAIL(aclrtMemcpy2d(NULL, 12, host, 10, 7, 6, ACL_MEMCPY_HOST_TO_DEVICE), INVALID, "dst");
    CHECK_FAIL(aclrtMemcpy2d(there, 12, NULL, 10, 7, 6, ACL_MEMCPY_HOST_TO_DEVICE), INVALID, "src");
    CHECK_FAIL(aclrtMemcpy2d(there, 6, host, 10, 7, 6, ACL_MEMCPY_HOST_TO_DEVICE), INVALID, "width 7");
    CHECK_FAIL(aclrtMemcpy2d(there, 12, host, 6, 7, 6, ACL_MEMCPY_HOST_TO_DEVICE), INVALID, "spitch 6");
    CHECK_FAIL(aclrtMemcpy2d(there, 12, host, 10, 7, 6, ACL_MEMCPY_HOST_TO_HOST), INVALID, "kind 0");
    CHECK_FAIL(
        aclrtMemcpy2dAsync(
            there, (size_t)1 << 30, other, (size_t)1 << 30, 5000001, 1, ACL_MEMCPY_DEVICE_TO_DEVICE, stream),
        REFUSED, "5000001");
    CHECK_FAIL(aclrtMemcpy2d(there, 60, host, 10, 9, 3, ACL_MEMCPY_HOST_TO_DEVICE), REFUSED, "leaves");
    CHECK_FAIL(aclrtMemcpy2d(there + 12, 12, there, 12, 7, 5, ACL_MEMCPY_DEVICE_TO_DEVICE), REFUSED, "overlap");
    CHECK_FAIL(
        aclrtMemcpy2dAsync(there + 6, 12, there, 12, 7, 5, ACL_MEMCPY_DEVICE_TO_DEVICE, stream), REFUSED, "overlap");
    CHECK_OK(aclrtMemcpy2dAsync(there + 6, 12, there, 12, 6, 6, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    to_host(flat, there, 72);
    CHECK(memcmp(flat + 6, flat, 6) == 0 && memcmp(flat + 66, flat + 60, 6) == 0 && flat[0] != flat[60]);
    CHECK_OK(aclrtFree(there));
    CHECK_OK(aclrtFree(other));
}

static void batches(void)
{
    enum { COUNT = 3 };
    int host[COUNT][64], back[COUNT][64];
    void *there[COUNT], *dsts[COUNT], *srcs[COUNT];
    size_t sizes[COUNT], limits[COUNT], index = 0, failed = 5;
    aclrtMemcpyBatchAttr attr;
    memset(&attr, 0, sizeof attr);
    attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
    for (int i = 0; i < COUNT; i++) {
        there[i] = dsts[i] = device(256);
        srcs[i] = host[i];
        sizes[i] = limits[i] = 256;
        for (int at = 0; at < 64; at++)
            host[i][at] = 100 * i + at;
    }
    GROUP("acl_copy_2 a batch copies all of it");
    CHECK_OK(aclrtMemcpyBatch(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, &failed));
    CHECK(failed == SIZE_MAX);
    attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
    attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    for (int i = 0; i < COUNT; i++)
        dsts[i] = back[i], srcs[i] = there[i];
    memset(back, 0, sizeof back);
    CHECK_OK(aclrtMemcpyBatchAsync(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, &failed, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(memcmp(host, back, sizeof host) == 0);
    memset(back, 0, sizeof back);
    CHECK_OK(aclrtMemcpyBatchV2(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1));
    CHECK(memcmp(host, back, sizeof host) == 0);
    CHECK_OK(aclrtMemcpyBatchAsyncV2(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, stream));

    GROUP("acl_copy_2 wrong batches are named, with the copy that is wrong");
    size_t none[COUNT] = {0}, wrong_index[2] = {0, 0};
    CHECK_OK(aclrtMemcpyBatch(NULL, NULL, NULL, none, COUNT, NULL, NULL, 0, &failed));
    CHECK_FAIL(aclrtMemcpyBatch(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, NULL), INVALID, "failIndex");
    CHECK_FAIL(aclrtMemcpyBatch(dsts, limits, srcs, NULL, COUNT, &attr, &index, 1, &failed), INVALID, "sizes");
    CHECK_FAIL(aclrtMemcpyBatch(dsts, limits, srcs, sizes, 0, &attr, &index, 1, &failed), INVALID, "numBatches 0");
    CHECK_FAIL(aclrtMemcpyBatch(NULL, limits, srcs, sizes, COUNT, &attr, &index, 1, &failed), INVALID, "dsts");
    CHECK_FAIL(aclrtMemcpyBatch(dsts, limits, srcs, sizes, COUNT, &attr, &index, 0, &failed), INVALID, "numAttrs 0");
    aclrtMemcpyBatchAttr two[2] = {attr, attr};
    CHECK_FAIL(
        aclrtMemcpyBatch(dsts, limits, srcs, sizes, COUNT, two, wrong_index, 2, &failed), INVALID, "attrsIndexes");
    CHECK(failed == SIZE_MAX);
    limits[1] = 8;
    CHECK_FAIL(aclrtMemcpyBatch(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, &failed), REFUSED, "copy 1");
    CHECK(failed == 1);
    limits[1] = 256;
    srcs[2] = host[2];
    CHECK_FAIL(aclrtMemcpyBatch(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, &failed), REFUSED, "copy 2");
    CHECK(failed == 2);
    CHECK_FAIL(
        aclrtMemcpyBatchAsync(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, &failed, stream), REFUSED, "copy 2");
    CHECK(failed == 2);
    CHECK_FAIL(
        aclrtMemcpyBatchAsync(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, NULL, stream), INVALID, "failIndex");
    CHECK_FAIL(aclrtMemcpyBatchV2(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1), REFUSED, "copy 2");
    CHECK_FAIL(aclrtMemcpyBatchV2(dsts, limits, srcs, sizes, COUNT, &attr, &index, 4), INVALID, "numAttrs 4");
    CHECK_FAIL(
        aclrtMemcpyBatchAsyncV2(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, stream), REFUSED, "copy 2");
    CHECK_FAIL(aclrtMemcpyBatchAsyncV2(dsts, limits, srcs, NULL, COUNT, &attr, &index, 1, stream), INVALID, "sizes");
    srcs[2] = there[2];
    attr.srcLoc.id = 1;
    CHECK_FAIL(
        aclrtMemcpyBatch(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, &failed), REFUSED,
        "is on device 0, its attribute says device 1");
    CHECK(failed == 0);
    attr.srcLoc.id = 0;
    srcs[2] = host[2];
    /* Both directions in one batch, each as its attribute says. */
    size_t both_indexes[2] = {0, 2};
    two[1].srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
    two[1].dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    dsts[2] = there[2];
    CHECK_FAIL(
        aclrtMemcpyBatch(dsts, limits, srcs, sizes, COUNT, two, both_indexes, 2, &failed), REFUSED, "direction");
    CHECK(failed == 2);
    both_indexes[1] = COUNT;
    CHECK_FAIL(
        aclrtMemcpyBatch(dsts, limits, srcs, sizes, COUNT, two, both_indexes, 2, &failed), INVALID, "attrsIndexes");
    index = 1;
    CHECK_FAIL(
        aclrtMemcpyBatch(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, &failed), INVALID, "attrsIndexes");
    srcs[0] = NULL, index = 0;
    CHECK_FAIL(aclrtMemcpyBatch(dsts, limits, srcs, sizes, COUNT, &attr, &index, 1, &failed), REFUSED, "null");
    CHECK(failed == 0);
    CHECK_OK(aclrtSynchronizeStream(stream));
    for (int i = 0; i < COUNT; i++)
        CHECK_OK(aclrtFree(there[i]));
}

static void descriptions(void)
{
    size_t size = 0;
    int value[4] = {1, 2, 3, 4}, back[4] = {0};
    char *from = (char *)device(64), *to = (char *)device(64), *pointers = (char *)device(16);
    GROUP("acl_copy_3 a copy does what device memory says when it runs");
    CHECK_OK(aclrtGetMemcpyDescSize(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, &size));
    CHECK(size > 0);
    void *desc = device(size);
    to_device(from, value, sizeof value);
    CHECK_OK(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, from, to, sizeof value, NULL));
    CHECK_OK(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    to_host(back, to, sizeof back);
    CHECK(memcmp(back, value, sizeof back) == 0);
    void *addresses[2] = {to, from};
    to_device(pointers, addresses, sizeof addresses);
    CHECK_OK(aclrtMemcpyAsyncWithOffset(
        (void **)pointers, 4, 8, (const void **)(pointers + 8), 4, 12, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    to_host(back, to, sizeof back);
    CHECK(back[2] == 4 && back[3] == 4 && back[0] == 1);
    CHECK_OK(aclrtMemcpyAsyncWithCondition(back, 16, from, 16, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(memcmp(back, value, sizeof back) == 0);

    GROUP("acl_copy_3 wrong descriptions are named");
    CHECK_FAIL(aclrtGetMemcpyDescSize(ACL_MEMCPY_DEVICE_TO_DEVICE, &size), INVALID, "kind 3");
    CHECK_FAIL(
        aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, from, to, 0, NULL), INVALID, "count 0");
    CHECK_FAIL(
        aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, from, to, 4, desc), INVALID, "config");
    CHECK_FAIL(
        aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, NULL), INVALID, "stream");
    CHECK_FAIL(aclrtMemcpyAsyncWithCondition(back, 8, from, 16, ACL_MEMCPY_DEVICE_TO_HOST, stream), REFUSED, "16");
    CHECK_FAIL(aclrtMemcpyAsyncWithCondition(NULL, 16, from, 16, ACL_MEMCPY_DEVICE_TO_HOST, stream), INVALID, "dst");
    void **to_at = (void **)pointers;
    const void **from_at = (const void **)(pointers + 8);
    const aclrtMemcpyKind inner = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;
    CHECK_OK(aclrtMemcpyAsyncWithOffset(to_at, 4, 8, from_at, 0, 12, inner, stream));
    CHECK_FAIL(aclrtMemcpyAsyncWithOffset(NULL, 4, 8, from_at, 4, 12, inner, stream), INVALID, "dst");
    CHECK_FAIL(aclrtMemcpyAsyncWithOffset(to_at, 4, 8, NULL, 4, 12, inner, stream), INVALID, "src");
    CHECK_FAIL(aclrtMemcpyAsyncWithOffset(to_at, 3, 8, from_at, 4, 12, inner, stream), REFUSED, "destMax");
    CHECK_FAIL(
        aclrtMemcpyAsyncWithOffset(to_at, 4, 8, from_at, 4, 12, ACL_MEMCPY_DEVICE_TO_DEVICE, stream), INVALID, "kind 3");
    CHECK_OK(aclrtMemcpyAsyncWithOffset(to_at, 4, (size_t)1 << 40, from_at, 4, 0, inner, stream));
    CHECK_FAIL(aclrtSynchronizeStream(stream), REFUSED, "aclrtMemcpyAsyncWithOffset");
    CHECK_FAIL(aclrtGetMemcpyDescSize(inner, NULL), INVALID, "descSize");
    CHECK_OK(aclrtSetMemcpyDesc(desc, inner, from, from + 4, 16, NULL));
    CHECK_OK(aclrtMemcpyAsyncWithDesc(desc, inner, stream));
    CHECK_FAIL(aclrtSynchronizeStream(stream), REFUSED, "overlap");
    CHECK_OK(aclrtSetMemcpyDesc(desc, inner, from, back, 16, NULL));
    CHECK_OK(aclrtMemcpyAsyncWithDesc(desc, inner, stream));
    CHECK_FAIL(aclrtSynchronizeStream(stream), REFUSED, "destination");
    CHECK_FAIL(aclrtSetMemcpyDesc(NULL, inner, from, to, 4, NULL), INVALID, "desc");
    CHECK_FAIL(aclrtSetMemcpyDesc(desc, inner, NULL, to, 4, NULL), INVALID, "srcAddr");
    CHECK_FAIL(aclrtSetMemcpyDesc(desc, inner, from, NULL, 4, NULL), INVALID, "dstAddr");
    CHECK_FAIL(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_DEVICE_TO_DEVICE, from, to, 4, NULL), INVALID, "kind 3");
    CHECK_FAIL(aclrtMemcpyAsyncWithDesc(NULL, inner, stream), INVALID, "desc");
    CHECK_OK(aclrtFree(from));
    CHECK_OK(aclrtFree(to));
    CHECK_OK(aclrtFree(pointers));
    CHECK_OK(aclrtFree(desc));
}

static void numbers(void)
{
    uint32_t back[1000], plain[4];
    char *there = (char *)device(4000);
    void *pinned = NULL;
    GROUP("acl_copy_4 fills set numbers");
    CHECK_OK(aclrtMallocHost(&pinned, 64));
    CHECK_OK(aclrtMemsetD32(there, 4000, 0x01020304, 1000));
    CHECK_OK(aclrtMemsetD32Async(there + 8, 3992, 7, 2, stream));
    CHECK_OK(aclrtMemsetD32Async(pinned, 64, 9, 3, stream));
    CHECK(((uint32_t *)pinned)[2] == 9);
    to_host(back, there, 4000);
    CHECK(back[0] == 0x01020304 && back[2] == 7 && back[3] == 7 && back[4] == 0x01020304 && back[999] == 0x01020304);
    CHECK_OK(aclrtMemsetD32(NULL, 0, 1, 0));
    CHECK_FAIL(aclrtMemsetD32(there + 2, 100, 1, 1), INVALID, "multiple of 4");
    CHECK_FAIL(aclrtMemsetD32(there, 7, 1, 2), INVALID, "memSize 7");
    CHECK_FAIL(aclrtMemsetD32(plain, 16, 1, 2), INVALID, "no memory of ACL");
    CHECK_OK(aclrtMemsetD32Async(NULL, 0, 1, 0, stream));
    CHECK_FAIL(aclrtMemsetD32Async(NULL, 8, 1, 2, stream), INVALID, "ptr");
    CHECK_FAIL(aclrtMemsetD32Async(there + 2, 100, 1, 1, stream), INVALID, "multiple of 4");
    CHECK_FAIL(aclrtMemsetD32Async(there, 7, 1, 2, stream), INVALID, "memSize 7");
    CHECK_FAIL(aclrtMemsetD32Async(plain, 16, 1, 2, stream), INVALID, "no memory of ACL");
    CHECK_FAIL(aclrtMemsetD32(NULL, 8, 1, 2), INVALID, "ptr");
    CHECK_FAIL(aclrtMemsetD32(there, SIZE_MAX, 1, SIZE_MAX / 2), INVALID, "memSize");
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtFree(there));
}

static void set_parameter(aclrtRandomParaInfo *info, const void *value, uint8_t size)
{
    memset(info, 0, sizeof *info);
    memcpy(info->valueOrAddr, value, size);
    info->size = size;
}

/* The bytes of a number in a type of random numbers; all of these have few digits. */
static uint64_t coded(aclDataType type, int value)
{
    float real = (float)value;
    uint32_t bits = 0;
    memcpy(&bits, &real, 4);
    switch ((int)type) {
    case ACL_FLOAT: return bits;
    case ACL_BF16: return bits >> 16;
    case ACL_FLOAT16: return value == 0 ? 0 : (bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) | (bits >> 13 & 0x3ff);
    default: return (uint64_t)(int64_t)value;
    }
}

static double decoded(aclDataType type, const unsigned char *at)
{
    uint64_t bytes = 0;
    float real = 0;
    uint32_t bits = 0;
    switch ((int)type) {
    case ACL_INT32: memcpy(&bits, at, 4); return (int32_t)bits;
    case ACL_UINT32: memcpy(&bits, at, 4); return bits;
    case ACL_INT64: memcpy(&bytes, at, 8); return (double)(int64_t)bytes;
    case ACL_UINT64: memcpy(&bytes, at, 8); return (double)bytes;
    case ACL_FLOAT: memcpy(&real, at, 4); return real;
    case ACL_BF16: bits = (uint32_t)(at[0] | at[1] << 8) << 16; memcpy(&real, &bits, 4); return real;
    default: return aclFloat16ToFloat((aclFloat16)(at[0] | at[1] << 8));
    }
}

/* Each function in each type, with parameters by value and by address; the mask of a dropout. */
static void every_random_number(aclrtRandomNumTaskInfo info, void *result, void *counter_at)
{
    enum { COUNT = 8000 };
    static const struct {
        aclDataType type;
        int size;
    } types[] = {{ACL_INT32, 4}, {ACL_UINT32, 4}, {ACL_INT64, 8}, {ACL_UINT64, 8},
                 {ACL_FLOAT16, 2}, {ACL_BF16, 2}, {ACL_FLOAT, 4}};
    static unsigned char bytes[COUNT * 8];
    uint64_t count = COUNT, counter = 0, parameters[2];
    void *at = device(16);
    set_parameter(&info.randomNum, &count, 8);
    GROUP("acl_copy_5 random numbers of each function and type, parameters by value and by address");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int function = 1; function <= 3; function++)
            for (int is_by_address = 0; is_by_address < 2; is_by_address++) {
                aclDataType type = types[t].type;
                const uint8_t size = (uint8_t)types[t].size;
                parameters[0] = coded(type, 64), parameters[1] = coded(type, function == 1 ? 96 : 8);
                aclrtUniformDisInfo *range = &info.randomNumFuncParaInfo.paramInfo.uniformDisInfo;
                set_parameter(&range->min, &parameters[0], size);
                set_parameter(&range->max, &parameters[1], size);
                if (is_by_address) {
                    to_device(at, parameters, 16);
                    void *second = (char *)at + 8;
                    set_parameter(&range->min, &at, 8);
                    set_parameter(&range->max, &second, 8);
                    range->min.isAddr = range->max.isAddr = 1;
                }
                info.dataType = type;
                info.randomNumFuncParaInfo.funcType = (aclrtRandomNumFuncType)function;
                to_device(counter_at, &counter, 8);
                CHECK_OK(aclrtRandomNumAsync(&info, stream, NULL));
                to_host(bytes, result, (size_t)COUNT * size);
                double sum = 0, least = 1e9, most = -1e9;
                for (int i = 0; i < COUNT; i++) {
                    double value = decoded(type, bytes + i * size);
                    sum += value, least = value < least ? value : least, most = value > most ? value : most;
                }
                double mean = sum / COUNT, expected = function == 1 ? 80 : 64;
                int is_right = mean > expected - 1.5 && mean < expected + 1.5;
                is_right &= function == 1   ? least >= 64 && most <= 96 && most - least > 28
                            : function == 2 ? most > 80 && least < 48
                                            : most <= 80 && least >= 48 && most - least > 24;
                if (!CHECK(is_right))
                    printf("  type %d function %d: %f to %f, mean %f\n", (int)type, function, least, most, mean);
                uint64_t after = 0;
                to_host(&after, counter_at, 8);
                CHECK(after > counter);
            }

    GROUP("acl_copy_5 the mask of a dropout keeps as many as its ratio says");
    float ratio = 0.25f;
    info.dataType = ACL_FLOAT;
    info.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK;
    set_parameter(&info.randomNumFuncParaInfo.paramInfo.dropoutBitmaskInfo.dropoutRation, &ratio, 4);
    CHECK_OK(aclrtMemset(result, COUNT / 8 + 8, 0, COUNT / 8 + 8));
    CHECK_OK(aclrtRandomNumAsync(&info, stream, NULL));
    to_host(bytes, result, COUNT / 8 + 8);
    int kept = 0, beyond = 0;
    for (int i = 0; i < COUNT / 8 + 8; i++)
        for (int bit = 0; bit < 8; bit++)
            (i < COUNT / 8) ? (kept += bytes[i] >> bit & 1) : (beyond += bytes[i] >> bit & 1);
    CHECK(kept > 0.72 * COUNT && kept < 0.78 * COUNT);
    CHECK_EQ(beyond, 0);
    CHECK_OK(aclrtFree(at));
}

/* Wrong parameters: those that are known are refused at once, others when the task runs. */
static void wrong_random_numbers(aclrtRandomNumTaskInfo info)
{
    GROUP("acl_copy_5 wrong parameters of random numbers are named");
    const float one = 1, two = 2, half = 0.5f, minus = -1;
    const uint64_t few = 4, many = UINT64_MAX / 2;
    void *at = device(16), *result = info.randomResultAddr;
    aclrtNormalDisInfo *shape = &info.randomNumFuncParaInfo.paramInfo.normalDisInfo;
    aclrtRandomNumFuncType *function = &info.randomNumFuncParaInfo.funcType;
    float plain[4];
    info.dataType = ACL_FLOAT;
    set_parameter(&info.randomNum, &few, 8);
    *function = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
    set_parameter(&shape->mean, &two, 4);
    set_parameter(&shape->stddev, &one, 4);
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), REFUSED, "min 2, max 1");
    *function = ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS;
    set_parameter(&shape->stddev, &minus, 4);
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), REFUSED, "stddev -1");
    to_device(at, &minus, 4);
    set_parameter(&shape->stddev, &at, 8);
    shape->stddev.isAddr = 1;
    CHECK_OK(aclrtRandomNumAsync(&info, stream, NULL));
    CHECK_FAIL(aclrtSynchronizeStream(stream), REFUSED, "stddev -1");
    shape->stddev.isAddr = 2;
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), REFUSED, "stddev: isAddr 2");
    set_parameter(&shape->stddev, &half, 4);
    shape->stddev.size = 8;
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), REFUSED, "stddev: size 8: expected 1 to 4");
    shape->stddev.size = 0;
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), REFUSED, "stddev: size 0");
    shape->stddev.size = 4;
    set_parameter(&info.randomNum, &many, 8);
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), REFUSED, "do not fit");
    set_parameter(&info.randomNum, &few, 8);
    info.randomResultAddr = plain;
    CHECK_OK(aclrtRandomNumAsync(&info, stream, NULL));
    CHECK_FAIL(aclrtSynchronizeStream(stream), REFUSED, "host memory");
    info.randomResultAddr = result;
    *function = ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK;
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), REFUSED, "ratio 2");
    set_parameter(&shape->mean, &half, 4);
    CHECK_OK(aclrtRandomNumAsync(&info, stream, NULL));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtFree(at));
}

static void computed(void)
{
    float a[4] = {1, -2, 3, 4}, b[4] = {2, -5, 3, 0}, back[4];
    int8_t small[4] = {100, -3, 5, 0}, more[4] = {100, 3, -5, 0};
    void *dst = device(16), *src = device(16);
    GROUP("acl_copy_5 reductions work element by element");
    to_device(dst, a, 16);
    to_device(src, b, 16);
    CHECK_OK(aclrtReduceAsync(dst, src, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, stream, NULL));
    to_host(back, dst, 16);
    CHECK(back[0] == 3 && back[1] == -7 && back[2] == 6 && back[3] == 4);
    CHECK_OK(aclrtReduceAsync(dst, src, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, ACL_FLOAT, stream, NULL));
    to_host(back, dst, 16);
    CHECK(back[0] == 3 && back[1] == -5 && back[2] == 6 && back[3] == 4);
    to_device(dst, small, 4);
    to_device(src, more, 4);
    CHECK_OK(aclrtReduceAsync(dst, src, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN, ACL_INT8, stream, NULL));
    to_host(small, dst, 4);
    CHECK(small[0] == 100 && small[1] == -3 && small[2] == -5);
    CHECK_FAIL(aclrtReduceAsync(dst, src, 4, (aclrtReduceKind)9, ACL_INT8, stream, NULL), INVALID, "kind 9");
    CHECK_FAIL(
        aclrtReduceAsync(dst, src, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_DOUBLE, stream, NULL), INVALID,
        "data type");
    CHECK_FAIL(
        aclrtReduceAsync(dst, src, 6, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, stream, NULL), REFUSED,
        "multiple of 4");

    GROUP("acl_copy_5 each kind of reduction, in each type");
    static const struct {
        aclDataType type;
        int size;
    } types[] = {{ACL_INT8, 1}, {ACL_INT16, 2}, {ACL_INT32, 4}, {ACL_FLOAT16, 2}, {ACL_BF16, 2}, {ACL_FLOAT, 4}};
    /* -3, 4, 4 and 2, 4, 1 in each type: as whole numbers, halves, brain floats and floats. */
    static const uint32_t first_of[6][3] = {
        {0xfd, 4, 4}, {0xfffd, 4, 4}, {0xfffffffd, 4, 4},
        {0xc200, 0x4400, 0x4400}, {0xc040, 0x4080, 0x4080}, {0xc0400000, 0x40800000, 0x40800000}};
    static const uint32_t second_of[6][3] = {
        {2, 4, 1}, {2, 4, 1}, {2, 4, 1},
        {0x4000, 0x4400, 0x3c00}, {0x4000, 0x4080, 0x3f80}, {0x40000000, 0x40800000, 0x3f800000}};
    static const uint32_t sums[6][3] = {
        {0xff, 8, 5}, {0xffff, 8, 5}, {0xffffffff, 8, 5},
        {0xbc00, 0x4800, 0x4500}, {0xbf80, 0x4100, 0x40a0}, {0xbf800000, 0x41000000, 0x40a00000}};
    static const uint32_t ones[6] = {1, 1, 1, 0x3c00, 0x3f80, 0x3f800000};
    for (int type = 0; type < 6; type++) {
        const int size = types[type].size;
        for (int kind = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM; kind <= ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL; kind++) {
            unsigned char x[12], y[12], z[12];
            for (int i = 0; i < 3; i++) {
                memcpy(x + i * size, &first_of[type][i], (size_t)size);
                memcpy(y + i * size, &second_of[type][i], (size_t)size);
            }
            to_device(dst, x, 12);
            to_device(src, y, 12);
            CHECK_OK(aclrtReduceAsync(
                dst, src, (uint64_t)(3 * size), (aclrtReduceKind)kind, types[type].type, stream, NULL));
            to_host(z, dst, 12);
            for (int i = 0; i < 3; i++) {
                uint32_t got = 0, expected = 0;
                memcpy(&got, z + i * size, (size_t)size);
                switch (kind) {
                case ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM: expected = sums[type][i]; break;
                case ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX: expected = i == 0 ? second_of[type][i] : first_of[type][i]; break;
                case ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN: expected = i == 0 ? first_of[type][i] : second_of[type][i]; break;
                default: expected = i == 1 ? ones[type] : 0;
                }
                if (!CHECK_EQ(got, expected))
                    printf("  type %d, kind %d, element %d\n", (int)types[type].type, kind, i);
            }
        }
    }
    CHECK_FAIL(aclrtReduceAsync(NULL, src, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT8, stream, NULL), INVALID, "dst");
    CHECK_FAIL(aclrtReduceAsync(dst, NULL, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT8, stream, NULL), INVALID, "src");
    CHECK_FAIL(aclrtReduceAsync(dst, src, 0, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT8, stream, NULL), INVALID, "count 0");
    CHECK_FAIL(
        aclrtReduceAsync(dst, src, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT8, stream, dst), REFUSED, "reserve");
    CHECK_FAIL(
        aclrtReduceAsync(dst, src, 4, (aclrtReduceKind)14, ACL_INT8, stream, NULL), INVALID, "kind 14");
    CHECK_OK(aclrtReduceAsync(dst, &more, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT8, stream, NULL));
    CHECK_FAIL(aclrtSynchronizeStream(stream), REFUSED, "the src range");
    CHECK_OK(aclrtReduceAsync(&more, src, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT8, stream, NULL));
    CHECK_FAIL(aclrtSynchronizeStream(stream), REFUSED, "the dst range");
    CHECK_FAIL(
        aclrtReduceAsync((char *)src + 4, src, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, stream, NULL), REFUSED,
        "overlap in part");
    to_device(dst, a, 16);
    CHECK_OK(aclrtReduceAsync(dst, dst, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, stream, NULL));
    to_host(back, dst, 16);
    CHECK(back[0] == 2 && back[1] == -4 && back[3] == 8);

    GROUP("acl_copy_5 random numbers follow their distribution and counter");
    enum { COUNT = 20000 };
    static float first[COUNT], second[COUNT];
    float low = -1, high = 3;
    uint64_t seed = 42, count = COUNT, counter = 0;
    void *result = device(COUNT * 4), *counter_at = device(8);
    aclrtRandomNumTaskInfo info;
    memset(&info, 0, sizeof info);
    info.dataType = ACL_FLOAT;
    info.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
    set_parameter(&info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.min, &low, 4);
    set_parameter(&info.randomNumFuncParaInfo.paramInfo.uniformDisInfo.max, &high, 4);
    set_parameter(&info.randomSeed, &seed, 8);
    set_parameter(&info.randomNum, &count, 8);
    info.randomResultAddr = result;
    info.randomCounterAddr = counter_at;
    to_device(counter_at, &counter, 8);
    CHECK_OK(aclrtRandomNumAsync(&info, stream, NULL));
    to_host(first, result, sizeof first);
    CHECK_OK(aclrtRandomNumAsync(&info, stream, NULL));
    to_host(second, result, sizeof second);
    CHECK(memcmp(first, second, sizeof first) != 0);
    to_device(counter_at, &counter, 8);
    CHECK_OK(aclrtRandomNumAsync(&info, stream, NULL));
    to_host(second, result, sizeof second);
    CHECK(memcmp(first, second, sizeof first) == 0);
    double sum = 0;
    int is_inside = 1;
    for (int i = 0; i < COUNT; i++)
        sum += first[i], is_inside &= first[i] >= -1 && first[i] < 3;
    CHECK(is_inside && sum / COUNT > 0.9 && sum / COUNT < 1.1);
    info.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS;
    CHECK_OK(aclrtRandomNumAsync(&info, stream, NULL));
    to_host(first, result, sizeof first);
    sum = 0, is_inside = 1;
    for (int i = 0; i < COUNT; i++)
        sum += first[i], is_inside &= first[i] >= -7 && first[i] <= 5;
    CHECK(is_inside && sum / COUNT > -1.2 && sum / COUNT < -0.8);
    every_random_number(info, result, counter_at);
    wrong_random_numbers(info);
    info.dataType = ACL_BOOL;
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), INVALID, "data type");
    info.dataType = ACL_FLOAT;
    info.randomNumFuncParaInfo.funcType = (aclrtRandomNumFuncType)4;
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), INVALID, "funcType 4");
    info.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, result), REFUSED, "reserve");
    info.randomResultAddr = NULL;
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), INVALID, "randomResultAddr");
    info.randomResultAddr = result, info.randomCounterAddr = NULL;
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), INVALID, "randomCounterAddr");
    CHECK_FAIL(aclrtRandomNumAsync(NULL, stream, NULL), INVALID, "taskInfo");
    CHECK_OK(aclrtFree(dst));
    CHECK_OK(aclrtFree(src));
    CHECK_OK(aclrtFree(result));
    CHECK_OK(aclrtFree(counter_at));
}

static void figures(void)
{
    uint32_t all = 0, value = 0;
    int64_t cores = 0;
    GROUP("acl_copy_6 limits of cores: the stream's before the device's before the chip's");
    CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_CUBE_CORE_NUM, &cores));
    CHECK_OK(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &all));
    CHECK(all == (uint32_t)cores);
    CHECK_OK(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 5));
    CHECK_OK(aclrtGetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, &value));
    CHECK(value == 5);
    CHECK_OK(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 3));
    CHECK_OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value));
    CHECK(value == 5);
    CHECK_OK(aclrtUseStreamResInCurrentThread(stream));
    CHECK_OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value));
    CHECK(value == 3);
    CHECK_OK(aclrtUnuseStreamResInCurrentThread(stream));
    CHECK_OK(aclrtResetStreamResLimit(stream));
    CHECK_OK(aclrtResetDeviceResLimit(0));
    CHECK_OK(aclrtGetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, &value));
    CHECK(value == all);
    CHECK_FAIL(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, all + 1), REFUSED, "cores");
    CHECK_FAIL(aclrtSetDeviceResLimit(0, (aclrtDevResLimitType)2, 1), REFUSED, "type 2");
    CHECK_FAIL(aclrtGetDeviceResLimit(99, ACL_RT_DEV_RES_CUBE_CORE, &value), ACL_ERROR_RT_INVALID_DEVICEID, "99");

    CHECK_FAIL(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 0), REFUSED, "value 0");
    CHECK_FAIL(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, NULL), INVALID, "value");
    CHECK_FAIL(aclrtResetDeviceResLimit(99), ACL_ERROR_RT_INVALID_DEVICEID, "99");
    CHECK_FAIL(aclrtGetStreamResLimit(stream, (aclrtDevResLimitType)2, &value), REFUSED, "type 2");
    CHECK_FAIL(aclrtGetStreamResLimit(stream, ACL_RT_DEV_RES_VECTOR_CORE, NULL), INVALID, "value");
    CHECK_FAIL(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, all + 1), REFUSED, "cores");
    CHECK_FAIL(aclrtSetStreamResLimit(&all, ACL_RT_DEV_RES_CUBE_CORE, 1), ACL_ERROR_RT_INVALID_HANDLE, "0x");
    CHECK_FAIL(aclrtResetStreamResLimit(&all), ACL_ERROR_RT_INVALID_HANDLE, "0x");
    CHECK_FAIL(aclrtUseStreamResInCurrentThread(&all), ACL_ERROR_RT_INVALID_HANDLE, "0x");
    CHECK_FAIL(aclrtUnuseStreamResInCurrentThread(&all), ACL_ERROR_RT_INVALID_HANDLE, "0x");
    CHECK_FAIL(aclrtGetResInCurrentThread((aclrtDevResLimitType)7, &value), REFUSED, "type 7");

    GROUP("acl_copy_6 overflow, errors and memory are reported");
    unsigned char status[64];
    char *at = (char *)device(64);
    CHECK_OK(aclrtMemset(at, 64, 1, 64));
    CHECK_OK(aclrtResetOverflowStatus(stream));
    CHECK_OK(aclrtGetOverflowStatus(at, 64, stream));
    to_host(status, at, 64);
    CHECK(status[0] == 0 && status[63] == 0);
    CHECK_FAIL(aclrtGetOverflowStatus(at, 32, stream), REFUSED, "outputSize 32");
    CHECK_OK(aclrtGetOverflowStatus(status, 64, stream));
    CHECK_FAIL(aclrtSynchronizeStream(stream), REFUSED, "host memory");
    CHECK_OK(aclrtSetStreamOverflowSwitch(stream, 1));
    CHECK_OK(aclrtGetStreamOverflowSwitch(stream, &value));
    CHECK(value == 1);
    CHECK_FAIL(aclrtSetStreamOverflowSwitch(stream, 2), REFUSED, "flag 2");
    aclrtErrorInfo info;
    memset(&info, 1, sizeof info);
    CHECK_OK(aclrtGetErrorVerbose(0, &info));
    CHECK(info.errorType == ACL_RT_NO_ERROR);
    CHECK_OK(aclrtRepairError(0, &info));
    aclrtMemUsageInfo usage[8];
    aclrtMemUceInfo failed[2];
    size_t count = 9;
    CHECK_OK(aclrtGetMemUsageInfo(0, usage, 8, &count));
    CHECK(count == 3 && strcmp(usage[0].name, "MALLOC") == 0 && strcmp(usage[1].name, "POOL") == 0);
    CHECK(strcmp(usage[2].name, "PHYSICAL") == 0 && usage[2].curMemSize == 0);
    CHECK(usage[0].curMemSize > 0 && usage[0].memPeakSize >= usage[0].curMemSize);
    aclrtMemUsageInfo then[8];
    aclrtDrvMemHandle handle = NULL;
    aclrtPhysicalMemProp prop;
    memset(&prop, 0, sizeof prop);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    void *block = device(4 << 20);
    CHECK_OK(aclrtMallocPhysical(&handle, 6 << 20, &prop, 0));
    CHECK_OK(aclrtGetMemUsageInfo(0, then, 8, &count));
    CHECK(then[0].curMemSize >= usage[0].curMemSize + (4 << 20) && then[0].curMemSize < usage[0].curMemSize + (6 << 20));
    CHECK(then[2].curMemSize == 6 << 20 && then[2].memPeakSize == 6 << 20);
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtFree(block));
    CHECK_OK(aclrtGetMemUsageInfo(0, then, 8, &count));
    CHECK(then[0].curMemSize == usage[0].curMemSize && then[0].memPeakSize >= usage[0].curMemSize + (4 << 20));
    CHECK(then[2].curMemSize == 0 && then[2].memPeakSize == 6 << 20);
    CHECK_OK(aclrtGetMemUsageInfo(0, then, 1, &count));
    CHECK_EQ(count, 1);
    CHECK_FAIL(aclrtGetMemUsageInfo(0, NULL, 8, &count), INVALID, "memUsageInfo");
    CHECK_FAIL(aclrtGetMemUsageInfo(0, usage, 8, NULL), INVALID, "outputNum");
    CHECK_FAIL(aclrtGetMemUsageInfo(0, usage, 0, &count), INVALID, "inputNum 0");
    CHECK_FAIL(aclrtGetMemUsageInfo(99, usage, 8, &count), ACL_ERROR_RT_INVALID_DEVICEID, "99");
    CHECK_FAIL(aclrtGetErrorVerbose(0, NULL), INVALID, "errorInfo");
    CHECK_FAIL(aclrtGetErrorVerbose(99, &info), ACL_ERROR_RT_INVALID_DEVICEID, "99");
    CHECK_FAIL(aclrtRepairError(99, &info), ACL_ERROR_RT_INVALID_DEVICEID, "99");
    CHECK_FAIL(aclrtGetMemUceInfo(0, NULL, 2, &count), INVALID, "memUceInfoArray");
    CHECK_FAIL(aclrtGetMemUceInfo(0, failed, 0, &count), INVALID, "arraySize 0");
    CHECK_FAIL(aclrtGetMemUceInfo(99, failed, 2, &count), ACL_ERROR_RT_INVALID_DEVICEID, "99");
    CHECK_FAIL(aclrtMemUceRepair(99, failed, 2), ACL_ERROR_RT_INVALID_DEVICEID, "99");
    CHECK_FAIL(aclrtGetStreamOverflowSwitch(stream, NULL), INVALID, "flag");
    CHECK_FAIL(aclrtGetStreamOverflowSwitch(&value, &value), ACL_ERROR_RT_INVALID_HANDLE, "0x");
    CHECK_FAIL(aclrtResetOverflowStatus(&value), ACL_ERROR_RT_INVALID_HANDLE, "0x");
    CHECK_FAIL(aclrtGetOverflowStatus(NULL, 64, stream), INVALID, "outputAddr");
    CHECK_OK(aclrtGetMemUceInfo(0, failed, 2, &count));
    CHECK(count == 0);
    CHECK_OK(aclrtMemUceRepair(0, failed, 2));
    GROUP("acl_copy_6 how long operators may run: kept in three units, 0 is without end");
    uint64_t actual = 0, interval = 0;
    uint32_t limit = 0;
    CHECK_OK(aclrtGetOpExecuteTimeout(&limit));
    CHECK_EQ(limit, UINT32_MAX);
    CHECK_OK(aclrtGetOpTimeOutInterval(&interval));
    CHECK_EQ(interval, 1);
    CHECK_OK(aclrtSetOpExecuteTimeOutV2(5000001, &actual));
    CHECK(actual == 5000001);
    CHECK_OK(aclrtGetOpExecuteTimeout(&limit));
    CHECK_EQ(limit, 5001);
    CHECK_OK(aclrtSetOpExecuteTimeOutWithMs(70));
    CHECK_OK(aclrtGetOpExecuteTimeout(&limit));
    CHECK_EQ(limit, 70);
    CHECK_OK(aclrtSetOpExecuteTimeOut(4294967295u));
    CHECK_OK(aclrtGetOpExecuteTimeout(&limit));
    CHECK_EQ(limit, UINT32_MAX);
    CHECK_OK(aclrtSetOpExecuteTimeOutV2(0, &actual));
    CHECK(actual == UINT64_MAX);
    CHECK_FAIL(aclrtSetOpExecuteTimeOutV2(1, NULL), INVALID, "actualTimeout");
    CHECK_FAIL(aclrtGetOpExecuteTimeout(NULL), INVALID, "timeoutMs");
    CHECK_FAIL(aclrtGetOpTimeOutInterval(NULL), INVALID, "interval");

    GROUP("acl_copy_6 what a device is, and what its units and caches may be told");
    aclrtUuid uuids[3];
    memset(uuids, 0, sizeof uuids);
    CHECK_OK(aclrtDeviceGetUuid(0, &uuids[0]));
    CHECK_OK(aclrtDeviceGetUuid(0, &uuids[1]));
    CHECK_OK(aclrtDeviceGetUuid(1, &uuids[2]));
    CHECK(memcmp(&uuids[0], &uuids[1], 16) == 0 && memcmp(&uuids[0], &uuids[2], 16) != 0);
    CHECK_FAIL(aclrtDeviceGetUuid(0, NULL), INVALID, "uuid");
    CHECK_FAIL(aclrtDeviceGetUuid(99, &uuids[0]), ACL_ERROR_RT_INVALID_DEVICEID, "99");
    aclrtHostMemMapCapability capability = ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED;
    CHECK_OK(aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_AIC, &capability));
    CHECK(capability == ACL_RT_HOST_MEM_MAP_SUPPORTED);
    CHECK_FAIL(aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_AIC, NULL), INVALID, "capabilities");
    CHECK_FAIL(aclrtHostMemMapCapabilities(99, ACL_RT_HAC_TYPE_AIC, &capability), ACL_ERROR_RT_INVALID_DEVICEID, "99");
    CHECK_FAIL(aclrtHostMemMapCapabilities(0, (aclrtHacType)8, &capability), INVALID, "hacType 8");
    CHECK_OK(aclrtCmoAsync(at, 64, ACL_RT_CMO_TYPE_PREFETCH, stream));
    CHECK_FAIL(aclrtCmoAsync(at, 0, ACL_RT_CMO_TYPE_PREFETCH, stream), INVALID, "size 0");
    CHECK_FAIL(aclrtCmoAsync(at, 64, (aclrtCmoType)4, stream), INVALID, "cmoType 4");
    size_t desc_size = 0;
    uint64_t words[2] = {0, 0};
    CHECK_OK(aclrtCmoGetDescSize(&desc_size));
    CHECK_EQ(desc_size, sizeof words);
    void *desc = device(desc_size);
    CHECK_OK(aclrtCmoSetDesc(desc, at, 64));
    to_host(words, desc, sizeof words);
    CHECK(words[0] == (uint64_t)(uintptr_t)at && words[1] == 64);
    CHECK_OK(aclrtCmoAsyncWithDesc(desc, ACL_RT_CMO_TYPE_PREFETCH, stream, NULL));
    CHECK_FAIL(aclrtCmoAsyncWithDesc(desc, ACL_RT_CMO_TYPE_FLUSH, stream, NULL), INVALID, "cmoType 3");
    CHECK_FAIL(aclrtCmoAsyncWithDesc(desc, ACL_RT_CMO_TYPE_PREFETCH, stream, desc), REFUSED, "reserve");
    CHECK_FAIL(aclrtCmoSetDesc(NULL, at, 64), INVALID, "cmoDesc");
    CHECK_FAIL(aclrtCmoGetDescSize(NULL), INVALID, "size");
    CHECK_OK(aclrtMemFlush(at, 64));
    CHECK_FAIL(aclrtMemFlush(NULL, 64), INVALID, "devPtr");
    CHECK_OK(aclrtMemInvalidate(at, 64));
    CHECK_FAIL(aclrtMemInvalidate(at, 0), INVALID, "size 0");
    CHECK_OK(aclrtFree(desc));

    GROUP("acl_copy_6 no stream captures");
    aclmdlRICaptureStatus capturing = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    aclmdlRI captured = at;
    CHECK_OK(aclmdlRICaptureGetInfo(stream, &capturing, &captured));
    CHECK(capturing == ACL_MODEL_RI_CAPTURE_STATUS_NONE && captured == NULL);
    capturing = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    CHECK_OK(aclmdlRICaptureGetInfo(stream, &capturing, NULL));
    CHECK(capturing == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    CHECK_FAIL(aclmdlRICaptureGetInfo(stream, NULL, NULL), INVALID, "modelRI");
    CHECK_FAIL(aclmdlRICaptureGetInfo(NULL, &capturing, NULL), INVALID, "stream");
    CHECK_OK(aclrtFree(at));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    rows();
    batches();
    descriptions();
    numbers();
    computed();
    figures();
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

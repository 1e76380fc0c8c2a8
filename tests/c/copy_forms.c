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
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtFree(there));
}

static void set_parameter(aclrtRandomParaInfo *info, const void *value, uint8_t size)
{
    memset(info, 0, sizeof *info);
    memcpy(info->valueOrAddr, value, size);
    info->size = size;
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
    info.dataType = ACL_BOOL;
    CHECK_FAIL(aclrtRandomNumAsync(&info, stream, NULL), INVALID, "data type");
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

    GROUP("acl_copy_6 overflow, errors and memory are reported");
    unsigned char status[64];
    char *at = (char *)device(64);
    CHECK_OK(aclrtMemset(at, 64, 1, 64));
    CHECK_OK(aclrtResetOverflowStatus(stream));
    CHECK_OK(aclrtGetOverflowStatus(at, 64, stream));
    to_host(status, at, 64);
    CHECK(status[0] == 0 && status[63] == 0);
    CHECK_FAIL(aclrtGetOverflowStatus(at, 32, stream), REFUSED, "outputSize 32");
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
    CHECK(count > 0 && usage[0].name[0] != 0 && usage[0].curMemSize > 0 && usage[0].memPeakSize >= usage[0].curMemSize);
    CHECK_OK(aclrtGetMemUceInfo(0, failed, 2, &count));
    CHECK(count == 0);
    CHECK_OK(aclrtMemUceRepair(0, failed, 2));
    uint64_t actual = 0;
    CHECK_OK(aclrtSetOpExecuteTimeOutV2(5000000, &actual));
    CHECK(actual == 5000000);
    aclrtHostMemMapCapability capability = ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED;
    CHECK_OK(aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_AIC, &capability));
    CHECK(capability == ACL_RT_HOST_MEM_MAP_SUPPORTED);
    CHECK_OK(aclrtCmoAsync(at, 64, ACL_RT_CMO_TYPE_PREFETCH, stream));
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

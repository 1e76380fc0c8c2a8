// env:
// env: CAIRN_WORKERS=1
/* Saturation mode: results that are too large become the largest finite number, and the overflow status says so. */
#include "aclnn.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_div.h"
#include "aclnnop/aclnn_mul.h"

#define HALF_MAX 0x7bff
#define HALF_60000 0x7b53
#define HALF_INF 0x7c00
#define SIGN 0x8000

enum { SIZE = 2048 };

static aclrtStream stream;
static void *status;

static uint32_t overflow_status(void)
{
    uint32_t words[16];
    memset(words, 0xff, sizeof words);
    CHECK_OK(aclrtGetOverflowStatus(status, 64, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(words, 64, status, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 1; i < 16; i++)
        CHECK_EQ(words[i], 0);
    return words[0];
}

/* x * y for every element, of halves, some of them far apart. */
static void multiply(uint16_t x, uint16_t y, int64_t stride, uint16_t *results)
{
    static uint16_t xs[2 * SIZE], ys[2 * SIZE];
    int64_t dims = SIZE, storage = 2 * SIZE;
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    for (int i = 0; i < 2 * SIZE; i++)
        xs[i] = x, ys[i] = y, results[i] = HALF_INF;
    void *a = on_device(xs, sizeof xs), *b = on_device(ys, sizeof ys), *c = on_device(results, sizeof xs);
    void *memory[] = {a, b, c};
    aclTensor *tensors[3];
    for (int i = 0; i < 3; i++) {
        tensors[i] = aclCreateTensor(&dims, 1, ACL_FLOAT16, &stride, 0, ACL_FORMAT_ND, &storage, 1, memory[i]);
        CHECK(tensors[i] != NULL);
    }
    CHECK_OK(aclnnMulGetWorkspaceSize(tensors[0], tensors[1], tensors[2], &bytes, &executor));
    void *workspace = NULL;
    if (bytes)
        CHECK_OK(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclnnMul(workspace, bytes, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(results, sizeof xs, c, sizeof xs, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(aclDestroyTensor(tensors[i]));
        CHECK_OK(aclrtFree(memory[i]));
    }
    if (workspace)
        CHECK_OK(aclrtFree(workspace));
}

static int all_are(const uint16_t *results, int step, uint16_t value)
{
    for (int i = 0; i < SIZE; i++)
        if (results[i * step] != value)
            return 0;
    return 1;
}

/* 0 / 0 in float32. */
static float nothing_by_nothing(void)
{
    float zero[4] = {0, 0, 0, 0};
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    void *a = on_device(zero, sizeof zero), *b = on_device(zero, sizeof zero);
    aclTensor *x = vector_of(4, a), *y = vector_of(4, b);
    CHECK_OK(aclnnInplaceDivGetWorkspaceSize(x, y, &bytes, &executor));
    CHECK_EQ(bytes, 0);
    CHECK_OK(aclnnInplaceDiv(NULL, 0, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    float value = number_at(a, 3);
    CHECK_OK(aclDestroyTensor(x));
    CHECK_OK(aclDestroyTensor(y));
    CHECK_OK(aclrtFree(a));
    CHECK_OK(aclrtFree(b));
    return value;
}

int main(void)
{
    static uint16_t results[2 * SIZE];
    aclrtStream before = NULL;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMalloc(&status, 128, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtCreateStream(&before));

    GROUP("acl_copy_7 a stream made before keeps infinities, and the status stays clear");
    CHECK_OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION));
    stream = before;
    CHECK_OK(aclrtSetStreamOverflowSwitch(stream, 1));
    multiply(HALF_60000, HALF_60000, 1, results);
    CHECK(all_are(results, 1, HALF_INF));
    CHECK(nothing_by_nothing() != nothing_by_nothing());
    CHECK_EQ(overflow_status(), 0);

    GROUP("acl_copy_7 results saturate; what does not check raises no status");
    CHECK_OK(aclrtCreateStream(&stream));
    multiply(HALF_60000, HALF_60000, 1, results);
    CHECK(all_are(results, 1, HALF_MAX));
    CHECK_EQ(overflow_status(), 0);

    GROUP("acl_copy_7 one that checks raises it, until it is reset");
    CHECK_OK(aclrtSetStreamOverflowSwitch(stream, 1));
    multiply(0x3c00, 0x3c00, 1, results);
    CHECK(all_are(results, 1, 0x3c00));
    CHECK_EQ(overflow_status(), 0);
    multiply(HALF_60000 | SIGN, HALF_60000, 1, results);
    CHECK(all_are(results, 1, HALF_MAX | SIGN));
    CHECK_EQ(overflow_status(), 1);
    CHECK_EQ(overflow_status(), 1);
    CHECK_OK(aclrtResetOverflowStatus(stream));
    CHECK_EQ(overflow_status(), 0);

    GROUP("acl_copy_7 gaps between results stay as they are, no number becomes zero");
    multiply(HALF_60000, HALF_60000, 2, results);
    CHECK(all_are(results, 2, HALF_MAX));
    CHECK(all_are(results + 1, 2, HALF_INF));
    CHECK_EQ(overflow_status(), 1);
    CHECK_OK(aclrtResetOverflowStatus(stream));
    CHECK(nothing_by_nothing() == 0.0f);
    CHECK_EQ(overflow_status(), 1);

    GROUP("acl_copy_7 a reduction saturates too");
    CHECK_OK(aclrtResetOverflowStatus(stream));
    uint16_t halves[2] = {HALF_60000, 0x3c00};
    void *sum = on_device(halves, 4), *other = on_device(halves, 4);
    CHECK_OK(aclrtReduceAsync(sum, other, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT16, stream, NULL));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(halves, 4, sum, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(halves[0] == HALF_MAX && halves[1] == 0x4000);
    CHECK_EQ(overflow_status(), 1);
    CHECK_OK(aclrtFree(sum));
    CHECK_OK(aclrtFree(other));

    GROUP("acl_copy_7 the other functions of the status");
    uint32_t words[32];
    uint64_t address = (uint64_t)(uintptr_t)status + 64;
    void *indirect = NULL;
    memset(words, 0xff, sizeof words);
    CHECK_OK(aclrtMalloc(&indirect, 128, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtGetFloatOverflowStatus(status, 64, stream));
    /* On this chip the status goes to the address that is in memory, and to no other. */
    CHECK_OK(aclrtMemcpy(indirect, 8, &address, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_OK(aclrtNpuGetFloatOverFlowStatus(indirect, 64, 0, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(words, 128, status, 128, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(words[0] == 1 && words[1] == 0 && words[16] == 1 && words[31] == 0);
    CHECK_OK(aclrtMemcpy(words, 8, indirect, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(memcmp(words, &address, 8) == 0);
    CHECK_OK(aclrtResetFloatOverflowStatus(stream));
    CHECK_EQ(overflow_status(), 0);
    multiply(HALF_60000, HALF_60000, 1, results);
    CHECK_EQ(overflow_status(), 1);
    CHECK_OK(aclrtNpuClearFloatOverFlowStatus(0, stream));
    CHECK_EQ(overflow_status(), 0);
    CHECK_FAIL(aclrtGetFloatOverflowStatus(status, 63, stream), ACL_ERROR_RT_PARAM_INVALID, "outputSize 63");
    CHECK_FAIL(aclrtGetFloatOverflowStatus(NULL, 64, stream), ACL_ERROR_INVALID_PARAM, "outputAddr");
    CHECK_FAIL(aclrtNpuGetFloatOverFlowStatus(indirect, 65, 0, stream), ACL_ERROR_RT_PARAM_INVALID, "outputSize 65");
    CHECK_FAIL(aclrtResetFloatOverflowStatus(&address), ACL_ERROR_RT_INVALID_HANDLE, "0x");
    CHECK_FAIL(aclrtNpuClearFloatOverFlowStatus(0, &address), ACL_ERROR_RT_INVALID_HANDLE, "0x");
    /* An address in memory that is none: the task fails, and says so. */
    address = 12345;
    CHECK_OK(aclrtMemcpy(indirect, 8, &address, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_OK(aclrtNpuGetFloatOverFlowStatus(indirect, 64, 0, stream));
    CHECK(aclrtSynchronizeStream(stream) != 0);
    CHECK(strstr(aclGetRecentErrMsg(), "aclrtNpuGetFloatOverFlowStatus") != NULL);
    CHECK_OK(aclrtFree(indirect));

    CHECK_OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
    CHECK_OK(aclrtFree(status));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtDestroyStream(before));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

// env:
// env: CAIRN_WORKERS=1
// links: -lstdc++
/* aclnnAdd from end to end: two phases, executors, workspaces, memory that is not the device's. */
#include "aclnn.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_nonzero.h"

/* delete[] of C++. */
extern void _ZdaPv(void *array);

enum { SIZE = 1000 };

static aclrtStream stream;
static float values[SIZE];
static void *x, *y, *z;
static aclTensor *a, *b, *out;
static aclScalar *alpha;

static void plan(aclOpExecutor **executor, uint64_t *bytes)
{
    *executor = NULL;
    CHECK_OK(aclnnAddGetWorkspaceSize(a, b, alpha, out, bytes, executor));
    CHECK(*executor != NULL);
}

static void end_to_end(void)
{
    aclOpExecutor *executor;
    uint64_t bytes = 1;
    GROUP("aclnn_4 two phases: the sum is there after a synchronize");
    plan(&executor, &bytes);
    CHECK_EQ(bytes, 0);
    CHECK_OK(aclnnAdd(NULL, 0, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(z, 0) == 0.0f && number_at(z, 7) == 21.0f && number_at(z, SIZE - 1) == 3.0f * (SIZE - 1));

    GROUP("aclnn_4 tensors may be destroyed after the first phase; the default stream");
    static Gate gate = GATE_CLOSED;
    aclrtStream first = NULL;
    CHECK_OK(aclrtCtxGetCurrentDefaultStream(&first));
    CHECK_OK(aclrtMemset(z, sizeof values, 0, sizeof values));
    gate_put(&gate, first);
    aclTensor *short_lived = vector_of(SIZE, x);
    CHECK_OK(aclnnAddGetWorkspaceSize(short_lived, b, alpha, out, &bytes, &executor));
    CHECK_OK(aclDestroyTensor(short_lived));
    CHECK_OK(aclnnAdd(NULL, 0, executor, NULL));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(NULL));
    CHECK(number_at(z, 7) == 21.0f);
}

static void misuse(void)
{
    aclOpExecutor *executor, *first;
    uint64_t bytes;
    GROUP("aclnn_5 an executor runs once");
    plan(&executor, &bytes);
    first = executor;
    CHECK_OK(aclnnAdd(NULL, 0, executor, stream));
    CHECK_FAIL(aclnnAdd(NULL, 0, executor, stream), ACLNN_ERR_PARAM_INVALID, "runs once");
    CHECK_FAIL(aclDestroyAclOpExecutor(first), ACLNN_ERR_PARAM_INVALID, "destroyed");
    CHECK_FAIL(aclSetAclOpExecutorRepeatable(first), ACLNN_ERR_PARAM_INVALID, "destroyed");

    GROUP("aclnn_5 null, foreign, and of another operator");
    CHECK_FAIL(aclnnAdd(NULL, 0, NULL, stream), ACLNN_ERR_PARAM_NULLPTR, "executor");
    CHECK_FAIL(aclnnAdd(NULL, 0, (aclOpExecutor *)values, stream), ACLNN_ERR_PARAM_INVALID, "ever given out");
    CHECK_FAIL(aclnnAdd(NULL, 0, (aclOpExecutor *)a, stream), ACLNN_ERR_PARAM_INVALID, "it is a tensor");
    plan(&executor, &bytes);
    CHECK_FAIL(aclnnMul(NULL, 0, executor, stream), ACLNN_ERR_PARAM_INVALID, "aclnnAdd");
    CHECK_OK(aclDestroyAclOpExecutor(executor));
    CHECK_FAIL(aclDestroyAclOpExecutor(NULL), ACLNN_ERR_PARAM_NULLPTR, "executor");

    GROUP("aclnn_5 an invalid stream uses up the executor too");
    plan(&executor, &bytes);
    CHECK_FAIL(aclnnAdd(NULL, 0, executor, (aclrtStream)a), ACLNN_ERR_PARAM_INVALID, "stream");
    CHECK_FAIL(aclnnAdd(NULL, 0, executor, stream), ACLNN_ERR_PARAM_INVALID, "runs once");
    CHECK_OK(aclrtSynchronizeStream(stream));
}

static void refused(void)
{
    aclOpExecutor *executor = (aclOpExecutor *)values;
    uint64_t bytes = 77;
    aclTensor *other = vector_of(SIZE - 1, x);
#define PHASE1(self, other, alpha, out) aclnnAddGetWorkspaceSize(self, other, alpha, out, &bytes, &executor)
    GROUP("aclnn_6 null tensors are 161001");
    CHECK_FAIL(PHASE1(NULL, b, alpha, out), ACLNN_ERR_PARAM_NULLPTR, "self");
    CHECK(executor == NULL && bytes == 0);
    CHECK_FAIL(PHASE1(a, NULL, alpha, out), ACLNN_ERR_PARAM_NULLPTR, "other");
    CHECK_FAIL(PHASE1(a, b, alpha, NULL), ACLNN_ERR_PARAM_NULLPTR, "out");
    CHECK_FAIL(aclnnAddGetWorkspaceSize(a, b, alpha, out, NULL, &executor), ACLNN_ERR_PARAM_NULLPTR, "workspaceSize");
    CHECK_FAIL(aclnnAddGetWorkspaceSize(a, b, alpha, out, &bytes, NULL), ACLNN_ERR_PARAM_NULLPTR, "executor");

    GROUP("aclnn_6 wrong shapes, foreign and destroyed handles are 161002");
    CHECK_FAIL(PHASE1(a, other, alpha, out), ACLNN_ERR_PARAM_INVALID, "aclnnAdd");
    CHECK_FAIL(PHASE1(a, b, alpha, other), ACLNN_ERR_PARAM_INVALID, "out");
    CHECK_FAIL(PHASE1(a, b, (aclScalar *)b, out), ACLNN_ERR_PARAM_INVALID, "alpha");
    CHECK_FAIL(PHASE1((aclTensor *)values, b, alpha, out), ACLNN_ERR_PARAM_INVALID, "self");
    CHECK_OK(aclDestroyTensor(other));
    CHECK_FAIL(PHASE1(other, b, alpha, out), ACLNN_ERR_PARAM_INVALID, "destroyed");
}

/* How often a word occurs in a text. */
static int occurrences(const char *text, const char *word)
{
    int count = 0;
    while (text && (text = strstr(text, word))) {
        count++;
        text += strlen(word);
    }
    return count;
}

static void without_addresses(void)
{
    aclOpExecutor *executor = NULL;
    uint64_t bytes = 77;
    aclTensor *first = vector_of(SIZE, NULL), *second = vector_of(SIZE, NULL), *sum = vector_of(SIZE, NULL);
    GROUP("aclnn_11 the first phase needs no addresses, the second does: 161001");
    CHECK_OK(aclnnAddGetWorkspaceSize(first, second, alpha, sum, &bytes, &executor));
    CHECK(executor != NULL && bytes == 0);
    CHECK_FAIL(aclnnAdd(NULL, 0, executor, stream), ACLNN_ERR_PARAM_NULLPTR, "address of self");
    CHECK_FAIL(aclnnAdd(NULL, 0, executor, stream), ACLNN_ERR_PARAM_INVALID, "runs once");

    GROUP("aclnn_11 addresses that are set between the phases");
    CHECK_OK(aclnnAddGetWorkspaceSize(first, second, alpha, sum, &bytes, &executor));
    CHECK_OK(aclSetAclOpExecutorRepeatable(executor));
    CHECK_OK(aclrtMemset(z, sizeof values, 0, sizeof values));
    CHECK_OK(aclSetInputTensorAddr(executor, 0, first, x));
    CHECK_FAIL(aclnnAdd(NULL, 0, executor, stream), ACLNN_ERR_PARAM_NULLPTR, "address of other");
    CHECK_OK(aclSetInputTensorAddr(executor, 1, second, y));
    CHECK_OK(aclSetRawTensorAddr(sum, z));
    CHECK_OK(aclnnAdd(NULL, 0, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(z, 7) == 21.0f && number_at(z, SIZE - 1) == 3.0f * (SIZE - 1));
    CHECK_OK(aclDestroyAclOpExecutor(executor));

    GROUP("aclnn_11 one tensor as input and output, with an address that is set later");
    aclTensor *in_and_out = vector_of(SIZE, NULL);
    CHECK_OK(aclnnAddGetWorkspaceSize(in_and_out, b, alpha, in_and_out, &bytes, &executor));
    CHECK_OK(aclrtMemcpy(z, sizeof values, x, sizeof values, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK_OK(aclSetRawTensorAddr(in_and_out, z));
    CHECK_OK(aclnnAdd(NULL, 0, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(z, 7) == 21.0f);

    GROUP("aclnn_12 a text names the function once");
    CHECK_OK(aclnnAddGetWorkspaceSize(a, b, alpha, out, &bytes, &executor));
    CHECK_OK(aclSetAclOpExecutorRepeatable(executor));
    CHECK_OK(aclSetInputTensorAddr(executor, 0, a, (float *)z + 1));
    aclGetRecentErrMsg();
    CHECK_CODE(aclnnAdd(NULL, 0, executor, stream), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(occurrences(aclGetRecentErrMsg(), "aclnnAdd"), 1);
    CHECK_OK(aclDestroyAclOpExecutor(executor));
    aclTensor *shorter = vector_of(SIZE - 1, x);
    CHECK_CODE(aclnnAddGetWorkspaceSize(a, shorter, alpha, out, &bytes, &executor), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(occurrences(aclGetRecentErrMsg(), "aclnnAdd"), 1);
    CHECK_OK(aclDestroyTensor(shorter));
    CHECK_OK(aclDestroyTensor(first));
    CHECK_OK(aclDestroyTensor(second));
    CHECK_OK(aclDestroyTensor(sum));
    CHECK_OK(aclDestroyTensor(in_and_out));
}

/* Multiplies a tensor in wrong memory by a scalar; the synchronize fails with a text that has `part`. */
static void check_wrong_memory(void *memory, int64_t size, const char *part)
{
    aclOpExecutor *executor = NULL;
    uint64_t bytes = 0;
    char address[32];
    aclTensor *bad = vector_of(size, memory);
    aclTensor *result = tensor_of(&size, 1, ACL_FLOAT, z);
    snprintf(address, sizeof address, "%p", memory);
    CHECK_OK(aclnnMulsGetWorkspaceSize(bad, alpha, result, &bytes, &executor));
    CHECK_OK(aclnnMuls(NULL, 0, executor, stream));
    aclGetRecentErrMsg();
    CHECK(aclrtSynchronizeStream(stream) != ACL_SUCCESS);
    const char *text = aclGetRecentErrMsg();
    CHECK(text != NULL && strstr(text, "aclnnMuls") && strstr(text, "self") && strstr(text, address) && strstr(text, part));
    if (text == NULL || !strstr(text, part))
        printf("  the text is: %s\n", text ? text : "(none)");
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclDestroyTensor(bad));
    CHECK_OK(aclDestroyTensor(result));
}

static void wrong_memory(void)
{
    void *pinned = NULL;
    GROUP("aclnn_7 host, foreign and too short memory: the synchronize names operator, argument and address");
    CHECK_OK(aclrtMallocHost(&pinned, sizeof values));
    check_wrong_memory(values, SIZE, "");
    check_wrong_memory(pinned, SIZE, "");
    check_wrong_memory((void *)0x1000, SIZE, "");
    check_wrong_memory(x, SIZE + 200, "");
    CHECK_OK(aclrtFreeHost(pinned));
    aclOpExecutor *executor;
    uint64_t bytes;
    plan(&executor, &bytes);
    CHECK_OK(aclnnAdd(NULL, 0, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(z, 9) == 27.0f);
}

static void repeatable(void)
{
    aclOpExecutor *executor;
    uint64_t bytes;
    void *other = on_device(values, sizeof values), *fresh = on_device(values, sizeof values);
    GROUP("aclnn_8 a repeatable executor runs again, on other memory");
    plan(&executor, &bytes);
    CHECK_OK(aclSetAclOpExecutorRepeatable(executor));
    for (int i = 0; i < 3; i++)
        CHECK_OK(aclnnAdd(NULL, 0, executor, stream));
    CHECK_OK(aclSetInputTensorAddr(executor, 0, a, y));
    CHECK_OK(aclSetOutputTensorAddr(executor, 0, out, fresh));
    CHECK_OK(aclnnAdd(NULL, 0, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(fresh, 5) == 20.0f);
    CHECK_OK(aclSetTensorAddr(executor, 1, b, other));
    CHECK_OK(AclSetInputTensorAddr(executor, 0, a, x));
    CHECK_OK(AclSetOutputTensorAddr(executor, 0, out, z));
    CHECK_OK(AclSetTensorAddr(executor, 2, out, fresh));
    CHECK_OK(aclnnAdd(NULL, 0, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(fresh, 5) == 10.0f);

    GROUP("aclnn_8 the address of a tensor that it does not use cannot be set");
    aclTensor *unused = vector_of(SIZE, x);
#define REFUSED_TENSOR(call) CHECK_FAIL(call, ACLNN_ERR_PARAM_INVALID, "no tensor that this executor")
    REFUSED_TENSOR(aclSetTensorAddr(executor, 0, unused, x));
    REFUSED_TENSOR(aclSetInputTensorAddr(executor, 0, unused, x));
    REFUSED_TENSOR(aclSetOutputTensorAddr(executor, 0, unused, x));
    REFUSED_TENSOR(AclSetTensorAddr(executor, 0, unused, x));
    REFUSED_TENSOR(AclSetInputTensorAddr(executor, 0, unused, x));
    REFUSED_TENSOR(AclSetOutputTensorAddr(executor, 0, unused, x));
    CHECK_FAIL(aclSetTensorAddr(executor, 0, a, NULL), ACLNN_ERR_PARAM_NULLPTR, "addr");
    CHECK_FAIL(aclSetTensorAddr(executor, 0, NULL, x), ACLNN_ERR_PARAM_NULLPTR, "tensor");
    CHECK_FAIL(aclSetTensorAddr(NULL, 0, a, x), ACLNN_ERR_PARAM_NULLPTR, "executor");
    CHECK_OK(aclDestroyTensor(unused));
    CHECK_OK(aclDestroyAclOpExecutor(executor));
    CHECK_FAIL(aclnnAdd(NULL, 0, executor, stream), ACLNN_ERR_PARAM_INVALID, "destroyed");
    CHECK_OK(aclrtFree(other));
    CHECK_OK(aclrtFree(fresh));
}

static void lists(void)
{
    aclOpExecutor *executor = NULL;
    uint64_t bytes = 0;
    const int64_t twice[] = {2 * SIZE};
    void *joined_memory = NULL;
    GROUP("aclnn_8 tensors of a list get other addresses too");
    CHECK_OK(aclrtMalloc(&joined_memory, 2 * sizeof values, ACL_MEM_MALLOC_HUGE_FIRST));
    const aclTensor *members[] = {vector_of(SIZE, x), vector_of(SIZE, x)};
    aclTensorList *list = aclCreateTensorList(members, 2);
    aclTensor *joined = tensor_of(twice, 1, ACL_FLOAT, joined_memory);
    CHECK_OK(aclnnCatGetWorkspaceSize(list, 0, joined, &bytes, &executor));
    CHECK_OK(aclSetAclOpExecutorRepeatable(executor));
    void *workspace = NULL;
    if (bytes)
        CHECK_OK(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclSetDynamicInputTensorAddr(executor, 0, 1, list, y));
    CHECK_OK(AclSetDynamicInputTensorAddr(executor, 0, 1, list, y));
    CHECK_OK(aclSetDynamicTensorAddr(executor, 0, 0, list, y));
    CHECK_OK(AclSetDynamicTensorAddr(executor, 0, 0, list, x));
    CHECK_OK(aclSetDynamicOutputTensorAddr(executor, 0, 1, list, y));
    CHECK_OK(AclSetDynamicOutputTensorAddr(executor, 0, 1, list, y));
    CHECK_OK(aclnnCat(workspace, bytes, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(joined_memory, 3) == 3.0f && number_at(joined_memory, SIZE + 3) == 6.0f);
    const aclTensor *unused_members[] = {vector_of(SIZE, x)};
    aclTensorList *unused = aclCreateTensorList(unused_members, 1);
    REFUSED_TENSOR(aclSetDynamicTensorAddr(executor, 0, 0, unused, x));
    REFUSED_TENSOR(AclSetDynamicTensorAddr(executor, 0, 0, unused, x));
    REFUSED_TENSOR(aclSetDynamicInputTensorAddr(executor, 0, 0, unused, x));
    REFUSED_TENSOR(AclSetDynamicInputTensorAddr(executor, 0, 0, unused, x));
    REFUSED_TENSOR(aclSetDynamicOutputTensorAddr(executor, 0, 0, unused, x));
    REFUSED_TENSOR(AclSetDynamicOutputTensorAddr(executor, 0, 0, unused, x));
    CHECK_FAIL(aclSetDynamicTensorAddr(executor, 0, 2, list, x), ACLNN_ERR_PARAM_INVALID, "relativeIndex = 2");
    CHECK_OK(aclDestroyAclOpExecutor(executor));
    CHECK_OK(aclDestroyTensorList(list));
    CHECK_OK(aclDestroyTensorList(unused));
    CHECK_OK(aclDestroyTensor(joined));
    CHECK_OK(aclrtFree(joined_memory));
    if (workspace)
        CHECK_OK(aclrtFree(workspace));
}

static void workspaces(void)
{
    /* Input and output overlap in part: the input is copied to the workspace. */
    aclOpExecutor *executor = NULL;
    uint64_t bytes = 0;
    void *workspace = NULL;
    void *shared = on_device(values, sizeof values);
    const int64_t size = SIZE - 1;
    GROUP("aclnn_9 a workspace is requested, checked and used");
    aclTensor *from = vector_of(size, shared), *to = vector_of(size, (float *)shared + 1);
    CHECK_OK(aclnnInplaceCopyGetWorkspaceSize(to, from, &bytes, &executor));
    CHECK(bytes >= size * sizeof(float));
    CHECK_OK(aclSetAclOpExecutorRepeatable(executor));
    CHECK_FAIL(aclnnInplaceCopy(NULL, bytes, executor, stream), ACLNN_ERR_PARAM_NULLPTR, "workspace");
    CHECK_FAIL(aclnnInplaceCopy(z, bytes - 1, executor, stream), ACLNN_ERR_PARAM_INVALID, "workspaceSize");
    CHECK_OK(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclnnInplaceCopy(workspace, bytes, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(shared, 0) == 0.0f && number_at(shared, 1) == 0.0f && number_at(shared, SIZE - 1) == SIZE - 2);
    CHECK(number_at(workspace, 4) == 4.0f);
    CHECK_OK(aclnnInplaceCopy(values, bytes, executor, stream));
    aclGetRecentErrMsg();
    CHECK(aclrtSynchronizeStream(stream) != ACL_SUCCESS);
    CHECK_TEXT("workspace");
    CHECK_OK(aclDestroyAclOpExecutor(executor));
    CHECK_OK(aclDestroyTensor(from));
    CHECK_OK(aclDestroyTensor(to));
    CHECK_OK(aclrtFree(workspace));
    CHECK_OK(aclrtFree(shared));
}

static void sizes(void)
{
    aclOpExecutor *executor = NULL;
    uint64_t bytes = 0, rank = 0;
    int64_t *dims = NULL, first = 0;
    const int64_t largest[] = {SIZE, 1};
    void *indices = NULL, *workspace = NULL;
    GROUP("aclnn_10 sizes that depend on values are the tensor's after a synchronize");
    CHECK_OK(aclrtMalloc(&indices, SIZE * sizeof(int64_t), ACL_MEM_MALLOC_HUGE_FIRST));
    aclTensor *found = tensor_of(largest, 2, ACL_INT64, indices);
    CHECK_OK(aclnnNonzeroGetWorkspaceSize(a, found, &bytes, &executor));
    if (bytes)
        CHECK_OK(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclnnNonzero(workspace, bytes, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclGetViewShape(found, &dims, &rank));
    CHECK(rank == 2 && dims[0] == SIZE - 1 && dims[1] == 1);
    _ZdaPv(dims);
    CHECK_OK(aclrtMemcpy(&first, sizeof first, indices, sizeof first, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(first, 1);
    CHECK_OK(aclDestroyTensor(found));
    CHECK_OK(aclrtFree(indices));
    if (workspace)
        CHECK_OK(aclrtFree(workspace));
}

static void allocators(void)
{
    static Pool pool;
    aclOpExecutor *executor;
    uint64_t bytes;
    GROUP("acl_reg_9 aclnn does not ask the allocator of the stream");
    pool_open(&pool);
    pool_register(stream, &pool);
    plan(&executor, &bytes);
    CHECK_OK(aclnnAdd(NULL, 0, executor, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(pool.allocs, 0);
    CHECK_OK(aclrtAllocatorUnregister(stream));
    pool_close(&pool);
}

int main(void)
{
    float doubled[SIZE];
    for (int i = 0; i < SIZE; i++) {
        values[i] = (float)i;
        doubled[i] = 2.0f * (float)i;
    }
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    x = on_device(values, sizeof values);
    y = on_device(doubled, sizeof doubled);
    z = on_device(values, sizeof values);
    a = vector_of(SIZE, x);
    b = vector_of(SIZE, y);
    out = vector_of(SIZE, z);
    alpha = float_scalar(1.0f);
    end_to_end();
    misuse();
    refused();
    without_addresses();
    wrong_memory();
    repeatable();
    lists();
    workspaces();
    sizes();
    allocators();
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

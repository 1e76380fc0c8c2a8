// links: -lstdc++
/* The objects of aclnn: creation, getters, destruction; and invalid handles. */
#include "aclnn.h"
#include "aclnnop/aclnn_neg.h"

/* delete[] of C++, for arrays that the library allocated with new[]. */
extern void _ZdaPv(void *array);

static const int64_t dims[] = {2, 3}, strides[] = {6, 2}, storage[] = {12};
static char memory[64];

static aclTensor *sample_tensor(void)
{
    return aclCreateTensor(dims, 2, ACL_FLOAT16, strides, 1, ACL_FORMAT_NCHW, storage, 1, memory);
}

static void tensors(void)
{
    int64_t *values = NULL, offset = 0;
    uint64_t count = 0;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    aclDataType type = ACL_DT_UNDEFINED;
    void *address = NULL;
    GROUP("aclnn_1 the getters return what a tensor was created with");
    aclTensor *tensor = sample_tensor();
    CHECK(tensor != NULL);
    CHECK_OK(aclGetViewShape(tensor, &values, &count));
    CHECK(count == 2 && values[0] == 2 && values[1] == 3);
    _ZdaPv(values);
    CHECK_OK(aclGetViewStrides(tensor, &values, &count));
    CHECK(count == 2 && values[0] == 6 && values[1] == 2);
    _ZdaPv(values);
    CHECK_OK(aclGetStorageShape(tensor, &values, &count));
    CHECK(count == 1 && values[0] == 12);
    _ZdaPv(values);
    CHECK_OK(aclGetViewOffset(tensor, &offset));
    CHECK_EQ(offset, 1);
    CHECK_OK(aclGetFormat(tensor, &format));
    CHECK_EQ(format, ACL_FORMAT_NCHW);
    CHECK_OK(aclGetDataType(tensor, &type));
    CHECK_EQ(type, ACL_FLOAT16);
    CHECK_OK(aclGetRawTensorAddr(tensor, &address));
    CHECK(address == memory);
    CHECK_OK(aclSetRawTensorAddr(tensor, memory + 8));
    CHECK_OK(aclGetRawTensorAddr(tensor, &address));
    CHECK(address == memory + 8);

    GROUP("aclnn_1 aclInitTensor changes a tensor; without strides it is contiguous");
    CHECK_OK(aclInitTensor(tensor, dims, 2, ACL_INT32, NULL, 0, ACL_FORMAT_ND, NULL, 0, memory));
    CHECK_OK(aclGetViewStrides(tensor, &values, &count));
    CHECK(count == 2 && values[0] == 3 && values[1] == 1);
    _ZdaPv(values);
    CHECK_OK(aclGetStorageShape(tensor, &values, &count));
    CHECK(count == 2 && values[1] == 3);
    _ZdaPv(values);
    CHECK_OK(aclInitTensor(tensor, NULL, 0, ACL_INT32, NULL, 0, ACL_FORMAT_ND, NULL, 0, memory));
    CHECK_OK(aclGetViewShape(tensor, &values, &count));
    CHECK_EQ(count, 0);
    _ZdaPv(values);

    GROUP("aclnn_1 null outputs are 161001");
    CHECK_FAIL(aclGetViewShape(tensor, NULL, &count), ACLNN_ERR_PARAM_NULLPTR, "viewDims");
    CHECK_FAIL(aclGetViewShape(tensor, &values, NULL), ACLNN_ERR_PARAM_NULLPTR, "viewDimsNum");
    CHECK_FAIL(aclGetViewStrides(tensor, NULL, &count), ACLNN_ERR_PARAM_NULLPTR, "strides");
    CHECK_FAIL(aclGetStorageShape(tensor, NULL, &count), ACLNN_ERR_PARAM_NULLPTR, "storageDims");
    CHECK_FAIL(aclGetViewOffset(tensor, NULL), ACLNN_ERR_PARAM_NULLPTR, "offset");
    CHECK_FAIL(aclGetFormat(tensor, NULL), ACLNN_ERR_PARAM_NULLPTR, "format");
    CHECK_FAIL(aclGetDataType(tensor, NULL), ACLNN_ERR_PARAM_NULLPTR, "dataType");
    CHECK_FAIL(aclGetRawTensorAddr(tensor, NULL), ACLNN_ERR_PARAM_NULLPTR, "addr");
    CHECK_OK(aclDestroyTensor(tensor));
    CHECK_OK(aclDestroyTensor(NULL));
    CHECK_FAIL(aclDestroyTensor(tensor), ACLNN_ERR_PARAM_INVALID, "destroyed");
}

static void wrong_tensors(void)
{
    const int64_t many[26] = {0}, negative[] = {2, -3}, huge[] = {INT64_MAX, 4};
    GROUP("aclnn_1 wrong arguments make no tensor, and the text says why");
#define NOT_MADE(dims, rank, type, part) \
    (aclGetRecentErrMsg(), CHECK(aclCreateTensor(dims, rank, type, NULL, 0, ACL_FORMAT_ND, NULL, 0, memory) == NULL), \
     CHECK_TEXT(part))
    NOT_MADE(many, 26, ACL_FLOAT, "viewDimsNum = 26");
    NOT_MADE(negative, 2, ACL_FLOAT, "-3");
    NOT_MADE(huge, 2, ACL_FLOAT, "address space");
    NOT_MADE(dims, 2, (aclDataType)99, "99");
    NOT_MADE(NULL, 2, ACL_FLOAT, "viewDims");
    aclTensor *tensor = sample_tensor();
    CHECK_FAIL(
        aclInitTensor(tensor, negative, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, memory),
        ACLNN_ERR_PARAM_INVALID, "-3");
    CHECK_OK(aclDestroyTensor(tensor));
}

static void many_dimensions(void)
{
    const int64_t nine[] = {1, 2, 1, 1, 1, 1, 1, 1, 3};
    int64_t *values = NULL;
    uint64_t count = 0, bytes = 0;
    aclOpExecutor *executor = NULL;
    GROUP("aclnn_1 more than eight dimensions are stored, and refused by operators with their number");
    aclTensor *nine_dims = aclCreateTensor(nine, 9, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, nine, 9, memory), *plain = sample_tensor();
    CHECK_OK(aclGetViewShape(nine_dims, &values, &count));
    CHECK(count == 9 && values[1] == 2 && values[8] == 3);
    _ZdaPv(values);
    CHECK_OK(aclGetViewStrides(nine_dims, &values, &count));
    CHECK(count == 9 && values[0] == 6 && values[1] == 3 && values[8] == 1);
    _ZdaPv(values);
    CHECK_OK(aclGetStorageShape(nine_dims, &values, &count));
    CHECK(count == 9 && values[8] == 3);
    _ZdaPv(values);
    CHECK_FAIL(
        aclnnNegGetWorkspaceSize(nine_dims, plain, &bytes, &executor), ACLNN_ERR_PARAM_INVALID,
        "self: the tensor [1, 2, 1, 1, 1, 1, 1, 1, 3] has 9 dimensions");
    CHECK_FAIL(aclnnNegGetWorkspaceSize(plain, nine_dims, &bytes, &executor), ACLNN_ERR_PARAM_INVALID, "out: the tensor");
    CHECK_OK(aclDestroyTensor(nine_dims));
    CHECK_OK(aclDestroyTensor(plain));
}

/* Calls every function that takes a tensor with an invalid handle. */
static void check_invalid_tensor(aclTensor *handle, aclnnStatus code, const char *part)
{
    int64_t *values = NULL, offset = 0;
    uint64_t count = 0;
    aclFormat format;
    aclDataType type;
    void *address = NULL;
#define BAD(call) CHECK_FAIL(call, code, part)
    BAD(aclGetViewShape(handle, &values, &count));
    BAD(aclGetViewStrides(handle, &values, &count));
    BAD(aclGetStorageShape(handle, &values, &count));
    BAD(aclGetViewOffset(handle, &offset));
    BAD(aclGetFormat(handle, &format));
    BAD(aclGetDataType(handle, &type));
    BAD(aclGetRawTensorAddr(handle, &address));
    BAD(aclSetRawTensorAddr(handle, memory));
    BAD(aclInitTensor(handle, dims, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, memory));
#undef BAD
}

static void arrays(void)
{
    const int64_t ints[] = {1, 2, 3};
    const float floats[] = {1, 2};
    const bool bools[] = {true, false, true, true};
    uint64_t count = 0;
    GROUP("aclnn_2 arrays have sizes");
    aclIntArray *of_ints = aclCreateIntArray(ints, 3);
    aclFloatArray *of_floats = aclCreateFloatArray(floats, 2);
    aclBoolArray *of_bools = aclCreateBoolArray(bools, 4);
    CHECK_OK(aclGetIntArraySize(of_ints, &count));
    CHECK_EQ(count, 3);
    CHECK_OK(aclGetFloatArraySize(of_floats, &count));
    CHECK_EQ(count, 2);
    CHECK_OK(aclGetBoolArraySize(of_bools, &count));
    CHECK_EQ(count, 4);

    GROUP("aclnn_2 null, another kind, and destroyed ones are refused");
    CHECK_FAIL(aclGetIntArraySize(of_ints, NULL), ACLNN_ERR_PARAM_NULLPTR, "size");
    CHECK_FAIL(aclGetIntArraySize(NULL, &count), ACLNN_ERR_PARAM_NULLPTR, "array");
    CHECK_FAIL(aclGetIntArraySize((aclIntArray *)of_floats, &count), ACLNN_ERR_PARAM_INVALID, "list of numbers");
    CHECK_FAIL(aclGetFloatArraySize((aclFloatArray *)of_ints, &count), ACLNN_ERR_PARAM_INVALID, "list of integers");
    CHECK_FAIL(aclGetBoolArraySize((aclBoolArray *)memory, &count), ACLNN_ERR_PARAM_INVALID, "ever given out");
    CHECK_OK(aclDestroyIntArray(of_ints));
    CHECK_OK(aclDestroyFloatArray(of_floats));
    CHECK_OK(aclDestroyBoolArray(of_bools));
    CHECK_FAIL(aclDestroyIntArray(of_ints), ACLNN_ERR_PARAM_INVALID, "destroyed");
    CHECK_FAIL(aclDestroyFloatArray(of_floats), ACLNN_ERR_PARAM_INVALID, "destroyed");
    CHECK_FAIL(aclDestroyBoolArray(of_bools), ACLNN_ERR_PARAM_INVALID, "destroyed");
    CHECK_OK(aclDestroyIntArray(NULL));
    aclGetRecentErrMsg();
    CHECK(aclCreateIntArray(NULL, 1) == NULL);
    CHECK_TEXT("value");
    CHECK(aclCreateFloatArray(NULL, 1) == NULL);
    CHECK_TEXT("value");
    CHECK(aclCreateBoolArray(NULL, 1) == NULL);
    CHECK_TEXT("value");
    of_ints = aclCreateIntArray(NULL, 0);
    CHECK_OK(aclGetIntArraySize(of_ints, &count));
    CHECK_EQ(count, 0);
    CHECK_OK(aclDestroyIntArray(of_ints));
}

static void scalars(void)
{
    double value = 2.5;
    uint64_t count = 0;
    GROUP("aclnn_3 scalars, and lists that own them");
    aclScalar *one = aclCreateScalar(&value, ACL_DOUBLE), *two = aclCreateScalar(&value, ACL_DOUBLE);
    const aclScalar *both[] = {one, two};
    aclScalarList *list = aclCreateScalarList(both, 2);
    CHECK_OK(aclGetScalarListSize(list, &count));
    CHECK_EQ(count, 2);
    CHECK_OK(aclDestroyScalarList(list));
    CHECK_FAIL(aclDestroyScalar(one), ACLNN_ERR_PARAM_INVALID, "destroyed");
    CHECK_FAIL(aclGetScalarListSize(list, &count), ACLNN_ERR_PARAM_INVALID, "destroyed");
    CHECK_FAIL(aclDestroyScalarList(list), ACLNN_ERR_PARAM_INVALID, "destroyed");
    CHECK_FAIL(aclGetScalarListSize(NULL, &count), ACLNN_ERR_PARAM_NULLPTR, "scalarList");
    aclGetRecentErrMsg();
    CHECK(aclCreateScalarList(both, 2) == NULL);
    CHECK_TEXT("value[0]");
    CHECK(aclCreateScalar(NULL, ACL_FLOAT) == NULL);
    CHECK_TEXT("value");
    CHECK(aclCreateScalar(&value, ACL_STRING) == NULL);
    CHECK_TEXT("scalars of this type");
    one = aclCreateScalar(&value, ACL_DOUBLE);
    CHECK_OK(aclDestroyScalar(one));
    CHECK_OK(aclDestroyScalar(NULL));
    CHECK_OK(aclDestroyScalarList(NULL));
}

static void tensor_lists(void)
{
    uint64_t count = 0;
    GROUP("aclnn_3 a list of tensors owns them; null may be one of them");
    aclTensor *tensor = sample_tensor();
    const aclTensor *members[] = {tensor, NULL};
    aclTensorList *list = aclCreateTensorList(members, 2);
    CHECK_OK(aclGetTensorListSize(list, &count));
    CHECK_EQ(count, 2);
    CHECK_FAIL(aclGetTensorListSize(list, NULL), ACLNN_ERR_PARAM_NULLPTR, "size");
    CHECK_FAIL(aclGetTensorListSize((aclTensorList *)tensor, &count), ACLNN_ERR_PARAM_INVALID, "it is a tensor");
    CHECK_OK(aclDestroyTensorList(list));
    check_invalid_tensor(tensor, ACLNN_ERR_PARAM_INVALID, "destroyed");
    CHECK_FAIL(aclDestroyTensorList(list), ACLNN_ERR_PARAM_INVALID, "destroyed");
    CHECK_OK(aclDestroyTensorList(NULL));
    aclGetRecentErrMsg();
    CHECK(aclCreateTensorList(members, 2) == NULL);
    CHECK_TEXT("value[0]");
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    GROUP("aclnn_1 aclnnInit and aclnnFinalize");
    CHECK_OK(aclnnInit(NULL));
    CHECK_FAIL(aclnnInit("/no/such/file"), ACLNN_ERR_PARAM_INVALID, "/no/such/file");
    CHECK_FAIL(aclnnInit("/"), ACLNN_ERR_PARAM_INVALID, "no file");
    tensors();
    wrong_tensors();
    many_dimensions();
    GROUP("aclnn_1 invalid handles");
    check_invalid_tensor(NULL, ACLNN_ERR_PARAM_NULLPTR, "tensor");
    check_invalid_tensor((aclTensor *)memory, ACLNN_ERR_PARAM_INVALID, "ever given out");
    arrays();
    scalars();
    tensor_lists();
    CHECK_OK(aclnnFinalize());
    CHECK_OK(aclFinalize());
    return END();
}

/*
 * Descriptions of tensors, data buffers and the defaults of compile options: what the getters return,
 * and the errors of wrong use. None of it needs a device.
 */
#include "check.h"
#include "acl/acl_op_compiler.h"

#define FOREIGN_DESC ((aclTensorDesc *)0x10)
#define FOREIGN_BUFFER ((aclDataBuffer *)0x10)
#define INVALID_HANDLE ACL_ERROR_RT_INVALID_HANDLE

/* The expression has this value and leaves a fresh text that contains `part`. */
#define CHECK_VALUE(expression, value, part) \
    ((void)aclGetRecentErrMsg(), CHECK_EQ(expression, value) && CHECK_TEXT(part))

/* The call, which returns nothing, leaves a fresh text that contains `part`. */
#define CHECK_VOID(call, part) ((void)aclGetRecentErrMsg(), (void)(call), CHECK_TEXT(part))

static const int64_t image[4] = {2, 3, 4, 5};

static aclTensorDesc *image_desc(aclFormat format)
{
    return aclCreateTensorDesc(ACL_FLOAT, 4, image, format);
}

static int has_dims(const aclTensorDesc *desc, size_t count, const int64_t *dims)
{
    if (aclGetTensorDescNumDims(desc) != count)
        return 0;
    for (size_t i = 0; i < count; i++) {
        int64_t dim = -7;
        if (aclGetTensorDescDim(desc, i) != dims[i])
            return 0;
        if (aclGetTensorDescDimV2(desc, i, &dim) != 0 || dim != dims[i])
            return 0;
    }
    return 1;
}

/* Size and number of elements of a shape; 0 twice if it cannot be described. */
static size_t size_of(aclDataType type, int count, const int64_t *dims, size_t *elements)
{
    aclTensorDesc *desc = aclCreateTensorDesc(type, count, dims, ACL_FORMAT_ND);
    size_t size = desc ? aclGetTensorDescSize(desc) : 0;
    *elements = desc ? aclGetTensorDescElementCount(desc) : 0;
    aclDestroyTensorDesc(desc);
    return size;
}

static void create(void)
{
    GROUP("desc_create the getters return what a description was created with");
    int64_t dims[4] = {2, 3, 4, 5};
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_BF16, 4, dims, ACL_FORMAT_NHWC);
    CHECK(desc != NULL);
    dims[0] = 99;
    CHECK(has_dims(desc, 4, image));
    CHECK_EQ(aclGetTensorDescType(desc), ACL_BF16);
    CHECK_EQ(aclGetTensorDescFormat(desc), ACL_FORMAT_NHWC);
    CHECK_EQ(aclGetTensorDescElementCount(desc), 120);
    CHECK_EQ(aclGetTensorDescSize(desc), 240);
    CHECK(aclGetTensorDescAddress(desc) == NULL);
    CHECK(aclGetTensorDescByIndex(desc, 0) == desc);
    CHECK_NO_TEXT();
    aclDestroyTensorDesc(desc);
    aclDestroyTensorDesc(NULL);
    CHECK_NO_TEXT();

    GROUP("desc_optional an absent optional tensor, a scalar, unknown formats");
    desc = aclCreateTensorDesc(ACL_DT_UNDEFINED, 0, NULL, ACL_FORMAT_UNDEFINED);
    CHECK(desc != NULL);
    CHECK_EQ(aclGetTensorDescType(desc), ACL_DT_UNDEFINED);
    CHECK_EQ(aclGetTensorDescFormat(desc), ACL_FORMAT_UNDEFINED);
    CHECK_EQ(aclGetTensorDescNumDims(desc), 0);
    CHECK_EQ(aclGetTensorDescElementCount(desc), 1);
    CHECK_EQ(aclGetTensorDescSize(desc), 0);
    CHECK_NO_TEXT();
    aclDestroyTensorDesc(desc);
    desc = aclCreateTensorDesc(ACL_INT64, 0, NULL, (aclFormat)46);
    CHECK_EQ(aclGetTensorDescSize(desc), 8);
    CHECK_EQ(aclGetTensorDescFormat(desc), 46);
    aclDestroyTensorDesc(desc);

    GROUP("desc_create_refused wrong arguments are refused");
    const int64_t negative[2] = {4, -3}, rank_and_more[2] = {-2, 4};
    int64_t many[129];
    for (int i = 0; i < 129; i++)
        many[i] = 1;
    CHECK_VALUE((uintptr_t)aclCreateTensorDesc(ACL_FLOAT, -1, image, ACL_FORMAT_ND), 0, "numDims = -1");
    CHECK_VALUE((uintptr_t)aclCreateTensorDesc(ACL_FLOAT, 1, NULL, ACL_FORMAT_ND), 0, "dims is null");
    CHECK_VALUE((uintptr_t)aclCreateTensorDesc(ACL_FLOAT, 129, many, ACL_FORMAT_ND), 0, "numDims = 129");
    CHECK_VALUE((uintptr_t)aclCreateTensorDesc(ACL_FLOAT, 2, negative, ACL_FORMAT_ND), 0, "[4, -3]");
    CHECK_VALUE((uintptr_t)aclCreateTensorDesc(ACL_FLOAT, 2, rank_and_more, ACL_FORMAT_ND), 0, "-2");
    CHECK_VALUE((uintptr_t)aclCreateTensorDesc((aclDataType)5, 0, NULL, ACL_FORMAT_ND), 0, "dataType = 5");
    CHECK_VALUE((uintptr_t)aclCreateTensorDesc((aclDataType)-2, 0, NULL, ACL_FORMAT_ND), 0, "dataType = -2");
    desc = aclCreateTensorDesc(ACL_FLOAT, 128, many, ACL_FORMAT_ND);
    CHECK_EQ(aclGetTensorDescNumDims(desc), 128);
    aclDestroyTensorDesc(desc);
}

static void sizes(void)
{
    GROUP("desc_size elements and bytes");
    const int64_t unknown[2] = {-1, 4}, rank[1] = {-2}, empty[3] = {0, INT64_MAX, INT64_MAX};
    const int64_t huge[2] = {INT64_MAX, 2}, too_large[3] = {INT64_MAX, 2, 2}, nine[1] = {9};
    size_t elements;
    (void)aclGetRecentErrMsg();
    CHECK_EQ(size_of(ACL_DOUBLE, 4, image, &elements), 960);
    CHECK_EQ(elements, 120);
    CHECK_EQ(size_of(ACL_FLOAT, 2, unknown, &elements), 0);
    CHECK_EQ(elements, 0);
    CHECK_EQ(size_of(ACL_FLOAT, 1, rank, &elements), 0);
    CHECK_EQ(elements, 0);
    CHECK_EQ(size_of(ACL_FLOAT, 3, empty, &elements), 0);
    CHECK_EQ(elements, 0);
    CHECK_EQ(size_of(ACL_INT8, 2, huge, &elements), SIZE_MAX - 1);
    CHECK_EQ(elements, SIZE_MAX - 1);
    CHECK_EQ(size_of(ACL_INT4, 1, nine, &elements), 5);
    CHECK_EQ(size_of(ACL_UINT1, 1, nine, &elements), 2);
    CHECK_EQ(size_of(ACL_STRING, 1, nine, &elements), 0);
    CHECK_EQ(elements, 9);
    CHECK_NO_TEXT();
    CHECK_VALUE(size_of(ACL_INT16, 2, huge, &elements), 0, "bytes");
    CHECK_VALUE(size_of(ACL_INT8, 3, too_large, &elements), 0, "elements");
    CHECK_EQ(elements, 0);

    GROUP("desc_dims one dimension");
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 2, unknown, ACL_FORMAT_ND);
    int64_t dim = 77;
    CHECK(has_dims(desc, 2, unknown));
    CHECK_NO_TEXT();
    CHECK_VALUE(aclGetTensorDescDim(desc, 2), -1, "index = 2");
    CHECK_FAIL(aclGetTensorDescDimV2(desc, 2, &dim), ACL_ERROR_INVALID_PARAM, "there are 2 dimensions");
    CHECK_FAIL(aclGetTensorDescDimV2(desc, SIZE_MAX, &dim), ACL_ERROR_INVALID_PARAM, "index");
    CHECK_EQ(dim, 77);
    CHECK_FAIL(aclGetTensorDescDimV2(desc, 0, NULL), ACL_ERROR_INVALID_PARAM, "dimSize is null");
    aclDestroyTensorDesc(desc);
    desc = aclCreateTensorDesc(ACL_FLOAT, 1, rank, ACL_FORMAT_ND);
    CHECK(aclGetTensorDescNumDims(desc) == ACL_UNKNOWN_RANK);
    CHECK_EQ(aclGetTensorDescDim(desc, 0), -2);
    aclDestroyTensorDesc(desc);
}

static void names(void)
{
    GROUP("desc_name names are copies that belong to the description");
    aclTensorDesc *desc = image_desc(ACL_FORMAT_ND);
    char name[] = "weight";
    CHECK(strcmp(aclGetTensorDescName(desc), "") == 0);
    aclSetTensorDescName(desc, name);
    name[0] = 'X';
    const char *stored = aclGetTensorDescName(desc);
    CHECK(strcmp(stored, "weight") == 0);
    CHECK(aclGetTensorDescName(desc) == stored);
    aclSetTensorDescName(desc, "\xff bias");
    CHECK(strcmp(aclGetTensorDescName(desc), "\xff bias") == 0);
    aclSetTensorDescName(desc, NULL);
    CHECK(strcmp(aclGetTensorDescName(desc), "") == 0);
    CHECK_CODE(aclSetTensorDynamicInput(desc, "x"), 0);
    CHECK_FAIL(aclSetTensorDynamicInput(desc, NULL), ACL_ERROR_INVALID_PARAM, "dynamicInputName");
    aclDestroyTensorDesc(desc);
}

static void setters(void)
{
    aclTensorDesc *desc = image_desc(ACL_FORMAT_NCHW);
    const int64_t other[5] = {2, 1, 4, 5, 16};

    GROUP("desc_storage the getters show the origin, not the storage");
    CHECK_CODE(aclSetTensorFormat(desc, ACL_FORMAT_NC1HWC0), 0);
    CHECK_CODE(aclSetTensorShape(desc, 5, other), 0);
    CHECK_CODE(aclSetTensorStorageFormat(desc, ACL_FORMAT_FRACTAL_NZ), 0);
    CHECK_CODE(aclSetTensorStorageShape(desc, 5, other), 0);
    CHECK_EQ(aclGetTensorDescFormat(desc), ACL_FORMAT_NCHW);
    CHECK(has_dims(desc, 4, image));
    CHECK_CODE(aclSetTensorOriginFormat(desc, ACL_FORMAT_ND), 0);
    CHECK_CODE(aclSetTensorOriginShape(desc, 3, other), 0);
    CHECK_EQ(aclGetTensorDescFormat(desc), ACL_FORMAT_ND);
    CHECK(has_dims(desc, 3, other));
    CHECK_CODE(aclSetTensorOriginShape(desc, 0, other), 0);
    CHECK_EQ(aclGetTensorDescNumDims(desc), 0);

    GROUP("desc_shape_refused a refused shape changes nothing");
    CHECK_CODE(aclSetTensorOriginShape(desc, 4, image), 0);
    CHECK_FAIL(aclSetTensorShape(desc, 4, NULL), ACL_ERROR_INVALID_PARAM, "dims is null");
    CHECK_FAIL(aclSetTensorShape(desc, 0, NULL), ACL_ERROR_INVALID_PARAM, "dims is null");
    CHECK_FAIL(aclSetTensorStorageShape(desc, -1, image), ACL_ERROR_INVALID_PARAM, "numDims = -1");
    CHECK_FAIL(aclSetTensorOriginShape(desc, 129, image), ACL_ERROR_INVALID_PARAM, "numDims = 129");
    CHECK_FAIL(aclSetTensorOriginShape(desc, INT32_MIN, image), ACL_ERROR_INVALID_PARAM, "numDims");
    CHECK(has_dims(desc, 4, image));

    GROUP("desc_ranges of dimensions and of values");
    int64_t ranges[2][2] = {{1, 16}, {0, -1}};
    int64_t range[2] = {7, 7};
    CHECK_FAIL(aclGetTensorDescDimRange(desc, 0, 2, range), ACL_ERROR_INVALID_PARAM, "index = 0");
    CHECK_CODE(aclSetTensorShapeRange(desc, 2, ranges), 0);
    CHECK_CODE(aclGetTensorDescDimRange(desc, 1, 2, range), 0);
    CHECK(range[0] == 0 && range[1] == -1);
    CHECK_CODE(aclGetTensorDescDimRange(desc, 0, 9, range), 0);
    CHECK(range[0] == 1 && range[1] == 16);
    CHECK_FAIL(aclGetTensorDescDimRange(desc, 2, 2, range), ACL_ERROR_INVALID_PARAM, "index = 2");
    CHECK_FAIL(aclGetTensorDescDimRange(desc, 0, 1, range), ACL_ERROR_INVALID_PARAM, "dimRangeNum = 1");
    CHECK_FAIL(aclGetTensorDescDimRange(desc, 0, 2, NULL), ACL_ERROR_INVALID_PARAM, "dimRange");
    CHECK_FAIL(aclSetTensorShapeRange(desc, 1, NULL), ACL_ERROR_INVALID_PARAM, "dimsRange is null");
    CHECK_FAIL(aclSetTensorShapeRange(desc, 129, ranges), ACL_ERROR_INVALID_PARAM, "dimsCount = 129");
    CHECK_CODE(aclGetTensorDescDimRange(desc, 0, 2, range), 0);
    CHECK_CODE(aclSetTensorShapeRange(desc, 0, NULL), 0);
    CHECK_FAIL(aclGetTensorDescDimRange(desc, 0, 2, range), ACL_ERROR_INVALID_PARAM, "there are 0");
    CHECK_CODE(aclSetTensorValueRange(desc, 2, ranges), 0);
    CHECK_CODE(aclSetTensorValueRange(desc, 0, NULL), 0);
    CHECK_FAIL(aclSetTensorValueRange(desc, 1, NULL), ACL_ERROR_INVALID_PARAM, "valueRange is null");
    CHECK_FAIL(aclSetTensorValueRange(desc, SIZE_MAX, ranges), ACL_ERROR_INVALID_PARAM, "valueRange");

    GROUP("desc_const constants and the placement of data");
    char data[3] = {1, 2, 3};
    CHECK_CODE(aclSetTensorConst(desc, data, sizeof data), 0);
    CHECK_CODE(aclSetTensorConst(desc, data, 1), 0);
    CHECK_FAIL(aclSetTensorConst(desc, NULL, 3), ACL_ERROR_INVALID_PARAM, "dataBuffer is null");
    CHECK_FAIL(aclSetTensorConst(desc, data, 0), ACL_ERROR_INVALID_PARAM, "length = 0");
    CHECK_FAIL(aclSetTensorConst(desc, data, ((size_t)1 << 40) + 1), ACL_ERROR_INVALID_PARAM, "1099511627777");
    CHECK_FAIL(aclSetTensorConst(desc, data, SIZE_MAX), ACL_ERROR_INVALID_PARAM, "dataBuffer");
    CHECK(aclGetTensorDescAddress(desc) == NULL);
    for (int type = ACL_MEMTYPE_DEVICE; type <= ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT; type++)
        CHECK_CODE(aclSetTensorPlaceMent(desc, (aclMemType)type), 0);
    CHECK_FAIL(aclSetTensorPlaceMent(desc, (aclMemType)3), ACL_ERROR_INVALID_PARAM, "memType = 3");
    CHECK_FAIL(aclSetTensorPlaceMent(desc, (aclMemType)-1), ACL_ERROR_INVALID_PARAM, "memType");

    GROUP("desc_by_index a description holds one tensor");
    CHECK_VALUE((uintptr_t)aclGetTensorDescByIndex(desc, 1), 0, "index = 1");
    aclDestroyTensorDesc(desc);
}

static void transpose(void)
{
    GROUP("desc_format the shape in another format");
    const struct {
        aclFormat from, to;
        int64_t dims[4];
    } cases[] = {
        {ACL_FORMAT_NCHW, ACL_FORMAT_NHWC, {2, 4, 5, 3}},
        {ACL_FORMAT_NHWC, ACL_FORMAT_NCHW, {2, 5, 3, 4}},
        {ACL_FORMAT_NCHW, ACL_FORMAT_HWCN, {4, 5, 3, 2}},
        {ACL_FORMAT_NCHW, ACL_FORMAT_NCHW, {2, 3, 4, 5}},
        {ACL_FORMAT_ND, ACL_FORMAT_NHWC, {2, 3, 4, 5}},
        {ACL_FORMAT_NHWC, ACL_FORMAT_ND, {2, 3, 4, 5}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        aclTensorDesc *from = image_desc(cases[i].from), *to = NULL;
        CHECK_CODE(aclTransTensorDescFormat(from, cases[i].to, &to), 0);
        CHECK(to != from && has_dims(to, 4, cases[i].dims));
        CHECK_EQ(aclGetTensorDescFormat(to), cases[i].to);
        CHECK_EQ(aclGetTensorDescType(to), ACL_FLOAT);
        CHECK(has_dims(from, 4, image));
        CHECK_EQ(aclGetTensorDescFormat(from), cases[i].from);
        aclDestroyTensorDesc(from);
        aclDestroyTensorDesc(to);
    }

    GROUP("desc_format_refused formats that have no common dimensions");
    aclTensorDesc *desc = image_desc(ACL_FORMAT_NCHW), *to = desc;
    CHECK_FAIL(
        aclTransTensorDescFormat(desc, ACL_FORMAT_FRACTAL_NZ, &to), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "from NCHW to FRACTAL_NZ");
    CHECK(to == NULL);
    CHECK_FAIL(
        aclTransTensorDescFormat(desc, ACL_FORMAT_NDHWC, &to), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "NDHWC");
    CHECK_FAIL(
        aclTransTensorDescFormat(desc, (aclFormat)999, &to), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "999");
    CHECK_CODE(aclSetTensorOriginShape(desc, 3, image), 0);
    CHECK_FAIL(aclTransTensorDescFormat(desc, ACL_FORMAT_NHWC, &to), ACL_ERROR_INVALID_PARAM, "[2, 3, 4]");
    CHECK_FAIL(aclTransTensorDescFormat(desc, ACL_FORMAT_NHWC, NULL), ACL_ERROR_INVALID_PARAM, "dstDesc");
    CHECK_FAIL(aclTransTensorDescFormat(NULL, ACL_FORMAT_NHWC, &to), ACL_ERROR_INVALID_PARAM, "srcDesc");
    CHECK_FAIL(aclTransTensorDescFormat(FOREIGN_DESC, ACL_FORMAT_NHWC, &to), INVALID_HANDLE, "0x10");
    aclDestroyTensorDesc(desc);
}

/* Calls every function that takes a description with an invalid one. */
static void check_invalid_desc(aclTensorDesc *desc, int code, const char *part)
{
    int64_t number, ranges[1][2] = {{0, 1}};
    char data[1] = {0};
    CHECK_VALUE(aclGetTensorDescType(desc), ACL_DT_UNDEFINED, part);
    CHECK_VALUE(aclGetTensorDescFormat(desc), ACL_FORMAT_UNDEFINED, part);
    CHECK_VALUE(aclGetTensorDescSize(desc), 0, part);
    CHECK_VALUE(aclGetTensorDescElementCount(desc), 0, part);
    CHECK_VALUE(aclGetTensorDescNumDims(desc), 0, part);
    CHECK_VALUE(aclGetTensorDescDim(desc, 0), -1, part);
    CHECK_VALUE((uintptr_t)aclGetTensorDescAddress(desc), 0, part);
    CHECK_VALUE((uintptr_t)aclGetTensorDescByIndex(desc, 0), 0, part);
    CHECK_VALUE(strcmp(aclGetTensorDescName(desc), ""), 0, part);
    CHECK_VOID(aclSetTensorDescName(desc, "x"), part);
    CHECK_FAIL(aclGetTensorDescDimV2(desc, 0, &number), code, part);
    CHECK_FAIL(aclGetTensorDescDimRange(desc, 0, 2, ranges[0]), code, part);
    CHECK_FAIL(aclSetTensorShapeRange(desc, 1, ranges), code, part);
    CHECK_FAIL(aclSetTensorValueRange(desc, 1, ranges), code, part);
    CHECK_FAIL(aclSetTensorFormat(desc, ACL_FORMAT_ND), code, part);
    CHECK_FAIL(aclSetTensorOriginFormat(desc, ACL_FORMAT_ND), code, part);
    CHECK_FAIL(aclSetTensorStorageFormat(desc, ACL_FORMAT_ND), code, part);
    CHECK_FAIL(aclSetTensorShape(desc, 4, image), code, part);
    CHECK_FAIL(aclSetTensorOriginShape(desc, 4, image), code, part);
    CHECK_FAIL(aclSetTensorStorageShape(desc, 4, image), code, part);
    CHECK_FAIL(aclSetTensorDynamicInput(desc, "x"), code, part);
    CHECK_FAIL(aclSetTensorConst(desc, data, 1), code, part);
    CHECK_FAIL(aclSetTensorPlaceMent(desc, ACL_MEMTYPE_HOST), code, part);
}

static void wrong_descs(void)
{
    GROUP("desc_null every function refuses null");
    check_invalid_desc(NULL, ACL_ERROR_INVALID_PARAM, "desc is null");

    GROUP("desc_foreign every function refuses a pointer that was never a handle");
    check_invalid_desc(FOREIGN_DESC, INVALID_HANDLE, "0x10 is not a tensor description");
    CHECK_VOID(aclDestroyTensorDesc(FOREIGN_DESC), "0x10");
    check_invalid_desc((aclTensorDesc *)&check_failures, INVALID_HANDLE, "is not a tensor description");

    GROUP("desc_destroyed every function refuses a destroyed description");
    aclTensorDesc *desc = image_desc(ACL_FORMAT_ND), *to;
    aclDestroyTensorDesc(desc);
    check_invalid_desc(desc, INVALID_HANDLE, "destroyed");
    CHECK_VOID(aclDestroyTensorDesc(desc), "destroyed");
    CHECK_FAIL(aclTransTensorDescFormat(desc, ACL_FORMAT_ND, &to), INVALID_HANDLE, "destroyed");
    aclTensorDesc *next = image_desc(ACL_FORMAT_ND);
    CHECK(next != desc);
    aclDestroyTensorDesc(next);

    GROUP("desc_kind every function refuses a buffer");
    aclDataBuffer *buffer = aclCreateDataBuffer(NULL, 0);
    check_invalid_desc((aclTensorDesc *)buffer, INVALID_HANDLE, "it is a data buffer");
    CHECK_VOID(aclDestroyTensorDesc((aclTensorDesc *)buffer), "it is a data buffer");
    CHECK_CODE(aclDestroyDataBuffer(buffer), 0);
}

static void check_invalid_buffer(aclDataBuffer *buffer, int code, const char *part)
{
    CHECK_VALUE((uintptr_t)aclGetDataBufferAddr(buffer), 0, part);
    CHECK_VALUE(aclGetDataBufferSize(buffer), 0, part);
    CHECK_VALUE(aclGetDataBufferSizeV2(buffer), 0, part);
    CHECK_FAIL(aclUpdateDataBuffer(buffer, NULL, 0), code, part);
    CHECK_FAIL(aclDestroyDataBuffer(buffer), code, part);
}

static void buffers(void)
{
    GROUP("buffer the getters return what a buffer was created with");
    char data[16], other[8];
    (void)aclGetRecentErrMsg();
    aclDataBuffer *buffer = aclCreateDataBuffer(data, sizeof data);
    CHECK(buffer != NULL);
    CHECK(aclGetDataBufferAddr(buffer) == data);
    CHECK_EQ(aclGetDataBufferSize(buffer), 16);
    CHECK_EQ(aclGetDataBufferSizeV2(buffer), 16);
    CHECK_CODE(aclUpdateDataBuffer(buffer, other, sizeof other), 0);
    CHECK(aclGetDataBufferAddr(buffer) == other);
    CHECK_EQ(aclGetDataBufferSizeV2(buffer), 8);
    CHECK_CODE(aclUpdateDataBuffer(buffer, NULL, 0), 0);
    CHECK(aclGetDataBufferAddr(buffer) == NULL);
    CHECK_CODE(aclDestroyDataBuffer(buffer), 0);
    aclDataBuffer *none = aclCreateDataBuffer(NULL, 0);
    CHECK(none != NULL && aclGetDataBufferAddr(none) == NULL);
    CHECK_CODE(aclDestroyDataBuffer(none), 0);
    CHECK_NO_TEXT();

    GROUP("buffer_large aclGetDataBufferSize is cut to 32 bits");
    aclDataBuffer *large = aclCreateDataBuffer(data, ((size_t)5 << 32) + 7);
    CHECK_EQ(aclGetDataBufferSizeV2(large), ((size_t)5 << 32) + 7);
    CHECK_EQ(aclGetDataBufferSize(large), 7);
    CHECK_CODE(aclDestroyDataBuffer(large), 0);
    CHECK_NO_TEXT();

    GROUP("buffer_wrong null, foreign, destroyed, another kind");
    check_invalid_buffer(NULL, ACL_ERROR_INVALID_PARAM, "dataBuffer is null");
    check_invalid_buffer(FOREIGN_BUFFER, INVALID_HANDLE, "0x10 is not a data buffer");
    check_invalid_buffer(buffer, INVALID_HANDLE, "destroyed");
    aclTensorDesc *desc = image_desc(ACL_FORMAT_ND);
    check_invalid_buffer((aclDataBuffer *)desc, INVALID_HANDLE, "it is a tensor description");
    CHECK(has_dims(desc, 4, image));
    aclDestroyTensorDesc(desc);
}

static void options(void)
{
    GROUP("option_default nothing is compiled at run time unless asked for");
    char value[16];
    (void)aclGetRecentErrMsg();
    CHECK_EQ(aclGetCompileoptSize(ACL_OP_JIT_COMPILE), sizeof "disable");
    CHECK_CODE(aclGetCompileopt(ACL_OP_JIT_COMPILE, value, sizeof value), 0);
    CHECK(strcmp(value, "disable") == 0);
    CHECK_EQ(aclGetCompileoptSize(ACL_OP_DEBUG_OPTION), 1);
    CHECK_CODE(aclGetCompileopt(ACL_PRECISION_MODE, value, 1), 0);
    CHECK(value[0] == 0);
    CHECK_NO_TEXT();
}

int main(void)
{
    create();
    sizes();
    names();
    setters();
    transpose();
    wrong_descs();
    buffers();
    options();
    return END();
}

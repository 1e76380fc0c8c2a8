// env:
// env: CAIRN_WORKERS=1
/* Operators by name: every entry, attributes, inference, what is refused. */
#include "aclop.h"

enum { SIZE = 256 };

static aclrtStream stream;
static float values[SIZE];
static void *x, *y, *z;

static void every_entry(void)
{
    static Gate gate = GATE_CLOSED;
    GROUP("aclop_1 an operator by every entry; everything is copied in the call");
    for (int entry = 0; entry < ENTRIES; entry++) {
        Operands in = {0}, out = {0};
        CHECK_OK(aclrtMemset(z, sizeof values, 0, sizeof values));
        vector_operand(&in, SIZE, x);
        vector_operand(&in, SIZE, y);
        vector_operand(&out, SIZE, z);
        gate_put(&gate, stream);
        CHECK_OK(run_op((Entry)entry, "Add", &in, &out, NULL, stream));
        destroy_operands(&in);
        destroy_operands(&out);
        gate_open(&gate);
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(number_at(z, 0) == 0.0f && number_at(z, SIZE - 1) == 3.0f * (SIZE - 1));
    }
}

static void refused(void)
{
    Operands in = {0}, out = {0};
    vector_operand(&in, SIZE, x);
    vector_operand(&in, SIZE, y);
    vector_operand(&out, SIZE, z);
    GROUP("aclop_2 an unknown operator: 100024 with its name");
    for (int entry = 0; entry < ENTRIES; entry++)
        CHECK_FAIL(run_op((Entry)entry, "NoSuchOperator", &in, &out, NULL, stream), ACL_ERROR_OP_NOT_FOUND, "NoSuchOperator");
    CHECK_FAIL(
        aclopCompile("NoSuchOperator", 0, NULL, 0, NULL, NULL, ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL),
        ACL_ERROR_OP_NOT_FOUND, "NoSuchOperator");
    CHECK_FAIL(
        aclopInferShape("NoSuchOperator", 0, NULL, NULL, 0, NULL, NULL), ACL_ERROR_OP_NOT_FOUND, "NoSuchOperator");
    CHECK_OK(aclopCompile(
        "Add", 2, (const aclTensorDesc *const *)in.descs, 1, (const aclTensorDesc *const *)out.descs, NULL,
        ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL));

    GROUP("aclop_2 null, wrong numbers, shapes and buffers: 100000");
    for (int entry = 0; entry < ENTRIES; entry++) {
        Operands one = in;
        one.count = 1;
        CHECK_FAIL(run_op((Entry)entry, NULL, &in, &out, NULL, stream), ACL_ERROR_INVALID_PARAM, "opType");
        CHECK_FAIL(run_op((Entry)entry, "Add", &one, &out, NULL, stream), ACL_ERROR_INVALID_PARAM, "Add");
    }
    CHECK_FAIL(
        aclopExecuteV2("Add", 2, NULL, in.buffers, 1, out.descs, out.buffers, NULL, stream), ACL_ERROR_INVALID_PARAM,
        "inputDesc");
    CHECK_FAIL(
        aclopExecuteV2("Add", -1, in.descs, in.buffers, 1, out.descs, out.buffers, NULL, stream),
        ACL_ERROR_INVALID_PARAM, "-1");
    CHECK_FAIL(
        aclopExecuteV2("Add", 2, in.descs, in.buffers, 1, out.descs, out.buffers, (aclopAttr *)x, stream),
        ACL_ERROR_RT_INVALID_HANDLE, "set of attributes");
    CHECK_FAIL(
        aclopExecuteV2("Add", 2, in.descs, in.buffers, 1, out.descs, out.buffers, NULL, (aclrtStream)x),
        ACL_ERROR_RT_INVALID_HANDLE, "stream");
    CHECK_OK(aclUpdateDataBuffer(in.buffers[1], y, 8));
    CHECK_FAIL(run_op(EXECUTE, "Add", &in, &out, NULL, stream), ACL_ERROR_INVALID_PARAM, "its buffer has 8");
    CHECK_OK(aclUpdateDataBuffer(in.buffers[1], NULL, 0));
    CHECK_FAIL(run_op(EXECUTE, "Add", &in, &out, NULL, stream), ACL_ERROR_INVALID_PARAM, "null");
    destroy_operands(&in);
    vector_operand(&in, SIZE, x);
    vector_operand(&in, SIZE - 1, y);
    CHECK_FAIL(run_op(EXECUTE, "Add", &in, &out, NULL, stream), ACL_ERROR_INVALID_PARAM, "Add");
    destroy_operands(&in);
    vector_operand(&in, SIZE, x);
    vector_operand(&in, -1, y);
    CHECK_FAIL(run_op(EXECUTE, "Add", &in, &out, NULL, stream), ACL_ERROR_INVALID_PARAM, "must be known");
    destroy_operands(&in);

    GROUP("aclop_2 handles of operators: null and destroyed");
    aclopHandle *handle = NULL;
    vector_operand(&in, SIZE, x);
    vector_operand(&in, SIZE, y);
    CHECK_OK(aclopCreateHandle(
        "Add", 2, (const aclTensorDesc *const *)in.descs, 1, (const aclTensorDesc *const *)out.descs, NULL, &handle));
    CHECK_FAIL(
        aclopExecWithHandle(handle, 1, (const aclDataBuffer *const *)in.buffers, 1, out.buffers, stream),
        ACL_ERROR_INVALID_PARAM, "1 input buffers for 2");
    aclopDestroyHandle(handle);
    CHECK_FAIL(
        aclopExecWithHandle(handle, 2, (const aclDataBuffer *const *)in.buffers, 1, out.buffers, stream),
        ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
    aclGetRecentErrMsg();
    aclopDestroyHandle(handle);
    CHECK_TEXT("destroyed");
    aclopDestroyHandle(NULL);
    CHECK_FAIL(
        aclopCreateHandle("Add", 0, NULL, 0, NULL, NULL, NULL), ACL_ERROR_INVALID_PARAM, "handle");
    destroy_operands(&in);
    destroy_operands(&out);
}

static void attributes(void)
{
    const int64_t numbers[] = {1, 2}, square[] = {2, 2};
    const int64_t *const lists[] = {numbers, numbers};
    const int lengths[] = {2, 1};
    const float reals[] = {0.5f};
    const uint8_t flags[] = {1, 0};
    const char *texts[] = {"a", "b"};
    const aclDataType types[] = {ACL_FLOAT, ACL_INT8};
    GROUP("aclop_3 every kind of attribute");
    aclopAttr *attr = aclopCreateAttr();
    CHECK(attr != NULL);
    CHECK_OK(aclopSetAttrBool(attr, "bool", 1));
    CHECK_OK(aclopSetAttrInt(attr, "int", 7));
    CHECK_OK(aclopSetAttrFloat(attr, "float", 0.5f));
    CHECK_OK(aclopSetAttrString(attr, "string", "text"));
    CHECK_OK(aclopSetAttrDataType(attr, "type", ACL_FLOAT16));
    CHECK_OK(aclopSetAttrListBool(attr, "bools", 2, flags));
    CHECK_OK(aclopSetAttrListInt(attr, "ints", 2, numbers));
    CHECK_OK(aclopSetAttrListFloat(attr, "floats", 1, reals));
    CHECK_OK(aclopSetAttrListString(attr, "strings", 2, texts));
    CHECK_OK(aclopSetAttrListDataType(attr, "types", 2, types));
    CHECK_OK(aclopSetAttrListListInt(attr, "lists", 2, lengths, lists));
    CHECK_OK(aclopSetAttrListInt(attr, "none", 0, NULL));

    GROUP("aclop_3 null and wrong values");
#define REFUSED(call, part) CHECK_FAIL(call, ACL_ERROR_INVALID_PARAM, part)
    REFUSED(aclopSetAttrBool(NULL, "bool", 1), "attr");
    REFUSED(aclopSetAttrInt(attr, NULL, 7), "attrName");
    REFUSED(aclopSetAttrFloat(NULL, "float", 0.5f), "attr");
    REFUSED(aclopSetAttrString(attr, "string", NULL), "attrValue");
    REFUSED(aclopSetAttrDataType(attr, "type", (aclDataType)99), "99");
    REFUSED(aclopSetAttrListBool(attr, "bools", 2, NULL), "values");
    REFUSED(aclopSetAttrListInt(attr, "ints", -1, numbers), "-1");
    REFUSED(aclopSetAttrListFloat(attr, "floats", 1, NULL), "values");
    REFUSED(aclopSetAttrListString(attr, "strings", 2, NULL), "values");
    REFUSED(aclopSetAttrListDataType(attr, "types", 2, NULL), "values");
    REFUSED(aclopSetAttrListListInt(attr, "lists", 2, NULL, lists), "values");
    CHECK_FAIL(aclopSetAttrInt((aclopAttr *)x, "int", 1), ACL_ERROR_RT_INVALID_HANDLE, "ever given out");

    GROUP("aclop_3 operators take them: Transpose by perm, MatMul with transpose_x1, both in one set");
    Operands in = {0}, out = {0};
    float four[] = {1, 2, 3, 4};
    void *device = on_device(four, sizeof four);
    CHECK_OK(aclopSetAttrBool(attr, "transpose_x1", 1));
    operand(&in, ACL_FLOAT, 2, square, device, sizeof four);
    operand(&in, ACL_FLOAT, 2, square, device, sizeof four);
    operand(&out, ACL_FLOAT, 2, square, z, sizeof four);
    CHECK_OK(run_op(EXECUTE, "MatMul", &in, &out, attr, stream));
    CHECK_OK(aclopSetAttrBool(attr, "transpose_x1", 0));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(z, 0) == 10.0f && number_at(z, 1) == 14.0f && number_at(z, 3) == 20.0f);
    CHECK_OK(run_op(EXECUTE, "MatMul", &in, &out, attr, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(z, 0) == 7.0f && number_at(z, 1) == 10.0f && number_at(z, 3) == 22.0f);
    CHECK_OK(aclopSetAttrListString(attr, "transpose_x1", 2, texts));
    CHECK_FAIL(run_op(EXECUTE, "MatMul", &in, &out, attr, stream), ACL_ERROR_INVALID_PARAM, "transpose_x1");
    destroy_operands(&in);
    destroy_operands(&out);
    aclopDestroyAttr(attr);
    aclGetRecentErrMsg();
    aclopDestroyAttr(attr);
    CHECK_TEXT("destroyed");
    aclopDestroyAttr(NULL);
    CHECK_OK(aclrtFree(device));
}

static void shapes(void)
{
    Operands in = {0}, out = {0};
    const int64_t column[] = {4, 1}, row[] = {5}, unknown[] = {-1, -1}, any[] = {-2};
    GROUP("aclop_4 inference, alone and by V2");
    operand(&in, ACL_FLOAT, 2, column, x, 4 * sizeof(float));
    operand(&in, ACL_FLOAT, 1, row, y, 5 * sizeof(float));
    aclTensorDesc *result = operand(&out, ACL_FLOAT, 2, unknown, z, sizeof values);
    CHECK_OK(aclopInferShape("Add", 2, in.descs, in.buffers, 1, out.descs, NULL));
    CHECK(aclGetTensorDescNumDims(result) == 2 && aclGetTensorDescDim(result, 0) == 4 && aclGetTensorDescDim(result, 1) == 5);
    destroy_operands(&out);
    result = operand(&out, ACL_FLOAT, 1, any, z, sizeof values);
    CHECK_OK(run_op(EXECUTE_V2, "Add", &in, &out, NULL, stream));
    CHECK(aclGetTensorDescNumDims(result) == 2 && aclGetTensorDescDim(result, 1) == 5);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(z, 19) == 3.0f + 8.0f);
    CHECK_FAIL(
        aclopInferShape("Add", 1, in.descs, in.buffers, 1, out.descs, NULL), ACL_ERROR_INVALID_PARAM, "Add");
    destroy_operands(&in);
    destroy_operands(&out);

    GROUP("aclop_4 outputs too large for any memory are not inferred");
    const int64_t tall[] = {1LL << 40, 1}, wide[] = {1LL << 40};
    operand(&in, ACL_FLOAT, 2, tall, NULL, 0);
    operand(&in, ACL_FLOAT, 1, wide, NULL, 0);
    operand(&out, ACL_FLOAT, 2, unknown, NULL, 0);
    CHECK_FAIL(
        aclopInferShape("Add", 2, in.descs, in.buffers, 1, out.descs, NULL), ACL_ERROR_INVALID_PARAM,
        "output 0 would be float[1099511627776, 1099511627776], which no memory holds");
    destroy_operands(&in);
    destroy_operands(&out);

    GROUP("aclop_4 sizes that depend on values are written after the operator ran");
    float with_zeros[] = {0, 5, 0, 7, 8, 0};
    int64_t indices[3] = {0};
    void *device = on_device(with_zeros, sizeof with_zeros);
    vector_operand(&in, 6, device);
    result = operand(&out, ACL_INT64, 2, unknown, z, 6 * sizeof(int64_t));
    CHECK_OK(run_op(COMPILE_V2, "NonZero", &in, &out, NULL, stream));
    CHECK(aclGetTensorDescNumDims(result) == 2 && aclGetTensorDescDim(result, 0) == 3 && aclGetTensorDescDim(result, 1) == 1);
    CHECK_OK(aclrtMemcpy(indices, sizeof indices, z, sizeof indices, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(indices[0] == 1 && indices[1] == 3 && indices[2] == 4);
    destroy_operands(&in);
    destroy_operands(&out);
    CHECK_OK(aclrtFree(device));

    GROUP("aclop_4 an absent optional input");
    const int64_t square[] = {2, 2};
    operand(&in, ACL_FLOAT, 2, square, x, 16);
    operand(&in, ACL_FLOAT, 2, square, x, 16);
    in.descs[2] = aclCreateTensorDesc(ACL_DT_UNDEFINED, 0, NULL, ACL_FORMAT_UNDEFINED);
    in.buffers[2] = aclCreateDataBuffer(NULL, 0);
    in.count = 3;
    operand(&out, ACL_FLOAT, 2, square, z, 16);
    CHECK_OK(run_op(COMPILE, "MatMul", &in, &out, NULL, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(z, 3) == 1.0f * 2.0f + 3.0f * 3.0f);
    destroy_operands(&in);
    destroy_operands(&out);
}

static void casts(void)
{
    Operands in = {0}, out = {0};
    const int64_t size = SIZE;
    int32_t integers[SIZE];
    aclopHandle *handle = NULL;
    GROUP("aclop_5 conversions, and handles for them");
    vector_operand(&in, SIZE, x);
    operand(&out, ACL_INT32, 1, &size, z, sizeof integers);
    CHECK_OK(aclopCast(in.descs[0], in.buffers[0], out.descs[0], out.buffers[0], 0, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(integers, sizeof integers, z, sizeof integers, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(integers[9] == 9 && integers[SIZE - 1] == SIZE - 1);
    CHECK_OK(aclopCreateHandleForCast(in.descs[0], out.descs[0], 0, &handle));
    CHECK_OK(aclrtMemset(z, sizeof integers, 0, sizeof integers));
    CHECK_OK(aclopExecWithHandle(handle, 1, (const aclDataBuffer *const *)in.buffers, 1, out.buffers, stream));
    aclopDestroyHandle(handle);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(integers, sizeof integers, z, sizeof integers, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(integers[9], 9);
    CHECK_FAIL(
        aclopCast(NULL, in.buffers[0], out.descs[0], out.buffers[0], 0, stream), ACL_ERROR_INVALID_PARAM, "srcDesc");
    CHECK_FAIL(aclopCreateHandleForCast(NULL, out.descs[0], 0, &handle), ACL_ERROR_INVALID_PARAM, "srcDesc");
    CHECK(handle == NULL);
    destroy_operands(&in);
    destroy_operands(&out);
}

static void description_settings(void)
{
    Operands in = {0}, out = {0};
    const int64_t unknown[] = {-1}, five[] = {5}, origin[] = {2, 3}, stored[] = {3, 2}, pair[] = {2}, six[] = {6};
    GROUP("aclop_7 aclSetTensorShape and aclSetTensorStorageShape: the sizes in memory are those of the operator");
    aclTensorDesc *desc = operand(&in, ACL_FLOAT, 1, unknown, x, 5 * sizeof(float));
    CHECK_OK(aclSetTensorShape(desc, 1, five));
    desc = operand(&in, ACL_FLOAT, 1, unknown, y, 5 * sizeof(float));
    CHECK_OK(aclSetTensorStorageShape(desc, 1, five));
    desc = operand(&out, ACL_FLOAT, 1, unknown, z, 5 * sizeof(float));
    CHECK_OK(aclrtMemset(z, sizeof values, 0, sizeof values));
    CHECK_OK(run_op(EXECUTE_V2, "Add", &in, &out, NULL, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(z, 4) == 12.0f && number_at(z, 5) == 0.0f);
    CHECK_EQ(aclGetTensorDescDim(desc, 0), 5);
    destroy_operands(&in);
    destroy_operands(&out);
    desc = operand(&in, ACL_FLOAT, 2, origin, x, 6 * sizeof(float));
    CHECK_OK(aclSetTensorShape(desc, 2, stored));
    desc = operand(&out, ACL_FLOAT, 1, unknown, z, 6 * sizeof(float));
    CHECK_OK(aclopInferShape("Relu", 1, in.descs, in.buffers, 1, out.descs, NULL));
    CHECK(aclGetTensorDescNumDims(desc) == 2 && aclGetTensorDescDim(desc, 0) == 3 && aclGetTensorDescDim(desc, 1) == 2);
    CHECK_OK(aclSetTensorShape(in.descs[0], 1, five));
    CHECK_FAIL(run_op(EXECUTE, "Relu", &in, &out, NULL, stream), ACL_ERROR_INVALID_PARAM, "[5] in memory");
    destroy_operands(&in);
    destroy_operands(&out);

    GROUP("aclop_7 aclSetTensorDynamicInput: only where the operator has such an input");
    CHECK_OK(aclSetTensorDynamicInput(vector_operand(&in, 2, x), "x"));
    CHECK_OK(aclSetTensorDynamicInput(vector_operand(&in, 3, y), "x"));
    vector_operand(&out, 5, z);
    aclopAttr *attr = aclopCreateAttr();
    CHECK_OK(aclopSetAttrInt(attr, "concat_dim", 0));
    CHECK_OK(run_op(EXECUTE, "ConcatD", &in, &out, attr, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(z, 1) == 1.0f && number_at(z, 4) == 4.0f);
    CHECK_OK(aclSetTensorDynamicInput(in.descs[1], "others"));
    CHECK_FAIL(run_op(EXECUTE, "ConcatD", &in, &out, attr, stream), ACL_ERROR_INVALID_PARAM, "others");
    CHECK_OK(aclSetTensorDynamicInput(in.descs[1], "x2"));
    CHECK_FAIL(run_op(EXECUTE, "Add", &in, &out, NULL, stream), ACL_ERROR_INVALID_PARAM, "no variable-length input");
    aclopDestroyAttr(attr);
    destroy_operands(&in);
    destroy_operands(&out);

    GROUP("aclop_7 aclSetTensorValueRange: a range of one value makes it known, others must lie in their range");
    int64_t exact[2][2] = {{2, 2}, {3, 3}}, wide[2][2] = {{1, 2}, {3, 9}}, reversed[1][2] = {{5, 4}};
    int64_t sizes[2] = {3, 2};
    operand(&in, ACL_FLOAT, 1, six, x, 6 * sizeof(float));
    desc = operand(&in, ACL_INT64, 1, pair, NULL, 0);
    operand(&out, ACL_FLOAT, 1, unknown, z, 6 * sizeof(float));
    CHECK_FAIL(aclSetTensorValueRange(desc, 1, reversed), ACL_ERROR_INVALID_PARAM, "valueRange[0] = [5, 4]");
    CHECK_OK(aclSetTensorValueRange(desc, 2, exact));
    CHECK_OK(aclopInferShape("Reshape", 2, in.descs, in.buffers, 1, out.descs, NULL));
    CHECK(aclGetTensorDescDim(out.descs[0], 0) == 2 && aclGetTensorDescDim(out.descs[0], 1) == 3);
    CHECK_OK(aclSetTensorConst(desc, sizes, sizeof sizes));
    CHECK_FAIL(
        aclopInferShape("Reshape", 2, in.descs, in.buffers, 1, out.descs, NULL), ACL_ERROR_INVALID_PARAM,
        "value 0 is 3, outside of the range [2, 2]");
    CHECK_OK(aclSetTensorValueRange(desc, 1, exact));
    CHECK_FAIL(run_op(EXECUTE, "Reshape", &in, &out, NULL, stream), ACL_ERROR_INVALID_PARAM, "a range for 1");
    sizes[0] = 2, sizes[1] = 3;
    CHECK_OK(aclSetTensorConst(desc, sizes, sizeof sizes));
    CHECK_OK(aclSetTensorValueRange(desc, 2, wide));
    CHECK_OK(aclopInferShape("Reshape", 2, in.descs, in.buffers, 1, out.descs, NULL));
    destroy_operands(&in);
    destroy_operands(&out);
}

static void models(void)
{
    GROUP("aclop_6 folders and models that exist are accepted");
    CHECK_OK(aclopSetModelDir("/"));
    CHECK_FAIL(aclopSetModelDir("/no/such/folder"), ACL_ERROR_INVALID_PARAM, "/no/such/folder");
    CHECK_FAIL(aclopSetModelDir(NULL), ACL_ERROR_INVALID_PARAM, "modelDir");
    CHECK_OK(aclopLoad(values, sizeof values));
    CHECK_FAIL(aclopLoad(NULL, 5), ACL_ERROR_INVALID_PARAM, "model");
    CHECK_FAIL(aclopLoad(values, 0), ACL_ERROR_INVALID_PARAM, "modelSize");
    CHECK_OK(aclopSetMaxOpQueueNum(100));
    CHECK_FAIL(aclopSetMaxOpQueueNum(0), ACL_ERROR_INVALID_PARAM, "maxOpNum");
    CHECK_OK(aclopSetCompileFlag(ACL_OP_COMPILE_FUZZ));
    CHECK_OK(aclopSetCompileFlag(ACL_OP_COMPILE_DEFAULT));
    CHECK_FAIL(aclopSetCompileFlag((aclOpCompileFlag)7), ACL_ERROR_INVALID_PARAM, "7");
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
    every_entry();
    refused();
    attributes();
    shapes();
    casts();
    description_settings();
    models();
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

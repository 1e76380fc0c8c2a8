// breaks: order
// env:
// env: CAIRN_WORKERS=1
/* Data sets, and runs of a static model. */
#include "mdl.h"

enum { ROWS = 2, COUNT = ROWS * 3, BYTES = COUNT * 4 };

static uint32_t id;
static aclrtStream stream;
static Tensors in, out;
static void *x, *y;

static void data_sets(void)
{
    int64_t dims[2] = {2, 3};
    aclDataBuffer *buffer = aclCreateDataBuffer(NULL, 0);
    GROUP("aclmdl_5 buffers and tensor descriptions of a data set");
    aclmdlDataset *set = aclmdlCreateDataset();
    CHECK(set != NULL);
    CHECK_EQ(aclmdlGetDatasetNumBuffers(set), 0);
    CHECK_OK(aclmdlAddDatasetBuffer(set, buffer));
    CHECK_EQ(aclmdlGetDatasetNumBuffers(set), 1);
    CHECK(aclmdlGetDatasetBuffer(set, 0) == buffer);
    CHECK(aclmdlGetDatasetBuffer(set, 1) == NULL);
    CHECK(aclmdlGetDatasetTensorDesc(set, 0) == NULL);
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND);
    CHECK_OK(aclmdlSetDatasetTensorDesc(set, desc, 0));
    aclDestroyTensorDesc(desc);
    aclTensorDesc *kept = aclmdlGetDatasetTensorDesc(set, 0);
    CHECK(kept != NULL && kept != desc);
    CHECK_EQ(aclGetTensorDescNumDims(kept), 2);
    CHECK_OK(aclmdlSetDatasetTensorDesc(set, NULL, 0));
    CHECK(aclmdlGetDatasetTensorDesc(set, 0) == NULL);
    CHECK_FAIL(aclmdlSetDatasetTensorDesc(set, NULL, 1), 100000, "index = 1");
    CHECK_FAIL(aclmdlSetDatasetTensorDesc(NULL, NULL, 0), 100000, "dataset");
    CHECK_FAIL(aclmdlAddDatasetBuffer(NULL, buffer), 100000, "dataset");
    CHECK_FAIL(aclmdlAddDatasetBuffer(set, NULL), 100000, "dataBuffer");
    CHECK_EQ(aclmdlGetDatasetNumBuffers(NULL), 0);
    CHECK(aclmdlGetDatasetBuffer(NULL, 0) == NULL);
    CHECK(aclmdlGetDatasetTensorDesc(NULL, 0) == NULL);
    CHECK(aclmdlGetDatasetTensorDesc(set, 1) == NULL);
    CHECK_FAIL(aclmdlDestroyDataset(NULL), 100000, "dataset");
    CHECK_OK(aclmdlDestroyDataset(set));
    CHECK_CODE(aclmdlDestroyDataset(set), 107017);
    CHECK_EQ(aclGetDataBufferSizeV2(buffer), 0);
    CHECK_OK(aclDestroyDataBuffer(buffer));
}

static void every_way(void)
{
    aclmdlExecConfigHandle *config = aclmdlCreateExecConfigHandle();
    int32_t timeout = 10000, bad = -2;
    GROUP("aclmdl_6 every function that runs a model");
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    CHECK(is_affine(y, ROWS));
    CHECK(aclmdlGetDatasetTensorDesc(out.set, 0) == NULL);
    CHECK_OK(aclrtMemset(y, BYTES, 0, BYTES));
    CHECK_OK(aclmdlExecuteAsync(id, in.set, out.set, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(is_affine(y, ROWS));
    CHECK_OK(aclrtMemset(y, BYTES, 0, BYTES));
    CHECK_OK(aclmdlExecuteAsync(id, in.set, out.set, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    CHECK(is_affine(y, ROWS));
    CHECK_OK(aclrtMemset(y, BYTES, 0, BYTES));
    CHECK(config != NULL);
    CHECK_OK(aclmdlSetExecConfigOpt(config, ACL_MDL_STREAM_SYNC_TIMEOUT, &timeout, sizeof timeout));
    CHECK_OK(aclmdlSetExecConfigOpt(config, ACL_MDL_EVENT_SYNC_TIMEOUT, &timeout, sizeof timeout));
    CHECK_OK(aclmdlExecuteV2(id, in.set, out.set, stream, config));
    CHECK(is_affine(y, ROWS));
    CHECK_OK(aclrtMemset(y, BYTES, 0, BYTES));
    CHECK_OK(aclmdlExecuteAsyncV2(id, in.set, out.set, stream, config));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(is_affine(y, ROWS));

    GROUP("aclmdl_6 the timeout of aclmdlExecuteV2");
    static Gate gate = GATE_CLOSED;
    timeout = 1;
    CHECK_OK(aclmdlSetExecConfigOpt(config, ACL_MDL_STREAM_SYNC_TIMEOUT, &timeout, sizeof timeout));
    gate_put(&gate, stream);
    CHECK_CODE(aclmdlExecuteV2(id, in.set, out.set, stream, config), 507046);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    gate_close(&gate);

    GROUP("aclmdl_6 invalid configurations of runs");
    CHECK_FAIL(aclmdlSetExecConfigOpt(config, ACL_MDL_STREAM_SYNC_TIMEOUT, &bad, 4), 100000, "-2");
    CHECK_FAIL(aclmdlSetExecConfigOpt(config, ACL_MDL_STREAM_SYNC_TIMEOUT, &timeout, 8), 100000, "8");
    CHECK_FAIL(aclmdlSetExecConfigOpt(config, ACL_MDL_STREAM_SYNC_TIMEOUT, NULL, 4), 100000, "attrValue");
    CHECK_FAIL(aclmdlSetExecConfigOpt(config, ACL_MDL_WORK_SIZET, &timeout, 4), 100000, "attr = 3");
    CHECK_FAIL(aclmdlSetExecConfigOpt(NULL, ACL_MDL_STREAM_SYNC_TIMEOUT, &timeout, 4), 100000, "handle");
    CHECK_FAIL(aclmdlExecuteV2(id, in.set, out.set, stream, NULL), 100000, "handle");
    CHECK_FAIL(aclmdlExecuteAsyncV2(id, in.set, out.set, stream, NULL), 100000, "handle");
    CHECK_OK(aclmdlDestroyExecConfigHandle(config));
    CHECK_CODE(aclmdlDestroyExecConfigHandle(config), 107017);
    CHECK_FAIL(aclmdlDestroyExecConfigHandle(NULL), 100000, "handle");

    GROUP("aclmdl_6 the priority of a model");
    aclmdlAttrValue_t value = {5};
    CHECK_OK(aclmdlSetAttribute(id, ACL_MDL_ATTR_PRIORITY_INT32, &value));
    memset(&value, 0xff, sizeof value);
    CHECK_OK(aclmdlGetAttribute(id, ACL_MDL_ATTR_PRIORITY_INT32, &value));
    CHECK_EQ(value.mdlPriority, 5);
    CHECK_OK(aclrtMemset(y, BYTES, 0, BYTES));
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    CHECK(is_affine(y, ROWS));
    value.mdlPriority = 8;
    CHECK_FAIL(aclmdlSetAttribute(id, ACL_MDL_ATTR_PRIORITY_INT32, &value), 100000, "mdlPriority = 8");
    value.mdlPriority = 0;
    CHECK_FAIL(aclmdlSetAttribute(id, (aclmdlAttr)1, &value), 100000, "attr = 1");
    CHECK_FAIL(aclmdlGetAttribute(id, (aclmdlAttr)1, &value), 100000, "attr = 1");
    CHECK_FAIL(aclmdlSetAttribute(id, ACL_MDL_ATTR_PRIORITY_INT32, NULL), 100000, "attrValue");
    CHECK_FAIL(aclmdlGetAttribute(id, ACL_MDL_ATTR_PRIORITY_INT32, NULL), 100000, "attrValue");
    CHECK_FAIL(aclmdlSetAttribute(999999, ACL_MDL_ATTR_PRIORITY_INT32, &value), 145003, "999999");
    CHECK_FAIL(aclmdlGetAttribute(999999, ACL_MDL_ATTR_PRIORITY_INT32, &value), 145003, "999999");
}

static void wrong_data(void)
{
    Tensors empty = tensors_new(), wrong = tensors_new();
    GROUP("aclmdl_6 wrong ids, data sets and numbers of buffers");
    CHECK_FAIL(aclmdlExecute(999999, in.set, out.set), 145003, "999999");
    CHECK_FAIL(aclmdlExecuteAsync(999999, in.set, out.set, stream), 145003, "999999");
    CHECK_FAIL(aclmdlExecute(id, NULL, out.set), 100000, "input");
    CHECK_FAIL(aclmdlExecute(id, in.set, NULL), 100000, "output");
    CHECK_FAIL(aclmdlExecuteAsync(id, in.set, NULL, stream), 100000, "output");
    CHECK_FAIL(aclmdlExecute(id, empty.set, out.set), 145000, "E13025");
    CHECK_FAIL(aclmdlExecute(id, in.set, empty.set), 145000, "0 buffers");
    CHECK_CODE(aclmdlExecuteAsync(id, in.set, out.set, (aclrtStream)(uintptr_t)0x1234), 107017);

    GROUP("aclmdl_6 a buffer may be up to 64 bytes short, or longer");
    float big[64] = {0};
    tensors_borrow(&wrong, x, 0);
    CHECK_OK(aclmdlExecute(id, wrong.set, out.set));
    CHECK_OK(aclUpdateDataBuffer(wrong.buffers[0], x, 4 * BYTES));
    CHECK_OK(aclmdlExecute(id, wrong.set, out.set));
    CHECK_OK(aclUpdateDataBuffer(wrong.buffers[0], y, 0));
    CHECK_OK(aclmdlExecute(id, in.set, wrong.set));
    CHECK(is_affine(y, ROWS));
    uint32_t large = model_load("large.om");
    CHECK_FAIL(aclmdlExecute(large, in.set, out.set), 145000, "16777216");
    CHECK_OK(aclmdlUnload(large));

    GROUP("aclmdl_6 host memory is refused");
    CHECK_OK(aclUpdateDataBuffer(wrong.buffers[0], big, sizeof big));
    CHECK_FAIL(aclmdlExecute(id, wrong.set, out.set), 100000, "host memory");
    CHECK_FAIL(aclmdlExecuteAsync(id, in.set, wrong.set, stream), 100000, "output 0");

    GROUP("aclmdl_6 a destroyed buffer is refused");
    CHECK_OK(aclDestroyDataBuffer(wrong.buffers[0]));
    CHECK_FAIL(aclmdlExecute(id, wrong.set, out.set), 107017, "buffer 0");
    CHECK_OK(aclmdlDestroyDataset(wrong.set));
    tensors_end(&empty);
}

static void no_memory(void)
{
    Tensors bare = tensors_new();
    GROUP("aclmdl_6 aclmdlExecute allocates an output without memory, and the caller frees it");
    tensors_borrow(&bare, NULL, 0);
    CHECK_OK(aclmdlExecute(id, in.set, bare.set));
    void *given = aclGetDataBufferAddr(bare.buffers[0]);
    CHECK(given != NULL);
    CHECK_EQ(aclGetDataBufferSizeV2(bare.buffers[0]), BYTES);
    CHECK(is_affine(given, ROWS));
    CHECK_OK(aclmdlExecute(id, in.set, bare.set));
    CHECK(aclGetDataBufferAddr(bare.buffers[0]) == given);
    CHECK_OK(aclrtFree(given));
    CHECK_OK(aclUpdateDataBuffer(bare.buffers[0], NULL, 0));

    GROUP("aclmdl_6 aclmdlExecuteAsync refuses an output without memory");
    CHECK_FAIL(aclmdlExecuteAsync(id, in.set, bare.set, stream), 100000, "output 0");
    CHECK(aclGetDataBufferAddr(bare.buffers[0]) == NULL);
    tensors_end(&bare);
}

static void copied_at_submission(void)
{
    static Gate gate = GATE_CLOSED;
    Tensors brief_in = tensors_new(), brief_out = tensors_new();
    GROUP("aclmdl_6 data sets and buffers may be destroyed after the submission");
    CHECK_OK(aclrtMemset(y, BYTES, 0, BYTES));
    tensors_borrow(&brief_in, x, BYTES);
    tensors_borrow(&brief_out, y, BYTES);
    gate_put(&gate, stream);
    CHECK_OK(aclmdlExecuteAsync(id, brief_in.set, brief_out.set, stream));
    float zeros[COUNT] = {0};
    CHECK(are_floats(y, zeros, COUNT));
    CHECK_OK(aclUpdateDataBuffer(brief_out.buffers[0], x, BYTES));
    tensors_end(&brief_in);
    tensors_end(&brief_out);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(is_affine(y, ROWS));
    float counted[COUNT] = {1, 2, 3, 4, 5, 6};
    CHECK(are_floats(x, counted, COUNT));
    gate_close(&gate);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    data_sets();
    id = model_load("affine.om");
    in = tensors_new();
    out = tensors_new();
    x = tensors_add(&in, BYTES);
    y = tensors_add(&out, BYTES);
    put_counted(x, COUNT);
    every_way();
    wrong_data();
    no_memory();
    copied_at_submission();
    tensors_end(&in);
    tensors_end(&out);
    CHECK_OK(aclmdlUnload(id));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

// breaks: model-on-two-streams order
// env:
// env: CAIRN_WORKERS=1
/*
 * Dynamic-shape models: shapes, outputs, and the registered allocator, which serves asynchronous runs on exactly
 * its stream.
 */
#include "mdl.h"
#include "pool.h"

static Pool pool, other;
static aclrtStream stream, second;

/* Every call of the pool's functions, in order: 'A' alloc, 'G' address, 'F' free. */
static char journal[256];

static void note(char what)
{
    size_t length = strlen(journal);
    if (length + 1 < sizeof journal)
        journal[length] = what;
}

static void *noted_alloc(aclrtAllocator object, size_t size)
{
    note('A');
    return pool_alloc(object, size);
}

static void *noted_address(aclrtAllocatorBlock block)
{
    note('G');
    return pool_address(block);
}

static void noted_free(aclrtAllocator object, aclrtAllocatorBlock block)
{
    note('F');
    pool_free(object, block);
}

static int times(char what)
{
    int count = 0;
    for (const char *at = journal; *at; at++)
        count += *at == what;
    return count;
}

static void check_output(aclmdlDataset *set, int64_t rows)
{
    aclTensorDesc *desc = aclmdlGetDatasetTensorDesc(set, 0);
    int64_t size = 0;
    CHECK(desc != NULL);
    CHECK_EQ(aclGetTensorDescNumDims(desc), 2);
    CHECK_OK(aclGetTensorDescDimV2(desc, 0, &size));
    CHECK_EQ(size, rows);
    CHECK_OK(aclGetTensorDescDimV2(desc, 1, &size));
    CHECK_EQ(size, 3);
    CHECK_EQ(aclGetTensorDescType(desc), ACL_FLOAT);
}

static void set_rows(Tensors *tensors, int64_t rows)
{
    int64_t dims[2] = {rows, 3};
    tensors_shape(tensors, 0, 2, dims);
}

static void sizes_of_runs(uint32_t id)
{
    Tensors in = tensors_new(), out = tensors_new();
    void *x = tensors_add(&in, 96), *y = tensors_add(&out, 96);
    put_counted(x, 24);

    GROUP("aclmdl_8 runs take input shapes from tensor descriptions, and set those of outputs");
    aclmdlExecConfigHandle *config = aclmdlCreateExecConfigHandle();
    for (int64_t rows = 1; rows <= 8; rows++) {
        set_rows(&in, rows);
        CHECK_OK(aclmdlExecute(id, in.set, out.set));
        CHECK(is_affine(y, (size_t)rows));
        check_output(out.set, rows);
        CHECK_OK(aclrtMemset(y, 96, 0, 96));
        CHECK_OK(aclmdlExecuteAsync(id, in.set, out.set, stream));
        check_output(out.set, rows);
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(is_affine(y, (size_t)rows));
        CHECK_OK(aclrtMemset(y, 96, 0, 96));
        CHECK_OK(aclmdlExecuteV2(id, in.set, out.set, stream, config));
        CHECK(is_affine(y, (size_t)rows));
    }
    CHECK_OK(aclmdlDestroyExecConfigHandle(config));

    GROUP("aclmdl_8 a shape outside of the range, no shape, too few inputs: 100000");
    set_rows(&in, 9);
    CHECK_FAIL(aclmdlExecute(id, in.set, out.set), 100000, "[9, 3]");
    CHECK_FAIL(aclmdlExecuteAsync(id, in.set, out.set, stream), 100000, "(1, 8)");
    int64_t wrong[3] = {2, 3, 1};
    tensors_shape(&in, 0, 3, wrong);
    CHECK_FAIL(aclmdlExecute(id, in.set, out.set), 100000, "[2, 3, 1]");
    CHECK_OK(aclmdlSetDatasetTensorDesc(in.set, NULL, 0));
    CHECK_FAIL(aclmdlExecute(id, in.set, out.set), 100000, "aclmdlSetDatasetTensorDesc");
    Tensors empty = tensors_new();
    CHECK_FAIL(aclmdlExecute(id, empty.set, out.set), 100000, "0 buffers");
    CHECK_FAIL(aclmdlExecute(id, in.set, empty.set), 145000, "E13025");

    GROUP("aclmdl_8 more inputs are accepted, memory that is too small is not");
    set_rows(&in, 2);
    tensors_add(&in, 16);
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    CHECK(is_affine(y, 2));
    CHECK_OK(aclUpdateDataBuffer(out.buffers[0], y, 23));
    CHECK_FAIL(aclmdlExecute(id, in.set, out.set), 100000, "24 bytes");
    CHECK_FAIL(aclmdlExecuteAsync(id, in.set, out.set, stream), 100000, "24 bytes");
    CHECK_OK(aclUpdateDataBuffer(out.buffers[0], y, 96));
    CHECK_OK(aclUpdateDataBuffer(in.buffers[0], x, 23));
    CHECK_FAIL(aclmdlExecute(id, in.set, out.set), 100000, "24 bytes");
    CHECK_OK(aclUpdateDataBuffer(in.buffers[0], x, 96));

    GROUP("aclmdl_8 the call copies an input in host memory");
    float counted[6] = {1, 2, 3, 4, 5, 6};
    CHECK_OK(aclUpdateDataBuffer(in.buffers[0], counted, sizeof counted));
    CHECK_OK(aclrtMemset(y, 96, 0, 96));
    CHECK_OK(aclmdlExecuteAsync(id, in.set, out.set, stream));
    memset(counted, 0, sizeof counted);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(is_affine(y, 2));
    CHECK_OK(aclUpdateDataBuffer(in.buffers[0], x, 96));

    GROUP("aclmdl_8 aclmdlExecute allocates an output without memory");
    CHECK_OK(aclUpdateDataBuffer(out.buffers[0], NULL, 0));
    CHECK_FAIL(aclmdlExecuteAsync(id, in.set, out.set, stream), 100000, "output 0");
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    void *given = aclGetDataBufferAddr(out.buffers[0]);
    CHECK_EQ(aclGetDataBufferSizeV2(out.buffers[0]), 24);
    CHECK(is_affine(given, 2));
    check_output(out.set, 2);
    CHECK_OK(aclrtFree(given));
    CHECK_OK(aclUpdateDataBuffer(out.buffers[0], y, 96));
    tensors_end(&empty);
    tensors_end(&in);
    tensors_end(&out);
}

static void values_decide(void)
{
    Tensors in = tensors_new(), out = tensors_new();
    float values[6] = {0, 5, 0, 7, 8, 0};
    GROUP("aclmdl_8 a shape that depends on values");
    uint32_t id = model_load("nonzero.onnx");
    put_floats(tensors_add(&in, 24), values, 6);
    tensors_borrow(&out, NULL, 0);
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    void *given = aclGetDataBufferAddr(out.buffers[0]);
    int64_t found[3] = {0}, size = 0;
    CHECK_EQ(aclGetDataBufferSizeV2(out.buffers[0]), 24);
    CHECK_OK(aclrtMemcpy(found, 24, given, 24, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(found[0] == 1 && found[1] == 3 && found[2] == 4);
    CHECK_OK(aclGetTensorDescDimV2(aclmdlGetDatasetTensorDesc(out.set, 0), 1, &size));
    CHECK_EQ(size, 3);
    CHECK_OK(aclrtFree(given));
    tensors_end(&in);
    tensors_end(&out);
    CHECK_OK(aclmdlUnload(id));
}

/* Runs on a stream, and counts the calls of the pool. */
static void run_counted(uint32_t id, Tensors *in, Tensors *out, aclrtStream on, int blocks)
{
    memset(journal, 0, sizeof journal);
    CHECK_OK(aclmdlExecuteAsync(id, in->set, out->set, on));
    CHECK_EQ(times('A'), blocks);
    CHECK_EQ(times('G'), blocks);
    CHECK_EQ(times('F'), blocks);
    CHECK_EQ(pool.out, 0);
    if (times('A') != blocks)
        printf("  the journal is %s\n", journal);
}

/* Blocks of one run: the product and the sum. With host data: a copy of what was computed from it on the host. */
enum { BLOCKS = 2, HOST_BLOCKS = 1 };

static void served(uint32_t id)
{
    static Gate gate = GATE_CLOSED;
    Tensors in = tensors_new(), out = tensors_new();
    void *x = tensors_add(&in, 96), *y = tensors_add(&out, 96);
    put_counted(x, 24);
    set_rows(&in, 4);

    GROUP("acl_reg_5 aclmdlExecuteAsync takes memory from the allocator and frees it, inside the call");
    register_with(stream, &pool, noted_alloc, noted_free, noted_address);
    CHECK_OK(aclrtMemset(y, 96, 0, 96));
    gate_put(&gate, stream);
    run_counted(id, &in, &out, stream, BLOCKS);
    CHECK_OK(aclrtSynchronizeStream(second));
    float zeros[12] = {0};
    CHECK(are_floats(y, zeros, 12));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    gate_close(&gate);
    CHECK(is_affine(y, 4));
    run_counted(id, &in, &out, stream, BLOCKS);
    CHECK_OK(aclrtSynchronizeStream(stream));

    GROUP("acl_reg_5 device copies of host data come from it too");
    float counted[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    CHECK_OK(aclUpdateDataBuffer(in.buffers[0], counted, sizeof counted));
    run_counted(id, &in, &out, stream, HOST_BLOCKS);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(is_affine(y, 4));
    CHECK_OK(aclUpdateDataBuffer(in.buffers[0], x, 96));

    GROUP("acl_reg_4 the allocator is looked up at every run");
    int before = other.allocs;
    pool_register(stream, &other);
    run_counted(id, &in, &out, stream, 0);
    CHECK_EQ(other.allocs, before + BLOCKS);
    CHECK_EQ(other.frees, before + BLOCKS);
    CHECK_OK(aclrtAllocatorUnregister(stream));
    run_counted(id, &in, &out, stream, 0);
    CHECK_EQ(other.allocs, before + BLOCKS);
    register_with(stream, &pool, noted_alloc, noted_free, noted_address);
    CHECK_OK(aclrtSynchronizeStream(stream));

    GROUP("acl_1_8_6 an allocator that fails in the middle of a run: 500002, all blocks are freed, the next run works");
    memset(pool.taken, 1, sizeof pool.taken);
    pool.taken[0] = 0;
    CHECK_FAIL(aclmdlExecuteAsync(id, in.set, out.set, stream), 500002, "");
    CHECK_EQ(pool.out, 0);
    memset(pool.taken, 0, sizeof pool.taken);
    CHECK_OK(aclrtSynchronizeStream(stream));
    run_counted(id, &in, &out, stream, BLOCKS);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(is_affine(y, 4));

    GROUP("acl_reg_9 other streams, the null stream, aclmdlExecute and loads do not call it");
    run_counted(id, &in, &out, second, 0);
    run_counted(id, &in, &out, NULL, 0);
    CHECK_OK(aclrtSynchronizeStream(second));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    aclmdlExecConfigHandle *config = aclmdlCreateExecConfigHandle();
    memset(journal, 0, sizeof journal);
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    CHECK_OK(aclmdlExecuteV2(id, in.set, out.set, stream, config));
    CHECK_OK(aclmdlExecuteAsyncV2(id, in.set, out.set, stream, config));
    uint32_t again = model_load("range.om");
    CHECK_OK(aclmdlUnload(again));
    CHECK_EQ(strlen(journal), 0);
    CHECK_OK(aclmdlDestroyExecConfigHandle(config));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(is_affine(y, 4));

    GROUP("acl_reg_9 static models and models with gears do not call it");
    uint32_t plain = model_load("affine.om"), geared = model_load("batch.om");
    Tensors with_gear = tensors_new();
    tensors_borrow(&with_gear, x, 96);
    tensors_add(&with_gear, 4);
    memset(journal, 0, sizeof journal);
    CHECK_OK(aclmdlExecuteAsync(plain, in.set, out.set, stream));
    CHECK_OK(aclmdlSetDynamicBatchSize(geared, with_gear.set, 1, 4));
    CHECK_OK(aclmdlExecuteAsync(geared, with_gear.set, out.set, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(is_affine(y, 4));
    CHECK_EQ(strlen(journal), 0);
    tensors_end(&with_gear);
    CHECK_OK(aclmdlUnload(plain));
    CHECK_OK(aclmdlUnload(geared));

    CHECK_OK(aclrtAllocatorUnregister(stream));
    tensors_end(&in);
    tensors_end(&out);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&second));
    pool_open(&pool);
    pool_open(&other);
    uint32_t range = model_load("range.om"), open = model_load("open.onnx");
    sizes_of_runs(range);
    values_decide();
    served(range);
    served(open);
    CHECK_OK(aclmdlUnload(range));
    CHECK_OK(aclmdlUnload(open));
    pool_close(&pool);
    pool_close(&other);
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtDestroyStream(second));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

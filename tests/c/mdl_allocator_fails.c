/* An allocator that fails on the n-th block of a run of a dynamic-shape model, for every n; and loops. */
#include "mdl.h"
#include "pool.h"

enum { ROWS = 4, COUNT = ROWS * 3, BYTES = COUNT * 4 };

static Pool pool;
static aclrtStream stream;
static int fails_at, most_out;

static void *failing_alloc(aclrtAllocator object, size_t size)
{
    Pool *of = (Pool *)object;
    if (fails_at && --fails_at == 0)
        return NULL;
    void *block = pool_alloc(object, size);
    if (of->out > most_out)
        most_out = of->out;
    return block;
}

/* How many blocks a run takes; the most that are out at a time are in most_out. */
static int run_counted(uint32_t id, Tensors *in, Tensors *out)
{
    int before = pool.allocs, addresses = pool.addresses, frees = pool.frees;
    most_out = 0;
    CHECK_OK(aclmdlExecuteAsync(id, in->set, out->set, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(pool.out, 0);
    CHECK_EQ(pool.addresses - addresses, pool.allocs - before);
    CHECK_EQ(pool.frees - frees, pool.allocs - before);
    return pool.allocs - before;
}

/* Every block of a run is refused once. */
static void fails_everywhere(uint32_t id, Tensors *in, Tensors *out, const void *y, const float *expected)
{
    int blocks = run_counted(id, in, out);
    CHECK(blocks > 0);
    CHECK(are_floats(y, expected, COUNT));
    for (int n = 1; n <= blocks; n++) {
        fails_at = n;
        aclError code = aclmdlExecuteAsync(id, in->set, out->set, stream);
        CHECK_EQ(code, 500002);
        CHECK_EQ(fails_at, 0);
        CHECK_EQ(pool.out, 0);
        CHECK_OK(aclrtSynchronizeStream(stream));
    }
    CHECK_EQ(run_counted(id, in, out), blocks);
    CHECK(are_floats(y, expected, COUNT));
}

int main(void)
{
    int64_t dims[2] = {ROWS, 3};
    float expected[COUNT];
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    pool_open(&pool);
    register_with(stream, &pool, failing_alloc, pool_free, pool_address);
    Tensors in = tensors_new(), out = tensors_new();
    put_counted(tensors_add(&in, BYTES), COUNT);
    void *y = tensors_add(&out, BYTES);
    tensors_shape(&in, 0, 2, dims);

    GROUP("acl_1_8_6 an allocator that fails on the n-th block of a model's run, for every n");
    uint32_t id = model_load("range.om");
    for (int i = 0; i < COUNT; i++)
        expected[i] = (float)((i + 1) * (i % 3 + 1) + 10 * (i % 3 + 1));
    fails_everywhere(id, &in, &out, y, expected);
    CHECK_OK(aclmdlUnload(id));
    tensors_end(&in);

    GROUP("acl_reg_5 loops take blocks from it, and an iteration gives its blocks back before the next");
    id = model_load("loop.onnx");
    in = tensors_new();
    int64_t *turns = tensors_add(&in, 8);
    put_counted(tensors_add(&in, BYTES), COUNT);
    aclTensorDesc *scalar = aclCreateTensorDesc(ACL_INT64, 0, NULL, ACL_FORMAT_ND);
    CHECK_OK(aclmdlSetDatasetTensorDesc(in.set, scalar, 0));
    aclDestroyTensorDesc(scalar);
    tensors_shape(&in, 1, 2, dims);
    int blocks[9] = {0}, most[9] = {0};
    for (int64_t n = 1; n <= 8; n++) {
        CHECK_OK(aclrtMemcpy(turns, 8, &n, 8, ACL_MEMCPY_HOST_TO_DEVICE));
        blocks[n] = run_counted(id, &in, &out);
        most[n] = most_out;
        for (int i = 0; i < COUNT; i++)
            expected[i] = (float)((i + 1) << n);
        CHECK(are_floats(y, expected, COUNT));
    }
    for (int n = 4; n <= 8; n++) {
        CHECK_EQ(blocks[n] - blocks[n - 1], blocks[3] - blocks[2]);
        CHECK_EQ(most[n], most[3]);
    }
    CHECK(blocks[3] > blocks[2]);

    GROUP("acl_1_8_6 an allocator that fails in any iteration of a loop");
    fails_everywhere(id, &in, &out, y, expected);
    CHECK_OK(aclmdlUnload(id));

    GROUP("acl_reg_6 two streams with one allocator: its functions are called one at a time");
    aclrtStream second;
    CHECK_OK(aclrtCreateStream(&second));
    register_with(second, &pool, failing_alloc, pool_free, pool_address);
    id = model_load("range.om");
    Tensors rows = tensors_new();
    put_counted(tensors_add(&rows, BYTES), COUNT);
    tensors_shape(&rows, 0, 2, dims);
    for (int turn = 0; turn < 20; turn++) {
        CHECK_OK(aclmdlExecuteAsync(id, rows.set, out.set, turn % 2 ? second : stream));
        CHECK_OK(aclrtSynchronizeStream(turn % 2 ? second : stream));
        CHECK(is_affine(y, ROWS));
    }
    CHECK_EQ(pool.overlaps, 0);
    CHECK_OK(aclmdlUnload(id));

    GROUP("acl_reg_7 after a synchronize the memory of the pool can be freed");
    CHECK_OK(aclrtAllocatorUnregister(stream));
    CHECK_OK(aclrtAllocatorUnregister(second));
    pool_close(&pool);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtDestroyStream(second));
    tensors_end(&rows);
    tensors_end(&in);
    tensors_end(&out);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

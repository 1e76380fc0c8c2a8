/* Gears: getters, selection for a data set, and runs. */
#include "mdl.h"

/* A thread that runs one gear of a model, again and again. */
struct Turns {
    uint32_t id;
    void *x;
    uint64_t rows;
};

static void *run_gear(void *argument)
{
    struct Turns *turns = (struct Turns *)argument;
    aclrtStream stream;
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    Tensors in = tensors_new(), out = tensors_new();
    tensors_borrow(&in, turns->x, 48);
    tensors_add(&in, 4);
    void *y = tensors_add(&out, 48);
    for (int turn = 0; turn < 100; turn++) {
        CHECK_OK(aclmdlSetDynamicBatchSize(turns->id, in.set, 1, turns->rows));
        CHECK_OK(aclmdlExecuteAsync(turns->id, in.set, out.set, stream));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(is_affine(y, turns->rows));
    }
    tensors_end(&in);
    tensors_end(&out);
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    return NULL;
}

static void batch(void)
{
    aclmdlBatch gears;
    aclmdlHW sizes;
    aclmdlIODims dims;
    aclmdlIODimsRange ranges;
    size_t index = 0, count = 9;
    uint32_t id = model_load("batch.om");
    aclmdlDesc *desc = model_desc(id);

    GROUP("aclmdl_7 batch gears add an input that selects one");
    CHECK_EQ(aclmdlGetNumInputs(desc), 2);
    CHECK_OK(aclmdlGetInputIndexByName(desc, ACL_DYNAMIC_TENSOR_NAME, &index));
    CHECK_EQ(index, 1);
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 1), 4);
    CHECK_EQ(aclmdlGetInputDataType(desc, 1), ACL_INT32);
    CHECK_OK(aclmdlGetInputDims(desc, 1, &dims));
    CHECK(dims.dimCount == 1 && dims.dims[0] == 1);
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 0), 4 * 3 * 4);
    CHECK_EQ(aclmdlGetOutputSizeByIndex(desc, 0), 4 * 3 * 4);
    CHECK_OK(aclmdlGetInputDims(desc, 0, &dims));
    CHECK(dims.dims[0] == -1 && dims.dims[1] == 3);
    CHECK_OK(aclmdlGetOutputDims(desc, 0, &dims));
    CHECK(dims.dims[0] == 4 && dims.dims[1] == 3);
    CHECK_OK(aclmdlGetCurOutputDims(desc, 0, &dims));
    CHECK_EQ(dims.dims[0], 4);
    CHECK_OK(aclmdlGetInputDimsRange(desc, 0, &ranges));
    CHECK_EQ(ranges.rangeCount, 0);
    CHECK_OK(aclmdlGetDynamicBatch(desc, &gears));
    CHECK_EQ(gears.batchCount, 3);
    CHECK(gears.batch[0] == 1 && gears.batch[1] == 2 && gears.batch[2] == 4);
    CHECK_OK(aclmdlGetDynamicHW(desc, 7, &sizes));
    CHECK_EQ(sizes.hwCount, 0);
    CHECK_OK(aclmdlGetInputDynamicGearCount(desc, (size_t)-1, &count));
    CHECK_EQ(count, 0);

    GROUP("aclmdl_7 the largest gear runs by default, else the selected one");
    Tensors in = tensors_new(), out = tensors_new();
    put_counted(tensors_add(&in, 48), 12);
    void *chosen = tensors_add(&in, 4);
    void *y = tensors_add(&out, 48);
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    CHECK(is_affine(y, 4));
    for (uint64_t rows = 1; rows <= 4; rows *= 2) {
        int32_t written = 0;
        CHECK_OK(aclrtMemset(y, 48, 0, 48));
        CHECK_OK(aclmdlSetDynamicBatchSize(id, in.set, 1, rows));
        CHECK_OK(aclrtMemcpy(&written, 4, chosen, 4, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK_EQ(written, rows);
        CHECK_OK(aclmdlGetCurOutputDims(desc, 0, &dims));
        CHECK_EQ(dims.dims[0], rows);
        CHECK_OK(aclmdlExecute(id, in.set, out.set));
        CHECK(is_affine(y, rows));
        float after = 1;
        if (rows < 4) {
            CHECK_OK(aclrtMemcpy(&after, 4, (char *)y + rows * 12, 4, ACL_MEMCPY_DEVICE_TO_HOST));
            CHECK(after == 0);
        }
    }

    GROUP("aclmdl_7 runs of different gears on two streams");
    aclrtStream streams[2];
    Tensors outs[2] = {tensors_new(), tensors_new()};
    void *ys[2];
    for (int i = 0; i < 2; i++) {
        CHECK_OK(aclrtCreateStream(&streams[i]));
        ys[i] = tensors_add(&outs[i], 48);
    }
    for (int turn = 0; turn < 50; turn++)
        for (int i = 0; i < 2; i++) {
            CHECK_OK(aclmdlSetDynamicBatchSize(id, in.set, 1, i ? 4 : 2));
            CHECK_OK(aclmdlExecuteAsync(id, in.set, outs[i].set, streams[i]));
        }
    for (int i = 0; i < 2; i++) {
        CHECK_OK(aclrtSynchronizeStream(streams[i]));
        CHECK(is_affine(ys[i], i ? 4 : 2));
        tensors_end(&outs[i]);
        CHECK_OK(aclrtDestroyStream(streams[i]));
    }

    GROUP("aclmdl_7 threads with different gears on one model");
    pthread_t threads[2];
    struct Turns turns[2] = {{id, in.memory[0], 1}, {id, in.memory[0], 4}};
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, run_gear, &turns[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);

    GROUP("aclmdl_7 not a gear: 145013; a short buffer: 145012; 0, null or a wrong index: 100000");
    CHECK_FAIL(aclmdlSetDynamicBatchSize(id, in.set, 1, 3), 145013, "[1], [2], [4]");
    CHECK_FAIL(aclmdlSetDynamicBatchSize(id, in.set, 1, 0), 100000, "batchSize = 0");
    CHECK_FAIL(aclmdlSetDynamicBatchSize(id, NULL, 1, 2), 100000, "dataset");
    CHECK_FAIL(aclmdlSetDynamicBatchSize(id, in.set, 0, 2), 100000, "index = 0");
    CHECK_FAIL(aclmdlSetDynamicBatchSize(id, in.set, 5, 2), 100000, "index = 5");
    CHECK_FAIL(aclmdlSetDynamicBatchSize(999999, in.set, 1, 2), 145003, "999999");
    CHECK_FAIL(aclmdlSetDynamicHWSize(id, in.set, 1, 2, 2), 145013, "image size");
    CHECK_OK(aclUpdateDataBuffer(in.buffers[1], chosen, 3));
    CHECK_FAIL(aclmdlSetDynamicBatchSize(id, in.set, 1, 2), 145012, "3 bytes");
    CHECK_OK(aclUpdateDataBuffer(in.buffers[1], NULL, 4));
    CHECK_FAIL(aclmdlSetDynamicBatchSize(id, in.set, 1, 2), 100000, "no memory");
    CHECK_OK(aclUpdateDataBuffer(in.buffers[1], chosen, 8));
    CHECK_OK(aclrtMemset(chosen, 8, 0xff, 8));
    CHECK_OK(aclmdlSetDynamicBatchSize(id, in.set, 1, 2));
    int64_t wide = 0;
    CHECK_OK(aclrtMemcpy(&wide, 8, chosen, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(wide, 2);

    GROUP("aclmdl_7 getters with null or a wrong index");
    CHECK_FAIL(aclmdlGetDynamicBatch(desc, NULL), 100000, "batch");
    CHECK_FAIL(aclmdlGetDynamicBatch(NULL, &gears), 100000, "modelDesc");
    CHECK_FAIL(aclmdlGetDynamicHW(desc, 0, NULL), 100000, "hw");
    CHECK_FAIL(aclmdlGetInputDynamicGearCount(desc, 0, &count), 100000, "index = 0");
    CHECK_FAIL(aclmdlGetInputDynamicGearCount(desc, (size_t)-1, NULL), 100000, "gearCount");
    CHECK_FAIL(aclmdlGetInputDynamicDims(desc, 0, &dims, 1), 100000, "index = 0");
    CHECK_FAIL(aclmdlGetInputDynamicDims(desc, (size_t)-1, NULL, 1), 100000, "dims");

    GROUP("aclmdl_7 a data set with the gear of another model, and one without the last buffer");
    uint32_t image = model_load("image.om");
    CHECK_FAIL(aclmdlExecute(image, in.set, out.set), 145013, "[2]");
    CHECK_OK(aclmdlUnload(image));
    Tensors few = tensors_new();
    tensors_add(&few, 48);
    CHECK_FAIL(aclmdlExecute(id, few.set, out.set), 145000, "E13025");
    tensors_end(&few);

    tensors_end(&in);
    tensors_end(&out);
    CHECK_OK(aclmdlUnload(id));
    CHECK_CODE(aclmdlGetCurOutputDims(desc, 0, &dims), 145003);
    CHECK_OK(aclmdlDestroyDesc(desc));
}

static void image(void)
{
    aclmdlHW sizes;
    aclmdlBatch gears;
    aclmdlIODims dims;
    uint32_t id = model_load("image.om");
    aclmdlDesc *desc = model_desc(id);
    GROUP("aclmdl_7 image gears");
    CHECK_OK(aclmdlGetDynamicHW(desc, 0, &sizes));
    CHECK_EQ(sizes.hwCount, 2);
    CHECK(sizes.hw[0][0] == 2 && sizes.hw[0][1] == 2 && sizes.hw[1][0] == 3 && sizes.hw[1][1] == 5);
    CHECK_OK(aclmdlGetDynamicBatch(desc, &gears));
    CHECK_EQ(gears.batchCount, 0);
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 0), 60);
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 1), 8);
    Tensors in = tensors_new(), out = tensors_new();
    float values[15] = {-1, 2, -3, 4, -5, 6, -7, 8, -9, 10, -11, 12, -13, 14, -15};
    float rectified[15] = {0, 2, 0, 4, 0, 6, 0, 8, 0, 10, 0, 12, 0, 14, 0};
    put_floats(tensors_add(&in, 60), values, 15);
    tensors_add(&in, 8);
    void *y = tensors_add(&out, 60);
    CHECK_OK(aclrtMemset(y, 60, 0, 60));
    CHECK_OK(aclmdlSetDynamicHWSize(id, in.set, 1, 2, 2));
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    float first[6] = {0, 2, 0, 4, 0, 0};
    CHECK(are_floats(y, first, 6));
    CHECK_OK(aclmdlGetCurOutputDims(desc, 0, &dims));
    CHECK(dims.dims[2] == 2 && dims.dims[3] == 2);
    CHECK_OK(aclmdlSetDynamicHWSize(id, in.set, 1, 3, 5));
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    CHECK(are_floats(y, rectified, 15));
    CHECK_FAIL(aclmdlSetDynamicHWSize(id, in.set, 1, 5, 3), 145013, "[5, 3]");
    CHECK_FAIL(aclmdlSetDynamicHWSize(id, in.set, 1, 0, 3), 100000, "height = 0");
    CHECK_FAIL(aclmdlSetDynamicHWSize(id, in.set, 1, 3, 0), 100000, "width = 0");
    CHECK_FAIL(aclmdlSetDynamicHWSize(id, NULL, 1, 3, 3), 100000, "dataset");
    CHECK_FAIL(aclmdlSetDynamicBatchSize(id, in.set, 1, 2), 145013, "batch");
    tensors_end(&in);
    tensors_end(&out);
    CHECK_OK(aclmdlDestroyDesc(desc));
    CHECK_OK(aclmdlUnload(id));
}

static void any_sizes(void)
{
    aclmdlIODims gears[3], dims = {{0}, 4, {3, 2, 2, 4}};
    size_t count = 0;
    uint32_t id = model_load("dims.om");
    aclmdlDesc *desc = model_desc(id);
    GROUP("aclmdl_7 dims gears");
    CHECK_OK(aclmdlGetInputDynamicGearCount(desc, (size_t)-1, &count));
    CHECK_EQ(count, 2);
    CHECK_FAIL(aclmdlGetInputDynamicDims(desc, (size_t)-1, gears, 1), 100000, "gearCount = 1");
    CHECK_OK(aclmdlGetInputDynamicDims(desc, (size_t)-1, gears, 3));
    CHECK_EQ(gears[0].dimCount, 4);
    CHECK(gears[0].dims[0] == 1 && gears[0].dims[1] == 2 && gears[0].dims[2] == 2 && gears[0].dims[3] == 2);
    CHECK(gears[1].dims[0] == 3 && gears[1].dims[1] == 2 && gears[1].dims[2] == 2 && gears[1].dims[3] == 4);
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 2), 8);
    Tensors in = tensors_new(), out = tensors_new();
    put_counted(tensors_add(&in, 24), 6);
    put_counted(tensors_add(&in, 32), 8);
    tensors_add(&in, 8);
    void *y = tensors_add(&out, 48);
    CHECK_OK(aclmdlSetInputDynamicDims(id, in.set, 2, &gears[0]));
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    float small[2] = {1 * 1 + 2 * 3, 1 * 2 + 2 * 4};
    CHECK(are_floats(y, small, 2));
    CHECK_OK(aclmdlSetInputDynamicDims(id, in.set, 2, &dims));
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    float large[12];
    for (int row = 0; row < 3; row++)
        for (int column = 0; column < 4; column++)
            large[row * 4 + column] = (float)((2 * row + 1) * (column + 1) + (2 * row + 2) * (column + 5));
    CHECK(are_floats(y, large, 12));

    GROUP("aclmdl_7 shapes that do not fit the inputs: 145012; not a gear: 145013");
    dims.dims[1] = 3;
    CHECK_FAIL(aclmdlSetInputDynamicDims(id, in.set, 2, &dims), 145012, "[3, 3, 2, 4]");
    dims.dims[1] = 2;
    dims.dims[3] = 2;
    CHECK_FAIL(aclmdlSetInputDynamicDims(id, in.set, 2, &dims), 145013, "[3, 2]");
    dims.dimCount = 3;
    CHECK_FAIL(aclmdlSetInputDynamicDims(id, in.set, 2, &dims), 145012, "[3, 2, 2]");
    dims.dimCount = 0;
    CHECK_FAIL(aclmdlSetInputDynamicDims(id, in.set, 2, &dims), 100000, "dimCount = 0");
    dims.dimCount = 129;
    CHECK_FAIL(aclmdlSetInputDynamicDims(id, in.set, 2, &dims), 100000, "dimCount = 129");
    CHECK_FAIL(aclmdlSetInputDynamicDims(id, in.set, 2, NULL), 100000, "dims");
    CHECK_FAIL(aclmdlSetInputDynamicDims(id, NULL, 2, &dims), 100000, "dataset");
    tensors_end(&in);
    tensors_end(&out);
    CHECK_OK(aclmdlDestroyDesc(desc));
    CHECK_OK(aclmdlUnload(id));

    GROUP("aclmdl_7 a model without gears");
    uint32_t plain = model_load("affine.om");
    Tensors set = tensors_new();
    tensors_add(&set, 24);
    dims.dimCount = 2;
    CHECK_FAIL(aclmdlSetDynamicBatchSize(plain, set.set, 0, 2), 145013, "none");
    CHECK_FAIL(aclmdlSetInputDynamicDims(plain, set.set, 0, &dims), 145013, "none");
    tensors_end(&set);
    CHECK_OK(aclmdlUnload(plain));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    batch();
    image();
    any_sizes();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

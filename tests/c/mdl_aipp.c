/* Models that prepare their images (static AIPP), beside loops over pixels that do the same. */
#include "mdl.h"

static uint8_t image[256];
static float result[256];

static void draw(size_t count)
{
    uint32_t state = 12345;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        image[i] = (uint8_t)(state >> 24);
    }
}

/* Runs on the first bytes of the image; `gear` adds the buffer of a gear, of this many numbers. */
static void run(uint32_t id, size_t bytes, size_t count, int gear, uint64_t first, uint64_t second)
{
    Tensors in = tensors_new(), out = tensors_new();
    void *x = tensors_add(&in, bytes), *y = tensors_add(&out, count * 4);
    CHECK_OK(aclrtMemcpy(x, bytes, image, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    if (gear)
        tensors_add(&in, (size_t)gear * 4);
    if (gear == 1)
        CHECK_OK(aclmdlSetDynamicBatchSize(id, in.set, 1, first));
    if (gear == 2)
        CHECK_OK(aclmdlSetDynamicHWSize(id, in.set, 1, first, second));
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    CHECK_OK(aclrtMemcpy(result, sizeof result, y, count * 4, ACL_MEMCPY_DEVICE_TO_HOST));
    tensors_end(&in);
    tensors_end(&out);
}

static float positive(float value)
{
    return value > 0 ? value : 0;
}

static void check_dims(aclmdlDesc *desc, const int64_t dims[4], const int64_t fed[4])
{
    aclmdlIODims found;
    CHECK_OK(aclmdlGetInputDims(desc, 0, &found));
    CHECK(found.dimCount == 4 && memcmp(found.dims, dims, 32) == 0);
    CHECK_OK(aclmdlGetInputDimsV2(desc, 0, &found));
    CHECK(found.dimCount == 4 && memcmp(found.dims, fed, 32) == 0);
    CHECK_EQ(aclmdlGetInputDataType(desc, 0), ACL_UINT8);
    CHECK_EQ(aclmdlGetInputFormat(desc, 0), ACL_FORMAT_NHWC);
}

static aclAippInfo *aipp_of(uint32_t id)
{
    aclmdlInputAippType type = ACL_DYNAMIC_AIPP_NODE;
    size_t attached = 1;
    CHECK_OK(aclmdlGetAippType(id, 0, &type, &attached));
    CHECK_EQ(type, ACL_DATA_WITH_STATIC_AIPP);
    CHECK_EQ(attached, ACL_INVALID_NODE_INDEX);
    aclAippInfo *info = malloc(sizeof *info);
    memset(info, 0x5a, sizeof *info);
    CHECK_OK(aclmdlGetFirstAippInfo(id, 0, info));
    CHECK(info->aippExtend == NULL);
    CHECK_EQ(info->resizeSwitch, 0);
    CHECK_EQ(info->srcFormat, ACL_FORMAT_NCHW);
    CHECK_EQ(info->srcDatatype, ACL_FLOAT);
    CHECK_EQ(info->srcDimNum, 4);
    return info;
}

static void rgb(void)
{
    GROUP("aclmdl_11 an RGB image: cropped, red and blue swapped, normalised");
    uint32_t id = model_load("aipp_rgb.om");
    aclmdlDesc *desc = model_desc(id);
    check_dims(desc, (int64_t[]){1, 5, 6, 3}, (int64_t[]){1, 5, 6, 3});
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 0), 90);
    CHECK_OK(aclmdlDestroyDesc(desc));
    draw(90);
    run(id, 90, 48, 0, 0, 0);
    const float mean[3] = {10, 20.5f, 30}, factor[3] = {0.5f, 0.25f, 2};
    for (int c = 0; c < 3; c++)
        for (int h = 0; h < 4; h++)
            for (int w = 0; w < 4; w++) {
                float pixel = image[((h + 1) * 6 + w + 2) * 3 + 2 - c];
                CHECK(result[(c * 4 + h) * 4 + w] == positive((pixel - mean[c]) * factor[c]));
            }

    GROUP("aclmdl_11 the parameters of static AIPP");
    aclAippInfo *info = aipp_of(id);
    CHECK_EQ(info->inputFormat, ACL_RGB888_U8);
    CHECK(info->srcImageSizeH == 5 && info->srcImageSizeW == 6);
    CHECK(info->cropSwitch == 1 && info->loadStartPosH == 1 && info->loadStartPosW == 2);
    CHECK(info->cropSizeH == 4 && info->cropSizeW == 4);
    CHECK(info->rbuvSwapSwitch == 1 && info->axSwapSwitch == 0 && info->cscSwitch == 0 && info->paddingSwitch == 0);
    CHECK(info->meanChn0 == 10 && info->meanChn2 == 30 && info->minChn1 == 0.5f && info->varReciChn1 == 0.25f);
    CHECK_EQ(info->shapeCount, 1);
    CHECK(memcmp(info->outDims[0].srcDims.dims, (int64_t[]){1, 5, 6, 3}, 32) == 0);
    CHECK_EQ(info->outDims[0].srcSize, 90);
    CHECK(memcmp(info->outDims[0].aippOutdims.dims, (int64_t[]){1, 3, 4, 4}, 32) == 0);
    CHECK_EQ(info->outDims[0].aippOutSize, 48 * 4);
    CHECK_FAIL(aclmdlGetFirstAippInfo(id, 1, info), 100000, "index = 1");
    free(info);

    GROUP("aclmdl_11 parameters of runs for static AIPP: 145016");
    Tensors in = tensors_new();
    tensors_add(&in, 90);
    aclmdlAIPP *set = aclmdlCreateAIPP(1);
    CHECK_FAIL(aclmdlSetInputAIPP(id, in.set, 0, set), 145016, "static");
    CHECK_FAIL(aclmdlSetAIPPByInputIndex(id, in.set, 0, set), 145016, "static");
    CHECK_OK(aclmdlDestroyAIPP(set));
    tensors_end(&in);
    CHECK_OK(aclmdlUnload(id));
}

static float byte_of(int value)
{
    int shifted = value >> 8;
    return (float)(shifted < 0 ? 0 : shifted > 255 ? 255 : shifted);
}

static void yuv(void)
{
    GROUP("aclmdl_11 a YUV420SP image: as it is fed it has half as many rows again, and one channel");
    uint32_t id = model_load("aipp_yuv.om");
    aclmdlDesc *desc = model_desc(id);
    check_dims(desc, (int64_t[]){1, 4, 4, 3}, (int64_t[]){1, 6, 4, 1});
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 0), 24);
    CHECK_OK(aclmdlDestroyDesc(desc));
    draw(24);
    run(id, 24, 72, 0, 0, 0);
    for (int h = 0; h < 4; h++)
        for (int w = 0; w < 6; w++) {
            float expected[3] = {7, 7, 7};
            if (w >= 1 && w <= 4) {
                int y = image[h * 4 + w - 1];
                int u = image[16 + h / 2 * 4 + (w - 1) / 2 * 2] - 128;
                int v = image[16 + h / 2 * 4 + (w - 1) / 2 * 2 + 1] - 128;
                expected[0] = byte_of(256 * y + 359 * v);
                expected[1] = byte_of(256 * y - 88 * u - 183 * v);
                expected[2] = byte_of(256 * y + 454 * u);
            }
            for (int c = 0; c < 3; c++)
                CHECK(result[(c * 4 + h) * 6 + w] == expected[c]);
        }
    aclAippInfo *info = aipp_of(id);
    CHECK_EQ(info->inputFormat, ACL_YUV420SP_U8);
    CHECK(info->cscSwitch == 1 && info->matrixR0C2 == 359 && info->matrixR1C1 == -88 && info->inputBias1 == 128);
    CHECK(info->paddingSwitch == 1 && info->leftPaddingSize == 1 && info->rightPaddingSize == 1);
    CHECK_EQ(info->topPaddingSize, 0);
    CHECK_EQ(info->outDims[0].srcSize, 24);
    CHECK_EQ(info->outDims[0].aippOutSize, 72 * 4);
    free(info);
    CHECK_OK(aclmdlUnload(id));
}

static void gears(void)
{
    GROUP("aclmdl_11 images with batch gears");
    uint32_t id = model_load("aipp_batch.om");
    aclmdlDesc *desc = model_desc(id);
    check_dims(desc, (int64_t[]){-1, 2, 2, 1}, (int64_t[]){-1, 2, 2, 1});
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 0), 16);
    CHECK_OK(aclmdlDestroyDesc(desc));
    draw(16);
    for (size_t batch = 1; batch <= 4; batch *= 2) {
        run(id, 16, 16, 1, batch, 0);
        for (size_t i = 0; i < batch * 4; i++)
            CHECK(result[i] == positive((float)image[i] - 1));
    }
    aclAippInfo *info = aipp_of(id);
    CHECK_EQ(info->shapeCount, 3);
    CHECK(memcmp(info->outDims[1].srcDims.dims, (int64_t[]){2, 2, 2, 1}, 32) == 0);
    CHECK_EQ(info->outDims[1].srcSize, 8);
    CHECK(memcmp(info->outDims[2].aippOutdims.dims, (int64_t[]){4, 1, 2, 2}, 32) == 0);
    CHECK_EQ(info->outDims[2].aippOutSize, 64);
    free(info);
    aclmdlInputAippType type = ACL_DYNAMIC_AIPP_NODE;
    size_t attached = 1;
    CHECK_OK(aclmdlGetAippType(id, 1, &type, &attached));
    CHECK_EQ(type, ACL_DATA_WITHOUT_AIPP);
    CHECK_OK(aclmdlUnload(id));

    GROUP("aclmdl_11 images with gears of image size");
    id = model_load("aipp_image.om");
    desc = model_desc(id);
    check_dims(desc, (int64_t[]){1, -1, -1, 1}, (int64_t[]){1, -1, -1, 1});
    CHECK_OK(aclmdlDestroyDesc(desc));
    run(id, 15, 15, 2, 3, 5);
    for (size_t i = 0; i < 15; i++)
        CHECK(result[i] == positive((float)image[i] - 1));
    run(id, 15, 15, 2, 2, 2);
    for (size_t i = 0; i < 4; i++)
        CHECK(result[i] == positive((float)image[i] - 1));
    info = aipp_of(id);
    CHECK(info->srcImageSizeH == 0 && info->srcImageSizeW == 0 && info->shapeCount == 2);
    CHECK(memcmp(info->outDims[1].aippOutdims.dims, (int64_t[]){1, 1, 3, 5}, 32) == 0);
    free(info);
    CHECK_OK(aclmdlUnload(id));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    rgb();
    yuv();
    gears();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

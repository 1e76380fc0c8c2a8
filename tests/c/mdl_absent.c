/* AIPP, bundles and other functions that are refused after a check of their arguments. */
#include "mdl.h"

static void images(void)
{
    size_t bytes = 0;
    GROUP("aclmdl_11 AIPP parameters are checked");
    aclmdlAIPP *set = aclmdlCreateAIPP(2);
    CHECK(set != NULL);
    CHECK(aclmdlCreateAIPP(0) == NULL);
    CHECK_OK(aclmdlGetAippDataSize(2, &bytes));
    CHECK_EQ(bytes, 64 + 2 * 96);
    CHECK_FAIL(aclmdlGetAippDataSize(0, &bytes), 100000, "batchSize = 0");
    CHECK_FAIL(aclmdlGetAippDataSize(2, NULL), 100000, "size");
    CHECK_OK(aclmdlSetAIPPInputFormat(set, ACL_YUV420SP_U8));
    CHECK_FAIL(aclmdlSetAIPPInputFormat(set, (aclAippInputFormat)0), 100000, "inputFormat = 0");
    CHECK_OK(aclmdlSetAIPPCscParams(set, 1, 298, 516, 0, 298, -100, -208, 298, 0, 409, 0, 0, 0, 16, 128, 128));
    CHECK_FAIL(
        aclmdlSetAIPPCscParams(set, 2, 298, 516, 0, 298, -100, -208, 298, 0, 409, 0, 0, 0, 16, 128, 128), 100000,
        "cscSwitch = 2");
    CHECK_OK(aclmdlSetAIPPRbuvSwapSwitch(set, 1));
    CHECK_FAIL(aclmdlSetAIPPRbuvSwapSwitch(set, -1), 100000, "rbuvSwapSwitch = -1");
    CHECK_OK(aclmdlSetAIPPAxSwapSwitch(set, 0));
    CHECK_FAIL(aclmdlSetAIPPAxSwapSwitch(set, 3), 100000, "axSwapSwitch = 3");
    CHECK_OK(aclmdlSetAIPPSrcImageSize(set, 416, 416));
    CHECK_FAIL(aclmdlSetAIPPSrcImageSize(set, 417, 416), 100000, "417");
    CHECK_FAIL(aclmdlSetAIPPSrcImageSize(set, 4098, 416), 100000, "srcImageSizeW = 4098");
    CHECK_FAIL(aclmdlSetAIPPSrcImageSize(set, 416, 0), 100000, "srcImageSizeH = 0");
    CHECK_OK(aclmdlSetAIPPScfParams(set, 1, 224, 224, 16, 224, 1));
    CHECK_OK(aclmdlSetAIPPScfParams(set, 0, 0, 0, 0, 0, 0));
    CHECK_FAIL(aclmdlSetAIPPScfParams(set, 1, 224, 224, 15, 224, 0), 100000, "scfOutputSizeW = 15");
    CHECK_FAIL(aclmdlSetAIPPScfParams(set, 0, 0, 0, 0, 0, 2), 100000, "batchIndex = 2");
    CHECK_OK(aclmdlSetAIPPCropParams(set, 1, 0, 0, 1, 1, 0));
    CHECK_FAIL(aclmdlSetAIPPCropParams(set, 1, -1, 0, 1, 1, 0), 100000, "cropStartPosW = -1");
    CHECK_OK(aclmdlSetAIPPPaddingParams(set, 1, 0, 1, 2, 3, 0));
    CHECK_FAIL(aclmdlSetAIPPPaddingParams(set, 1, 0, -1, 2, 3, 0), 100000, "paddingSizeBottom = -1");
    CHECK_FAIL(aclmdlSetAIPPPaddingParams(set, 1, 0, 0, 33, 0, 0), 100000, "paddingSizeLeft = 33");
    CHECK_OK(aclmdlSetAIPPDtcPixelMean(set, 1, 2, 3, 4, 1));
    CHECK_FAIL(aclmdlSetAIPPDtcPixelMean(set, 1, 2, 3, 4, 9), 100000, "batchIndex = 9");
    CHECK_OK(aclmdlSetAIPPDtcPixelMin(set, 1, 2, 3, 4, 1));
    CHECK_FAIL(aclmdlSetAIPPDtcPixelMin(NULL, 1, 2, 3, 4, 1), 100000, "aippParmsSet");
    CHECK_OK(aclmdlSetAIPPPixelVarReci(set, 1, 2, 3, 4, 1));
    CHECK_FAIL(aclmdlSetAIPPPixelVarReci(set, 1, 2, 3, 4, 1024), 100000, "batchIndex = 1024");

    GROUP("aclmdl_11 a model without AIPP: type 0, 145015");
    uint32_t id = model_load("affine.om");
    aclmdlInputAippType type = ACL_DYNAMIC_AIPP_NODE;
    size_t attached = 1;
    CHECK_OK(aclmdlGetAippType(id, 0, &type, &attached));
    CHECK_EQ(type, ACL_DATA_WITHOUT_AIPP);
    CHECK_EQ(attached, ACL_INVALID_NODE_INDEX);
    CHECK_FAIL(aclmdlGetAippType(id, 1, &type, &attached), 100000, "index = 1");
    CHECK_FAIL(aclmdlGetAippType(id, 0, NULL, &attached), 100000, "type");
    CHECK_FAIL(aclmdlGetAippType(999999, 0, &type, &attached), 145003, "999999");
    aclAippInfo *info = malloc(sizeof *info);
    CHECK_FAIL(aclmdlGetFirstAippInfo(id, 0, info), 145015, "input 0");
    CHECK_FAIL(aclmdlGetFirstAippInfo(id, 0, NULL), 100000, "aippInfo");
    CHECK_FAIL(aclmdlGetFirstAippInfo(999999, 0, info), 145003, "999999");
    free(info);
    Tensors in = tensors_new();
    tensors_add(&in, 24);
    CHECK_FAIL(aclmdlSetInputAIPP(id, in.set, 0, set), 145015, "input 0");
    CHECK_FAIL(aclmdlSetAIPPByInputIndex(id, in.set, 0, set), 145015, "input 0");
    CHECK_FAIL(aclmdlSetInputAIPP(id, in.set, 0, NULL), 100000, "aippParmsSet");
    CHECK_FAIL(aclmdlSetAIPPByInputIndex(id, NULL, 0, set), 100000, "dataset");
    tensors_end(&in);
    CHECK_OK(aclmdlUnload(id));
    CHECK_OK(aclmdlDestroyAIPP(set));
    CHECK_CODE(aclmdlDestroyAIPP(set), 107017);
    CHECK_FAIL(aclmdlDestroyAIPP(NULL), 100000, "aippParmsSet");
}

static void bundles(void)
{
    uint32_t id = 0;
    size_t number = 7, second = 7, size = 0;
    char *bytes = model_bytes("affine.om", &size);
    GROUP("aclmdl_12 a plain model is not a bundle: 100000; bundles are not supported: 207000");
    aclmdlBundleQueryInfo *info = aclmdlBundleCreateQueryInfo();
    CHECK(info != NULL);
    CHECK_OK(aclmdlBundleGetQueryModelNum(info, &number));
    CHECK_EQ(number, 0);
    number = 7;
    CHECK_OK(aclmdlBundleGetVarWeightSize(info, &number));
    CHECK_EQ(number, 0);
    CHECK_FAIL(aclmdlBundleGetSize(info, 0, &number, &second), 100000, "index = 0");
    CHECK_FAIL(aclmdlBundleGetQueryModelNum(info, NULL), 100000, "modelNum");
    CHECK_FAIL(aclmdlBundleGetVarWeightSize(NULL, &number), 100000, "queryInfo");
    CHECK_FAIL(aclmdlBundleQueryInfoFromFile(model_path("affine.om"), info), 100000, "one model");
    CHECK_FAIL(aclmdlBundleQueryInfoFromMem(bytes, size, info), 100000, "one model");
    CHECK_FAIL(aclmdlBundleInitFromFile(model_path("affine.om"), NULL, 0, &id), 100000, "one model");
    CHECK_FAIL(aclmdlBundleInitFromMem(bytes, size, NULL, 0, &id), 100000, "one model");
    CHECK_FAIL(aclmdlBundleLoadFromFile(model_path("affine.om"), &id), 100000, "one model");
    CHECK_FAIL(aclmdlBundleLoadFromMem(bytes, size, &id), 100000, "one model");
    CHECK_FAIL(aclmdlBundleLoadFromFile("/nowhere", &id), 145002, "/nowhere");
    CHECK_FAIL(aclmdlBundleLoadFromMem(NULL, size, &id), 100000, "model");
    CHECK_FAIL(aclmdlBundleLoadFromMem(bytes, 100, &id), 145006, "");
    bytes[82] = 5;
    CHECK_FAIL(aclmdlBundleQueryInfoFromMem(bytes, size, info), 207000, "not supported");
    CHECK_FAIL(aclmdlBundleInitFromMem(bytes, size, NULL, 0, &id), 207000, "not supported");
    CHECK_FAIL(aclmdlBundleLoadFromMem(bytes, size, &id), 207000, "not supported");
    CHECK_OK(aclmdlBundleDestroyQueryInfo(info));
    CHECK_CODE(aclmdlBundleDestroyQueryInfo(info), 107017);
    free(bytes);

    GROUP("aclmdl_12 unknown bundle ids: 148053");
    CHECK_FAIL(aclmdlBundleLoadModel(1, 0, &id), 148053, "bundleId = 1");
    CHECK_FAIL(aclmdlBundleLoadModelWithMem(1, 0, NULL, 0, NULL, 0, &id), 148053, "bundleId = 1");
    aclmdlConfigHandle *config = aclmdlCreateConfigHandle();
    CHECK_FAIL(aclmdlBundleLoadModelWithConfig(1, 0, config, &id), 148053, "bundleId = 1");
    CHECK_FAIL(aclmdlBundleLoadModelWithConfig(1, 0, NULL, &id), 100000, "handle");
    CHECK_OK(aclmdlDestroyConfigHandle(config));
    CHECK_FAIL(aclmdlBundleGetModelNum(1, &number), 148053, "bundleId = 1");
    CHECK_FAIL(aclmdlBundleGetModelNum(1, NULL), 100000, "modelNum");
    CHECK_FAIL(aclmdlBundleGetModelId(1, 0, &id), 148053, "bundleId = 1");
    CHECK_FAIL(aclmdlBundleUnloadModel(1, 1), 148053, "bundleId = 1");
    CHECK_FAIL(aclmdlBundleUnload(1), 148053, "bundleId = 1");
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    images();
    bundles();

    GROUP("aclmdl_12 operators of tasks: 500002; models for other products: 207000");
    char name[64];
    aclTensorDesc *in = NULL, *out = NULL;
    size_t ins = 0, outs = 0;
    CHECK_FAIL(aclmdlCreateAndGetOpDesc(0, 1, 2, name, sizeof name, &in, &ins, &out, &outs), 500002, "task 2");
    CHECK_FAIL(aclmdlCreateAndGetOpDesc(0, 1, 2, NULL, sizeof name, &in, &ins, &out, &outs), 100000, "opName");
    CHECK_FAIL(aclmdlCreateAndGetOpDesc(0, 1, 2, name, 0, &in, &ins, &out, &outs), 100000, "opNameLen = 0");
    aclmdlExeOMDesc parts;
    CHECK_FAIL(aclmdlQueryExeOMDesc("m.exeom", &parts), 207000, "aclmdlQueryExeOMDesc");
    CHECK_FAIL(aclRecoverAllHcclTasks(0), 207000, "aclRecoverAllHcclTasks");
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

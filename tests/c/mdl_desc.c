/* Descriptions of models: names, shapes, types and ranges, with and without a load. */
#include "mdl.h"

static void check_dims(const aclmdlIODims *dims, const char *name, int rank, const int64_t *expected)
{
    CHECK_EQ(dims->dimCount, rank);
    CHECK(strcmp(dims->name, name) == 0);
    for (int i = 0; i < rank; i++)
        CHECK_EQ(dims->dims[i], expected[i]);
}

static void known_sizes(aclmdlDesc *desc)
{
    aclmdlIODims dims;
    aclmdlIODimsRange ranges;
    size_t index = 9;
    CHECK_EQ(aclmdlGetNumInputs(desc), 1);
    CHECK_EQ(aclmdlGetNumOutputs(desc), 1);
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 0), 24);
    CHECK_EQ(aclmdlGetOutputSizeByIndex(desc, 0), 24);
    CHECK(strcmp(aclmdlGetInputNameByIndex(desc, 0), "x") == 0);
    CHECK(strcmp(aclmdlGetOutputNameByIndex(desc, 0), "relu:0:y") == 0);
    CHECK_EQ(aclmdlGetInputDataType(desc, 0), ACL_FLOAT);
    CHECK_EQ(aclmdlGetOutputDataType(desc, 0), ACL_FLOAT);
    CHECK_EQ(aclmdlGetInputFormat(desc, 0), ACL_FORMAT_ND);
    CHECK_EQ(aclmdlGetOutputFormat(desc, 0), ACL_FORMAT_ND);
    CHECK_OK(aclmdlGetInputDims(desc, 0, &dims));
    check_dims(&dims, "x", 2, (int64_t[]){2, 3});
    CHECK_OK(aclmdlGetInputDimsV2(desc, 0, &dims));
    check_dims(&dims, "x", 2, (int64_t[]){2, 3});
    CHECK_OK(aclmdlGetOutputDims(desc, 0, &dims));
    check_dims(&dims, "relu:0:y", 2, (int64_t[]){2, 3});
    memset(&dims, 0xff, sizeof dims);
    CHECK_OK(aclmdlGetCurOutputDims(desc, 0, &dims));
    check_dims(&dims, "relu:0:y", 2, (int64_t[]){2, 3});
    CHECK_OK(aclmdlGetInputDimsRange(desc, 0, &ranges));
    CHECK_EQ(ranges.rangeCount, 2);
    CHECK(ranges.range[0][0] == 2 && ranges.range[0][1] == 2 && ranges.range[1][0] == 3 && ranges.range[1][1] == 3);
    CHECK_OK(aclmdlGetInputIndexByName(desc, "x", &index));
    CHECK_EQ(index, 0);
    index = 9;
    CHECK_OK(aclmdlGetOutputIndexByName(desc, "relu:0:y", &index));
    CHECK_EQ(index, 0);
    CHECK(strcmp(aclmdlGetTensorRealName(desc, "x"), "x") == 0);
}

static void invalid_arguments(aclmdlDesc *desc)
{
    aclmdlIODims dims;
    aclmdlIODimsRange ranges;
    size_t index = 9;
    GROUP("aclmdl_4 null and bad indices: 0, an empty name, UNDEFINED, NULL or 100000");
    aclmdlDesc *empty = aclmdlCreateDesc();
    aclmdlDesc *wrong[] = {NULL, empty, desc};
    for (size_t i = 0; i < 3; i++) {
        aclmdlDesc *of = wrong[i];
        if (of != desc) {
            CHECK_EQ(aclmdlGetNumInputs(of), 0);
            CHECK_EQ(aclmdlGetNumOutputs(of), 0);
            CHECK(aclmdlGetTensorRealName(of, "x") == NULL);
            CHECK(aclmdlGetOpAttr(of, "relu", ACL_ATTR_NAME_DATA_DUMP_ORIGIN_OP_NAMES) == NULL);
            CHECK_CODE(aclmdlGetInputIndexByName(of, "x", &index), 100000);
            CHECK_CODE(aclmdlGetOutputIndexByName(of, "y", &index), 100000);
        }
        CHECK_EQ(aclmdlGetInputSizeByIndex(of, 1), 0);
        CHECK_EQ(aclmdlGetOutputSizeByIndex(of, 1), 0);
        CHECK(strcmp(aclmdlGetInputNameByIndex(of, 1), "") == 0);
        CHECK(strcmp(aclmdlGetOutputNameByIndex(of, 1), "") == 0);
        CHECK_EQ(aclmdlGetInputDataType(of, 1), ACL_DT_UNDEFINED);
        CHECK_EQ(aclmdlGetOutputDataType(of, 1), ACL_DT_UNDEFINED);
        CHECK_EQ(aclmdlGetInputFormat(of, 1), ACL_FORMAT_UNDEFINED);
        CHECK_EQ(aclmdlGetOutputFormat(of, 1), ACL_FORMAT_UNDEFINED);
        CHECK_CODE(aclmdlGetInputDims(of, 1, &dims), 100000);
        CHECK_CODE(aclmdlGetInputDimsV2(of, 1, &dims), 100000);
        CHECK_CODE(aclmdlGetOutputDims(of, 1, &dims), 100000);
        CHECK_CODE(aclmdlGetCurOutputDims(of, 1, &dims), 100000);
        CHECK_CODE(aclmdlGetInputDimsRange(of, 1, &ranges), 100000);
    }
    CHECK_FAIL(aclmdlGetInputDims(desc, 0, NULL), 100000, "dims");
    CHECK_FAIL(aclmdlGetCurOutputDims(desc, 0, NULL), 100000, "dims");
    CHECK_FAIL(aclmdlGetInputDimsRange(desc, 0, NULL), 100000, "dimsRange");
    CHECK_FAIL(aclmdlGetInputIndexByName(desc, "z", &index), 100000, "x");
    CHECK_FAIL(aclmdlGetInputIndexByName(desc, NULL, &index), 100000, "name");
    CHECK_FAIL(aclmdlGetOutputIndexByName(desc, "relu:0:y", NULL), 100000, "index");
    CHECK(aclmdlGetTensorRealName(desc, NULL) == NULL);
    CHECK(aclmdlGetTensorRealName(desc, "z") == NULL);
    CHECK(aclmdlGetOpAttr(desc, "relu", "other") == NULL);
    CHECK(aclmdlGetOpAttr(desc, NULL, ACL_ATTR_NAME_DATA_DUMP_ORIGIN_OP_NAMES) == NULL);
    CHECK(strcmp(aclmdlGetOpAttr(desc, "relu", ACL_ATTR_NAME_DATA_DUMP_ORIGIN_OP_NAMES), "") == 0);
    CHECK_FAIL(aclmdlGetDesc(NULL, 1), 100000, "modelDesc");
    CHECK_FAIL(aclmdlGetDescFromFile(NULL, model_path("affine.om")), 100000, "modelDesc");
    CHECK_FAIL(aclmdlGetDescFromFile(empty, NULL), 100000, "modelPath");
    CHECK_FAIL(aclmdlGetDescFromFile(empty, "/nowhere"), 145002, "/nowhere");
    CHECK_FAIL(aclmdlGetDescFromMem(empty, NULL, 1), 100000, "model");
    CHECK_FAIL(aclmdlGetDescFromMem(empty, "x", 0), 100000, "modelSize");
    CHECK_FAIL(aclmdlGetDesc(empty, 1234), 145003, "1234");
    CHECK_FAIL(aclmdlDestroyDesc(NULL), 100000, "modelDesc");
    CHECK_OK(aclmdlDestroyDesc(empty));
    CHECK_CODE(aclmdlDestroyDesc(empty), 107017);
}

static void long_names(void)
{
    aclmdlIODims first, second, out;
    char expected[64];
    size_t index = 9;
    GROUP("aclmdl_3 names of more than 127 characters have unique short names");
    uint32_t id = model_load("long_names.onnx");
    aclmdlDesc *desc = model_desc(id);
    CHECK_OK(aclmdlGetInputDims(desc, 0, &first));
    CHECK_OK(aclmdlGetOutputDims(desc, 0, &out));
    snprintf(expected, sizeof expected, "acl_modelId_%u_input_0", id);
    CHECK(strcmp(first.name, expected) == 0);
    snprintf(expected, sizeof expected, "acl_modelId_%u_output_0", id);
    CHECK(strcmp(out.name, expected) == 0);
    const char *real = aclmdlGetTensorRealName(desc, first.name);
    CHECK_EQ(strlen(real), 128);
    CHECK(strcmp(aclmdlGetInputNameByIndex(desc, 0), real) == 0);
    CHECK_OK(aclmdlGetInputIndexByName(desc, first.name, &index));
    CHECK_EQ(index, 0);
    CHECK_OK(aclmdlGetInputIndexByName(desc, real, &index));
    CHECK_EQ(index, 0);
    CHECK_EQ(strlen(aclmdlGetTensorRealName(desc, out.name)), strlen("sum:0:") + 200);
    CHECK_OK(aclmdlDestroyDesc(desc));
    CHECK_OK(aclmdlUnload(id));

    aclmdlDesc *unloaded = aclmdlCreateDesc();
    CHECK_OK(aclmdlGetDescFromFile(unloaded, model_path("long_names.onnx")));
    CHECK_OK(aclmdlGetInputDims(unloaded, 0, &first));
    CHECK_OK(aclmdlGetInputDims(unloaded, 1, &second));
    CHECK(strcmp(first.name, "acl_modelId_0_input_0a") == 0);
    CHECK(strcmp(second.name, "acl_modelId_0_input_0") == 0);
    CHECK_EQ(strlen(aclmdlGetTensorRealName(unloaded, first.name)), 128);
    CHECK(strcmp(aclmdlGetTensorRealName(unloaded, second.name), second.name) == 0);
    CHECK_OK(aclmdlDestroyDesc(unloaded));
}

static void unknown_sizes(void)
{
    aclmdlIODims dims;
    aclmdlIODimsRange ranges;
    GROUP("aclmdl_3 dynamic shapes: -1, ranges, and the largest size");
    uint32_t id = model_load("range.om");
    aclmdlDesc *desc = model_desc(id);
    CHECK_EQ(aclmdlGetNumInputs(desc), 1);
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 0), 8 * 3 * 4);
    CHECK_OK(aclmdlGetInputDims(desc, 0, &dims));
    check_dims(&dims, "x", 2, (int64_t[]){-1, 3});
    CHECK_OK(aclmdlGetOutputDims(desc, 0, &dims));
    check_dims(&dims, "relu:0:y", 2, (int64_t[]){-1, 3});
    CHECK_OK(aclmdlGetInputDimsRange(desc, 0, &ranges));
    CHECK_EQ(ranges.rangeCount, 2);
    CHECK(ranges.range[0][0] == 1 && ranges.range[0][1] == 8 && ranges.range[1][0] == 3 && ranges.range[1][1] == 3);
    CHECK_FAIL(aclmdlGetCurOutputDims(desc, 0, &dims), 200001, "each run decides");
    CHECK_OK(aclmdlUnload(id));

    id = model_load("open.onnx");
    CHECK_OK(aclmdlGetDesc(desc, id));
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 0), 0);
    CHECK_EQ(aclmdlGetOutputSizeByIndex(desc, 0), 0);
    CHECK_OK(aclmdlGetInputDimsRange(desc, 0, &ranges));
    CHECK_EQ(ranges.rangeCount, 2);
    CHECK_EQ(ranges.range[0][1], -1);
    CHECK_OK(aclmdlUnload(id));
    CHECK_OK(aclmdlDestroyDesc(desc));
}

int main(void)
{
    size_t size = 0;
    char *bytes = model_bytes("affine.om", &size);
    CHECK_OK(aclInit(NULL));

    GROUP("aclmdl_3 descriptions of a file and of memory need no device");
    aclmdlDesc *desc = aclmdlCreateDesc();
    CHECK(desc != NULL);
    CHECK_OK(aclmdlGetDescFromFile(desc, model_path("affine.om")));
    known_sizes(desc);
    CHECK(aclmdlGetOpAttr(desc, "relu", ACL_ATTR_NAME_DATA_DUMP_ORIGIN_OP_NAMES) == NULL);
    CHECK_OK(aclmdlGetDescFromFile(desc, model_path("affine.onnx")));
    known_sizes(desc);
    CHECK_OK(aclmdlGetDescFromMem(desc, bytes, size));
    memset(bytes, 0, size);
    known_sizes(desc);
    CHECK_OK(aclmdlDestroyDesc(desc));
    free(bytes);

    GROUP("aclmdl_3 the description of a loaded model");
    CHECK_OK(aclrtSetDevice(0));
    uint32_t id = model_load("affine.om");
    desc = model_desc(id);
    known_sizes(desc);
    invalid_arguments(desc);
    GROUP("aclmdl_3 a description outlives its model; a failure empties it");
    CHECK_OK(aclmdlUnload(id));
    known_sizes(desc);
    CHECK_CODE(aclmdlGetDesc(desc, id), 145003);
    CHECK_EQ(aclmdlGetNumInputs(desc), 0);
    CHECK_OK(aclmdlDestroyDesc(desc));

    long_names();
    unknown_sizes();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

/* Every way to load a model, and the codes of failing loads. */
#include "mdl.h"

enum { ROWS = 2, BYTES = ROWS * 3 * 4 };

/* Whether the model computes what it should. */
static int computes(uint32_t id)
{
    Tensors in = tensors_new(), out = tensors_new();
    put_counted(tensors_add(&in, BYTES), ROWS * 3);
    void *y = tensors_add(&out, BYTES);
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    int is_right = is_affine(y, ROWS);
    tensors_end(&in);
    tensors_end(&out);
    return is_right;
}

static void set_option(aclmdlConfigHandle *config, aclmdlConfigAttr attr, const void *value, size_t bytes)
{
    CHECK_OK(aclmdlSetConfigOpt(config, attr, value, bytes));
}

static void set_size(aclmdlConfigHandle *config, aclmdlConfigAttr attr, size_t value)
{
    set_option(config, attr, &value, sizeof value);
}

static void set_pointer(aclmdlConfigHandle *config, aclmdlConfigAttr attr, const void *value)
{
    set_option(config, attr, &value, sizeof value);
}

static void from_everywhere(void)
{
    uint32_t first = 0, second = 0;
    size_t size = 0, work = 0, weights = 0, work_again = 0, weights_again = 0;
    char *bytes = model_bytes("affine.om", &size);

    GROUP("aclmdl_1 a model is loaded from a file or from memory, and ids count up");
    CHECK_OK(aclmdlLoadFromFile(model_path("affine.om"), &first));
    CHECK_OK(aclmdlLoadFromMem(bytes, size, &second));
    CHECK_EQ(second, first + 1);
    CHECK(computes(first));
    CHECK(computes(second));
    CHECK_OK(aclmdlUnload(first));
    CHECK(computes(second));
    CHECK_OK(aclmdlUnload(second));
    CHECK_OK(aclmdlLoadFromFile(model_path("affine.onnx"), &first));
    CHECK(first > second);
    CHECK(computes(first));
    CHECK_OK(aclmdlUnload(first));

    GROUP("aclmdl_1 memory of the caller, of the sizes that aclmdlQuerySize returns");
    CHECK_OK(aclmdlQuerySize(model_path("affine.om"), &work, &weights));
    CHECK_OK(aclmdlQuerySizeFromMem(bytes, size, &work_again, &weights_again));
    CHECK(work > 0 && weights >= 48);
    CHECK_EQ(work, work_again);
    CHECK_EQ(weights, weights_again);
    void *work_memory = NULL, *weight_memory = NULL;
    CHECK_OK(aclrtMalloc(&work_memory, work, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMalloc(&weight_memory, weights, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMemset(weight_memory, weights, 0, weights));
    CHECK_OK(aclmdlLoadFromFileWithMem(model_path("affine.om"), &first, work_memory, work, weight_memory, weights));
    float diagonal[12] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 10, 20, 30}, found[64];
    CHECK_OK(aclrtMemcpy(found, sizeof found, weight_memory, weights < 256 ? weights : 256, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(memcmp(found, diagonal, 36) == 0);
    CHECK(computes(first));
    CHECK_OK(aclmdlLoadFromMemWithMem(bytes, size, &second, work_memory, work, weight_memory, weights));
    CHECK(computes(second));
    CHECK(computes(first));
    CHECK_OK(aclmdlUnload(first));
    CHECK(computes(second));
    CHECK_OK(aclmdlUnload(second));
    CHECK_OK(aclmdlLoadFromFileWithMem(model_path("affine.om"), &first, NULL, 0, weight_memory, weights));
    CHECK(computes(first));
    CHECK_OK(aclmdlUnload(first));

    GROUP("aclmdl_2 memory of the caller that is too small or not on the device: 145000 with both sizes");
    char number[32];
    snprintf(number, sizeof number, "%zu", weights);
    CHECK_FAIL(
        aclmdlLoadFromFileWithMem(model_path("affine.om"), &first, NULL, 0, weight_memory, 47), 145000, number);
    CHECK_FAIL(
        aclmdlLoadFromMemWithMem(bytes, size, &first, work_memory, work - 1, weight_memory, weights), 145000,
        "E13025");
    CHECK_FAIL(
        aclmdlLoadFromFileWithMem(model_path("affine.om"), &first, NULL, 0, bytes, weights), 145000, "host memory");
    CHECK_OK(aclrtFree(work_memory));
    CHECK_OK(aclrtFree(weight_memory));

    GROUP("aclmdl_1 a dynamic-shape model needs no work memory");
    CHECK_OK(aclmdlQuerySize(model_path("range.om"), &work, &weights));
    CHECK_EQ(work, 0);
    CHECK(weights > 0);
    free(bytes);
}

static void with_configuration(void)
{
    uint32_t id = 0;
    size_t size = 0;
    char *bytes = model_bytes("affine.om", &size);
    char path[1024];
    int32_t priority = 3;

    GROUP("aclmdl_1 a configuration: a load type, and the options that it needs");
    aclmdlConfigHandle *config = aclmdlCreateConfigHandle();
    CHECK(config != NULL);
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 100000, "load type");
    set_size(config, ACL_MDL_LOAD_TYPE_SIZET, ACL_MDL_LOAD_FROM_FILE);
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 100000, "path");
    snprintf(path, sizeof path, "%s", model_path("affine.om"));
    set_pointer(config, ACL_MDL_PATH_PTR, path);
    memset(path, 0, sizeof path);
    CHECK_OK(aclmdlSetConfigOpt(config, ACL_MDL_PRIORITY_INT32, &priority, sizeof priority));
    set_size(config, ACL_MDL_WORKSPACE_MEM_OPTIMIZE, ACL_WORKSPACE_MEM_OPTIMIZE_INPUTOUTPUT);
    set_size(config, ACL_MDL_MEM_MALLOC_POLICY_SIZET, 0);
    CHECK_OK(aclmdlLoadWithConfig(config, &id));
    CHECK(computes(id));
    aclmdlAttrValue_t value;
    CHECK_OK(aclmdlGetAttribute(id, ACL_MDL_ATTR_PRIORITY_INT32, &value));
    CHECK_EQ(value.mdlPriority, 3);
    CHECK_OK(aclmdlUnload(id));
    set_pointer(config, ACL_MDL_WEIGHT_PATH_PTR, "/tmp");
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 100000, "ACL_MDL_WEIGHT_PATH_PTR");

    set_size(config, ACL_MDL_LOAD_TYPE_SIZET, ACL_MDL_LOAD_FROM_MEM);
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 100000, "ACL_MDL_MEM_ADDR_PTR");
    set_pointer(config, ACL_MDL_MEM_ADDR_PTR, bytes);
    set_size(config, ACL_MDL_MEM_SIZET, size);
    CHECK_OK(aclmdlLoadWithConfig(config, &id));
    CHECK(computes(id));
    CHECK_OK(aclmdlUnload(id));

    set_size(config, ACL_MDL_LOAD_TYPE_SIZET, ACL_MDL_LOAD_FROM_MEM_WITH_MEM);
    void *memory = NULL;
    CHECK_OK(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_NORMAL_ONLY));
    set_pointer(config, ACL_MDL_WEIGHT_ADDR_PTR, memory);
    set_size(config, ACL_MDL_WEIGHT_SIZET, 1);
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 145000, "E13025");
    set_size(config, ACL_MDL_WEIGHT_SIZET, 1 << 19);
    set_pointer(config, ACL_MDL_WORKSPACE_ADDR_PTR, (char *)memory + (1 << 19));
    set_size(config, ACL_MDL_WORKSPACE_SIZET, 1 << 19);
    CHECK_OK(aclmdlLoadWithConfig(config, &id));
    CHECK(computes(id));
    CHECK_OK(aclmdlUnload(id));
    CHECK_OK(aclrtFree(memory));

    GROUP("aclmdl_2 invalid values of options");
    int32_t bad_priority = 8, two = 2, one = 1;
    size_t bad_type = 7, half = 2;
    const char *null = NULL;
    CHECK_FAIL(aclmdlSetConfigOpt(config, ACL_MDL_PRIORITY_INT32, &bad_priority, 4), 100000, "8");
    CHECK_FAIL(aclmdlSetConfigOpt(config, ACL_MDL_PRIORITY_INT32, &priority, 8), 100000, "valueSize = 8");
    CHECK_FAIL(aclmdlSetConfigOpt(config, ACL_MDL_LOAD_TYPE_SIZET, &bad_type, 8), 100000, "7");
    CHECK_FAIL(aclmdlSetConfigOpt(config, ACL_MDL_PATH_PTR, &null, 8), 100000, "null");
    CHECK_FAIL(aclmdlSetConfigOpt(config, ACL_MDL_WORKSPACE_MEM_OPTIMIZE, &half, 8), 100000, "2");
    CHECK_FAIL(aclmdlSetConfigOpt(config, ACL_MDL_WITHOUT_GRAPH_INT32, &two, 4), 100000, "2");
    CHECK_FAIL(aclmdlSetConfigOpt(config, ACL_MDL_RESERVED, &two, 4), 100000, "65535");
    CHECK_FAIL(aclmdlSetConfigOpt(config, ACL_MDL_KERNEL_PTR, &null, 8), 207000, "another product");
    CHECK_FAIL(aclmdlSetConfigOpt(config, ACL_MDL_PATH_PTR, NULL, 8), 100000, "attrValue");
    CHECK_FAIL(aclmdlSetConfigOpt(NULL, ACL_MDL_PATH_PTR, &null, 8), 100000, "handle");
    CHECK_FAIL(aclmdlLoadWithConfig(NULL, &id), 100000, "handle");
    CHECK_FAIL(aclmdlLoadWithConfig(config, NULL), 100000, "modelId");

    GROUP("aclmdl_2 ACL_MDL_WITHOUT_GRAPH_INT32 needs a static model");
    set_option(config, ACL_MDL_WITHOUT_GRAPH_INT32, &one, 4);
    set_size(config, ACL_MDL_LOAD_TYPE_SIZET, ACL_MDL_LOAD_FROM_MEM);
    CHECK_OK(aclmdlLoadWithConfig(config, &id));
    CHECK_OK(aclmdlUnload(id));
    size_t range_size = 0;
    char *range = model_bytes("range.om", &range_size);
    set_pointer(config, ACL_MDL_MEM_ADDR_PTR, range);
    set_size(config, ACL_MDL_MEM_SIZET, range_size);
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 145000, "ACL_MDL_WITHOUT_GRAPH_INT32");
    free(range);

    GROUP("aclmdl_2 queues are not supported");
    uint32_t queue = 1;
    set_size(config, ACL_MDL_LOAD_TYPE_SIZET, ACL_MDL_LOAD_FROM_MEM_WITH_Q);
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 100000, "input queues");
    set_pointer(config, ACL_MDL_INPUTQ_ADDR_PTR, &queue);
    set_pointer(config, ACL_MDL_OUTPUTQ_ADDR_PTR, &queue);
    set_size(config, ACL_MDL_INPUTQ_NUM_SIZET, 1);
    set_size(config, ACL_MDL_OUTPUTQ_NUM_SIZET, 1);
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 207000, "queues");
    CHECK_FAIL(aclmdlLoadFromFileWithQ(model_path("affine.om"), &id, &queue, 1, &queue, 1), 207000, "queues");
    CHECK_FAIL(aclmdlLoadFromMemWithQ(bytes, size, &id, &queue, 1, &queue, 1), 207000, "queues");
    CHECK_FAIL(aclmdlLoadFromFileWithQ(NULL, &id, &queue, 1, &queue, 1), 100000, "modelPath");
    CHECK_FAIL(aclmdlLoadFromMemWithQ(bytes, 0, &id, &queue, 1, &queue, 1), 100000, "modelSize");
    CHECK_FAIL(aclmdlLoadFromModel(NULL, config, &id), 100000, "model");

    CHECK_OK(aclmdlDestroyConfigHandle(config));
    CHECK_CODE(aclmdlDestroyConfigHandle(config), 107017);
    CHECK_FAIL(aclmdlDestroyConfigHandle(NULL), 100000, "handle");
    free(bytes);
}

static void external_weights(void)
{
    uint32_t id = 0;
    size_t size = 0;
    char *bytes = model_bytes("external.onnx", &size);

    GROUP("aclmdl_1 weights in a file beside the model, in another folder, or in device memory");
    aclmdlConfigHandle *config = aclmdlCreateConfigHandle();
    CHECK_OK(aclmdlLoadFromFile(model_path("external.onnx"), &id));
    CHECK(computes(id));
    CHECK_OK(aclmdlUnload(id));
    CHECK_FAIL(aclmdlLoadFromMem(bytes, size, &id), 145006, "external.bin");
    set_size(config, ACL_MDL_LOAD_TYPE_SIZET, ACL_MDL_LOAD_FROM_MEM);
    set_pointer(config, ACL_MDL_MEM_ADDR_PTR, bytes);
    set_size(config, ACL_MDL_MEM_SIZET, size);
    set_pointer(config, ACL_MDL_WEIGHT_PATH_PTR, getenv("CAIRN_TEST_MODELS"));
    CHECK_OK(aclmdlLoadWithConfig(config, &id));
    CHECK(computes(id));
    CHECK_OK(aclmdlUnload(id));

    void *weights = NULL;
    float diagonal[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 10, 20, 30};
    CHECK_OK(aclrtMalloc(&weights, sizeof diagonal, ACL_MEM_MALLOC_NORMAL_ONLY));
    put_floats(weights, diagonal, 16);
    set_pointer(config, ACL_MDL_WEIGHT_PATH_PTR, "/nowhere");
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 145006, "/nowhere/external.bin");
    CHECK_OK(aclmdlSetExternalWeightAddress(config, "external.bin", weights, sizeof diagonal));
    CHECK_OK(aclmdlLoadWithConfig(config, &id));
    CHECK(computes(id));
    CHECK_OK(aclmdlUnload(id));
    CHECK_OK(aclmdlSetExternalWeightAddress(config, "external.bin", weights, 32));
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 145006, "32 bytes");

    GROUP("aclmdl_2 invalid external weights");
    CHECK_FAIL(aclmdlSetExternalWeightAddress(NULL, "external.bin", weights, 64), 100000, "handle");
    CHECK_FAIL(aclmdlSetExternalWeightAddress(config, NULL, weights, 64), 100000, "weightFileName");
    CHECK_FAIL(aclmdlSetExternalWeightAddress(config, "a/b", weights, 64), 100000, "a/b");
    CHECK_FAIL(aclmdlSetExternalWeightAddress(config, "external.bin", NULL, 64), 100000, "devPtr");
    CHECK_FAIL(aclmdlSetExternalWeightAddress(config, "external.bin", weights, 0), 100000, "size = 0");
    CHECK_FAIL(aclmdlSetExternalWeightAddress(config, "external.bin", weights, 48), 100000, "size = 48");
    CHECK_OK(aclmdlSetExternalWeightAddress(config, "external.bin", bytes, 64));
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 545003, "external.bin");
    CHECK_OK(aclrtFree(weights));

    GROUP("aclmdl_1 a destroyed configuration is invalid");
    CHECK_OK(aclmdlSetExternalWeightAddress(config, "other.bin", weights, 32));
    CHECK_OK(aclmdlDestroyConfigHandle(config));
    CHECK_EQ(aclmdlLoadWithConfig(config, &id), 107017);
    free(bytes);
}

static void wrong_models(void)
{
    uint32_t id = 77;
    size_t size = 0, work = 0, weights = 0;
    char *bytes = model_bytes("affine.om", &size);

    GROUP("aclmdl_2 null, size 0: 100000; no such file: 145002; no such id: 145003");
    CHECK_FAIL(aclmdlLoadFromFile(NULL, &id), 100000, "modelPath");
    CHECK_FAIL(aclmdlLoadFromFile(model_path("affine.om"), NULL), 100000, "modelId");
    CHECK_FAIL(aclmdlLoadFromFileWithMem(NULL, &id, NULL, 0, NULL, 0), 100000, "modelPath");
    CHECK_FAIL(aclmdlLoadFromMem(NULL, size, &id), 100000, "model");
    CHECK_FAIL(aclmdlLoadFromMem(bytes, 0, &id), 100000, "modelSize = 0");
    CHECK_FAIL(aclmdlLoadFromMemWithMem(NULL, size, &id, NULL, 0, NULL, 0), 100000, "model");
    CHECK_FAIL(aclmdlQuerySize(NULL, &work, &weights), 100000, "fileName");
    CHECK_FAIL(aclmdlQuerySize(model_path("affine.om"), NULL, &weights), 100000, "workSize");
    CHECK_FAIL(aclmdlQuerySizeFromMem(bytes, size, &work, NULL), 100000, "weightSize");
    CHECK_FAIL(aclmdlQuerySizeFromMem(NULL, size, &work, &weights), 100000, "model");
    CHECK_FAIL(aclmdlLoadFromFile("/nowhere/m.om", &id), 145002, "/nowhere/m.om");
    CHECK_FAIL(aclmdlLoadFromFile("/tmp", &id), 145002, "/tmp");
    CHECK_FAIL(aclmdlQuerySize("/nowhere/m.om", &work, &weights), 145002, "/nowhere/m.om");
    CHECK_FAIL(aclmdlUnload(0), 145003, "modelId = 0");
    CHECK_FAIL(aclmdlUnload(4000000000u), 145003, "4000000000");
    uint32_t loaded = model_load("affine.om");
    CHECK_OK(aclmdlUnload(loaded));
    CHECK_FAIL(aclmdlUnload(loaded), 145003, "no loaded model");
    CHECK_EQ(id, 77);

    GROUP("aclmdl_2 invalid bytes: 145006");
    char junk[300];
    memset(junk, 'x', sizeof junk);
    CHECK_FAIL(aclmdlLoadFromMem(junk, sizeof junk, &id), 145006, "IMOD");
    CHECK_FAIL(aclmdlLoadFromMem(bytes, 255, &id), 145006, "255");
    CHECK_FAIL(aclmdlLoadFromMem(bytes, size - 1, &id), 145006, "copied completely");
    CHECK_FAIL(aclmdlLoadFromMem("\x08\x08zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", 30, &id), 145006, "ONNX");
    CHECK_FAIL(aclmdlQuerySizeFromMem(junk, sizeof junk, &work, &weights), 145006, "IMOD");

    GROUP("aclmdl_2 a model for an NPU: 545005; a bundle: 500002");
    memcpy(junk, bytes, 256);
    char *foreign = malloc(size);
    memcpy(foreign, bytes, size);
    memset(foreign + 120, 0, 32);
    CHECK_FAIL(aclmdlLoadFromMem(foreign, size, &id), 545005, "atc");
    memcpy(foreign, "PK\3\4", 4);
    CHECK_FAIL(aclmdlLoadFromMem(foreign, size, &id), 545005, "om2");
    memcpy(foreign, bytes, size);
    foreign[82] = 5;
    CHECK_FAIL(aclmdlLoadFromMem(foreign, size, &id), 500002, "bundle");

    GROUP("aclmdl_2 a graph with an operator that is not there: 500002");
    memcpy(foreign, bytes, size);
    for (size_t at = 256; at + 4 <= size; at++)
        if (memcmp(foreign + at, "Relu", 4) == 0)
            memcpy(foreign + at, "Rely", 4);
    CHECK_FAIL(aclmdlLoadFromMem(foreign, size, &id), 500002, "Rely");
    CHECK_FAIL(aclmdlQuerySizeFromMem(foreign, size, &work, &weights), 500002, "Rely");
    free(foreign);
    free(bytes);
}

int main(void)
{
    uint32_t id = 0;
    GROUP("aclmdl_2 before aclInit: 145001; without a device: 107002");
    CHECK_FAIL(aclmdlLoadFromFile(model_path("affine.om"), &id), 145001, "aclInit");
    CHECK_OK(aclInit(NULL));
    CHECK_CODE(aclmdlLoadFromFile(model_path("affine.om"), &id), 107002);
    CHECK_OK(aclrtSetDevice(0));
    size_t before = free_memory();
    from_everywhere();
    with_configuration();
    external_weights();
    wrong_models();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_EQ(free_memory(), before);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

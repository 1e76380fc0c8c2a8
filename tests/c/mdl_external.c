/* Model files whose weights are in files of their own. */
#include "mdl.h"

enum { COUNT = 512, BYTES = COUNT * 4 };

/* Whether the model adds 0, 1, 2, .. */
static int adds(uint32_t id)
{
    static float values[COUNT];
    int is_right = 1;
    Tensors in = tensors_new(), out = tensors_new();
    void *x = tensors_add(&in, BYTES), *y = tensors_add(&out, BYTES);
    CHECK_OK(aclrtMemset(x, BYTES, 0, BYTES));
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    CHECK_OK(aclrtMemcpy(values, BYTES, y, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < COUNT; i++)
        is_right &= values[i] == (float)i;
    tensors_end(&in);
    tensors_end(&out);
    CHECK_OK(aclmdlUnload(id));
    return is_right;
}

static void set(aclmdlConfigHandle *config, aclmdlConfigAttr attr, const void *value, size_t bytes)
{
    CHECK_OK(aclmdlSetConfigOpt(config, attr, value, bytes));
}

int main(void)
{
    uint32_t id = 0;
    size_t size = 0, work = 0, weights = 0, type = ACL_MDL_LOAD_FROM_MEM;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));

    GROUP("aclmdl_1 the weights of a model file in the folder `weight` beside it");
    CHECK(adds(model_load("separate/bias.om")));
    CHECK(adds(model_load("combined/bias.om")));
    CHECK_OK(aclmdlQuerySize(model_path("combined/bias.om"), &work, &weights));
    CHECK(weights >= BYTES);
    aclmdlDesc *desc = aclmdlCreateDesc();
    CHECK_OK(aclmdlGetDescFromFile(desc, model_path("lost.om")));
    CHECK_EQ(aclmdlGetInputSizeByIndex(desc, 0), BYTES);
    CHECK_OK(aclmdlDestroyDesc(desc));

    GROUP("aclmdl_2 a file of weights that is missing: 545003, and its name");
    size_t before = free_memory();
    CHECK_FAIL(aclmdlLoadFromFile(model_path("lost.om"), &id), 545003, "weight/weights.bin");
    CHECK_FAIL(aclmdlQuerySize(model_path("lost.om"), &work, &weights), 545003, "weights.bin");
    CHECK_EQ(free_memory(), before);
    char *bytes = model_bytes("combined/bias.om", &size);
    CHECK_FAIL(aclmdlLoadFromMem(bytes, size, &id), 545003, "ACL_MDL_WEIGHT_PATH_PTR");

    GROUP("aclmdl_1 the folder of weights of a model in memory, and device memory with them");
    aclmdlConfigHandle *config = aclmdlCreateConfigHandle();
    set(config, ACL_MDL_LOAD_TYPE_SIZET, &type, sizeof type);
    set(config, ACL_MDL_MEM_ADDR_PTR, &bytes, sizeof bytes);
    set(config, ACL_MDL_MEM_SIZET, &size, sizeof size);
    const char *folder = "/nowhere";
    set(config, ACL_MDL_WEIGHT_PATH_PTR, &folder, sizeof folder);
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 545003, "/nowhere/weights.bin");
    folder = model_path("combined/weight");
    set(config, ACL_MDL_WEIGHT_PATH_PTR, &folder, sizeof folder);
    CHECK_OK(aclmdlLoadWithConfig(config, &id));
    CHECK(adds(id));
    static float numbers[COUNT];
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)i;
    void *memory = NULL;
    CHECK_OK(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_NORMAL_ONLY));
    put_floats(memory, numbers, COUNT);
    folder = "/nowhere";
    set(config, ACL_MDL_WEIGHT_PATH_PTR, &folder, sizeof folder);
    CHECK_OK(aclmdlSetExternalWeightAddress(config, "weights.bin", memory, BYTES));
    CHECK_OK(aclmdlLoadWithConfig(config, &id));
    CHECK(adds(id));
    CHECK_OK(aclmdlSetExternalWeightAddress(config, "weights.bin", memory, BYTES - 32));
    CHECK_FAIL(aclmdlLoadWithConfig(config, &id), 545003, "2016 bytes");
    CHECK_OK(aclmdlDestroyConfigHandle(config));
    CHECK_OK(aclrtFree(memory));
    free(bytes);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

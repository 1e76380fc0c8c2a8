/* Truncated and corrupted models are loaded or refused, without a crash. */
#include "mdl.h"

static uint32_t state = 1;

static uint32_t draw(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Fails the test if the call failed with an internal error. */
static aclError known(aclError code)
{
    const char *text = code == ACL_SUCCESS ? NULL : aclGetRecentErrMsg();
    if (!CHECK(code != ACL_ERROR_INTERNAL_ERROR) && text)
        printf("  %s\n", text);
    return code;
}

/* Describes, queries, loads and runs a model, if possible. */
static void try_bytes(const char *bytes, size_t size)
{
    uint32_t id = 0;
    size_t work = 0, weights = 0;
    aclmdlDesc *desc = aclmdlCreateDesc();
    aclmdlIODims dims;
    aclmdlIODimsRange ranges;
    aclmdlBatch batch;
    if (known(aclmdlGetDescFromMem(desc, bytes, size)) == ACL_SUCCESS) {
        for (size_t i = 0; i < aclmdlGetNumInputs(desc) && i < 10; i++) {
            aclError code = aclmdlGetInputDims(desc, i, &dims);
            CHECK(code == ACL_SUCCESS || code == 300000);
            aclmdlGetInputDimsRange(desc, i, &ranges);
            aclmdlGetInputNameByIndex(desc, i);
        }
        for (size_t i = 0; i < aclmdlGetNumOutputs(desc) && i < 10; i++)
            aclmdlGetCurOutputDims(desc, i, &dims);
        CHECK_OK(aclmdlGetDynamicBatch(desc, &batch));
        CHECK(batch.batchCount <= ACL_MAX_BATCH_NUM);
    }
    known(aclmdlQuerySizeFromMem(bytes, size, &work, &weights));
    if (known(aclmdlLoadFromMem(bytes, size, &id)) == ACL_SUCCESS) {
        Tensors in = tensors_new(), out = tensors_new();
        void *memory[2] = {NULL, NULL};
        for (int i = 0; i < 2; i++)
            CHECK_OK(aclrtMalloc(&memory[i], 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
        CHECK_OK(aclmdlGetDesc(desc, id));
        for (size_t i = 0; i < aclmdlGetNumInputs(desc) && i < MDL_MOST; i++)
            tensors_borrow(&in, memory[0], 4096);
        for (size_t i = 0; i < aclmdlGetNumOutputs(desc) && i < MDL_MOST; i++)
            tensors_borrow(&out, memory[1], 4096);
        known(aclmdlExecute(id, in.set, out.set));
        known(aclmdlSetDynamicBatchSize(id, in.set, 1, 2));
        known(aclmdlExecute(id, in.set, out.set));
        tensors_end(&in);
        tensors_end(&out);
        CHECK_OK(aclmdlUnload(id));
        for (int i = 0; i < 2; i++)
            CHECK_OK(aclrtFree(memory[i]));
    }
    CHECK_OK(aclmdlDestroyDesc(desc));
}

int main(void)
{
    const char *models[] = {"affine.om", "batch.om", "range.om", "dims.om", "affine.onnx"};
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    GROUP("aclmdl_10 truncated models");
    for (size_t model = 0; model < 5; model++) {
        size_t size = 0;
        char *bytes = model_bytes(models[model], &size);
        for (size_t end = 1; end < size; end += 1 + size / 150)
            try_bytes(bytes, end);
        free(bytes);
    }
    GROUP("aclmdl_10 models with a few random bytes");
    for (size_t model = 0; model < 5; model++) {
        size_t size = 0;
        char *bytes = model_bytes(models[model], &size);
        char *copy = malloc(size);
        size_t body = size > 512 ? 256 : 0;
        for (int turn = 0; turn < 300; turn++) {
            memcpy(copy, bytes, size);
            for (uint32_t change = 0; change <= draw() % 3; change++)
                copy[turn % 2 ? draw() % size : body + draw() % (size - body)] = (char)draw();
            try_bytes(copy, size);
        }
        free(copy);
        free(bytes);
    }
    GROUP("aclmdl_10 a wrong length in the header, and invalid pointers");
    uint32_t id = 0;
    size_t size = 0;
    char *bytes = model_bytes("affine.om", &size);
    memset(bytes + 184, 0xff, 8);
    CHECK_CODE(aclmdlLoadFromMem(bytes, size, &id), 145006);
    CHECK_CODE(aclmdlLoadFromMem((void *)(uintptr_t)64, 4096, &id), 100000);
    free(bytes);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

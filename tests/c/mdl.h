/*
 * Models, and data sets with device memory. CAIRN_TEST_MODELS names the folder of models, which
 * tests/src/models.rs writes.
 */
#ifndef CAIRN_TESTS_MDL_H
#define CAIRN_TESTS_MDL_H

#include "gate.h"

enum { MDL_MOST = 6 };

/* A data set, and the memory behind its buffers. */
typedef struct Tensors {
    aclmdlDataset *set;
    int count;
    aclDataBuffer *buffers[MDL_MOST];
    void *memory[MDL_MOST];
} Tensors;

__attribute__((unused)) static const char *model_path(const char *name)
{
    static _Thread_local char path[4][1024];
    static _Thread_local int next;
    const char *folder = getenv("CAIRN_TEST_MODELS");
    char *into = path[next++ % 4];
    snprintf(into, sizeof path[0], "%s/%s", folder ? folder : ".", name);
    return into;
}

/* The bytes of a model; the caller frees them. */
__attribute__((unused)) static char *model_bytes(const char *name, size_t *size)
{
    FILE *file = fopen(model_path(name), "rb");
    CHECK(file != NULL);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size);
    CHECK_EQ(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

__attribute__((unused)) static uint32_t model_load(const char *name)
{
    uint32_t id = 0;
    CHECK_OK(aclmdlLoadFromFile(model_path(name), &id));
    CHECK(id != 0);
    return id;
}

__attribute__((unused)) static aclmdlDesc *model_desc(uint32_t id)
{
    aclmdlDesc *desc = aclmdlCreateDesc();
    CHECK(desc != NULL);
    CHECK_OK(aclmdlGetDesc(desc, id));
    return desc;
}

__attribute__((unused)) static Tensors tensors_new(void)
{
    Tensors tensors = {aclmdlCreateDataset(), 0, {NULL}, {NULL}};
    CHECK(tensors.set != NULL);
    return tensors;
}

/* Adds a buffer with memory that the caller frees. */
__attribute__((unused)) static void tensors_borrow(Tensors *to, void *memory, size_t bytes)
{
    aclDataBuffer *buffer = aclCreateDataBuffer(memory, bytes);
    CHECK_OK(aclmdlAddDatasetBuffer(to->set, buffer));
    to->memory[to->count] = NULL;
    to->buffers[to->count++] = buffer;
}

/* Adds a buffer with memory of the device. */
__attribute__((unused)) static void *tensors_add(Tensors *to, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
    tensors_borrow(to, memory, bytes);
    to->memory[to->count - 1] = memory;
    return memory;
}

/* Sets the shape of a tensor. */
__attribute__((unused)) static void tensors_shape(Tensors *to, size_t index, int rank, const int64_t *dims)
{
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, rank, dims, ACL_FORMAT_ND);
    CHECK_OK(aclmdlSetDatasetTensorDesc(to->set, desc, index));
    aclDestroyTensorDesc(desc);
}

__attribute__((unused)) static void tensors_end(Tensors *of)
{
    for (int i = 0; i < of->count; i++) {
        CHECK_OK(aclDestroyDataBuffer(of->buffers[i]));
        if (of->memory[i])
            CHECK_OK(aclrtFree(of->memory[i]));
    }
    CHECK_OK(aclmdlDestroyDataset(of->set));
    of->count = 0;
}

__attribute__((unused)) static void put_floats(void *to, const float *values, size_t count)
{
    CHECK_OK(aclrtMemcpy(to, count * 4, values, count * 4, ACL_MEMCPY_HOST_TO_DEVICE));
}

/* 1, 2, 3, .. */
__attribute__((unused)) static void put_counted(void *to, size_t count)
{
    float values[64];
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i + 1);
    put_floats(to, values, count);
}

__attribute__((unused)) static int are_floats(const void *at, const float *expected, size_t count)
{
    float values[64] = {0};
    CHECK_OK(aclrtMemcpy(values, sizeof values, at, count * 4, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < count; i++)
        if (values[i] != expected[i]) {
            printf("  number %zu is %g, expected %g\n", i, values[i], expected[i]);
            return 0;
        }
    return 1;
}

/*
 * Whether this is the output of `affine`, `open`, `range` or `batch` for 1, 2, 3, ..: each row times (1, 2, 3) plus
 * (10, 20, 30).
 */
__attribute__((unused)) static int is_affine(const void *at, size_t rows)
{
    float expected[64];
    for (size_t i = 0; i < rows * 3; i++)
        expected[i] = (float)((i + 1) * (i % 3 + 1) + 10 * (i % 3 + 1));
    return are_floats(at, expected, rows * 3);
}

__attribute__((unused)) static size_t free_memory(void)
{
    size_t available = 0, total = 0;
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &available, &total));
    return available;
}

#endif

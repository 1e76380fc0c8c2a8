/*
 * Tensors for tests of operators: device memory with values, and the objects that aclnn and aclop take.
 */
#ifndef CAIRN_TESTS_ACLNN_H
#define CAIRN_TESTS_ACLNN_H

#include "pool.h"
#include "aclnn/aclnn_base.h"

/* Device memory with a copy of `bytes` bytes. */
__attribute__((unused)) static void *on_device(const void *values, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(aclrtMalloc(&memory, bytes ? bytes : 1, ACL_MEM_MALLOC_HUGE_FIRST));
    if (bytes)
        CHECK_OK(aclrtMemcpy(memory, bytes, values, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    return memory;
}

/* The number at an index of device memory. */
__attribute__((unused)) static float number_at(const void *memory, size_t at)
{
    float value = 0;
    CHECK_OK(aclrtMemcpy(&value, sizeof value, (const float *)memory + at, sizeof value, ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
}

/* A contiguous tensor of this many dimensions over device memory. */
__attribute__((unused)) static aclTensor *tensor_of(
    const int64_t *dims, uint64_t rank, aclDataType type, void *memory)
{
    aclTensor *tensor = aclCreateTensor(dims, rank, type, NULL, 0, ACL_FORMAT_ND, dims, rank, memory);
    CHECK(tensor != NULL);
    return tensor;
}

/* A vector of floats. */
__attribute__((unused)) static aclTensor *vector_of(int64_t size, void *memory)
{
    return tensor_of(&size, 1, ACL_FLOAT, memory);
}

__attribute__((unused)) static aclScalar *float_scalar(float value)
{
    aclScalar *scalar = aclCreateScalar(&value, ACL_FLOAT);
    CHECK(scalar != NULL);
    return scalar;
}

#endif

/*
 * Calls of operators by name: descriptions and buffers that are destroyed after the call.
 */
#ifndef CAIRN_TESTS_ACLOP_H
#define CAIRN_TESTS_ACLOP_H

#include "aclnn.h"
#include "acl/acl_op_compiler.h"

enum { MAX_OPERANDS = 4 };

/* The inputs or outputs of one call. */
typedef struct Operands {
    int count;
    aclTensorDesc *descs[MAX_OPERANDS];
    aclDataBuffer *buffers[MAX_OPERANDS];
} Operands;

/* The function that executes an operator. */
typedef enum Entry { EXECUTE, EXECUTE_V2, COMPILE, COMPILE_V2, WITH_HANDLE, ENTRIES } Entry;

__attribute__((unused)) static aclTensorDesc *operand(
    Operands *operands, aclDataType type, int rank, const int64_t *dims, void *memory, size_t bytes)
{
    aclTensorDesc *desc = aclCreateTensorDesc(type, rank, dims, ACL_FORMAT_ND);
    operands->descs[operands->count] = desc;
    operands->buffers[operands->count++] = aclCreateDataBuffer(memory, bytes);
    CHECK(desc != NULL);
    return desc;
}

/* A vector of floats. */
__attribute__((unused)) static aclTensorDesc *vector_operand(Operands *operands, int64_t size, void *memory)
{
    return operand(operands, ACL_FLOAT, 1, &size, memory, (size_t)(size > 0 ? size : 0) * sizeof(float));
}

__attribute__((unused)) static void destroy_operands(Operands *operands)
{
    for (int i = 0; i < operands->count; i++) {
        aclDestroyTensorDesc(operands->descs[i]);
        CHECK_OK(aclDestroyDataBuffer(operands->buffers[i]));
    }
    operands->count = 0;
}

__attribute__((unused)) static aclError run_op(
    Entry entry, const char *name, Operands *in, Operands *out, aclopAttr *attr, aclrtStream stream)
{
    const aclTensorDesc *const *in_descs = (const aclTensorDesc *const *)in->descs;
    const aclTensorDesc *const *out_descs = (const aclTensorDesc *const *)out->descs;
    const aclDataBuffer *const *in_buffers = (const aclDataBuffer *const *)in->buffers;
    switch (entry) {
    case EXECUTE:
        return aclopExecute(
            name, in->count, in_descs, in_buffers, out->count, out_descs, out->buffers, attr, stream);
    case EXECUTE_V2:
        return aclopExecuteV2(
            name, in->count, in->descs, in->buffers, out->count, out->descs, out->buffers, attr, stream);
    case COMPILE:
        return aclopCompileAndExecute(
            name, in->count, in_descs, in_buffers, out->count, out_descs, out->buffers, attr, ACL_ENGINE_SYS,
            ACL_COMPILE_SYS, NULL, stream);
    case COMPILE_V2:
        return aclopCompileAndExecuteV2(
            name, in->count, in->descs, in->buffers, out->count, out->descs, out->buffers, attr, ACL_ENGINE_SYS,
            ACL_COMPILE_SYS, NULL, stream);
    default: {
        aclopHandle *handle = NULL;
        aclError status = aclopCreateHandle(name, in->count, in_descs, out->count, out_descs, attr, &handle);
        if (status != ACL_SUCCESS)
            return status;
        aclError executed =
            aclopExecWithHandle(handle, in->count, in_buffers, out->count, out->buffers, stream);
        aclopDestroyHandle(handle);
        return executed;
    }
    }
}

#endif

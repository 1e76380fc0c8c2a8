/*
 * Calls of operators by name: descriptions and buffers that end with the call.
 */
#ifndef CAIRN_TESTS_ACLOP_H
#define CAIRN_TESTS_ACLOP_H

#include "aclnn.h"
#include "acl/acl_op_compiler.h"

enum { OP_MOST = 4 };

/* The inputs or outputs of one call. */
typedef struct Operands {
    int count;
    aclTensorDesc *descs[OP_MOST];
    aclDataBuffer *buffers[OP_MOST];
} Operands;

typedef enum Way { EXECUTE, EXECUTE_V2, COMPILE, COMPILE_V2, WITH_HANDLE, WAYS } Way;

__attribute__((unused)) static aclTensorDesc *operand(
    Operands *to, aclDataType type, int rank, const int64_t *dims, void *memory, size_t bytes)
{
    aclTensorDesc *desc = aclCreateTensorDesc(type, rank, dims, ACL_FORMAT_ND);
    to->descs[to->count] = desc;
    to->buffers[to->count++] = aclCreateDataBuffer(memory, bytes);
    CHECK(desc != NULL);
    return desc;
}

/* A vector of floats. */
__attribute__((unused)) static aclTensorDesc *vector_operand(Operands *to, int64_t size, void *memory)
{
    return operand(to, ACL_FLOAT, 1, &size, memory, (size_t)(size > 0 ? size : 0) * sizeof(float));
}

__attribute__((unused)) static void operands_end(Operands *of)
{
    for (int i = 0; i < of->count; i++) {
        aclDestroyTensorDesc(of->descs[i]);
        CHECK_OK(aclDestroyDataBuffer(of->buffers[i]));
    }
    of->count = 0;
}

__attribute__((unused)) static aclError run_op(
    Way way, const char *name, Operands *in, Operands *out, aclopAttr *attr, aclrtStream stream)
{
    const aclTensorDesc *const *in_descs = (const aclTensorDesc *const *)in->descs;
    const aclTensorDesc *const *out_descs = (const aclTensorDesc *const *)out->descs;
    const aclDataBuffer *const *in_buffers = (const aclDataBuffer *const *)in->buffers;
    switch (way) {
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
        aclError done =
            aclopExecWithHandle(handle, in->count, in_buffers, out->count, out->buffers, stream);
        aclopDestroyHandle(handle);
        return done;
    }
    }
}

#endif

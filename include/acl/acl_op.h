/*
 * Single operators by name.
 */
#ifndef INC_EXTERNAL_ACL_ACL_OP_H_
#define INC_EXTERNAL_ACL_ACL_OP_H_

#include "acl_base.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The named attributes of one operator call. */
typedef struct aclopAttr aclopAttr;

/** An operator with its descriptions and attributes, ready to be run on buffers. */
typedef struct aclopHandle aclopHandle;

/** What a compile function of a user fills in. */
typedef struct aclopKernelDesc aclopKernelDesc;

/** Releases the code of a kernel. */
typedef void (*aclDataDeallocator)(void *data, size_t length);

/** The unit that is to run an operator. Accepted and without effect on a CPU. */
typedef enum aclopEngineType {
    ACL_ENGINE_SYS = 0,
    ACL_ENGINE_AICORE = 1,
    ACL_ENGINE_VECTOR = 2
} aclopEngineType;

/** A function of a user that chooses a kernel. */
typedef aclError (*aclopCompileFunc)(
    int numInputs, const aclTensorDesc *const inputDesc[], int numOutputs,
    const aclTensorDesc *const outputDesc[], const aclopAttr *opAttr,
    aclopKernelDesc *aclopKernelDesc);

/** Takes a folder that exists. Operators are found by name: nothing is read from it. */
aclError aclopSetModelDir(const char *modelDir);

/** Takes a model in memory. Operators are found by name: nothing is read from it. */
aclError aclopLoad(const void *model, size_t modelSize);

/** Registers a function that chooses kernels. Not supported: there are no kernels to choose. */
aclError aclopRegisterCompileFunc(const char *opType, aclopCompileFunc func);

/** Ends such a registration. Not supported. */
aclError aclopUnregisterCompileFunc(const char *opType);

/** Sets the arguments of a kernel. Not supported. */
aclError aclopSetKernelArgs(
    aclopKernelDesc *kernelDesc, const char *kernelId, uint32_t blockDim, const void *args,
    uint32_t argSize);

/** Sets the workspaces of a kernel. Not supported. */
aclError aclopSetKernelWorkspaceSizes(
    aclopKernelDesc *kernelDesc, int numWorkspaces, size_t *workspaceSizes);

/** Brings the code of a kernel. Not supported: it would be code for an NPU. */
aclError aclopCreateKernel(
    const char *opType, const char *kernelId, const char *kernelName, void *binData, int binSize,
    aclopEngineType enginetype, aclDataDeallocator deallocator);

/** Chooses kernels again. Not supported. */
aclError aclopUpdateParams(
    const char *opType, int numInputs, const aclTensorDesc *const inputDesc[], int numOutputs,
    const aclTensorDesc *const outputDesc[], const aclopAttr *attr);

/** How many operators are kept ready. Accepted and without effect; 0 is refused. */
aclError aclopSetMaxOpQueueNum(uint64_t maxOpNum);

/** An empty set of attributes; NULL when it cannot be made. */
aclopAttr *aclopCreateAttr(void);

/** Destroys a set of attributes. */
void aclopDestroyAttr(const aclopAttr *attr);

/** Sets a boolean; anything but 0 is true. */
aclError aclopSetAttrBool(aclopAttr *attr, const char *attrName, uint8_t attrValue);

/** Sets an integer. */
aclError aclopSetAttrInt(aclopAttr *attr, const char *attrName, int64_t attrValue);

/** Sets a number. */
aclError aclopSetAttrFloat(aclopAttr *attr, const char *attrName, float attrValue);

/** Sets a string, which is copied. */
aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue);

/** Sets a data type. */
aclError aclopSetAttrDataType(aclopAttr *attr, const char *attrName, aclDataType attrValue);

/** Sets a list of booleans, which is copied. */
aclError aclopSetAttrListBool(
    aclopAttr *attr, const char *attrName, int numValues, const uint8_t *values);

/** Sets a list of integers, which is copied. */
aclError aclopSetAttrListInt(
    aclopAttr *attr, const char *attrName, int numValues, const int64_t *values);

/** Sets a list of numbers, which is copied. */
aclError aclopSetAttrListFloat(
    aclopAttr *attr, const char *attrName, int numValues, const float *values);

/** Sets a list of lists of integers; the list `i` has `numValues[i]` of them. */
aclError aclopSetAttrListListInt(
    aclopAttr *attr, const char *attrName, int numLists, const int *numValues,
    const int64_t *const values[]);

/** Sets a list of strings, which are copied. */
aclError aclopSetAttrListString(
    aclopAttr *attr, const char *attrName, int numValues, const char **values);

/** Sets a list of data types, which is copied. */
aclError aclopSetAttrListDataType(
    aclopAttr *attr, const char *attrName, int numValues, const aclDataType values[]);

/**
 * Submits an operator by name. Descriptions, buffers and attributes may be destroyed on return. What it
 * needs besides its outputs comes from the allocator that is registered on the stream.
 */
aclError aclopExecute(
    const char *opType, int numInputs, const aclTensorDesc *const inputDesc[],
    const aclDataBuffer *const inputs[], int numOutputs, const aclTensorDesc *const outputDesc[],
    aclDataBuffer *const outputs[], const aclopAttr *attr, aclrtStream stream);

/** The same; also writes the shapes that were inferred into `outputDesc`. */
aclError aclopExecuteV2(
    const char *opType, int numInputs, aclTensorDesc *inputDesc[], aclDataBuffer *inputs[],
    int numOutputs, aclTensorDesc *outputDesc[], aclDataBuffer *outputs[], aclopAttr *attr,
    aclrtStream stream);

/** Remembers an operator with copies of its descriptions and attributes. */
aclError aclopCreateHandle(
    const char *opType, int numInputs, const aclTensorDesc *const inputDesc[], int numOutputs,
    const aclTensorDesc *const outputDesc[], const aclopAttr *opAttr, aclopHandle **handle);

/** Forgets it; what was submitted with it goes on. */
void aclopDestroyHandle(aclopHandle *handle);

/** Submits a remembered operator. */
aclError aclopExecWithHandle(
    aclopHandle *handle, int numInputs, const aclDataBuffer *const inputs[], int numOutputs,
    aclDataBuffer *const outputs[], aclrtStream stream);

/** Converts elements from one type to another. `truncate` is without effect: integers are cut. */
aclError aclopCast(
    const aclTensorDesc *srcDesc, const aclDataBuffer *srcBuffer, const aclTensorDesc *dstDesc,
    aclDataBuffer *dstBuffer, uint8_t truncate, aclrtStream stream);

/** Remembers such a conversion. */
aclError aclopCreateHandleForCast(
    aclTensorDesc *srcDesc, aclTensorDesc *dstDesc, uint8_t truncate, aclopHandle **handle);

/** Writes the shapes and types that the outputs will have into `outputDesc`. */
aclError aclopInferShape(
    const char *opType, int numInputs, aclTensorDesc *inputDesc[], aclDataBuffer *inputs[],
    int numOutputs, aclTensorDesc *outputDesc[], aclopAttr *attr);

#ifdef __cplusplus
}
#endif

#endif

/*
 * Arguments of aclnn operators: tensors, scalars, lists and arrays; and executors.
 *
 * Every object is a handle: a handle that is none, or was destroyed, is an error (161002), and null is
 * 161001. Functions that make an object return NULL when they fail; aclGetRecentErrMsg tells why.
 */
#ifndef CAIRN_ACLNN_ACL_META_H
#define CAIRN_ACLNN_ACL_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What the functions of aclnn return; 0 is success. */
typedef int32_t aclnnStatus;

/** A code of aclnnStatus. */
enum {
    ACLNN_SUCCESS = 0,
    /** An argument that must be there is null. */
    ACLNN_ERR_PARAM_NULLPTR = 161001,
    /** An argument has a value, shape or type that is not taken. */
    ACLNN_ERR_PARAM_INVALID = 161002,
    /** The runtime failed: a stream, a device, memory. */
    ACLNN_ERR_RUNTIME_ERROR = 361001,
    /** An internal error. */
    ACLNN_ERR_INNER = 561000
};

typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;

/**
 * A view of device memory. `stride` and `offset` count elements; without strides the elements lie one
 * after the other. The arrays are copied, the data is not. Up to 8 dimensions.
 */
aclTensor *aclCreateTensor(
    const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
    int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
    void *tensorData);

/** Makes a tensor that exists another one; arguments as of aclCreateTensor. */
aclnnStatus aclInitTensor(
    aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
    const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
    uint64_t storageDimsNum, void *tensorDataAddr);

/** Destroys a tensor, not its memory. Work that was submitted with it goes on. */
aclnnStatus aclDestroyTensor(const aclTensor *tensor);

/** A scalar with a copy of the value at `value`. */
aclScalar *aclCreateScalar(void *value, aclDataType dataType);

/** Destroys a scalar. */
aclnnStatus aclDestroyScalar(const aclScalar *scalar);

/** A list with a copy of `size` integers. */
aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size);

/** A list with a copy of `size` numbers. */
aclFloatArray *aclCreateFloatArray(const float *value, uint64_t size);

/** A list with a copy of `size` booleans. */
aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t size);

/** Destroys a list of integers. */
aclnnStatus aclDestroyIntArray(const aclIntArray *array);

/** Destroys a list of numbers. */
aclnnStatus aclDestroyFloatArray(const aclFloatArray *array);

/** Destroys a list of booleans. */
aclnnStatus aclDestroyBoolArray(const aclBoolArray *array);

/** The number of its integers. */
aclnnStatus aclGetIntArraySize(const aclIntArray *array, uint64_t *size);

/** The number of its numbers. */
aclnnStatus aclGetFloatArraySize(const aclFloatArray *array, uint64_t *size);

/** The number of its booleans. */
aclnnStatus aclGetBoolArraySize(const aclBoolArray *array, uint64_t *size);

/** A list of tensors. From now on they are the list's: they are destroyed with it. */
aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t size);

/** A list of scalars. From now on they are the list's: they are destroyed with it. */
aclScalarList *aclCreateScalarList(const aclScalar *const *value, uint64_t size);

/** Destroys a list and its tensors. */
aclnnStatus aclDestroyTensorList(const aclTensorList *array);

/** Destroys a list and its scalars. */
aclnnStatus aclDestroyScalarList(const aclScalarList *array);

/** The number of its tensors. */
aclnnStatus aclGetTensorListSize(const aclTensorList *tensorList, uint64_t *size);

/** The number of its scalars. */
aclnnStatus aclGetScalarListSize(const aclScalarList *scalarList, uint64_t *size);

/**
 * The sizes of the view, in an array that the caller ends with `delete[]`. After an operator whose
 * output's sizes depend on values, and a synchronize, these are the real ones.
 */
aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum);

/** The strides of the view, in elements, in an array that the caller ends with `delete[]`. */
aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue, uint64_t *stridesNum);

/** The sizes of the storage, in an array that the caller ends with `delete[]`. */
aclnnStatus aclGetStorageShape(
    const aclTensor *tensor, int64_t **storageDims, uint64_t *storageDimsNum);

/** Where the view begins, in elements from the start of the storage. */
aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset);

/** The format that the tensor was made with. */
aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format);

/** The type of the elements. */
aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType);

/** The start of the storage. */
aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **addr);

/** Moves the tensor to other memory. Executors that were made before keep the old one. */
aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr);

/**
 * Lets an executor run any number of times; it then lives until aclDestroyAclOpExecutor. Otherwise the
 * second phase ends it.
 */
aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor);

/** Destroys an executor. */
aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor);

/**
 * Moves a tensor of a repeatable executor to other memory, from its next run on. `index` is the tensor's
 * position among the tensors of the operator; the tensor itself tells which is meant.
 */
aclnnStatus aclSetTensorAddr(
    aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr);

/** The same, counted among the inputs. */
aclnnStatus aclSetInputTensorAddr(
    aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr);

/** The same, counted among the outputs. */
aclnnStatus aclSetOutputTensorAddr(
    aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr);

/** The same for the tensor at `relativeIndex` of a list. */
aclnnStatus aclSetDynamicTensorAddr(
    aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex, aclTensorList *tensors,
    void *addr);

/** The same, counted among the inputs. */
aclnnStatus aclSetDynamicInputTensorAddr(
    aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex, aclTensorList *tensors,
    void *addr);

/** The same, counted among the outputs. */
aclnnStatus aclSetDynamicOutputTensorAddr(
    aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex, aclTensorList *tensors,
    void *addr);

/** The older name of aclSetTensorAddr. */
aclnnStatus AclSetTensorAddr(
    aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr);

/** The older name of aclSetInputTensorAddr. */
aclnnStatus AclSetInputTensorAddr(
    aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr);

/** The older name of aclSetOutputTensorAddr. */
aclnnStatus AclSetOutputTensorAddr(
    aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr);

/** The older name of aclSetDynamicTensorAddr. */
aclnnStatus AclSetDynamicTensorAddr(
    aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex, aclTensorList *tensors,
    void *addr);

/** The older name of aclSetDynamicInputTensorAddr. */
aclnnStatus AclSetDynamicInputTensorAddr(
    aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex, aclTensorList *tensors,
    void *addr);

/** The older name of aclSetDynamicOutputTensorAddr. */
aclnnStatus AclSetDynamicOutputTensorAddr(
    aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex, aclTensorList *tensors,
    void *addr);

#ifdef __cplusplus
}
#endif

#endif

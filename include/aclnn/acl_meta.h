/*
 * Arguments of aclnn operators: tensors, scalars and lists.
 */
#ifndef CAIRN_ACLNN_ACL_META_H
#define CAIRN_ACLNN_ACL_META_H

#include <stdint.h>
#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What the functions of aclnn return; 0 is success. */
typedef int32_t aclnnStatus;

typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;

/**
 * A view of device memory. `stride` and `offset` count elements; the arrays are copied, the data
 * is not.
 */
aclTensor *aclCreateTensor(
    const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
    int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
    void *tensorData);

/** A scalar with a copy of the value at `value`. */
aclScalar *aclCreateScalar(void *value, aclDataType dataType);

/** A list with a copy of `size` integers. */
aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size);

/** The shape of the view, in an array that the caller deletes. */
aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum);

#ifdef __cplusplus
}
#endif

#endif

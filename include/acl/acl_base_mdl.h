/*
 * Descriptions of tensors, as single operators and models take them.
 */
#ifndef INC_EXTERNAL_ACL_ACL_BASE_MODEL_H_
#define INC_EXTERNAL_ACL_ACL_BASE_MODEL_H_

#include <stddef.h>
#include <stdint.h>
#include "acl_base_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Numbers in one entry of a range: its lower and its upper end. */
#define ACL_TENSOR_SHAPE_RANGE_NUM 2
#define ACL_TENSOR_VALUE_RANGE_NUM 2

/** aclGetTensorDescNumDims of a tensor whose number of dimensions is not known. */
#define ACL_UNKNOWN_RANK 0xFFFFFFFFFFFFFFFEULL

/** Element type, shape, format and name of a tensor, without its data. */
typedef struct aclTensorDesc aclTensorDesc;

/** A description with a copy of `dims`; NULL when it cannot be made. */
aclTensorDesc *aclCreateTensorDesc(
    aclDataType dataType, int numDims, const int64_t *dims, aclFormat format);

/** Destroys a description. Those that aclGetTensorDescByIndex gave go with their parent. */
void aclDestroyTensorDesc(const aclTensorDesc *desc);

/**
 * For a shape that is known only at run time: the least and the greatest value of each dimension,
 * -1 for no upper end.
 */
aclError aclSetTensorShapeRange(
    aclTensorDesc *desc, size_t dimsCount, int64_t dimsRange[][ACL_TENSOR_SHAPE_RANGE_NUM]);

/**
 * For a value that is known only at run time: the least and the greatest value of each element.
 */
aclError aclSetTensorValueRange(
    aclTensorDesc *desc, size_t valueCount, int64_t valueRange[][ACL_TENSOR_VALUE_RANGE_NUM]);

/** The element type; ACL_DT_UNDEFINED for an invalid description. */
aclDataType aclGetTensorDescType(const aclTensorDesc *desc);

/** The format; ACL_FORMAT_UNDEFINED for an invalid description. */
aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc);

/** Bytes of the data; 0 when the shape is not fully known. */
size_t aclGetTensorDescSize(const aclTensorDesc *desc);

/** The number of elements; 1 for a scalar. */
size_t aclGetTensorDescElementCount(const aclTensorDesc *desc);

/** The number of dimensions; 0 for a scalar, ACL_UNKNOWN_RANK when it is not known. */
size_t aclGetTensorDescNumDims(const aclTensorDesc *desc);

/** One dimension; -1 when it is not known or the index is out of range. */
int64_t aclGetTensorDescDim(const aclTensorDesc *desc, size_t index);

/** One dimension, with a code. */
aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize);

/** The range of one dimension; `dimRangeNum` is the capacity of `dimRange`, at least two. */
aclError aclGetTensorDescDimRange(
    const aclTensorDesc *desc, size_t index, size_t dimRangeNum, int64_t *dimRange);

/** Gives the tensor a name, which is copied. */
void aclSetTensorDescName(aclTensorDesc *desc, const char *name);

/** The name, empty when none was given. It belongs to the description. */
const char *aclGetTensorDescName(aclTensorDesc *desc);

/** Makes the description of the same tensor in another format. */
aclError aclTransTensorDescFormat(
    const aclTensorDesc *srcDesc, aclFormat dstFormat, aclTensorDesc **dstDesc);

/** The format in memory. Prefer aclSetTensorFormat. */
aclError aclSetTensorStorageFormat(aclTensorDesc *desc, aclFormat format);

/** The shape in memory. Prefer aclSetTensorShape. */
aclError aclSetTensorStorageShape(aclTensorDesc *desc, int numDims, const int64_t *dims);

/** The format in memory. */
aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format);

/** The shape in memory. */
aclError aclSetTensorShape(aclTensorDesc *desc, int numDims, const int64_t *dims);

/** The format in the source framework. */
aclError aclSetTensorOriginFormat(aclTensorDesc *desc, aclFormat format);

/** The shape in the source framework. */
aclError aclSetTensorOriginShape(aclTensorDesc *desc, int numDims, const int64_t *dims);

/**
 * One of the descriptions that a description of several tensors holds; NULL when there is none.
 */
aclTensorDesc *aclGetTensorDescByIndex(aclTensorDesc *desc, size_t index);

/** The address of the data of a constant tensor, else NULL. */
void *aclGetTensorDescAddress(const aclTensorDesc *desc);

/** Names the variable-length input that this tensor is a part of. */
aclError aclSetTensorDynamicInput(aclTensorDesc *desc, const char *dynamicInputName);

/** Makes the tensor a constant with the given host data, which is copied. */
aclError aclSetTensorConst(aclTensorDesc *desc, void *dataBuffer, size_t length);

/** Tells whether the data is on the host or on the device. */
aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memType);

#ifdef __cplusplus
}
#endif

#endif

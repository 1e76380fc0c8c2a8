/*
 * Single operators by name: their attributes.
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

/** The unit that is to run an operator. Accepted and without effect on a CPU. */
typedef enum aclopEngineType {
    ACL_ENGINE_SYS = 0,
    ACL_ENGINE_AICORE = 1,
    ACL_ENGINE_VECTOR = 2
} aclopEngineType;

/** An empty set of attributes; NULL when it cannot be made. */
aclopAttr *aclopCreateAttr(void);

/** Destroys a set of attributes. */
void aclopDestroyAttr(const aclopAttr *attr);

/** Sets a truth value; anything but 0 is true. */
aclError aclopSetAttrBool(aclopAttr *attr, const char *attrName, uint8_t attrValue);

/** Sets an integer. */
aclError aclopSetAttrInt(aclopAttr *attr, const char *attrName, int64_t attrValue);

/** Sets a number. */
aclError aclopSetAttrFloat(aclopAttr *attr, const char *attrName, float attrValue);

/** Sets a string, which is copied. */
aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue);

/** Sets a data type. */
aclError aclopSetAttrDataType(aclopAttr *attr, const char *attrName, aclDataType attrValue);

/** Sets a list of truth values, which is copied. */
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

#ifdef __cplusplus
}
#endif

#endif

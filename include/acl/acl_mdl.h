/*
 * Models. So far only what the names of other headers need.
 */
#ifndef INC_EXTERNAL_ACL_ACL_MODEL_H_
#define INC_EXTERNAL_ACL_ACL_MODEL_H_

#include "acl_base.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The inputs or the outputs of one run of a model. */
typedef struct aclmdlDataset aclmdlDataset;

/** What a loaded model takes and gives. */
typedef struct aclmdlDesc aclmdlDesc;

#ifdef __cplusplus
}
#endif

#endif

/*
 * The start and the end of aclnn.
 */
#ifndef CAIRN_ACLNN_ACLNN_BASE_H
#define CAIRN_ACLNN_ACLNN_BASE_H

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Takes NULL or the path of a configuration file that exists. There is nothing to set up. */
aclnnStatus aclnnInit(const char *configPath);

/** Ends aclnn; there is nothing to tear down. */
aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif

/*
 * The Ascend Computing Language: devices, streams, events, memory, operators and models.
 * Including this header brings in the whole C interface.
 *
 * The include guards in this folder bear the names that CANN's own headers use: where both are on
 * the compiler's path, as with torch_npu's wheel, the first copy of a header that is met is the only
 * one that counts.
 */
#ifndef INC_EXTERNAL_ACL_ACL_H_
#define INC_EXTERNAL_ACL_ACL_H_

#include "acl_rt.h"
#include "acl_op.h"
#include "acl_mdl.h"

#endif

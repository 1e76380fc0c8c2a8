/*
 * What every other header of ACL builds on: codes, data types, descriptions of tensors.
 */
#ifndef INC_EXTERNAL_ACL_ACL_BASE_H_
#define INC_EXTERNAL_ACL_ACL_BASE_H_

#include "error_codes/rt_error_codes.h"
#include "error_codes/ge_error_codes.h"
#include "acl_base_rt.h"
#include "acl_base_mdl.h"

#endif

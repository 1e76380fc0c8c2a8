/*
 * What every other header of ACL builds on: codes, data types, descriptions of tensors.
 */
#ifndef CAIRN_ACL_ACL_BASE_H
#define CAIRN_ACL_ACL_BASE_H

#include "error_codes/rt_error_codes.h"
#include "error_codes/ge_error_codes.h"
#include "acl_base_rt.h"
#include "acl_base_mdl.h"

#endif

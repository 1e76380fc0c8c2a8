/*
 * The Ascend Computing Language: devices, streams, events, memory, operators and models.
 * Including this header brings in the whole C interface.
 */
#ifndef CAIRN_ACL_ACL_H
#define CAIRN_ACL_ACL_H

#include "acl_rt.h"
#include "acl_op.h"
#include "acl_mdl.h"

#endif

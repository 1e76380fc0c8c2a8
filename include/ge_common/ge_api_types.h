/*
 * The newer path of ge/ge_api_types.h.
 */
#ifndef CAIRN_GE_COMMON_GE_API_TYPES_H
#define CAIRN_GE_COMMON_GE_API_TYPES_H

#include "ge/ge_api_types.h"

#endif

/*
 * The newer path of ge/ge_api_error_codes.h.
 */
#ifndef CAIRN_GE_COMMON_GE_API_ERROR_CODES_H
#define CAIRN_GE_COMMON_GE_API_ERROR_CODES_H

#include "ge/ge_api_error_codes.h"

#endif

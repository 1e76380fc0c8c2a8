/*
 * The newer path of ge/ge_error_codes.h.
 */
#ifndef CAIRN_GE_COMMON_GE_ERROR_CODES_H
#define CAIRN_GE_COMMON_GE_ERROR_CODES_H

#include "ge/ge_error_codes.h"

#endif

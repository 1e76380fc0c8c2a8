/*
 * The newer name of graph/ge_error_codes.h.
 */
#ifndef CAIRN_GRAPH_ERROR_CODES_H
#define CAIRN_GRAPH_ERROR_CODES_H

#include "graph/ge_error_codes.h"

#endif

/*
 * Another name of graph/custom_op.h. C++ only.
 */
#ifndef CAIRN_GE_CUSTOM_OP_H
#define CAIRN_GE_CUSTOM_OP_H

#include "graph/custom_op.h"

#endif

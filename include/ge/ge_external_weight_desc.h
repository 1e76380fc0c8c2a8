/*
 * Weights in files of their own. C++ only.
 */
#ifndef CAIRN_GE_GE_EXTERNAL_WEIGHT_DESC_H
#define CAIRN_GE_GE_EXTERNAL_WEIGHT_DESC_H

#ifdef __cplusplus

#include <memory>

namespace ge {

/** Where a weight's file is. Graphs here have none. */
class ExternalWeightDesc;
using ExternalWeightDescPtr = std::shared_ptr<ExternalWeightDesc>;

}  // namespace ge

#endif

#endif

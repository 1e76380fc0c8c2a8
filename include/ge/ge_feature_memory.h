/*
 * A part of a graph's feature memory. C++ only.
 */
#ifndef CAIRN_GE_GE_FEATURE_MEMORY_H
#define CAIRN_GE_GE_FEATURE_MEMORY_H

#ifdef __cplusplus

#include <cstddef>
#include <memory>

#include "ge/ge_api_types.h"
#include "ge/ge_error_codes.h"

namespace ge {

/** How many bytes of which memory a graph wants, and whether their base may change between runs. */
class FeatureMemory {
public:
    class Builder;
    class FeatureMemoryData;

    ~FeatureMemory();
    FeatureMemory &operator=(const FeatureMemory &) & = delete;
    FeatureMemory(const FeatureMemory &) = delete;

    MemoryType GetType() const;
    size_t GetSize() const;
    /** True: the base stays as it is after the load. */
    bool IsFixed() const;

private:
    FeatureMemory() = default;
    std::shared_ptr<FeatureMemoryData> data_{nullptr};
};

using FeatureMemoryPtr = std::shared_ptr<FeatureMemory>;

}  // namespace ge

#endif

#endif

// How summaries are made.
#ifndef CAIRN_CPP_SUMMARY_H
#define CAIRN_CPP_SUMMARY_H

#include "bridge.h"
#include "ge/ge_graph_compile_summary.h"

namespace ge {

class __attribute__((visibility("hidden"))) FeatureMemory::Builder {
public:
    static FeatureMemoryPtr Build(MemoryType type, size_t size, bool is_fixed);
};

class __attribute__((visibility("hidden"))) CompiledGraphSummary::Builder {
public:
    // Of a handle that is handed over; null for null.
    static CompiledGraphSummaryPtr Build(CairnSummary *owned, uint32_t graph_id);
    static uint32_t GraphOf(const CompiledGraphSummary &summary);
};

}  // namespace ge

#endif

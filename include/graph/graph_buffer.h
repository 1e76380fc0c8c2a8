/*
 * A graph as bytes. C++ only.
 */
#ifndef CAIRN_GRAPH_GRAPH_BUFFER_H
#define CAIRN_GRAPH_GRAPH_BUFFER_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/ge_error_codes.h"

namespace ge {

/** Owns the bytes that Graph::SaveToMem wrote. */
class GraphBuffer {
public:
    GraphBuffer();
    ~GraphBuffer();
    GraphBuffer(const GraphBuffer &) = delete;
    GraphBuffer &operator=(const GraphBuffer &) = delete;

    /** Null when nothing was written. */
    const uint8_t *GetData() const;
    size_t GetSize() const;

private:
    friend class Graph;
    std::unique_ptr<std::vector<uint8_t>> buffer_;
};

}  // namespace ge

#endif

#endif

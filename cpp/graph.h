// What ge::Graph and ge::GNode hold: the engine's graphs and nodes.
#ifndef CAIRN_CPP_GRAPH_H
#define CAIRN_CPP_GRAPH_H

#include <memory>
#include <mutex>

#include "bridge.h"
#include "graph/graph.h"

namespace ge {

class __attribute__((visibility("hidden"))) GraphBody {
public:
    explicit GraphBody(CairnGraph *owned) : handle(owned) {}
    ~GraphBody() { CairnGraphRelease(handle); }
    GraphBody(const GraphBody &) = delete;
    GraphBody &operator=(const GraphBody &) = delete;

    // The engine's graph, borrowed; null for Graph().
    static CairnGraph *Of(const Graph &graph) { return graph.impl_ == nullptr ? nullptr : graph.impl_->handle; }
    // Of a handle that is handed over; null for null.
    static GraphPtr AdoptShared(CairnGraph *owned);

    CairnGraph *const handle;
    // The name as a std::string of each ABI (0: old, 1: new), made when it is asked for.
    std::mutex lock;
    std::shared_ptr<void> names[2];
};

class __attribute__((visibility("hidden"))) NodeBody {
public:
    explicit NodeBody(CairnNode *owned) : handle(owned) {}
    ~NodeBody() { CairnNodeRelease(handle); }
    NodeBody(const NodeBody &) = delete;
    NodeBody &operator=(const NodeBody &) = delete;

    // The engine's node, borrowed; null for GNode().
    static CairnNode *Of(const GNode &node) { return node.impl_ == nullptr ? nullptr : node.impl_->handle; }
    // Of a handle that is handed over; no node for null.
    static GNode Adopt(CairnNode *owned);
    static GNodePtr AdoptShared(CairnNode *owned);

    CairnNode *const handle;
};

}  // namespace ge

#endif

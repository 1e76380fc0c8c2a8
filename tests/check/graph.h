/*
 * What the C++ programs of this folder share: a graph that doubles numbers, and a pool of the user. As in program.h, each program
 * breaks one rule, and compiled with RIGHT it is its right twin.
 */
#ifndef CAIRN_TESTS_CHECK_GRAPH_H
#define CAIRN_TESTS_CHECK_GRAPH_H

#include "program.h"

#include <ge/ge_api.h>

#include <map>
#include <memory>
#include <vector>

#include "array_ops.h"
#include "elewise_calculation_ops.h"

#define MUST_GE(call)                                                                  \
    do {                                                                               \
        if ((call) != ge::SUCCESS) {                                                   \
            fprintf(stderr, "%s:\n  %s\n", #call, ge::GEGetErrorMsgV2().GetString());  \
            exit(2);                                                                   \
        }                                                                              \
    } while (0)

using Options = std::map<ge::AscendString, ge::AscendString>;

enum { COUNT = 16, BYTES = COUNT * 4 };

/* Twice its input, of a size that is known (`count`) or not (-1). */
static inline ge::Graph doubling(int64_t count)
{
    ge::TensorDesc desc(ge::Shape({count}), ge::FORMAT_ND, ge::DT_FLOAT);
    auto x = ge::op::Data("x").set_attr_index(0);
    x.update_input_desc_x(desc);
    x.update_output_desc_y(desc);
    auto sum = ge::op::Add("sum").set_input_x1(x).set_input_x2(x);
    ge::Graph graph("double");
    graph.SetInputs({x}).SetOutputs({sum});
    return graph;
}

/* Device memory as a tensor, which the program keeps. */
static inline ge::Tensor tensor(void *memory)
{
    ge::TensorDesc desc(ge::Shape({COUNT}), ge::FORMAT_ND, ge::DT_FLOAT);
    desc.SetPlacement(ge::kPlacementDevice);
    ge::Tensor tensor(desc);
    tensor.SetData(static_cast<uint8_t *>(memory), BYTES, [](uint8_t *) {});
    return tensor;
}

static inline std::vector<ge::Tensor> run(ge::Session &session, uint32_t graph, aclrtStream stream, void *memory)
{
    std::vector<ge::Tensor> inputs = {tensor(memory)}, outputs;
    MUST_GE(session.RunGraphWithStreamAsync(graph, stream, inputs, outputs));
    return outputs;
}

/* Blocks one after the other of one piece of memory; each is used once. */
class OncePool : public ge::Allocator {
public:
    OncePool() : memory_(static_cast<char *>(device_memory(1 << 20))) {}
    ~OncePool() override { release(); }

    ge::MemBlock *Malloc(size_t size) override
    {
        char *address = memory_ + used_;
        used_ += (size + 511) / 512 * 512;
        return new ge::MemBlock(*this, address, size);
    }

    void Free(ge::MemBlock *block) override { delete block; }

    /* Gives the memory back to the device. */
    void release()
    {
        if (memory_ != nullptr) {
            MUST(aclrtFree(memory_));
            memory_ = nullptr;
        }
    }

protected:
    char *memory_;
    size_t used_ = 0;
};

/* Runs a graph of unknown size in a pool; `body` gets the session, the stream and the outputs. Then everything ends. */
template <typename Body>
static inline void run_in_pool(const std::shared_ptr<ge::Allocator> &pool, Body body)
{
    Options options;
    MUST_GE(ge::GEInitialize(options));
    aclrtStream stream = new_stream();
    void *memory = device_memory(BYTES);
    {
        ge::Session session(options);
        MUST_GE(session.AddGraph(1, doubling(-1)));
        MUST_GE(session.RegisterExternalAllocator(stream, pool));
        std::vector<ge::Tensor> outputs = run(session, 1, stream, memory);
        body(session, stream, outputs);
        MUST_GE(session.UnregisterExternalAllocator(stream));
    }
    MUST(aclrtFree(memory));
    MUST(aclrtDestroyStream(stream));
    MUST_GE(ge::GEFinalize());
}

#endif

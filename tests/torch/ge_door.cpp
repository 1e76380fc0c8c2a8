// The graph engine's classes behind C functions, for graphs.py: operators by the name of their type, graphs of
// one node or from a model, and runs of them through one ge::Session, on the host or on a stream with a pool of
// our own. Whatever fails returns null or a status, and `door_text` says why.

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "acl/acl_rt.h"
#include "ge/ge_api.h"
#include "graph/operator_factory.h"

namespace {

// An allocator that takes each block from the device, and counts blocks taken and given back.
class CountingPool : public ge::Allocator {
public:
    ge::MemBlock *Malloc(size_t size) override
    {
        void *address = nullptr;
        if (aclrtMalloc(&address, size, ACL_MEM_MALLOC_HUGE_FIRST) != 0) {
            return nullptr;
        }
        (void)aclrtMemset(address, size, 0x77, size);
        ++taken;
        return new ge::MemBlock(*this, address, size);
    }

    void Free(ge::MemBlock *block) override
    {
        ++given_back;
        /* Tasks that are queued may still touch it. */
        kept.push_back(block->GetAddr());
        delete block;
    }

    /* Gives everything back; nothing may be queued. */
    void clear()
    {
        for (void *address : kept) {
            (void)aclrtFree(address);
        }
        kept.clear();
    }

    uint64_t taken = 0;
    uint64_t given_back = 0;
    std::vector<void *> kept;
};

std::unique_ptr<ge::Session> session;
std::shared_ptr<CountingPool> pool;
std::string text;

ge::TensorDesc description(int32_t type, const int64_t *dims, size_t rank)
{
    const ge::Shape shape(std::vector<int64_t>(dims, dims + rank));
    ge::TensorDesc desc(shape, ge::FORMAT_ND, static_cast<ge::DataType>(type));
    desc.SetOriginShape(shape);
    return desc;
}

}  // namespace

// A tensor of a run: a type of ge::DataType, sizes, and where it lies.
struct DoorTensor {
    int32_t type;
    int32_t is_on_host;
    uint64_t rank;
    const int64_t *dims;
    void *data;
    uint64_t bytes;
};

using Operators = std::vector<ge::Operator>;
using Tensors = std::vector<ge::Tensor>;

extern "C" {

const char *door_text()
{
    text = ge::GEGetErrorMsgV2().GetString();
    return text.c_str();
}

uint32_t door_open()
{
    const std::map<ge::AscendString, ge::AscendString> none;
    const ge::Status status = ge::GEInitialize(none);
    if (status == ge::SUCCESS) {
        pool = std::make_shared<CountingPool>();
        session = std::make_unique<ge::Session>(none);
    }
    return status;
}

uint32_t door_close()
{
    session.reset();
    (void)aclrtSynchronizeDevice();
    pool->clear();
    pool.reset();
    return ge::GEFinalize();
}

bool door_knows(const char *type)
{
    return ge::OperatorFactory::IsExistOp(type);
}

ge::Operator *door_operator(const char *name, const char *type)
{
    const ge::Operator created = ge::OperatorFactory::CreateOperator(name, type);
    return created.IsEmpty() ? nullptr : new ge::Operator(created);
}

void door_release_operator(ge::Operator *op)
{
    delete op;
}

// Registers `count` inputs or outputs of a dynamic one.
void door_grow(ge::Operator *op, const char *name, uint32_t count, bool is_output)
{
    if (is_output) {
        op->DynamicOutputRegister(name, count);
    } else {
        op->DynamicInputRegister(name, count);
    }
}

void door_feed(ge::Operator *op, const char *input, const ge::Operator *from)
{
    (void)op->SetInput(input, *from);
}

// Sizes and type of a Data.
uint32_t door_describe(ge::Operator *op, int32_t type, const int64_t *dims, uint64_t rank)
{
    const ge::TensorDesc desc = description(type, dims, rank);
    const ge::graphStatus status = op->UpdateInputDesc("x", desc);
    return status != ge::GRAPH_SUCCESS ? status : op->UpdateOutputDesc("y", desc);
}

// The value of a Const.
void door_set_tensor(ge::Operator *op, const char *name, const DoorTensor *value)
{
    const ge::TensorDesc desc = description(value->type, value->dims, value->rank);
    (void)op->SetAttr(name, ge::Tensor(desc, static_cast<const uint8_t *>(value->data), value->bytes));
    (void)op->UpdateOutputDesc("y", desc);
}

void door_set_int(ge::Operator *op, const char *name, int64_t value)
{
    (void)op->SetAttr(name, value);
}

void door_set_float(ge::Operator *op, const char *name, float value)
{
    (void)op->SetAttr(name, value);
}

void door_set_bool(ge::Operator *op, const char *name, bool value)
{
    (void)op->SetAttr(name, value);
}

void door_set_text(ge::Operator *op, const char *name, const char *value)
{
    (void)op->SetAttr(name, value);
}

void door_set_type(ge::Operator *op, const char *name, int32_t value)
{
    (void)op->SetAttr(name, static_cast<ge::DataType>(value));
}

void door_set_ints(ge::Operator *op, const char *name, const int64_t *values, uint64_t count)
{
    (void)op->SetAttr(name, std::vector<int64_t>(values, values + count));
}

// A graph whose outputs are all those of one operator.
ge::Graph *door_graph(const char *name, ge::Operator *const *inputs, uint64_t count, const ge::Operator *output)
{
    Operators data_nodes;
    for (uint64_t at = 0; at < count; ++at) {
        data_nodes.push_back(*inputs[at]);
    }
    auto graph = std::make_unique<ge::Graph>(name);
    graph->SetInputs(data_nodes).SetOutputs(Operators{*output});
    return graph->IsValid() ? graph.release() : nullptr;
}

ge::Graph *door_model(const void *bytes, uint64_t size)
{
    auto graph = std::make_unique<ge::Graph>();
    return graph->LoadFromSerializedModelArray(bytes, size) == ge::GRAPH_SUCCESS ? graph.release() : nullptr;
}

void door_release_graph(ge::Graph *graph)
{
    delete graph;
}

// Options are keys and values alternately.
uint32_t door_add(uint32_t id, const ge::Graph *graph, const char *const *options, uint64_t count)
{
    std::map<ge::AscendString, ge::AscendString> option_map;
    for (uint64_t at = 0; at + 1 < count; at += 2) {
        option_map[options[at]] = options[at + 1];
    }
    return session->AddGraph(id, *graph, option_map);
}

uint32_t door_remove(uint32_t id)
{
    return session->RemoveGraph(id);
}

uint32_t door_register(void *stream)
{
    return session->RegisterExternalAllocator(stream, pool);
}

uint32_t door_unregister(void *stream)
{
    return session->UnregisterExternalAllocator(stream);
}

// Blocks that the engine took from the pool, and those that it gave back.
void door_blocks(uint64_t *taken, uint64_t *given_back)
{
    *taken = pool->taken;
    *given_back = pool->given_back;
}

}  // extern "C"

// Tensors over memory of the caller's.
static Tensors borrowed(const DoorTensor *tensors, uint64_t count)
{
    Tensors result;
    for (uint64_t at = 0; at < count; ++at) {
        const DoorTensor &one = tensors[at];
        ge::TensorDesc desc = description(one.type, one.dims, one.rank);
        desc.SetPlacement(one.is_on_host != 0 ? ge::kPlacementHost : ge::kPlacementDevice);
        ge::Tensor tensor(desc);
        (void)tensor.SetData(static_cast<uint8_t *>(one.data), one.bytes, [](uint8_t *) {});
        result.push_back(tensor);
    }
    return result;
}

extern "C" {

// Runs on the host if there is no stream. Without outputs the engine makes them.
Tensors *door_run(uint32_t id, void *stream, const DoorTensor *inputs, uint64_t input_count, const DoorTensor *outputs,
                  uint64_t output_count)
{
    auto results = std::make_unique<Tensors>(borrowed(outputs, output_count));
    const Tensors run_inputs = borrowed(inputs, input_count);
    const ge::Status status = stream == nullptr ? session->RunGraph(id, run_inputs, *results)
                                                : session->RunGraphWithStreamAsync(id, stream, run_inputs, *results);
    return status == ge::SUCCESS ? results.release() : nullptr;
}

uint64_t door_outputs(const Tensors *outputs)
{
    return outputs->size();
}

// Describes an output; `dims` has room for eight sizes.
void door_output(const Tensors *outputs, uint64_t at, DoorTensor *described, int64_t *dims)
{
    const ge::Tensor &tensor = (*outputs)[at];
    const ge::TensorDesc desc = tensor.GetTensorDesc();
    const std::vector<int64_t> sizes = desc.GetShape().GetDims();
    described->type = desc.GetDataType();
    described->is_on_host = desc.GetPlacement() == ge::kPlacementHost;
    described->rank = sizes.size();
    described->dims = dims;
    described->data = const_cast<uint8_t *>(tensor.GetData());
    described->bytes = tensor.GetSize();
    std::memcpy(dims, sizes.data(), sizes.size() * sizeof(int64_t));
}

void door_release_outputs(Tensors *outputs)
{
    delete outputs;
}

}  // extern "C"

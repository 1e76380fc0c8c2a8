/* Graphs, tensors and a counting pool for the tests of the graph engine. */
#ifndef CAIRN_TESTS_CPP_GE_H
#define CAIRN_TESTS_CPP_GE_H

#include "gate.h"
#include "all_ops.h"
#include "cairn/reason.h"
#include "exe_graph/runtime/tensor.h"
#include "ge/ge_allocator.h"
#include "graph/graph.h"
#include "graph/tensor.h"
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

/* A pool over aclrtMalloc that counts blocks by class of memory, and fails or throws at block number `fails_at`. */
class Pool : public ge::Allocator {
public:
    int mallocs = 0, advises = 0, frees = 0;
    int fails_at = 0;
    bool throws = false;
    /* Called inside Malloc. */
    void (*in_malloc)(void *) = nullptr;
    void *argument = nullptr;
    std::map<uint32_t, int> classes;
    std::map<char *, size_t> live;
    /* Counts destroyed pools. */
    int *destroyed = nullptr;

    ~Pool() override
    {
        if (destroyed != nullptr)
            ++*destroyed;
    }
    ge::MemBlock *Malloc(size_t size) override
    {
        mallocs++;
        return Allocate(size);
    }
    ge::MemBlock *MallocAdvise(size_t size, void *addr) override
    {
        advises++;
        return ge::Allocator::MallocAdvise(size, addr);
    }
    void Free(ge::MemBlock *block) override
    {
        frees++;
        live.erase(static_cast<char *>(block->GetAddr()));
        CHECK_OK(aclrtFree(block->GetAddr()));
        delete block;
    }
    bool Holds(const void *address) const
    {
        const char *at = static_cast<const char *>(address);
        for (const auto &block : live)
            if (at >= block.first && at < block.first + block.second)
                return true;
        return false;
    }

private:
    ge::MemBlock *Allocate(size_t size)
    {
        cairnAllocationReason reason{};
        CHECK(cairnGetAllocationReason(&reason));
        classes[reason.memoryClass]++;
        if (in_malloc != nullptr)
            in_malloc(argument);
        if (mallocs == fails_at) {
            if (throws)
                throw std::runtime_error("this pool throws");
            return nullptr;
        }
        void *memory = nullptr;
        if (aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
            return nullptr;
        live[static_cast<char *>(memory)] = size;
        return new ge::MemBlock(*this, memory, size);
    }
};

static inline ge::TensorDesc floats(const std::vector<int64_t> &dims)
{
    return ge::TensorDesc(ge::Shape(dims), ge::FORMAT_ND, ge::DT_FLOAT);
}

/* A constant of one element. */
static inline ge::op::Const number(const char *name, float value)
{
    ge::Tensor tensor(floats({1}));
    tensor.SetData(reinterpret_cast<const uint8_t *>(&value), sizeof value);
    return ge::op::Const(name).set_attr_value(tensor);
}

/* y = relu(x + 1) * 2 - (x + 1), z = x + 1: constants, an intermediate, two outputs. */
static inline ge::Graph two_outputs(int64_t n)
{
    auto x = ge::op::Data("x").set_attr_index(0);
    x.update_input_desc_x(floats({n}));
    x.update_output_desc_y(floats({n}));
    auto one = number("one", 1), two = number("two", 2);
    auto z = ge::op::Add("z").set_input_x1(x).set_input_x2(one);
    auto r = ge::op::Relu("r").set_input_x(z);
    auto t = ge::op::Mul("t").set_input_x1(r).set_input_x2(two);
    auto y = ge::op::Sub("y").set_input_x1(t).set_input_x2(z);
    ge::Graph graph("two");
    graph.SetInputs({x}).SetOutputs({y, z});
    return graph;
}

static const float X[4] = {-3.0f, 0.5f, 2.0f, -1.0f};
static const float Y[4] = {2.0f, 1.5f, 3.0f, 0.0f};
static const float Z[4] = {-2.0f, 1.5f, 3.0f, 0.0f};

/* Device memory that is freed with the object. */
struct Device {
    void *data = nullptr;
    size_t bytes;
    explicit Device(size_t size, const void *from = nullptr) : bytes(size)
    {
        CHECK_OK(aclrtMalloc(&data, size, ACL_MEM_MALLOC_HUGE_FIRST));
        if (from != nullptr)
            CHECK_OK(aclrtMemcpy(data, size, from, size, ACL_MEMCPY_HOST_TO_DEVICE));
    }
    Device(const Device &) = delete;
    ~Device() { aclrtFree(data); }
};

/* Whether device memory has these values. */
static inline int holds(const void *device, const float *expected, size_t count = 4)
{
    std::vector<float> have(count);
    if (aclrtMemcpy(have.data(), count * 4, device, count * 4, ACL_MEMCPY_DEVICE_TO_HOST) != ACL_SUCCESS)
        return 0;
    for (size_t at = 0; at < count; at++)
        if (have[at] != expected[at])
            return 0;
    return 1;
}

static inline ge::Tensor on_device(const Device &memory, const std::vector<int64_t> &dims = {4})
{
    ge::TensorDesc desc = floats(dims);
    desc.SetPlacement(ge::kPlacementDevice);
    ge::Tensor tensor(desc);
    tensor.SetData(static_cast<uint8_t *>(memory.data), memory.bytes, [](uint8_t *) {});
    return tensor;
}

static inline gert::Tensor gert_tensor(void *data, size_t bytes, const gert::StorageShape &shape = {{4}, {4}},
                                   gert::TensorPlacement placement = gert::kOnDeviceHbm)
{
    gert::Tensor tensor(shape, {ge::FORMAT_ND, ge::FORMAT_ND, {}}, placement, ge::DT_FLOAT, data);
    tensor.SetSize(bytes);
    return tensor;
}

using Options = std::map<ge::AscendString, ge::AscendString>;

static inline Options option(const char *key, const char *value)
{
    return {{ge::AscendString(key), ge::AscendString(value)}};
}

/* Initializes ACL and sets device 0. */
static inline void begin()
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
}

static inline aclrtStream new_stream()
{
    aclrtStream stream = NULL;
    CHECK_OK(aclrtCreateStream(&stream));
    return stream;
}

/* The call fails, and its text has this part; `error_text` returns and clears this thread's text. */
#define REFUSED(call, part)                                                          \
    do {                                                                             \
        (void)error_text();                                                                \
        CHECK((call) != ge::SUCCESS);                                                \
        const std::string text = error_text();                                             \
        if (!CHECK(text.find(part) != std::string::npos))                            \
            printf("  the text is: %s\n", text.c_str());                             \
    } while (0)

/* The call succeeds; else its text is shown. */
#define RUNS(call)                                           \
    do {                                                     \
        if (!CHECK_EQ(call, ge::SUCCESS))                    \
            printf("  the text is: %s\n", error_text().c_str());   \
    } while (0)

#endif

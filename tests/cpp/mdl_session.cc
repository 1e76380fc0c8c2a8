// breaks: pool-freed-while-pending
// links: -lfmk_onnx_parser
/* Models built in this process, and the same graph in a session: equal results, and as many calls of an allocator. */
#include "acl/acl_mdl.h"
#include "ge/ge_api.h"
#include "ge/ge_ir_build.h"
#include "ge.h"
#include "onnx_model.h"
#include "parser/onnx_parser.h"
#include <cstdio>

static std::string error_text()
{
    return ge::GEGetErrorMsgV2().GetString();
}

/* An allocator of the ACL domain over aclrtMalloc that counts its calls. */
struct Calls {
    int allocs, addresses, frees, out;
};

static void *counted_alloc(aclrtAllocator object, size_t size)
{
    void *memory = nullptr;
    Calls *const calls = static_cast<Calls *>(object);
    calls->allocs++;
    calls->out++;
    CHECK_OK(aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return memory;
}

static Calls *current;

static void *counted_address(aclrtAllocatorBlock block)
{
    current->addresses++;
    return block;
}

static void counted_free(aclrtAllocator object, aclrtAllocatorBlock block)
{
    Calls *const calls = static_cast<Calls *>(object);
    calls->frees++;
    calls->out--;
    CHECK_OK(aclrtFree(block));
}

static void register_calls(aclrtStream stream, Calls *calls)
{
    current = calls;
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    CHECK_OK(aclrtAllocatorSetObjToDesc(desc, calls));
    CHECK_OK(aclrtAllocatorSetAllocFuncToDesc(desc, counted_alloc));
    CHECK_OK(aclrtAllocatorSetFreeFuncToDesc(desc, counted_free));
    CHECK_OK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, counted_address));
    CHECK_OK(aclrtAllocatorRegister(stream, desc));
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
}

/* A data set with one tensor. */
struct Set {
    aclmdlDataset *set = aclmdlCreateDataset();
    aclDataBuffer *buffer;
    explicit Set(const Device &memory) : buffer(aclCreateDataBuffer(memory.data, memory.bytes))
    {
        CHECK_OK(aclmdlAddDatasetBuffer(set, buffer));
    }
    Set(const Set &) = delete;
    ~Set()
    {
        CHECK_OK(aclDestroyDataBuffer(buffer));
        CHECK_OK(aclmdlDestroyDataset(set));
    }
    void Shape(const std::vector<int64_t> &dims) const
    {
        aclTensorDesc *const desc =
            aclCreateTensorDesc(ACL_FLOAT, static_cast<int>(dims.size()), dims.data(), ACL_FORMAT_ND);
        CHECK_OK(aclmdlSetDatasetTensorDesc(set, desc, 0));
        aclDestroyTensorDesc(desc);
    }
};

static const aclmdlModel *c_model(const ge::aclmdlModel *model)
{
    return reinterpret_cast<const aclmdlModel *>(model);
}

/* y = relu(x + 1). */
static std::vector<float> expected(const std::vector<float> &x)
{
    std::vector<float> y;
    for (const float value : x)
        y.push_back(value + 1 > 0 ? value + 1 : 0);
    return y;
}

static void from_model(const std::string &onnx)
{
    GROUP("aclmdl_1 a model that was built in this process");
    ge::aclmdlModel *object = nullptr;
    RUNS(ge::aclgrphBuildModelFromData(onnx.data(), onnx.size(), {{"input_shape", "x:2,3"}}, &object));
    aclmdlConfigHandle *const config = aclmdlCreateConfigHandle();
    uint32_t id = 0;
    CHECK_OK(aclmdlLoadFromModel(c_model(object), config, &id));
    RUNS(ge::aclgrphDestroyModel(object));
    const std::vector<float> x = {-3, 4, 0, -1, 2, 5};
    const Device input(24, x.data()), output(24);
    const Set in(input), out(output);
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    CHECK(holds(output.data, expected(x).data(), 6));
    CHECK_OK(aclmdlUnload(id));

    GROUP("aclmdl_2 a model that was built in this process: null, no model, nothing in it");
    struct {
        const void *data;
        size_t size;
    } odd = {"no model at all, but long enough", 20}, empty = {nullptr, 0};
    CHECK_FAIL(aclmdlLoadFromModel(reinterpret_cast<const aclmdlModel *>(&odd), config, &id), 145006, "20");
    CHECK_FAIL(aclmdlLoadFromModel(reinterpret_cast<const aclmdlModel *>(&empty), config, &id), 100000, "model");
    CHECK_FAIL(aclmdlLoadFromModel(nullptr, config, &id), 100000, "model");
    CHECK_FAIL(aclmdlLoadFromModel(reinterpret_cast<const aclmdlModel *>(&odd), nullptr, &id), 100000, "handle");
    CHECK_FAIL(aclmdlLoadFromModel(reinterpret_cast<const aclmdlModel *>(&odd), config, nullptr), 100000, "modelId");
    CHECK_OK(aclmdlDestroyConfigHandle(config));
}

static void beside_a_session(const std::string &onnx)
{
    GROUP("acl_reg_5 as many blocks as the same graph takes in a session, from either kind of allocator");
    const aclrtStream stream = new_stream();
    const std::vector<float> x = {-3, 4, 0, -1, 2, 5, 7, -8, 9, 1, -2, 3};
    const std::vector<float> y = expected(x);
    const Device input(48, x.data()), output(48);

    ge::Graph graph("net");
    RUNS(ge::aclgrphParseONNXFromMem(onnx.data(), onnx.size(), Options(), graph));
    ge::aclmdlModel *object = nullptr;
    RUNS(ge::aclgrphBuildModelFromData(onnx.data(), onnx.size(), {{"input_shape", "x:1~4,3"}}, &object));
    aclmdlConfigHandle *const config = aclmdlCreateConfigHandle();
    uint32_t id = 0;
    CHECK_OK(aclmdlLoadFromModel(c_model(object), config, &id));
    CHECK_OK(aclmdlDestroyConfigHandle(config));
    RUNS(ge::aclgrphDestroyModel(object));
    Calls calls = {0, 0, 0, 0};
    register_calls(stream, &calls);
    const Set in(input), out(output);
    const auto pool = std::make_shared<Pool>();
    {
        ge::Session session{Options()};
        RUNS(session.AddGraph(1, graph));
        RUNS(session.RegisterExternalAllocator(stream, pool));
        /* The first run loads the graph, and takes memory for constants too. */
        for (int64_t rows = 0; rows <= 4; rows++) {
            const std::vector<int64_t> dims = {rows == 0 ? 4 : rows, 3};
            const size_t count = static_cast<size_t>(dims[0]) * 3;
            const int mallocs = pool->mallocs, frees = pool->frees;
            const ge::Tensor from = on_device(input, dims);
            std::vector<ge::Tensor> to = {on_device(output, dims)};
            CHECK_OK(aclrtMemset(output.data, 48, 0, 48));
            RUNS(session.RunGraphWithStreamAsync(1, stream, {from}, to));
            CHECK_OK(aclrtSynchronizeStream(stream));
            CHECK(holds(output.data, y.data(), count));
            const Calls before = calls;
            in.Shape(dims);
            CHECK_OK(aclrtMemset(output.data, 48, 0, 48));
            CHECK_OK(aclmdlExecuteAsync(id, in.set, out.set, stream));
            CHECK_EQ(calls.out, 0);
            CHECK_OK(aclrtSynchronizeStream(stream));
            CHECK(holds(output.data, y.data(), count));
            CHECK_EQ(calls.allocs - before.allocs, calls.frees - before.frees);
            CHECK_EQ(calls.allocs - before.allocs, calls.addresses - before.addresses);
            CHECK(calls.allocs > before.allocs);
            if (rows > 0) {
                CHECK_EQ(calls.allocs - before.allocs, pool->mallocs - mallocs);
                CHECK_EQ(calls.frees - before.frees, pool->frees - frees);
            }
        }

        GROUP("acl_reg_9 neither domain sees the allocators of the other");
        const int mallocs = pool->mallocs;
        CHECK_OK(aclrtAllocatorUnregister(stream));
        const Calls before = calls;
        CHECK_OK(aclmdlExecuteAsync(id, in.set, out.set, stream));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_EQ(pool->mallocs, mallocs);
        CHECK_EQ(calls.allocs, before.allocs);
    }
    CHECK_OK(aclmdlUnload(id));
    CHECK_OK(aclrtDestroyStream(stream));
}

int main()
{
    begin();
    RUNS(ge::GEInitialize(Options()));
    Options global = {{ge::ir_option::SOC_VERSION, "Ascend310P3"}};
    RUNS(ge::aclgrphBuildInitialize(global));
    from_model(onnx_model::relu_of_sum({-1, 3}));
    beside_a_session(onnx_model::relu_of_sum({-1, 3}));
    ge::aclgrphBuildFinalize();
    RUNS(ge::GEFinalize());
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

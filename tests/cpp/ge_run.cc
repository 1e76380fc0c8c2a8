// links: -lge_runner
// strings: both
/* The same graph through every function that runs it. */
#include "ge_check.h"
#include "ge/ge_api_v2.h"
#include <atomic>
#include <condition_variable>
#include <mutex>

using namespace ge;

static const std::vector<float> VALUES = {1, 2, 3, 4};

static bool is_expected(const void *data)
{
    float result[4];
    memcpy(result, data, sizeof result);
    return result[0] == 2 && result[1] == 8 && result[2] == 18 && result[3] == 32;
}

static Tensor on_host()
{
    return Tensor(floats({4}), reinterpret_cast<const uint8_t *>(VALUES.data()), 16);
}

static gert::Tensor gert_tensor(void *data, gert::TensorPlacement placement)
{
    return gert::Tensor({{4}, {4}}, {FORMAT_ND, FORMAT_ND, {}}, placement, DT_FLOAT, data);
}

static bool is_expected_on_device(const void *data)
{
    float result[4] = {0};
    CHECK_CODE(aclrtMemcpy(result, 16, data, 16, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    return is_expected(result);
}

/* Set by a callback, waited for by the program. */
struct CallbackSignal {
    std::mutex lock;
    std::condition_variable notified;
    int calls = 0;
    bool succeeded = false;

    void wait()
    {
        std::unique_lock<std::mutex> guard(lock);
        notified.wait(guard, [&] { return calls > 0; });
    }

    void notify(bool is_expected)
    {
        const std::lock_guard<std::mutex> guard(lock);
        calls++;
        succeeded = is_expected;
        notified.notify_all();
    }
};

static void session_runs(aclrtStream stream, void *device)
{
    GROUP("ge run: Session, on the host, in the background and on a stream");
    std::map<std::string, std::string> options;
    Session session(options);
    const Graph graph = add_and_multiply(VALUES, 4);
    OK(session.AddGraphWithCopy(1, graph));
    std::vector<Tensor> outputs;
    OK(session.RunGraph(1, {on_host()}, outputs));
    CHECK(outputs.size() == 1 && outputs[0].GetSize() == 16 && is_expected(outputs[0].GetData()));
    CHECK(outputs.size() == 1 && outputs[0].GetShapeDim(0) == 4 && outputs[0].GetDataType() == DT_FLOAT);

    OK(session.AddGraphWithCopy(2, graph));
    CallbackSignal signal;
    OK(session.RunGraphAsync(2, {on_host()}, [&](Status status, std::vector<Tensor> &results) {
        signal.notify(status == SUCCESS && results.size() == 1 && is_expected(results[0].GetData()));
    }));
    signal.wait();
    CHECK(signal.succeeded && signal.calls == 1);

    OK(session.AddGraphWithCopy(3, graph));
    TensorDesc desc = floats({4});
    desc.SetPlacement(kPlacementDevice);
    Tensor in(desc), out(desc);
    uint8_t *const output_address = static_cast<uint8_t *>(device) + 64;
    OK(in.SetData(static_cast<uint8_t *>(device), 16, [](uint8_t *) {}));
    OK(out.SetData(output_address, 16, [](uint8_t *) {}));
    std::vector<Tensor> stream_outputs = {out};
    OK(session.RunGraphWithStreamAsync(3, stream, {in}, stream_outputs));
    CHECK_CODE(aclrtSynchronizeStream(stream), 0);
    CHECK(stream_outputs[0].GetData() == output_address && is_expected_on_device(output_address));

    GROUP("ge run: Session, compiled, loaded and executed");
    OK(session.AddGraphWithCopy(4, graph));
    OK(session.CompileGraph(4));
    CompiledGraphSummaryPtr summary = session.GetCompiledGraphSummary(4);
    CHECK(summary != nullptr && summary->IsStatic());
    std::vector<Shape> shapes;
    std::vector<DataType> dtypes;
    size_t size = 0;
    if (summary != nullptr) {
        OK(summary->GetOutputShapes(shapes));
        OK(summary->GetOutputDtypes(dtypes));
        OK(summary->GetConstMemorySize(size));
        CHECK(shapes.size() == 1 && shapes[0].GetDim(0) == 4 && dtypes[0] == DT_FLOAT && size >= 16);
        std::map<AscendString, std::vector<AscendString>> infos;
        OK(GEStreamAllocationSummaryGetStringInfos(*summary, infos));
        CHECK_EQ(infos.size(), 1);
    }
    OK(GeSessionLoadGraph(session, 4, Options{}, stream));
    std::vector<gert::Tensor> inputs, made;
    inputs.push_back(gert_tensor(device, gert::kOnDeviceHbm));
    OK(GeSessionExecuteGraphWithStreamAsync(session, 4, stream, inputs, made));
    CHECK_CODE(aclrtSynchronizeStream(stream), 0);
    CHECK(made.size() == 1 && made[0].GetPlacement() == gert::kOnDeviceHbm && is_expected_on_device(made[0].GetAddr()));
    made.clear();

    GROUP("ge run: wrong ids, graphs and arguments are refused with a text");
    REFUSED(session.RunGraph(99, {on_host()}, outputs), "99");
    REFUSED(session.RunGraph(1, {}, outputs), "");
    REFUSED(session.AddGraph(1, graph), "1");
    REFUSED(session.AddGraph(50, Graph()), "empty");
    REFUSED(session.ShardGraphs(), "ShardGraphs");
    REFUSED(session.RegisterExternalAllocator(nullptr, nullptr), "");
    CHECK(session.GetCompiledGraphSummary(99) == nullptr);
    (void)GEGetErrorMsgV2();
    OK(session.RemoveGraph(1));
    REFUSED(session.RemoveGraph(1), "1");
}

static void ge_session_runs(aclrtStream stream, void *device)
{
    GROUP("ge run: GeSession, the three ways");
    GeSession session(Options{});
    const Graph graph = add_and_multiply(VALUES, 4);
    std::vector<float> host = VALUES;
    std::vector<gert::Tensor> inputs, outputs;
    inputs.push_back(gert_tensor(host.data(), gert::kOnHost));
    OK(session.AddGraphClone(1, graph));
    OK(session.RunGraph(1, inputs, outputs));
    CHECK(outputs.size() == 1 && is_expected(outputs[0].GetAddr()) && outputs[0].GetPlacement() == gert::kOnHost);

    OK(session.AddGraphClone(2, graph));
    CallbackSignal signal;
    OK(session.RunGraphAsync(2, inputs, [&](Status status, std::vector<gert::Tensor> &results) {
        signal.notify(status == SUCCESS && results.size() == 1 && is_expected(results[0].GetAddr()));
    }));
    signal.wait();
    CHECK(signal.succeeded && signal.calls == 1);

    OK(session.AddGraphClone(3, graph));
    std::vector<gert::Tensor> on_device, made;
    on_device.push_back(gert_tensor(device, gert::kOnDeviceHbm));
    OK(session.RunGraphWithStreamAsync(3, stream, on_device, made));
    CHECK_CODE(aclrtSynchronizeStream(stream), 0);
    CHECK(made.size() == 1 && is_expected_on_device(made[0].GetAddr()));
    made.clear();
    GeSession same = session;
    CHECK_EQ(same.GetSessionId(), session.GetSessionId());
}

int main()
{
    GROUP("ge run: before the engine is started");
    CHECK_CODE(aclInit(nullptr), 0);
    CHECK_CODE(aclrtSetDevice(0), 0);
    {
        Session session(Options{});
        (void)GEGetErrorMsgV2();
        REFUSED(session.CompileGraph(1), "GEInitialize");
    }
    aclrtStream stream = nullptr;
    CHECK_CODE(aclrtCreateStream(&stream), 0);
    void *device = nullptr;
    CHECK_CODE(aclrtMalloc(&device, 128, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    CHECK_CODE(aclrtMemcpy(device, 16, VALUES.data(), 16, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    OK(GEInitialize(std::map<std::string, std::string>{{"ge.exec.deviceId", "0"}}));
    session_runs(stream, device);
    OK(GEFinalize());
    OK(GEInitializeV2(Options{{OPTION_EXEC_DEVICE_ID, "0"}}));
    ge_session_runs(stream, device);
    OK(GEFinalizeV2());
    CHECK_CODE(aclrtFree(device), 0);
    CHECK_CODE(aclrtDestroyStream(stream), 0);
    CHECK_CODE(aclrtResetDevice(0), 0);
    CHECK_CODE(aclFinalize(), 0);
    return END();
}

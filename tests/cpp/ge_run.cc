// links: -lge_runner
// strings: both
/* The same graph through every way to run it. */
#include "ge_check.h"
#include "ge/ge_api_v2.h"
#include <atomic>
#include <condition_variable>
#include <mutex>

using namespace ge;

static const std::vector<float> VALUES = {1, 2, 3, 4};

static bool is_right(const void *data)
{
    float result[4];
    memcpy(result, data, sizeof result);
    return result[0] == 2 && result[1] == 8 && result[2] == 18 && result[3] == 32;
}

static Tensor on_host()
{
    return Tensor(floats({4}), reinterpret_cast<const uint8_t *>(VALUES.data()), 16);
}

static gert::Tensor execute_with_tensor(void *data, gert::TensorPlacement where)
{
    return gert::Tensor({{4}, {4}}, {FORMAT_ND, FORMAT_ND, {}}, where, DT_FLOAT, data);
}

static bool is_right_on_device(const void *data)
{
    float result[4] = {0};
    CHECK_CODE(aclrtMemcpy(result, 16, data, 16, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    return is_right(result);
}

/* Set by a callback, waited for by the program. */
struct CallbackSignal {
    std::mutex lock;
    std::condition_variable woken;
    int calls = 0;
    bool right = false;

    void wait()
    {
        std::unique_lock<std::mutex> guard(lock);
        woken.wait(guard, [&] { return calls > 0; });
    }

    void notify(bool is_right)
    {
        const std::lock_guard<std::mutex> guard(lock);
        calls++;
        right = is_right;
        woken.notify_all();
    }
};

static void version_1(aclrtStream stream, void *device)
{
    GROUP("ge run: Session, on the host, in the background and on a stream");
    std::map<std::string, std::string> options;
    Session session(options);
    const Graph graph = add_and_multiply(VALUES, 4);
    OK(session.AddGraphWithCopy(1, graph));
    std::vector<Tensor> outputs;
    OK(session.RunGraph(1, {on_host()}, outputs));
    CHECK(outputs.size() == 1 && outputs[0].GetSize() == 16 && is_right(outputs[0].GetData()));
    CHECK(outputs.size() == 1 && outputs[0].GetShapeDim(0) == 4 && outputs[0].GetDataType() == DT_FLOAT);

    OK(session.AddGraphWithCopy(2, graph));
    CallbackSignal signal;
    OK(session.RunGraphAsync(2, {on_host()}, [&](Status status, std::vector<Tensor> &given) {
        signal.notify(status == SUCCESS && given.size() == 1 && is_right(given[0].GetData()));
    }));
    signal.wait();
    CHECK(signal.right && signal.calls == 1);

    OK(session.AddGraphWithCopy(3, graph));
    TensorDesc desc = floats({4});
    desc.SetPlacement(kPlacementDevice);
    Tensor in(desc), out(desc);
    uint8_t *const place = static_cast<uint8_t *>(device) + 64;
    OK(in.SetData(static_cast<uint8_t *>(device), 16, [](uint8_t *) {}));
    OK(out.SetData(place, 16, [](uint8_t *) {}));
    std::vector<Tensor> given = {out};
    OK(session.RunGraphWithStreamAsync(3, stream, {in}, given));
    CHECK_CODE(aclrtSynchronizeStream(stream), 0);
    CHECK(given[0].GetData() == place && is_right_on_device(place));

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
    std::vector<gert::Tensor> inputs, empty;
    inputs.push_back(execute_with_tensor(device, gert::kOnDeviceHbm));
    OK(GeSessionExecuteGraphWithStreamAsync(session, 4, stream, inputs, empty));
    CHECK_CODE(aclrtSynchronizeStream(stream), 0);
    CHECK(empty.size() == 1 && empty[0].GetPlacement() == gert::kOnDeviceHbm && is_right_on_device(empty[0].GetAddr()));
    empty.clear();

    GROUP("ge run: what cannot be is refused with a text");
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

static void version_2(aclrtStream stream, void *device)
{
    GROUP("ge run: GeSession, the three ways");
    GeSession session(Options{});
    const Graph graph = add_and_multiply(VALUES, 4);
    std::vector<float> host = VALUES;
    std::vector<gert::Tensor> inputs, outputs;
    inputs.push_back(execute_with_tensor(host.data(), gert::kOnHost));
    OK(session.AddGraphClone(1, graph));
    OK(session.RunGraph(1, inputs, outputs));
    CHECK(outputs.size() == 1 && is_right(outputs[0].GetAddr()) && outputs[0].GetPlacement() == gert::kOnHost);

    OK(session.AddGraphClone(2, graph));
    CallbackSignal signal;
    OK(session.RunGraphAsync(2, inputs, [&](Status status, std::vector<gert::Tensor> &given) {
        signal.notify(status == SUCCESS && given.size() == 1 && is_right(given[0].GetAddr()));
    }));
    signal.wait();
    CHECK(signal.right && signal.calls == 1);

    OK(session.AddGraphClone(3, graph));
    std::vector<gert::Tensor> on_device, empty;
    on_device.push_back(execute_with_tensor(device, gert::kOnDeviceHbm));
    OK(session.RunGraphWithStreamAsync(3, stream, on_device, empty));
    CHECK_CODE(aclrtSynchronizeStream(stream), 0);
    CHECK(empty.size() == 1 && is_right_on_device(empty[0].GetAddr()));
    empty.clear();
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
    version_1(stream, device);
    OK(GEFinalize());
    OK(GEInitializeV2(Options{{OPTION_EXEC_DEVICE_ID, "0"}}));
    version_2(stream, device);
    OK(GEFinalizeV2());
    CHECK_CODE(aclrtFree(device), 0);
    CHECK_CODE(aclrtDestroyStream(stream), 0);
    CHECK_CODE(aclrtResetDevice(0), 0);
    CHECK_CODE(aclFinalize(), 0);
    return END();
}

// breaks: pool-freed-while-pending
// links: -lge_runner_v2
// strings: both
/* ge::GeSession: the second version of the interface, from its own header and library alone. */
#include "ge/ge_api_v2.h"
#include "ge.h"
#include <string>

using ge::SUCCESS;

static std::string error_text() { return ge::GEGetErrorMsgV3().GetString(); }

static std::vector<gert::Tensor> tensors_over(const Device &memory)
{
    std::vector<gert::Tensor> tensors(1);
    tensors[0] = gert_tensor(memory.data, memory.bytes);
    return tensors;
}

static std::vector<gert::Tensor> tensors_over(const Device &first, const Device &second)
{
    std::vector<gert::Tensor> tensors(2);
    tensors[0] = gert_tensor(first.data, first.bytes);
    tensors[1] = gert_tensor(second.data, second.bytes);
    return tensors;
}

static ge::Status callback_status;
static std::vector<float> callback_values;
static Gate notified = GATE_CLOSED;

static void on_finished(ge::Status status, std::vector<gert::Tensor> &outputs)
{
    callback_status = status;
    if (outputs.size() == 2) {
        const float *data = outputs[0].GetData<float>();
        callback_values.assign(data, data + 4);
    }
    gate_open(&notified);
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    Device x(16, X), out0(16), out1(16);
    auto pool = std::make_shared<Pool>();

    GROUP("ge_unreg_5 ge_unreg_4 ge_reg_2 what is refused");
    {
        ge::GeSession early({});
        REFUSED(early.RegisterExternalAllocator(stream, pool), "GEInitialize");
    }
    CHECK_EQ(ge::GEInitializeV2({}), SUCCESS);
    {
        ge::GeSession session({});
        REFUSED(session.RegisterExternalAllocator(nullptr, pool), "stream is null");
        REFUSED(session.RegisterExternalAllocator(stream, nullptr), "allocator is null");
        REFUSED(session.UnregisterExternalAllocator(nullptr), "stream is null");

        GROUP("ge_unreg_2 unregistered twice, or never registered: nothing happens");
        CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
        CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
        CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
        CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
        CHECK_EQ(pool.use_count(), 1);

        GROUP("ge_unreg_5 ge_reg_9 graphs run in the registered pool: static, that may move, and dynamic");
        for (int kind = 0; kind < 3; kind++) {
            const uint32_t id = 10 + kind;
            CHECK_EQ(session.AddGraph(id, two_outputs(kind == 2 ? -1 : 4), option("ge.featureBaseRefreshable", kind == 1 ? "1" : "0")), SUCCESS);
            CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
            const int before = pool->mallocs;
            std::vector<gert::Tensor> results;
            RUNS(session.RunGraphWithStreamAsync(id, stream, tensors_over(x), results));
            CHECK(pool->mallocs >= before + 4);
            CHECK(results.size() == 2 && pool->Holds(results[0].GetAddr()));
            CHECK_OK(aclrtSynchronizeStream(stream));
            CHECK(results.size() == 2 && holds(results[0].GetAddr(), Y) && holds(results[1].GetAddr(), Z));
            results.clear();

            GROUP(kind == 0   ? "ge_unreg_1 ge_run_6 static: after unregister the built-in allocator serves"
                  : kind == 1 ? "ge_unreg_1 ge_run_6 memory that moves: likewise"
                              : "ge_unreg_1 ge_run_6 dynamic: likewise");
            CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
            const int count = pool->mallocs + pool->advises;
            RUNS(session.RunGraphWithStreamAsync(id, stream, tensors_over(x), results));
            CHECK_EQ(pool->mallocs + pool->advises, count);
            CHECK_OK(aclrtSynchronizeStream(stream));
            CHECK(results.size() == 2 && holds(results[0].GetAddr(), Y));
            results.clear();
            std::vector<gert::Tensor> preallocated = tensors_over(out0, out1);
            RUNS(session.RunGraphWithStreamAsync(id, stream, tensors_over(x), preallocated));
            CHECK_OK(aclrtSynchronizeStream(stream));
            CHECK(holds(out0.data, Y) && holds(out1.data, Z));
            CHECK_EQ(session.RemoveGraph(id), SUCCESS);
        }
        CHECK_EQ(pool->live.size(), 0);

        GROUP("ge_run_13 LoadGraph compiles by itself; the ways to run exclude each other");
        CHECK_EQ(session.AddGraph(20, two_outputs(4)), SUCCESS);
        RUNS(session.LoadGraph(20, {}, stream));
        std::vector<gert::Tensor> preallocated = tensors_over(out0, out1);
        RUNS(session.RunGraphWithStreamAsync(20, stream, tensors_over(x), preallocated));
        CHECK_OK(aclrtSynchronizeStream(stream));
        std::vector<gert::Tensor> none;
        REFUSED(session.RunGraph(20, tensors_over(x), none), "E10062");

        GROUP("ge_run_12 on the host, at once or later");
        CHECK_EQ(session.AddGraph(21, two_outputs(4)), SUCCESS);
        std::vector<gert::Tensor> hosts(1);
        hosts[0] = gert_tensor(const_cast<float *>(X), 16, {{4}, {4}}, gert::kOnHost);
        RUNS(session.RunGraph(21, hosts, none));
        CHECK(none.size() == 2 && none[0].GetPlacement() == gert::kOnHost && memcmp(none[0].GetAddr(), Y, 16) == 0);
        CHECK_EQ(session.AddGraph(22, two_outputs(-1)), SUCCESS);
        RUNS(session.RunGraphAsync(22, hosts, on_finished));
        gate_hold(&notified);
        CHECK_EQ(callback_status, SUCCESS);
        CHECK(callback_values.size() == 4 && memcmp(callback_values.data(), Y, 16) == 0);

        GROUP("ge_run_2 addresses on the device lie on multiples of 32");
        Device odd(64, X);
        std::vector<gert::Tensor> misaligned(1);
        misaligned[0] = gert_tensor(static_cast<char *>(odd.data) + 4, 16);
        REFUSED(session.RunGraphWithStreamAsync(20, stream, misaligned, preallocated), "32");
    }
    CHECK_EQ(ge::GEFinalizeV2(), SUCCESS);
    CHECK_OK(aclrtDestroyStream(stream));
    return END();
}

// unchecked: it touches device memory itself
// links: -lge_runner
// strings: both
/* ge::Session: allocators on streams, and graphs that run there. */
#include "ge.h"
#include "ge/ge_api.h"
#include <string>
#include <thread>

using ge::FAILED;
using ge::SUCCESS;

static std::string error_text() { return ge::GEGetErrorMsgV2().GetString(); }

static void registration(aclrtStream stream)
{
    GROUP("ge_reg_2 ge_unreg_4 null streams and allocators, and an engine that was not started, are refused");
    auto pool = std::make_shared<Pool>();
    {
        ge::Session early(Options{});
        REFUSED(early.RegisterExternalAllocator(stream, pool), "GEInitialize");
        REFUSED(early.UnregisterExternalAllocator(stream), "GEInitialize");
    }
    CHECK_EQ(ge::GEInitialize(Options{}), SUCCESS);
    ge::Session session(Options{});
    REFUSED(session.RegisterExternalAllocator(nullptr, pool), "stream is null");
    REFUSED(session.RegisterExternalAllocator(stream, nullptr), "allocator is null");
    REFUSED(session.RegisterExternalAllocator(&session, pool), "stream");
    REFUSED(session.UnregisterExternalAllocator(nullptr), "stream is null");
    CHECK_EQ(pool.use_count(), 1);

    GROUP("ge_reg_1 ge_unreg_2 a live stream and an allocator; to unregister what is not registered succeeds");
    CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
    CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
    CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
    CHECK_EQ(session.UnregisterExternalAllocator(&session), SUCCESS);

    GROUP("ge_reg_8 ge_unreg_6 the engine shares the allocator while it is registered, and lets it go");
    int destroyed = 0;
    auto mine = std::make_shared<Pool>();
    mine->destroyed = &destroyed;
    CHECK_EQ(session.RegisterExternalAllocator(stream, mine), SUCCESS);
    mine.reset();
    CHECK_EQ(destroyed, 0);
    CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
    CHECK_EQ(destroyed, 1);
    CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
    CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
    CHECK_EQ(pool.use_count(), 1);
}

/* Register A, run, register B, run, unregister, run: for each kind of graph. */
static void replaced_allocators(aclrtStream stream)
{
    Device x(16, X), out0(16), out1(16);
    for (int kind = 0; kind < 3; kind++) {
        GROUP(kind == 0   ? "ge_reg_3 ge_reg_7 ge_reg_9 a static graph whose feature memory may move"
              : kind == 1 ? "ge_reg_3 ge_reg_9 a static graph whose feature memory stays"
                          : "ge_reg_3 ge_reg_9 a dynamic graph");
        auto a = std::make_shared<Pool>(), b = std::make_shared<Pool>();
        {
            ge::Session session(Options{});
            const Options options = option("ge.featureBaseRefreshable", kind == 0 ? "1" : "0");
            CHECK_EQ(session.AddGraph(1, two_outputs(kind == 2 ? -1 : 4), options), SUCCESS);
            const std::vector<ge::Tensor> inputs = {on_device(x)};
            std::vector<ge::Tensor> preallocated = {on_device(out0), on_device(out1)};
            CHECK_EQ(session.RegisterExternalAllocator(stream, a), SUCCESS);
            for (int run = 0; run < 2; run++)
                RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, preallocated));
            const int mallocs_a = a->mallocs;
            CHECK(mallocs_a > 0);
            CHECK_EQ(a->advises, kind == 0 ? 1 : 0);
            CHECK_EQ(session.RegisterExternalAllocator(stream, b), SUCCESS);
            std::vector<ge::Tensor> results;
            RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, results));
            CHECK_EQ(a->mallocs, mallocs_a);
            CHECK(b->mallocs >= 2);
            CHECK(results.size() == 2 && b->Holds(results[0].GetData()) && b->Holds(results[1].GetData()));
            CHECK_EQ(b->classes[CAIRN_CLASS_CONST], 0);
            CHECK_EQ(a->classes[CAIRN_CLASS_CONST], 1);
            CHECK_EQ(b->classes[CAIRN_CLASS_OUTPUT], 2);
            CHECK_EQ(b->classes[CAIRN_CLASS_FEATURE], kind == 0 ? 1 : 0);
            CHECK_EQ(a->live.size() > 0, 1); /* constants stay where the load took them */
            CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
            const int mallocs_b = b->mallocs;
            RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, preallocated));
            CHECK_EQ(a->mallocs + b->mallocs, mallocs_a + mallocs_b);
            CHECK_OK(aclrtSynchronizeStream(stream));
            CHECK(holds(results[0].GetData(), Y) && holds(results[1].GetData(), Z));
            CHECK(holds(out0.data, Y) && holds(out1.data, Z));
            results.clear();
            CHECK_EQ(session.RemoveGraph(1), SUCCESS);
        }
        CHECK(a->live.empty() && b->live.empty());
        CHECK_EQ(a->frees, a->mallocs);
        CHECK_EQ(b->frees, b->mallocs);
        CHECK_EQ(a.use_count(), 1);
        CHECK_EQ(b.use_count(), 1);
    }
}

/* How often each run asks the allocator. */
static void allocation_counts(aclrtStream stream)
{
    Device x(16, X), out0(16), out1(16);
    const std::vector<ge::Tensor> inputs = {on_device(x)};
    const Options is_refreshable = option("ge.featureBaseRefreshable", "1");

    GROUP("ge_reg_9 point 2 and 3: the second run asks where the first one's memory was, if it may move");
    for (int refreshable = 0; refreshable < 2; refreshable++) {
        auto pool = std::make_shared<Pool>();
        ge::Session session(Options{});
        CHECK_EQ(session.AddGraph(1, two_outputs(4), option("ge.featureBaseRefreshable", refreshable ? "1" : "0")), SUCCESS);
        CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
        std::vector<ge::Tensor> outputs = {on_device(out0), on_device(out1)};
        RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, outputs));
        CHECK_EQ(pool->mallocs, 2);
        CHECK_EQ(pool->advises, 0);
        RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, outputs));
        CHECK_EQ(pool->advises, refreshable);
        CHECK_EQ(pool->mallocs, 2 + refreshable);
        CHECK_EQ(session.RemoveGraph(1), SUCCESS);
        CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
    }

    GROUP("ge_reg_9 point 4: memory and outputs of the application: the allocator is not called");
    {
        auto pool = std::make_shared<Pool>();
        ge::Session session(Options{});
        CHECK_EQ(session.AddGraph(1, two_outputs(4), is_refreshable), SUCCESS);
        CHECK_EQ(session.CompileGraph(1), SUCCESS);
        auto summary = session.GetCompiledGraphSummary(1);
        size_t const_size = 0, feature_size = 0;
        if (CHECK(summary != nullptr)) {
            CHECK_EQ(summary->GetConstMemorySize(const_size), SUCCESS);
            CHECK_EQ(summary->GetFeatureMemorySize(feature_size), SUCCESS);
            CHECK(summary->IsStatic());
        }
        Device constants(const_size), feature(feature_size);
        CHECK_EQ(session.SetGraphConstMemoryBase(1, constants.data, const_size), SUCCESS);
        CHECK_EQ(session.UpdateGraphFeatureMemoryBase(1, feature.data, feature_size), SUCCESS);
        CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
        std::vector<ge::Tensor> outputs = {on_device(out0), on_device(out1)};
        for (int run = 0; run < 2; run++)
            RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, outputs));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_EQ(pool->mallocs + pool->advises, 0);
        CHECK(holds(out0.data, Y) && holds(out1.data, Z));

        GROUP("ge_run_4 a missing output comes from the allocator, also where the application set bases");
        std::vector<ge::Tensor> results;
        RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, results));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_EQ(pool->mallocs, 2);
        CHECK(results.size() == 2 && holds(results[0].GetData(), Y));
        results.clear();
        CHECK_EQ(pool->live.size(), 0);
        CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
    }

    GROUP("ge_run_4 points 5 and 6: one output missing, and both");
    for (int missing = 1; missing <= 2; missing++) {
        auto pool = std::make_shared<Pool>();
        ge::Session session(Options{});
        CHECK_EQ(session.AddGraph(1, two_outputs(4), is_refreshable), SUCCESS);
        CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
        std::vector<ge::Tensor> outputs;
        if (missing == 1) {
            ge::Tensor none(floats({4}));
            none.SetData(nullptr, 0, [](uint8_t *) {});
            outputs = {on_device(out0), none};
        }
        RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, outputs));
        CHECK_EQ(outputs.size(), 2);
        CHECK_EQ(pool->mallocs, 2 + missing);
        CHECK_EQ(pool->advises, 0);
        RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, outputs));
        CHECK_EQ(pool->mallocs, 3 + missing);
        CHECK_EQ(pool->advises, 1);
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(outputs[0].GetData() != nullptr && outputs[1].GetData() != nullptr);
        CHECK(holds(outputs[1].GetData(), Z));
        outputs.clear();
        CHECK_EQ(session.RemoveGraph(1), SUCCESS);
        CHECK_EQ(pool->live.size(), 0);
        CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
    }
}

static void runs(aclrtStream stream)
{
    Device x(16, X), out0(16), out1(16);
    const std::vector<ge::Tensor> inputs = {on_device(x)};
    std::vector<ge::Tensor> outputs = {on_device(out0), on_device(out1)};
    ge::Session session(Options{});
    CHECK_EQ(session.AddGraph(1, two_outputs(4)), SUCCESS);
    CHECK_EQ(session.AddGraph(2, two_outputs(-1)), SUCCESS);

    for (uint32_t id = 1; id <= 2; id++) {
        GROUP(id == 1 ? "ge_run_1 ge_run_8 a static run returns while the stream is blocked"
                      : "ge_run_1 ge_run_8 a dynamic run returns while the stream is blocked");
        CHECK_OK(aclrtMemset(out0.data, 16, 0x55, 16));
        static Gate gate = GATE_CLOSED;
        gate_put(&gate, stream);
        RUNS(session.RunGraphWithStreamAsync(id, stream, inputs, outputs));
        CHECK(!holds(out0.data, Y));
        gate_open(&gate);
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(holds(out0.data, Y) && holds(out1.data, Z));
    }

    GROUP("ge_run_2 ge_run_3 host memory is taken where it is named, or in a dynamic graph where it says so");
    ge::Tensor host(floats({4}));
    host.SetData(reinterpret_cast<const uint8_t *>(X), 16);
    REFUSED(session.RunGraphWithStreamAsync(1, stream, {host}, outputs), "hostInputIndexes");
    CHECK_EQ(session.AddGraph(3, two_outputs(4), option("ge.exec.hostInputIndexes", "0")), SUCCESS);
    RUNS(session.RunGraphWithStreamAsync(3, stream, {host}, outputs));
    RUNS(session.RunGraphWithStreamAsync(2, stream, {host}, outputs));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(holds(out0.data, Y));
    CHECK_EQ(session.AddGraph(4, two_outputs(4), option("ge.exec.hostInputIndexes", "3")), SUCCESS);
    REFUSED(session.RunGraphWithStreamAsync(4, stream, {host}, outputs), "graph 4 (two): ge.exec.hostInputIndexes=3: there is no input 3");

    GROUP("ge_run_5 ge_run_6 without a pool a dynamic graph brings its outputs, a static one is refused");
    std::vector<ge::Tensor> results;
    RUNS(session.RunGraphWithStreamAsync(2, stream, inputs, results));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(results.size() == 2 && holds(results[0].GetData(), Y));
    results.clear();
    REFUSED(session.RunGraphWithStreamAsync(1, stream, inputs, results), "RegisterExternalAllocator");
    std::vector<gert::Tensor> gert_inputs(1), gert_outputs;
    gert_inputs[0] = gert_tensor(x.data, 16);
    CHECK_EQ(session.AddGraph(5, two_outputs(4)), SUCCESS);
    REFUSED(session.ExecuteGraphWithStreamAsync(5, stream, gert_inputs, gert_outputs), "not loaded");
    CHECK_EQ(session.LoadGraph(5, {}, stream), FAILED);
    CHECK_EQ(session.CompileGraph(5), SUCCESS);
    RUNS(session.LoadGraph(5, {}, stream));
    CHECK_EQ(session.LoadGraph(5, {}, stream), FAILED);
    RUNS(session.ExecuteGraphWithStreamAsync(5, stream, gert_inputs, gert_outputs));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(gert_outputs.size() == 2 && holds(gert_outputs[0].GetAddr(), Y));
    CHECK_EQ(gert_outputs[1].GetShapeSize(), 4);
    gert_outputs.clear();

    GROUP("ge_run_13 ge_run_12 in steps, and on the host, the same comes out");
    CHECK_EQ(session.AddGraph(6, two_outputs(4)), SUCCESS);
    std::vector<ge::Tensor> on_host;
    RUNS(session.RunGraph(6, {host}, on_host));
    CHECK(on_host.size() == 2 && memcmp(on_host[0].GetData(), Y, 16) == 0 && on_host[1].GetSize() == 16);

    GROUP("ge_run_7 streams that are null, or of another context, are refused");
    REFUSED(session.RunGraphWithStreamAsync(1, nullptr, inputs, outputs), "null");
    aclrtContext other = NULL, current = NULL;
    CHECK_OK(aclrtGetCurrentContext(&current));
    CHECK_OK(aclrtCreateContext(&other, 0));
    aclrtStream foreign = new_stream();
    CHECK_OK(aclrtSetCurrentContext(current));
    REFUSED(session.RunGraphWithStreamAsync(1, foreign, inputs, outputs), "default context");
    CHECK_OK(aclrtDestroyContext(other));
    CHECK_OK(aclrtSetCurrentContext(current));

    GROUP("ge_run_9 ge_run_11 wrong ids, numbers, types, shapes and sizes are refused");
    REFUSED(session.RunGraphWithStreamAsync(77, stream, inputs, outputs), "77");
    REFUSED(session.RunGraphWithStreamAsync(1, stream, {}, outputs), "0 inputs");
    std::vector<ge::Tensor> one = {outputs[0]};
    REFUSED(session.RunGraphWithStreamAsync(1, stream, inputs, one), "1 outputs");
    Device five(20);
    REFUSED(session.RunGraphWithStreamAsync(2, stream, {on_device(five, {5, 1})}, outputs), "[5, 1]");
    ge::Tensor wrong = on_device(x).Clone();
    wrong.SetDataType(ge::DT_INT32);
    REFUSED(session.RunGraphWithStreamAsync(1, stream, {wrong}, outputs), "int32");
    Device small(12);
    std::vector<ge::Tensor> too_small = {on_device(out0), on_device(small, {3})};
    REFUSED(session.RunGraphWithStreamAsync(1, stream, inputs, too_small), "12");
    CHECK_EQ(session.AddGraph(1, two_outputs(4)), FAILED);

    GROUP("ge_run_10 the second run compiles nothing; other sizes, another stream");
    aclrtStream second = new_stream();
    Device seven(28, (const float[7]){-3, 0.5, 2, -1, 0, 1, 2}), out7(28), out8(28);
    std::vector<ge::Tensor> outs = {on_device(out7, {7}), on_device(out8, {7})};
    RUNS(session.RunGraphWithStreamAsync(2, second, {on_device(seven, {7})}, outs));
    CHECK_OK(aclrtSynchronizeStream(second));
    CHECK(holds(out7.data, (const float[7]){2, 1.5, 3, 0, 1, 2, 3}, 7));
    for (int run = 0; run < 100; run++)
        RUNS(session.RunGraphWithStreamAsync(1, run % 2 ? stream : second, inputs, outputs));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtSynchronizeStream(second));
    CHECK(holds(out0.data, Y) && holds(out1.data, Z));
    CHECK_OK(aclrtDestroyStream(second));
}

static ge::Session *inner_session;
static aclrtStream inner_stream;
static int in_malloc_calls;

/* Inside Malloc: ACL may be called, also to synchronize. */
static void synchronize_in_malloc(void *)
{
    CHECK_OK(aclrtSynchronizeStream(inner_stream));
    in_malloc_calls++;
}

static void failures(aclrtStream stream)
{
    Device x(16, X);
    const std::vector<ge::Tensor> inputs = {on_device(x)};

    GROUP("ge_reg_9 an allocator that fails at any block fails the call; nothing leaks; the next run works");
    for (int kind = 0; kind < 3; kind++) {
        for (int throws = 0; throws < 2; throws++) {
            for (int at = 1;; at++) {
                auto pool = std::make_shared<Pool>();
                ge::Session session(Options{});
                CHECK_EQ(session.AddGraph(1, two_outputs(kind == 2 ? -1 : 4), option("ge.featureBaseRefreshable", kind == 0 ? "1" : "0")), SUCCESS);
                CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
                pool->fails_at = at;
                pool->throws = throws != 0;
                std::vector<ge::Tensor> results;
                const bool failed = session.RunGraphWithStreamAsync(1, stream, inputs, results) != SUCCESS;
                if (failed && throws)
                    CHECK(error_text().find("this pool throws") != std::string::npos);
                pool->fails_at = 0;
                results.clear();
                RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, results));
                CHECK_OK(aclrtSynchronizeStream(stream));
                CHECK(results.size() == 2 && holds(results[0].GetData(), Y));
                results.clear();
                CHECK_EQ(session.RemoveGraph(1), SUCCESS);
                CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
                CHECK_EQ(pool->live.size(), 0);
                CHECK_EQ(pool.use_count(), 1);
                if (!failed) {
                    CHECK(at > 3);
                    break;
                }
            }
        }
    }
    (void)error_text();

    GROUP("ge_reg_7 an allocator may call ACL, and wait for its stream");
    {
        auto pool = std::make_shared<Pool>();
        ge::Session session(Options{});
        inner_session = &session;
        inner_stream = stream;
        pool->in_malloc = synchronize_in_malloc;
        CHECK_EQ(session.AddGraph(1, two_outputs(-1)), SUCCESS);
        CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
        std::vector<ge::Tensor> results;
        RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, results));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(in_malloc_calls > 0 && holds(results[0].GetData(), Y));
        results.clear();
        CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
    }

    GROUP("ge_reg_8 ge_unreg_3 outputs keep their allocator alive, after unregister, the graph and the session");
    {
        int destroyed = 0;
        auto pool = std::make_shared<Pool>();
        pool->destroyed = &destroyed;
        std::vector<ge::Tensor> results;
        {
            ge::Session session(Options{});
            CHECK_EQ(session.AddGraph(1, two_outputs(4)), SUCCESS);
            CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
            RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, results));
            CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
            pool.reset();
            CHECK_EQ(destroyed, 0);
        }
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(holds(results[0].GetData(), Y));
        CHECK_EQ(destroyed, 0);
        results.clear();
        CHECK_EQ(destroyed, 1);
    }

    GROUP("ge_reg_5 ge_reg_6 one allocator on two streams from two threads, and a session that ends while its graph runs");
    {
        auto pool = std::make_shared<Pool>();
        aclrtStream second = new_stream();
        Device out0(16), out1(16), out2(16), out3(16);
        static Gate gate = GATE_CLOSED;
        {
            ge::Session session(Options{});
            CHECK_EQ(session.AddGraph(1, two_outputs(-1)), SUCCESS);
            CHECK_EQ(session.AddGraph(2, two_outputs(4)), SUCCESS);
            CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
            CHECK_EQ(session.RegisterExternalAllocator(second, pool), SUCCESS);
            std::thread other([&] {
                CHECK_OK(aclrtSetDevice(0));
                std::vector<ge::Tensor> outs = {on_device(out2), on_device(out3)};
                for (int run = 0; run < 50; run++)
                    RUNS(session.RunGraphWithStreamAsync(2, second, inputs, outs));
            });
            std::vector<ge::Tensor> outs = {on_device(out0), on_device(out1)};
            for (int run = 0; run < 50; run++)
                RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, outs));
            other.join();
            gate_put(&gate, stream);
            CHECK_OK(aclrtMemset(out0.data, 16, 0, 16));
            RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, outs));
        }
        gate_open(&gate);
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_OK(aclrtSynchronizeStream(second));
        CHECK(holds(out0.data, Y) && holds(out2.data, Y));
        CHECK_EQ(pool->live.size(), 0);
        CHECK_OK(aclrtDestroyStream(second));
        CHECK_EQ(pool.use_count(), 2); /* the stream that is left has it */
    }
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    registration(stream);
    replaced_allocators(stream);
    allocation_counts(stream);
    runs(stream);
    failures(stream);
    GROUP("ge_reg_4 what was registered after the load serves what later runs take");
    {
        Device x(16, X);
        auto pool = std::make_shared<Pool>();
        ge::Session session(Options{});
        CHECK_EQ(session.AddGraph(1, two_outputs(4)), SUCCESS);
        CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
        CHECK_EQ(session.CompileGraph(1), SUCCESS);
        CHECK_EQ(session.LoadGraph(1, {}, stream), SUCCESS);
        CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
        std::vector<ge::Tensor> results;
        RUNS(session.RunGraphWithStreamAsync(1, stream, {on_device(x)}, results));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_EQ(pool->mallocs, 2);
        CHECK_EQ(pool->classes[CAIRN_CLASS_OUTPUT], 2);
        results.clear();
        CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);

        GROUP("ge_unreg_1 graphs stay loaded when the program ends");
        CHECK_EQ(pool->live.size(), 0);
        static ge::Session *kept = new ge::Session(Options{});
        CHECK_EQ(kept->AddGraph(9, two_outputs(4)), SUCCESS);
        CHECK_EQ(kept->CompileGraph(9), SUCCESS);
        static auto kept_pool = std::make_shared<Pool>();
        CHECK_EQ(kept->RegisterExternalAllocator(stream, kept_pool), SUCCESS);
        RUNS(kept->LoadGraph(9, {}, stream));
        CHECK_EQ(kept_pool->live.size(), 2);
    }
    return END();
}

// links: -lge_runner
/* Options of GEInitialize, sessions and graphs: devices, bad values, and warnings. */
#include "ge.h"
#include "ge/ge_api.h"
#include <string>

using ge::SUCCESS;

static std::string error_text() { return ge::GEGetErrorMsgV2().GetString(); }
static std::string warning_text() { return ge::GEGetWarningMsgV2().GetString(); }

static bool has(const std::string &text, const char *part)
{
    const bool found = text.find(part) != std::string::npos;
    if (!found)
        printf("  \"%s\" is not in: %s\n", part, text.c_str());
    return found;
}

/* No aclrtSetDevice: the engine sets the device. */
static void device()
{
    GROUP("ge_options a device that is not there fails GEInitialize, and the option is named");
    REFUSED(ge::GEInitialize(option("ge.exec.deviceId", "99")), "ge.exec.deviceId=99");
    REFUSED(ge::GEInitialize(option("ge.exec.deviceId", "one")), "ge.exec.deviceId=one");

    GROUP("ge_options GEInitialize sets the device of the thread");
    int32_t current = -1;
    CHECK(aclrtGetDevice(&current) != ACL_SUCCESS);
    CHECK_EQ(ge::GEInitialize(option("ge.exec.deviceId", "0")), SUCCESS);
    CHECK_OK(aclrtGetDevice(&current));
    CHECK_EQ(current, 0);
    CHECK_EQ(ge::GEFinalize(), SUCCESS);

    GROUP("ge_options a session sets its device, which aclrtCreateStream then has");
    CHECK_EQ(ge::GEInitialize(Options{}), SUCCESS);
    {
        ge::Session session(Options{});
        aclrtStream stream = new_stream();
        Device x(16, X), out0(16), out1(16);
        std::vector<ge::Tensor> outputs = {on_device(out0), on_device(out1)};
        CHECK_EQ(session.AddGraph(1, two_outputs(4)), SUCCESS);
        RUNS(session.RunGraphWithStreamAsync(1, stream, {on_device(x, {2, 2})}, outputs));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(holds(out0.data, Y) && holds(out1.data, Z));
        CHECK_OK(aclrtDestroyStream(stream));
    }
    {
        (void)error_text();
        ge::Session without_device(option("ge.session_device_id", "99"));
        CHECK(has(error_text(), "ge.session_device_id=99"));
    }
    CHECK_EQ(ge::GEFinalize(), SUCCESS);
}

static void values()
{
    GROUP("ge_options bad values of known options fail, wherever they are given");
    REFUSED(ge::GEInitialize(option("ge.oo.level", "O9")), "ge.oo.level=O9");
    CHECK_EQ(ge::GEInitialize(Options{}), SUCCESS);
    ge::Session session(Options{});
    REFUSED(session.AddGraph(1, two_outputs(4), option("ge.featureBaseRefreshable", "7")), "ge.featureBaseRefreshable=7");
    REFUSED(session.AddGraph(1, two_outputs(4), option("ge.exec.frozenInputIndexes", "zz")), "ge.exec.frozenInputIndexes=zz");
    CHECK_EQ(session.AddGraph(1, two_outputs(4)), SUCCESS);
    CHECK_EQ(session.CompileGraph(1), SUCCESS);
    aclrtStream stream = new_stream();
    REFUSED(session.LoadGraph(1, option("ge.exec.frozenInputIndexes", "zz"), stream), "ge.exec.frozenInputIndexes=zz");
    CHECK_EQ(session.LoadGraph(1, option("ge.exec.frozenInputIndexes", "0"), stream), SUCCESS);
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(ge::GEFinalize(), SUCCESS);
}

static ge::graphStatus unexpected_callback(uint32_t, const std::map<ge::AscendString, ge::Tensor> &)
{
    CHECK(false);
    return ge::GRAPH_FAILED;
}

static void warnings()
{
    GROUP("ge_options options without effect, and unknown ones, leave a warning that names them");
    (void)warning_text();
    CHECK_EQ(ge::GEInitialize(option("ge.deterministic", "1")), SUCCESS);
    const std::string first = warning_text();
    CHECK(has(first, "GEInitialize") && has(first, "ge.deterministic=1"));
    ge::Session session(option("of.tomorrow", "on"));
    CHECK(has(warning_text(), "of.tomorrow=on"));
    CHECK_EQ(session.AddGraph(1, two_outputs(4), option("ge.exec.deviceId", "0")), SUCCESS);
    CHECK(has(warning_text(), "ge.exec.deviceId=0"));
    CHECK_EQ(session.AddGraph(2, two_outputs(4), option("ge.featureBaseRefreshable", "1")), SUCCESS);
    CHECK_EQ(warning_text().size(), 0);

    GROUP("ge_options RegisterCallBackFunc warns that nothing calls back");
    CHECK_EQ(session.RegisterCallBackFunc("Save", unexpected_callback), SUCCESS);
    const std::string callback = warning_text();
    CHECK(has(callback, "RegisterCallBackFunc") && has(callback, "Save"));
    CHECK_EQ(ge::GEFinalize(), SUCCESS);
}

static void lifetimes()
{
    GROUP("ge_options a session that ends after the engine leaves no error");
    CHECK_EQ(ge::GEInitialize(Options{}), SUCCESS);
    {
        ge::Session session(Options{});
        CHECK_EQ(session.AddGraph(1, two_outputs(4)), SUCCESS);
        CHECK_EQ(ge::GEFinalize(), SUCCESS);
        (void)error_text();
    }
    CHECK_EQ(error_text().size(), 0);

    GROUP("ge_options a registration belongs to the stream, and outlives session and engine");
    CHECK_OK(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    auto pool = std::make_shared<Pool>();
    CHECK_EQ(ge::GEInitialize(Options{}), SUCCESS);
    {
        ge::Session session(Options{});
        CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
    }
    CHECK_EQ(ge::GEFinalize(), SUCCESS);
    CHECK_EQ(pool.use_count(), 2);
    CHECK_EQ(ge::GEInitialize(Options{}), SUCCESS);
    {
        ge::Session session(Options{});
        Device x(16, X);
        CHECK_EQ(session.AddGraph(1, two_outputs(4)), SUCCESS);
        std::vector<ge::Tensor> results;
        RUNS(session.RunGraphWithStreamAsync(1, stream, {on_device(x)}, results));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(results.size() == 2 && pool->Holds(results[0].GetData()));
    }
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(pool.use_count(), 1);
    CHECK_EQ(ge::GEFinalize(), SUCCESS);
    CHECK_OK(aclrtResetDevice(0));
}

static void no_op()
{
    GROUP("ge_options op::NoOp orders nodes, and names are escaped in JSON");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_EQ(ge::GEInitialize(Options{}), SUCCESS);
    {
        auto x = ge::op::Data("x").set_attr_index(0);
        x.update_input_desc_x(floats({4}));
        x.update_output_desc_y(floats({4}));
        auto variable = ge::op::Variable("variable");
        variable.update_output_desc_y(floats({4}));
        auto write = ge::op::Assign("write").set_input_ref(variable).set_input_value(x);
        auto between = ge::op::NoOp("between");
        between.AddControlInput(write);
        auto one = number("one", 1);
        auto read = ge::op::Add("say \"read\"\n").set_input_x1(variable).set_input_x2(one);
        read.AddControlInput(between);
        ge::Graph graph("no_op");
        graph.SetInputs({x}).SetOutputs({read});
        ge::Session session(Options{});
        CHECK_EQ(session.AddGraph(1, graph), SUCCESS);
        aclrtStream stream = new_stream();
        Device in(16, X), out(16);
        std::vector<ge::Tensor> outputs = {on_device(out)};
        RUNS(session.RunGraphWithStreamAsync(1, stream, {on_device(in)}, outputs));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(holds(out.data, Z));
        ge::AscendString json;
        CHECK_EQ(session.GraphDebugJSONPrint(1, 0, json), SUCCESS);
        const std::string text = json.GetString();
        CHECK(has(text, "say \\\"read\\\"\\n (Add)"));
        CHECK(text.find("\"dur\"") == std::string::npos && text.find("\"ts\"") == std::string::npos);
        CHECK_OK(aclrtDestroyStream(stream));
    }
    CHECK_EQ(ge::GEFinalize(), SUCCESS);
    CHECK_OK(aclrtResetDevice(0));
}

int main()
{
    CHECK_OK(aclInit(NULL));
    device();
    CHECK_OK(aclrtSetDevice(0));
    values();
    warnings();
    lifetimes();
    no_op();
    return END();
}

// links: -lge_runner_v2
// env:
// env: CAIRN_WORKERS=1
/* The log names the function that the program called: those of GeSession, not of Session. */
#include "ge/ge_api_v2.h"
#include "ge.h"
#include "logged.h"

using ge::SUCCESS;

static Gate finished = GATE_CLOSED;

static void finish(ge::Status status, std::vector<gert::Tensor> &)
{
    CHECK_EQ(status, SUCCESS);
    gate_open(&finished);
}

static int logged(const char *event, const char *caller)
{
    const char *const parts[] = {event, caller, nullptr};
    return log_lines(parts);
}

int main(void)
{
    log_begin();
    setenv("ASCEND_GLOBAL_LOG_LEVEL", "0", 1);
    begin();
    aclrtStream stream = new_stream();
    CHECK_EQ(ge::GEInitializeV2({}), SUCCESS);
    {
        ge::GeSession session({});
        Device x(16, X), out0(16), out1(16);
        std::vector<gert::Tensor> inputs(1), results(2), hosts(1);
        inputs[0] = gert_tensor(x.data, x.bytes);
        results[0] = gert_tensor(out0.data, out0.bytes);
        results[1] = gert_tensor(out1.data, out1.bytes);

        GROUP("a load and a run of GeSession are named as its own");
        CHECK_EQ(session.AddGraph(1, two_outputs(4)), SUCCESS);
        CHECK_EQ(session.CompileGraph(1), SUCCESS);
        CHECK_EQ(session.LoadGraph(1, {}, stream), SUCCESS);
        CHECK_EQ(logged("is graph constants", "submitted by GeSession::LoadGraph"), 1);
        CHECK_EQ(session.RunGraphWithStreamAsync(1, stream, inputs, results), SUCCESS);
        CHECK_EQ(logged("is graph,", "submitted by GeSession::RunGraphWithStreamAsync"), 1);

        GROUP("so is what it reads on the host");
        CHECK_EQ(session.AddGraph(2, two_outputs(-1)), SUCCESS);
        hosts[0] = gert_tensor(const_cast<float *>(X), 16, {{4}, {4}}, gert::kOnHost);
        CHECK_EQ(session.RunGraphAsync(2, hosts, finish), SUCCESS);
        gate_hold(&finished);
        CHECK_EQ(logged("GeSession::RunGraphAsync touched 1 ranges itself", "for GeSession::RunGraphAsync"), 1);
        CHECK_EQ(logged(" Session::", ""), 0);
    }
    CHECK_EQ(ge::GEFinalizeV2(), SUCCESS);
    CHECK_OK(aclrtDestroyStream(stream));
    log_end();
    return END();
}

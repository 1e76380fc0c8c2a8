// breaks: pool-freed-while-pending
// links: -lge_runner
// env: ENDS=return
// env: ENDS=exit
/* The end of a process with graphs loaded, sessions and outputs in static objects: after main nothing of the user is
 * called, not even to give blocks back, whether the pool is gone by then or not. */
#include "ge/ge_api.h"
#include "ge/ge_api_v2.h"
#include "ge.h"

static std::string error_text() { return ge::GEGetErrorMsgV2().GetString(); }

static bool main_is_over;

/* Ends the process with this status when it is called after main. */
static void exit_if_after_main(const char *what, int status)
{
    if (main_is_over) {
        printf("after main: %s\n", what);
        fflush(stdout);
        _exit(status);
    }
}

class StrictPool : public Pool {
public:
    ~StrictPool() override { exit_if_after_main("the pool of the engine is destroyed", 11); }
    ge::MemBlock *Malloc(size_t size) override
    {
        exit_if_after_main("Malloc", 12);
        return Pool::Malloc(size);
    }
    void Free(ge::MemBlock *block) override
    {
        exit_if_after_main("Free", 13);
        Pool::Free(block);
    }
};

/* A pool in a static object, which is destroyed before what was made before it. */
class StaticPool : public Pool {
public:
    ~StaticPool() override { live.clear(); }
    void Free(ge::MemBlock *block) override
    {
        exit_if_after_main("Free of a pool that is gone", 14);
        Pool::Free(block);
    }
};

static ge::Session &session()
{
    static ge::Session one(Options{});
    return one;
}

static ge::GeSession &second_session()
{
    static ge::GeSession one({});
    return one;
}

static StaticPool &pool()
{
    static StaticPool one;
    return one;
}

template <typename T>
static std::vector<T> &outputs(int)
{
    static std::vector<T> all;
    return all;
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream(), other = new_stream();
    Device x(16, X);
    RUNS(ge::GEInitialize(Options{}));

    GROUP("ge_reg_8 static sessions with static and dynamic graphs run, in a pool that only they hold");
    (void)outputs<gert::Tensor>(0);
    RUNS(session().RegisterExternalAllocator(stream, std::make_shared<StrictPool>()));
    for (int kind = 0; kind < 2; kind++) {
        RUNS(session().AddGraph(kind, two_outputs(kind == 0 ? 4 : -1)));
        RUNS(session().RunGraphWithStreamAsync(kind, stream, {on_device(x)}, outputs<ge::Tensor>(kind)));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(outputs<ge::Tensor>(kind).size() == 2 && holds(outputs<ge::Tensor>(kind)[0].GetData(), Y));
    }

    GROUP("ge_unreg_3 and in one that is a static object itself, which nobody unregisters");
    (void)second_session();
    RUNS(second_session().RegisterExternalAllocator(other, ge::AllocatorPtr(&pool(), [](ge::Allocator *) {})));
    RUNS(second_session().AddGraph(7, two_outputs(4)));
    std::vector<gert::Tensor> inputs(1);
    inputs[0] = gert_tensor(x.data, x.bytes);
    RUNS(second_session().RunGraphWithStreamAsync(7, other, inputs, outputs<gert::Tensor>(0)));
    CHECK_OK(aclrtSynchronizeStream(other));
    CHECK(pool().live.size() >= 3);

    const int status = END();
    fflush(stdout);
    main_is_over = true;
    if (strcmp(getenv("ENDS"), "exit") == 0)
        exit(status);
    return status;
}

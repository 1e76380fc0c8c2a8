// env:
// env: CAIRN_WORKERS=1
/* Two threads on every object at once: no crash, no hang, only the documented codes. */
#include "gate.h"

enum { ROUNDS = 400 };

/* Whether `code` is 0 or one of the others, which end with 0; counts as failed if it is none. */
static int among(int code, const int *others)
{
    if (code == 0)
        return 1;
    while (*others)
        if (*others++ == code)
            return 1;
    const char *text = aclGetRecentErrMsg();
    printf("unexpected code %d: %s\n", code, text ? text : "(none)");
    check_failed();
    return 0;
}

static const int none[] = {0};
static const int gone[] = {ACL_ERROR_RT_INVALID_HANDLE, 0};
static const int lost[] = {
    ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_CONTEXT_NULL, ACL_ERROR_RT_STREAM_CONTEXT, 0};
static const int refused[] = {
    ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
    ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, 0};

/* Runs both at the same time on device 0. */
typedef struct Pair {
    void (*function)(void *);
    void *argument;
    pthread_barrier_t *start;
} Pair;

static void paired(void *argument)
{
    Pair *pair = argument;
    among(aclrtSetDevice(0), none);
    pthread_barrier_wait(pair->start);
    pair->function(pair->argument);
    among(aclrtResetDevice(0), none);
}

static void together(void (*one)(void *), void (*two)(void *), void *argument)
{
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, 2);
    Pair pairs[2] = {{one, argument, &start}, {two, argument, &start}};
    pthread_t first = start_thread(paired, &pairs[0]);
    pthread_t second = start_thread(paired, &pairs[1]);
    join_thread(first);
    join_thread(second);
    pthread_barrier_destroy(&start);
}

static int ran;
static void *memory;

static void submit_all(void *stream)
{
    aclrtStreamStatus status;
    aclrtEvent event = NULL;
    uint32_t flags;
    among(aclrtCreateEvent(&event), none);
    for (int i = 0; i < 30; i++) {
        among(aclrtLaunchHostFunc(stream, count_up, &ran), gone);
        among(aclrtMemsetAsync(memory, 64, i, 64, stream), gone);
        among(aclrtRecordEvent(event, stream), gone);
        among(aclrtStreamWaitEvent(stream, event), gone);
        among(aclrtStreamQuery(stream, &status), gone);
        among(aclrtStreamGetFlags(stream, &flags), gone);
    }
    among(aclrtSynchronizeStream(stream), gone);
    among(aclrtDestroyEvent(event), none);
}

static int destroyed;

static void destroy_stream(void *stream)
{
    for (int i = 0; i < 50; i++)
        sched_yield();
    int code = aclrtDestroyStream(stream);
    among(code, gone);
    if (code == 0)
        count_up(&destroyed);
}

static void destroy_force(void *stream)
{
    int code = aclrtDestroyStreamForce(stream);
    among(code, gone);
    if (code == 0)
        count_up(&destroyed);
}

static void synchronize_stream(void *stream)
{
    static const int aborted[] = {
        ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_STREAM_ABORT, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, 0};
    for (int i = 0; i < 20; i++) {
        among(aclrtSynchronizeStream(stream), aborted);
        among(aclrtSynchronizeStreamWithTimeout(stream, 1), aborted);
    }
}

static void abort_often(void *stream)
{
    static const int aborted[] = {ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_STREAM_ABORT, 0};
    for (int i = 0; i < 20; i++) {
        among(aclrtLaunchHostFunc(stream, count_up, &ran), aborted);
        among(aclrtStreamAbort(stream), aborted);
    }
}

static void race_streams(void)
{
    aclrtStream stream = NULL;
    GROUP("acl_3_2_13 submit against destroy, destroy against destroy");
    destroyed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(aclrtCreateStream(&stream));
        together(submit_all, i & 1 ? destroy_stream : destroy_force, stream);
        CHECK_OK(aclrtCreateStream(&stream));
        together(i & 2 ? destroy_force : destroy_stream, destroy_stream, stream);
    }
    CHECK_EQ(destroyed, 2 * ROUNDS);

    GROUP("acl_3_2_35 synchronize against abort and destroy");
    destroyed = 0;
    for (int i = 0; i < ROUNDS / 4; i++) {
        CHECK_OK(aclrtCreateStream(&stream));
        together(synchronize_stream, abort_often, stream);
        aclrtSynchronizeStream(stream);
        (void)aclGetRecentErrMsg();
        together(synchronize_stream, destroy_stream, stream);
    }
    CHECK_EQ(destroyed, ROUNDS / 4);
}

static void use_event(void *event)
{
    static const int early[] = {
        ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_INTERNAL_ERROR, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
        ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, 0};
    aclrtEventRecordedStatus status;
    aclrtEventStatus old_status;
    float ms;
    for (int i = 0; i < 20; i++) {
        among(aclrtRecordEvent(event, NULL), gone);
        among(aclrtStreamWaitEvent(NULL, event), gone);
        among(aclrtQueryEventStatus(event, &status), gone);
        among(aclrtQueryEvent(event, &old_status), gone);
        among(aclrtSynchronizeEvent(event), early);
        among(aclrtEventElapsedTime(&ms, event, event), early);
    }
}

static void destroy_event(void *event)
{
    for (int i = 0; i < 100; i++)
        sched_yield();
    int code = aclrtDestroyEvent(event);
    among(code, gone);
    if (code == 0)
        count_up(&destroyed);
}

static void race_events(void)
{
    aclrtEvent event = NULL;
    GROUP("acl_3_2_45 an event in use by two threads, and destroyed meanwhile");
    destroyed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(aclrtCreateEvent(&event));
        together(use_event, i & 1 ? use_event : destroy_event, event);
        if (i & 1)
            together(destroy_event, destroy_event, event);
    }
    CHECK_EQ(destroyed, ROUNDS);
    CHECK_OK(aclrtSynchronizeDevice());
}

static void use_context(void *context)
{
    aclrtStream stream = NULL;
    void *block = NULL;
    for (int i = 0; i < 5; i++) {
        among(aclrtSetCurrentContext(context), lost);
        int code = aclrtCreateStream(&stream);
        among(code, lost);
        if (code == 0) {
            among(aclrtLaunchHostFunc(stream, count_up, &ran), lost);
            among(aclrtSynchronizeStream(stream), lost);
            among(aclrtDestroyStream(stream), lost);
        }
        if (aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST) == 0)
            among(aclrtFree(block), none);
    }
    (void)aclGetRecentErrMsg();
}

static void destroy_context(void *context)
{
    for (int i = 0; i < 100; i++)
        sched_yield();
    int code = aclrtDestroyContext(context);
    among(code, gone);
    if (code == 0)
        count_up(&destroyed);
}

static void race_contexts(void)
{
    aclrtContext context = NULL, current = NULL;
    GROUP("acl_3_2_22 a context in use, and destroyed meanwhile");
    CHECK_OK(aclrtGetCurrentContext(&current));
    destroyed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(aclrtCreateContext(&context, 0));
        CHECK_OK(aclrtSetCurrentContext(current));
        together(use_context, i & 1 ? use_context : destroy_context, context);
        if (i & 1)
            together(destroy_context, destroy_context, context);
    }
    CHECK_EQ(destroyed, ROUNDS);
}

/* Each thread's own count keeps the device open: nothing here may fail. */
static void set_and_reset(void *unused)
{
    (void)unused;
    void *block = NULL;
    for (int i = 0; i < ROUNDS; i++) {
        among(aclrtSetDevice(1), none);
        among(aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST), none);
        among(aclrtMemsetAsync(block, 4096, 1, 4096, NULL), none);
        among(aclrtSynchronizeStream(NULL), none);
        among(aclrtFree(block), none);
        among(aclrtResetDevice(1), none);
    }
    among(aclrtSetDevice(0), none);
    among(aclrtResetDevice(0), none);
}

static void reset_force(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        among(aclrtSetDevice(1), lost);
        among(aclrtSynchronizeDevice(), lost);
        among(aclrtResetDeviceForce(1), lost);
    }
    among(aclrtSetDevice(0), none);
    among(aclrtResetDevice(0), none);
}

static void race_devices(void)
{
    GROUP("acl_3_2_15 set and reset of one device by two threads");
    together(set_and_reset, set_and_reset, NULL);
    GROUP("acl_3_2_16 force by two threads");
    together(reset_force, reset_force, NULL);
    aclrtResetDeviceForce(1);
    (void)aclGetRecentErrMsg();
}

static int freed;

static void free_it(void *block)
{
    int code = aclrtFree(block);
    among(code, refused);
    if (code == 0)
        count_up(&freed);
}

static void many_blocks(void *unused)
{
    (void)unused;
    enum { LIVE = 50, SIZE = 4096 };
    unsigned char *blocks[LIVE] = {0}, byte = 0;
    unsigned seed = (unsigned)(uintptr_t)&blocks;
    for (int i = 0; i < 3000; i++) {
        seed = seed * 1103515245 + 12345;
        int at = (int)(seed >> 16) % LIVE;
        if (blocks[at]) {
            among(aclrtMemcpy(&byte, 1, blocks[at] + SIZE - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST), none);
            CHECK(byte == (unsigned char)at);
            among(aclrtFree(blocks[at]), none);
            blocks[at] = NULL;
        } else if (among(aclrtMalloc((void **)&blocks[at], SIZE, ACL_MEM_MALLOC_HUGE_FIRST), none)) {
            among(aclrtMemset(blocks[at], SIZE, at, SIZE), none);
        }
    }
    for (int i = 0; i < LIVE; i++)
        if (blocks[i])
            among(aclrtFree(blocks[i]), none);
}

static unsigned char page[8192];

static void register_it(void *succeeded)
{
    void *at = NULL;
    int code = aclrtHostRegister(page, sizeof page, ACL_HOST_REGISTER_MAPPED, &at);
    among(code, refused);
    if (code == 0)
        count_up(succeeded);
}

static void unregister_it(void *succeeded)
{
    int code = aclrtHostUnregister(page);
    among(code, refused);
    if (code == 0)
        count_up(succeeded);
}

static void race_memory(void)
{
    void *block = NULL;
    GROUP("acl_3_2_55 memory of two threads, and one block freed by both");
    together(many_blocks, many_blocks, NULL);
    freed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        together(free_it, free_it, block);
    }
    CHECK_EQ(freed, ROUNDS);

    GROUP("acl_3_2_60 one range registered by both");
    int registered = 0, unregistered = 0;
    for (int i = 0; i < ROUNDS; i++) {
        together(register_it, register_it, &registered);
        together(unregister_it, unregister_it, &unregistered);
    }
    CHECK_EQ(registered, ROUNDS);
    CHECK_EQ(unregistered, ROUNDS);
}

static void init_often(void *unused)
{
    static const int repeated[] = {ACL_ERROR_REPEAT_INITIALIZE, ACL_ERROR_REPEAT_FINALIZE, 0};
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        among(aclInit(NULL), repeated);
        among(i & 1 ? aclFinalize() : aclFinalizeReference(NULL), repeated);
    }
}

static void on_stream(aclrtStream stream, aclrtStreamState state, void *args)
{
    (void)stream;
    (void)state;
    count_up(args);
}

static void register_often(void *unused)
{
    static const int taken[] = {ACL_ERROR_INVALID_PARAM, 0};
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        among(aclrtRegStreamStateCallback("racing", on_stream, &ran), taken);
        among(aclrtRegStreamStateCallback("racing", NULL, NULL), taken);
    }
}

static void make_streams(void *unused)
{
    aclrtStream stream = NULL;
    (void)unused;
    for (int i = 0; i < ROUNDS; i++)
        if (among(aclrtCreateStream(&stream), none))
            among(aclrtDestroyStream(stream), none);
}

static void race_the_rest(void)
{
    GROUP("acl_3_2_5 init and finalize by two threads");
    together(init_often, init_often, NULL);
    GROUP("acl_3_2_37 callbacks registered while streams come and go");
    together(register_often, make_streams, NULL);
    together(register_often, register_often, NULL);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    race_streams();
    race_events();
    race_contexts();
    race_memory();
    race_devices();
    race_the_rest();
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtResetDevice(0));
    return END();
}

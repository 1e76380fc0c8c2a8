// breaks: order wrong-free
// env:
// env: CAIRN_WORKERS=1
/* Two threads on every object at once: no crash, no hang, only the documented codes. */
#include "gate.h"

enum { ROUNDS = 400 };

/* Checks that `code` is 0 or one of the others, a list that ends with 0. */
static int check_among(int code, const int *others)
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

/* Codes other than 0 that a call may return. */
static const int none[] = {0};
static const int if_destroyed[] = {ACL_ERROR_RT_INVALID_HANDLE, 0};
static const int if_context_destroyed[] = {
    ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_CONTEXT_NULL, ACL_ERROR_RT_STREAM_CONTEXT, 0};
static const int if_refused[] = {
    ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
    ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, 0};

/* One of two functions that run at the same time on device 0. */
typedef struct ThreadTask {
    void (*function)(void *);
    void *argument;
    pthread_barrier_t *start;
} ThreadTask;

static void run_task(void *argument)
{
    ThreadTask *task = argument;
    check_among(aclrtSetDevice(0), none);
    pthread_barrier_wait(task->start);
    task->function(task->argument);
    check_among(aclrtResetDevice(0), none);
}

static void run_both(void (*one)(void *), void (*two)(void *), void *argument)
{
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, 2);
    ThreadTask tasks[2] = {{one, argument, &start}, {two, argument, &start}};
    pthread_t first = start_thread(run_task, &tasks[0]);
    pthread_t second = start_thread(run_task, &tasks[1]);
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
    check_among(aclrtCreateEvent(&event), none);
    for (int i = 0; i < 30; i++) {
        check_among(aclrtLaunchHostFunc(stream, count_up, &ran), if_destroyed);
        check_among(aclrtMemsetAsync(memory, 64, i, 64, stream), if_destroyed);
        check_among(aclrtRecordEvent(event, stream), if_destroyed);
        check_among(aclrtStreamWaitEvent(stream, event), if_destroyed);
        check_among(aclrtStreamQuery(stream, &status), if_destroyed);
        check_among(aclrtStreamGetFlags(stream, &flags), if_destroyed);
    }
    check_among(aclrtSynchronizeStream(stream), if_destroyed);
    check_among(aclrtDestroyEvent(event), none);
}

static int destroyed;

static void destroy_stream(void *stream)
{
    for (int i = 0; i < 50; i++)
        sched_yield();
    int code = aclrtDestroyStream(stream);
    check_among(code, if_destroyed);
    if (code == 0)
        count_up(&destroyed);
}

static void destroy_force(void *stream)
{
    int code = aclrtDestroyStreamForce(stream);
    check_among(code, if_destroyed);
    if (code == 0)
        count_up(&destroyed);
}

static void synchronize_stream(void *stream)
{
    static const int aborted[] = {
        ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_STREAM_ABORT, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, 0};
    for (int i = 0; i < 20; i++) {
        check_among(aclrtSynchronizeStream(stream), aborted);
        check_among(aclrtSynchronizeStreamWithTimeout(stream, 1), aborted);
    }
}

static void abort_often(void *stream)
{
    static const int aborted[] = {ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_STREAM_ABORT, 0};
    for (int i = 0; i < 20; i++) {
        check_among(aclrtLaunchHostFunc(stream, count_up, &ran), aborted);
        check_among(aclrtStreamAbort(stream), aborted);
    }
}

static void race_streams(void)
{
    aclrtStream stream = NULL;
    GROUP("acl_3_2_13 submit against destroy, destroy against destroy");
    destroyed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(aclrtCreateStream(&stream));
        run_both(submit_all, i & 1 ? destroy_stream : destroy_force, stream);
        CHECK_OK(aclrtCreateStream(&stream));
        run_both(i & 2 ? destroy_force : destroy_stream, destroy_stream, stream);
    }
    CHECK_EQ(destroyed, 2 * ROUNDS);

    GROUP("acl_3_2_35 synchronize against abort and destroy");
    destroyed = 0;
    for (int i = 0; i < ROUNDS / 4; i++) {
        CHECK_OK(aclrtCreateStream(&stream));
        run_both(synchronize_stream, abort_often, stream);
        aclrtSynchronizeStream(stream);
        (void)aclGetRecentErrMsg();
        run_both(synchronize_stream, destroy_stream, stream);
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
        check_among(aclrtRecordEvent(event, NULL), if_destroyed);
        check_among(aclrtStreamWaitEvent(NULL, event), if_destroyed);
        check_among(aclrtQueryEventStatus(event, &status), if_destroyed);
        check_among(aclrtQueryEvent(event, &old_status), if_destroyed);
        check_among(aclrtSynchronizeEvent(event), early);
        check_among(aclrtEventElapsedTime(&ms, event, event), early);
    }
}

static void destroy_event(void *event)
{
    for (int i = 0; i < 100; i++)
        sched_yield();
    int code = aclrtDestroyEvent(event);
    check_among(code, if_destroyed);
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
        run_both(use_event, i & 1 ? use_event : destroy_event, event);
        if (i & 1)
            run_both(destroy_event, destroy_event, event);
    }
    CHECK_EQ(destroyed, ROUNDS);
    CHECK_OK(aclrtSynchronizeDevice());
}

static void use_context(void *context)
{
    aclrtStream stream = NULL;
    void *block = NULL;
    for (int i = 0; i < 5; i++) {
        check_among(aclrtSetCurrentContext(context), if_context_destroyed);
        int code = aclrtCreateStream(&stream);
        check_among(code, if_context_destroyed);
        if (code == 0) {
            check_among(aclrtLaunchHostFunc(stream, count_up, &ran), if_context_destroyed);
            check_among(aclrtSynchronizeStream(stream), if_context_destroyed);
            check_among(aclrtDestroyStream(stream), if_context_destroyed);
        }
        if (aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST) == 0)
            check_among(aclrtFree(block), none);
    }
    (void)aclGetRecentErrMsg();
}

static void destroy_context(void *context)
{
    for (int i = 0; i < 100; i++)
        sched_yield();
    int code = aclrtDestroyContext(context);
    check_among(code, if_destroyed);
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
        run_both(use_context, i & 1 ? use_context : destroy_context, context);
        if (i & 1)
            run_both(destroy_context, destroy_context, context);
    }
    CHECK_EQ(destroyed, ROUNDS);
}

/* Each thread's own count keeps the device open: nothing here may fail. */
static void set_and_reset(void *unused)
{
    (void)unused;
    void *block = NULL;
    for (int i = 0; i < ROUNDS; i++) {
        check_among(aclrtSetDevice(1), none);
        check_among(aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST), none);
        check_among(aclrtMemsetAsync(block, 4096, 1, 4096, NULL), none);
        check_among(aclrtSynchronizeStream(NULL), none);
        check_among(aclrtFree(block), none);
        check_among(aclrtResetDevice(1), none);
    }
    check_among(aclrtSetDevice(0), none);
    check_among(aclrtResetDevice(0), none);
}

static void reset_force(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        check_among(aclrtSetDevice(1), if_context_destroyed);
        check_among(aclrtSynchronizeDevice(), if_context_destroyed);
        check_among(aclrtResetDeviceForce(1), if_context_destroyed);
    }
    check_among(aclrtSetDevice(0), none);
    check_among(aclrtResetDevice(0), none);
}

static void race_devices(void)
{
    GROUP("acl_3_2_15 set and reset of one device by two threads");
    run_both(set_and_reset, set_and_reset, NULL);
    GROUP("acl_3_2_16 force by two threads");
    run_both(reset_force, reset_force, NULL);
    aclrtResetDeviceForce(1);
    (void)aclGetRecentErrMsg();
}

static int freed;

static void free_block(void *block)
{
    int code = aclrtFree(block);
    check_among(code, if_refused);
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
        int index = (int)(seed >> 16) % LIVE;
        if (blocks[index]) {
            check_among(aclrtMemcpy(&byte, 1, blocks[index] + SIZE - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST), none);
            CHECK(byte == (unsigned char)index);
            check_among(aclrtFree(blocks[index]), none);
            blocks[index] = NULL;
        } else if (check_among(aclrtMalloc((void **)&blocks[index], SIZE, ACL_MEM_MALLOC_HUGE_FIRST), none)) {
            check_among(aclrtMemset(blocks[index], SIZE, index, SIZE), none);
        }
    }
    for (int i = 0; i < LIVE; i++)
        if (blocks[i])
            check_among(aclrtFree(blocks[i]), none);
}

static unsigned char page[8192];

static void register_page(void *succeeded)
{
    void *device_pointer = NULL;
    int code = aclrtHostRegister(page, sizeof page, ACL_HOST_REGISTER_MAPPED, &device_pointer);
    check_among(code, if_refused);
    if (code == 0)
        count_up(succeeded);
}

static void unregister_page(void *succeeded)
{
    int code = aclrtHostUnregister(page);
    check_among(code, if_refused);
    if (code == 0)
        count_up(succeeded);
}

static void race_memory(void)
{
    void *block = NULL;
    GROUP("acl_3_2_55 memory of two threads, and one block freed by both");
    run_both(many_blocks, many_blocks, NULL);
    freed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        run_both(free_block, free_block, block);
    }
    CHECK_EQ(freed, ROUNDS);

    GROUP("acl_3_2_60 one range registered by both");
    int registered = 0, unregistered = 0;
    for (int i = 0; i < ROUNDS; i++) {
        run_both(register_page, register_page, &registered);
        run_both(unregister_page, unregister_page, &unregistered);
    }
    CHECK_EQ(registered, ROUNDS);
    CHECK_EQ(unregistered, ROUNDS);
}

static void init_often(void *unused)
{
    static const int repeated[] = {ACL_ERROR_REPEAT_INITIALIZE, ACL_ERROR_REPEAT_FINALIZE, 0};
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        check_among(aclInit(NULL), repeated);
        check_among(i & 1 ? aclFinalize() : aclFinalizeReference(NULL), repeated);
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
        check_among(aclrtRegStreamStateCallback("racing", on_stream, &ran), taken);
        check_among(aclrtRegStreamStateCallback("racing", NULL, NULL), taken);
    }
}

static void make_streams(void *unused)
{
    aclrtStream stream = NULL;
    (void)unused;
    for (int i = 0; i < ROUNDS; i++)
        if (check_among(aclrtCreateStream(&stream), none))
            check_among(aclrtDestroyStream(stream), none);
}

static void race_init_and_callbacks(void)
{
    GROUP("acl_3_2_5 init and finalize by two threads");
    run_both(init_often, init_often, NULL);
    GROUP("acl_3_2_37 callbacks registered while streams come and go");
    run_both(register_often, make_streams, NULL);
    run_both(register_often, register_often, NULL);
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
    race_init_and_callbacks();
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtResetDevice(0));
    return END();
}

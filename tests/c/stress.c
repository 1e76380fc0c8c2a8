// env:
// env: CAIRN_WORKERS=1
/*
 * Eight threads, five hundred streams, a million tasks (ten million with CAIRN_TESTS=deep). Every
 * stream fills a cell of 64 bytes and copies one byte of it into a log, again and again, so that the
 * log shows whether the tasks ran in order; streams copy each other's cells, ordered by events; host
 * functions count their calls.
 */
#define WATCHDOG 115
#include "gate.h"

enum { THREADS = 8, STREAMS = 500, PERIOD = 8, HOST_PERIOD = 32 };

typedef struct StreamState {
    aclrtStream stream;
    aclrtEvent filled, copied;
    unsigned char *cell, *log, *copies;
    int host_calls;
} StreamState;

static StreamState states[STREAMS];
static int steps = 850;
static long long tasks;

static unsigned char value(int state, int step)
{
    return (unsigned char)(state * 37 + step * 11 + (step >> 5));
}

/* Host functions of one stream never overlap, so a plain counter is enough. */
static void count_host_call(void *argument)
{
    StreamState *state = argument;
    int calls = state->host_calls;
    sched_yield();
    state->host_calls = calls + 1;
}

static int failed(int code)
{
    return !CHECK_CODE(code, 0);
}

/* Copies the cell of `from` on the stream of `to`, after it is filled; `from` continues only after the copy. */
static int copy_cell(StreamState *from, StreamState *to, int step)
{
    return failed(aclrtRecordEvent(from->filled, from->stream))
        || failed(aclrtStreamWaitEvent(to->stream, from->filled))
        || failed(aclrtMemcpyAsync(
            to->copies + step / PERIOD, 1, from->cell + 13, 1, ACL_MEMCPY_DEVICE_TO_DEVICE, to->stream))
        || failed(aclrtRecordEvent(from->copied, to->stream))
        || failed(aclrtStreamWaitEvent(from->stream, from->copied));
}

static int one_step(int index, int step)
{
    StreamState *state = &states[index];
    if (failed(aclrtMemsetAsync(state->cell, 64, value(index, step), 64, state->stream))
        || failed(aclrtMemcpyAsync(
            state->log + step, 1, state->cell + step % 64, 1, ACL_MEMCPY_DEVICE_TO_DEVICE, state->stream)))
        return 0;
    int count = 2;
    if (step % PERIOD == 0 && index + THREADS < STREAMS) {
        if (copy_cell(state, &states[index + THREADS], step))
            return 0;
        count += 5;
    }
    if (step % HOST_PERIOD == 0) {
        if (failed(aclrtLaunchHostFunc(state->stream, count_host_call, state)))
            return 0;
        count++;
    }
    return count;
}

static void work(void *argument)
{
    int first = (int)(intptr_t)argument;
    long long submitted = 0;
    if (failed(aclrtSetDevice(first & 1)))
        return;
    for (int index = first; index < STREAMS; index += THREADS) {
        StreamState *state = &states[index];
        size_t log = (size_t)steps, copies = (size_t)steps / PERIOD + 1;
        if (failed(aclrtCreateStream(&state->stream))
            || failed(aclrtCreateEvent(&state->filled))
            || failed(aclrtCreateEventExWithFlag(&state->copied, ACL_EVENT_SYNC))
            || failed(aclrtMalloc((void **)&state->cell, 64, ACL_MEM_MALLOC_HUGE_FIRST))
            || failed(aclrtMalloc((void **)&state->log, log, ACL_MEM_MALLOC_HUGE_FIRST))
            || failed(aclrtMalloc((void **)&state->copies, copies, ACL_MEM_MALLOC_HUGE_FIRST)))
            return;
    }
    for (int step = 0; step < steps; step++)
        for (int index = first; index < STREAMS; index += THREADS) {
            int count = one_step(index, step);
            if (!count)
                return;
            submitted += count;
            if (step % 200 == 199 && failed(aclrtSynchronizeStream(states[index].stream)))
                return;
        }
    for (int index = first; index < STREAMS; index += THREADS)
        if (failed(aclrtSynchronizeStream(states[index].stream)))
            return;
    __atomic_add_fetch(&tasks, submitted, __ATOMIC_SEQ_CST);
}

static void verify(int index, unsigned char *bytes)
{
    StreamState *state = &states[index];
    if (failed(aclrtMemcpy(bytes, (size_t)steps, state->log, (size_t)steps, ACL_MEMCPY_DEVICE_TO_HOST)))
        return;
    for (int step = 0; step < steps; step++)
        if (bytes[step] != value(index, step)) {
            printf("stream %d, step %d\n", index, step);
            CHECK_EQ(bytes[step], value(index, step));
            return;
        }
    CHECK_EQ(state->host_calls, (steps + HOST_PERIOD - 1) / HOST_PERIOD);
    if (index < THREADS)
        return;
    size_t count = ((size_t)steps + PERIOD - 1) / PERIOD;
    if (failed(aclrtMemcpy(bytes, count, state->copies, count, ACL_MEMCPY_DEVICE_TO_HOST)))
        return;
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != value(index - THREADS, (int)i * PERIOD)) {
            printf("stream %d, hand-over %zu\n", index, i);
            CHECK_EQ(bytes[i], value(index - THREADS, (int)i * PERIOD));
            return;
        }
}

int main(void)
{
    int is_long = getenv("CAIRN_TESTS") && strcmp(getenv("CAIRN_TESTS"), "deep") == 0;
    if (is_long) {
        steps *= 10;
        alarm(600);
    }
    GROUP("acl_3_2_50 eight threads, five hundred streams, a million tasks");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    double start = seconds();
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start_thread(work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    double took = seconds() - start;
    printf("%lld tasks in %.2f s\n", tasks, took);
    CHECK(tasks >= (is_long ? 10000000 : 1000000));
    CHECK(is_long || took < 60);
    unsigned char *bytes = malloc((size_t)steps);
    for (int index = 0; index < STREAMS; index++)
        verify(index, bytes);
    free(bytes);
    for (int index = 0; index < STREAMS; index++) {
        CHECK_OK(aclrtDestroyStream(states[index].stream));
        CHECK_OK(aclrtDestroyEvent(states[index].filled));
        CHECK_OK(aclrtDestroyEvent(states[index].copied));
        CHECK_OK(aclrtFree(states[index].cell));
        CHECK_OK(aclrtFree(states[index].log));
        CHECK_OK(aclrtFree(states[index].copies));
    }
    CHECK_OK(aclrtResetDeviceForce(1));
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclFinalize());
    return END();
}

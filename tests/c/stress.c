// env:
// env: CAIRN_WORKERS=1
/*
 * Eight threads, five hundred streams, a million tasks (ten million with CAIRN_TESTS=deep). Every
 * stream fills a cell and copies it into a log, again and again, so that the log shows whether the
 * tasks ran in order; pairs of streams hand their cells to each other through events; host functions
 * count along.
 */
#define WATCHDOG 115
#include "gate.h"

enum { THREADS = 8, STREAMS = 500, PERIOD = 8, HOST_PERIOD = 32 };

typedef struct Lane {
    aclrtStream stream;
    aclrtEvent reached, taken;
    unsigned char *cell, *log, *foreign;
    int host_calls;
} Lane;

static Lane lanes[STREAMS];
static int steps = 850;
static long long tasks;

static unsigned char value(int lane, int step)
{
    return (unsigned char)(lane * 37 + step * 11 + (step >> 5));
}

/* Host functions of one stream never overlap, so a plain counter is enough. */
static void count_along(void *argument)
{
    Lane *lane = argument;
    int now = lane->host_calls;
    sched_yield();
    lane->host_calls = now + 1;
}

static int failed(int code)
{
    return !CHECK_CODE(code, 0);
}

/* `from` is filled; `to` takes a copy of its cell, and `from` goes on only after that. */
static int hand_over(Lane *from, Lane *to, int step)
{
    return failed(aclrtRecordEvent(from->reached, from->stream))
        || failed(aclrtStreamWaitEvent(to->stream, from->reached))
        || failed(aclrtMemcpyAsync(
            to->foreign + step / PERIOD, 1, from->cell + 13, 1, ACL_MEMCPY_DEVICE_TO_DEVICE, to->stream))
        || failed(aclrtRecordEvent(from->taken, to->stream))
        || failed(aclrtStreamWaitEvent(from->stream, from->taken));
}

static int one_step(int index, int step)
{
    Lane *lane = &lanes[index];
    if (failed(aclrtMemsetAsync(lane->cell, 64, value(index, step), 64, lane->stream))
        || failed(aclrtMemcpyAsync(
            lane->log + step, 1, lane->cell + step % 64, 1, ACL_MEMCPY_DEVICE_TO_DEVICE, lane->stream)))
        return 0;
    int count = 2;
    if (step % PERIOD == 0 && index + THREADS < STREAMS) {
        if (hand_over(lane, &lanes[index + THREADS], step))
            return 0;
        count += 5;
    }
    if (step % HOST_PERIOD == 0) {
        if (failed(aclrtLaunchHostFunc(lane->stream, count_along, lane)))
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
        Lane *lane = &lanes[index];
        size_t log = (size_t)steps, foreign = (size_t)steps / PERIOD + 1;
        if (failed(aclrtCreateStream(&lane->stream))
            || failed(aclrtCreateEvent(&lane->reached))
            || failed(aclrtCreateEventExWithFlag(&lane->taken, ACL_EVENT_SYNC))
            || failed(aclrtMalloc((void **)&lane->cell, 64, ACL_MEM_MALLOC_HUGE_FIRST))
            || failed(aclrtMalloc((void **)&lane->log, log, ACL_MEM_MALLOC_HUGE_FIRST))
            || failed(aclrtMalloc((void **)&lane->foreign, foreign, ACL_MEM_MALLOC_HUGE_FIRST)))
            return;
    }
    for (int step = 0; step < steps; step++)
        for (int index = first; index < STREAMS; index += THREADS) {
            int count = one_step(index, step);
            if (!count)
                return;
            submitted += count;
            if (step % 200 == 199 && failed(aclrtSynchronizeStream(lanes[index].stream)))
                return;
        }
    for (int index = first; index < STREAMS; index += THREADS)
        if (failed(aclrtSynchronizeStream(lanes[index].stream)))
            return;
    __atomic_add_fetch(&tasks, submitted, __ATOMIC_SEQ_CST);
}

static void verify(int index, unsigned char *bytes)
{
    Lane *lane = &lanes[index];
    if (failed(aclrtMemcpy(bytes, (size_t)steps, lane->log, (size_t)steps, ACL_MEMCPY_DEVICE_TO_HOST)))
        return;
    for (int step = 0; step < steps; step++)
        if (bytes[step] != value(index, step)) {
            printf("stream %d, step %d\n", index, step);
            CHECK_EQ(bytes[step], value(index, step));
            return;
        }
    CHECK_EQ(lane->host_calls, (steps + HOST_PERIOD - 1) / HOST_PERIOD);
    if (index < THREADS)
        return;
    size_t count = ((size_t)steps + PERIOD - 1) / PERIOD;
    if (failed(aclrtMemcpy(bytes, count, lane->foreign, count, ACL_MEMCPY_DEVICE_TO_HOST)))
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
        CHECK_OK(aclrtDestroyStream(lanes[index].stream));
        CHECK_OK(aclrtDestroyEvent(lanes[index].reached));
        CHECK_OK(aclrtDestroyEvent(lanes[index].taken));
        CHECK_OK(aclrtFree(lanes[index].cell));
        CHECK_OK(aclrtFree(lanes[index].log));
        CHECK_OK(aclrtFree(lanes[index].foreign));
    }
    CHECK_OK(aclrtResetDeviceForce(1));
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclFinalize());
    return END();
}

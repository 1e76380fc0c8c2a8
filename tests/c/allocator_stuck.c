// breaks: pool-on-two-streams
// env: CAIRN_CALLBACK_LOG_MS=20
// env: CAIRN_CALLBACK_LOG_MS=20 CAIRN_WORKERS=1
/* A callback that does not return, and threads that wait for it: the log names them. */
#include "logged.h"
#include "pool.h"
#include <sys/syscall.h>

static Pool pool;
static aclrtStream streams[2];
static int32_t ids[2];
static long thread_ids[2];
static Gate gate = GATE_CLOSED;

static void hold(Pool *unused)
{
    (void)unused;
    gate_hold(&gate);
}

static void run(void *number)
{
    intptr_t i = (intptr_t)number;
    __atomic_store_n(&thread_ids[i], syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(execute_with_tensor(streams[i], 64, NULL));
    CHECK_OK(aclrtResetDevice(0));
}

/* Formats a text with one number in it. */
static const char *format_number(char *buffer, size_t capacity, const char *format, long number)
{
    snprintf(buffer, capacity, format, number);
    return buffer;
}

int main(void)
{
    char owner[64], waiter[64], first[64], second[64], object[64];
    log_begin();
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    pool_open(&pool);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(aclrtCreateStream(&streams[i]));
        CHECK_OK(aclrtStreamGetId(streams[i], &ids[i]));
        pool_register(streams[i], &pool);
    }
    snprintf(object, sizeof object, "the allocator %p", (void *)&pool);

    GROUP("acl_reg_6 a callback that does not return is named, though nobody waits");
    pool.in_alloc = hold;
    pthread_t stuck = start_thread(run, (void *)0);
    gate_wait_entered(&gate, 1);
    format_number(owner, sizeof owner, "thread %ld is inside", thread_ids[0]);
    format_number(first, sizeof first, "for stream %ld ", ids[0]);
    SPIN_UNTIL(LOGGED("does not return", owner, "alloc(96)", object, first));
    CHECK_EQ(LOGGED("has waited"), 0);

    GROUP("acl_reg_6 a thread that waits for it is named with it");
    pthread_t blocked = start_thread(run, (void *)1);
    SPIN_UNTIL(LOGGED("has waited", owner, "alloc(96)", object, first));
    format_number(waiter, sizeof waiter, "thread %ld has waited", __atomic_load_n(&thread_ids[1], __ATOMIC_SEQ_CST));
    format_number(second, sizeof second, "for stream %ld:", ids[1]);
    CHECK(LOGGED(waiter, second, owner, first) > 0);

    pool.in_alloc = NULL;
    gate_open(&gate);
    join_thread(stuck);
    join_thread(blocked);
    for (int i = 0; i < 2; i++)
        CHECK_OK(aclrtDestroyStream(streams[i]));
    pool_close(&pool);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    log_end();
    return END();
}

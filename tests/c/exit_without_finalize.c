// exit: 0
// env:
// env: CAIRN_WORKERS=1
/*
 * main returns with work pending, a blocked host function and no finalize: the process ends, and no
 * function of the program is called after it began to end.
 */
#define WATCHDOG 30
#include "gate.h"

static int exit_began;

static void after_exit_of_library(void)
{
    raise_flag(&exit_began);
    double until = seconds() + 0.3;
    while (seconds() < until)
        sched_yield();
}

static void check_not_after_exit(void *unused)
{
    (void)unused;
    if (raised(&exit_began)) {
        static const char text[] = "a host function ran after the end\n";
        ssize_t ignored = write(2, text, sizeof text - 1);
        (void)ignored;
        _exit(3);
    }
}

int main(void)
{
    aclrtStream streams[8];
    static Gate gate = GATE_CLOSED;
    void *memory = NULL;
    enum { SIZE = 64 << 20 };
    /* Handlers run in reverse: this one after those that the library registers. */
    atexit(after_exit_of_library);
    GROUP("acl_3_2_8 the end of a process without finalize");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMalloc(&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < 8; i++) {
        CHECK_OK(aclrtCreateStream(&streams[i]));
        for (int j = 0; j < 2000; j++)
            CHECK_OK(aclrtLaunchHostFunc(streams[i], check_not_after_exit, NULL));
    }
    aclrtStream blocked = NULL, copying = NULL;
    CHECK_OK(aclrtCreateStream(&blocked));
    CHECK_OK(aclrtCreateStream(&copying));
    gate_put(&gate, blocked);
    for (int i = 0; i < 50; i++)
        CHECK_OK(aclrtMemsetAsync(memory, SIZE, i, SIZE, copying));
    return END();
}

/* A program to be recorded: `record WHAT`, with one of the names at the end of this file. */
#define _GNU_SOURCE
#include "acl/acl.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096 };

static aclrtStream stream;
static void *memory;

static void need(int code)
{
    if (code != 0) {
        printf("code %d\n", code);
        exit(3);
    }
}

__attribute__((noinline)) void take_memory(void)
{
    need(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void begin(void)
{
    need(aclInit(NULL));
    need(aclrtSetDevice(0));
    need(aclrtCreateStream(&stream));
    take_memory();
}

static void steps(int count)
{
    for (int i = 0; i < count; i++) {
        need(aclrtMemsetAsync(memory, BYTES, i & 255, BYTES, stream));
        if (i % 64 == 63)
            need(aclrtSynchronizeStream(stream));
    }
    need(aclrtSynchronizeStream(stream));
}

static void end(void)
{
    need(aclrtFree(memory));
    need(aclrtDestroyStream(stream));
    need(aclrtResetDevice(0));
    need(aclFinalize());
}

/* Waits for a child that has to succeed. */
static void join(pid_t child)
{
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0)
        exit(4);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "steps";
    begin();
    if (strcmp(what, "steps") == 0) {
        steps(100);
    } else if (strcmp(what, "endless") == 0) {
        steps(1000);
        puts("READY");
        fflush(stdout);
        for (;;)
            steps(1000);
    } else if (strcmp(what, "signal") == 0) {
        steps(100);
        raise(SIGTERM);
    } else if (strcmp(what, "children") == 0) {
        steps(100);
        pid_t child = fork();
        if (child == 0)
            _exit(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
        join(child);
        child = fork();
        if (child == 0) {
            execl("/proc/self/exe", arguments[0], "steps", NULL);
            _exit(5);
        }
        join(child);
        steps(100);
    } else if (strcmp(what, "close") == 0) {
        for (int i = 3; i < 256; i++)
            close(i);
        for (int i = 3; i < 64; i++)
            if (open("/dev/null", O_RDWR) < 0)
                return 6;
        steps(100000);
    } else if (strcmp(what, "full") == 0) {
        struct rlimit limit = {3 << 20, 3 << 20};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
            return 7;
        steps(200000);
    } else {
        return 2;
    }
    end();
    return 0;
}

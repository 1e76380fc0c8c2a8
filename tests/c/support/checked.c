/* A program to be checked: `checked WHAT`, with one of the names at the end of this file. */
#define _GNU_SOURCE
#include "acl/acl.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096 };

static aclrtStream streams[2];
static void *memory;

static void need(int code)
{
    if (code != 0) {
        printf("code %d\n", code);
        exit(3);
    }
}

static void begin(void)
{
    need(aclInit(NULL));
    need(aclrtSetDevice(0));
    for (int i = 0; i < 2; i++)
        need(aclrtCreateStream(&streams[i]));
    need(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void synchronize(void)
{
    for (int i = 0; i < 2; i++)
        need(aclrtSynchronizeStream(streams[i]));
}

/* Two streams write the same bytes, and nothing orders them. */
static void race(void)
{
    for (int i = 0; i < 2; i++)
        need(aclrtMemsetAsync(memory, BYTES, i, BYTES, streams[i]));
    synchronize();
}

static void steps(int count)
{
    for (int i = 0; i < count; i++) {
        need(aclrtMemsetAsync(memory, BYTES, i & 255, BYTES, streams[0]));
        if (i % 64 == 63)
            need(aclrtSynchronizeStream(streams[0]));
    }
    synchronize();
}

static void end(void)
{
    need(aclrtFree(memory));
    for (int i = 0; i < 2; i++)
        need(aclrtDestroyStream(streams[i]));
    need(aclrtResetDevice(0));
    need(aclFinalize());
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "nothing";
    begin();
    if (strcmp(what, "race") == 0) {
        race();
    } else if (strcmp(what, "races") == 0) {
        for (int i = 0; i < 1000; i++)
            race();
    } else if (strcmp(what, "wait") == 0) {
        /* Until its input ends. */
        race();
        while (getchar() != EOF)
            ;
    } else if (strcmp(what, "long") == 0) {
        steps(200000);
    } else if (strcmp(what, "kill") == 0) {
        race();
        raise(SIGKILL);
    } else if (strcmp(what, "kill-right") == 0) {
        steps(100);
        raise(SIGKILL);
    } else if (strcmp(what, "children") == 0) {
        race();
        pid_t child = fork();
        if (child == 0)
            _exit(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
        int status;
        if (waitpid(child, &status, 0) != child || status != 0)
            return 4;
        child = fork();
        if (child == 0) {
            execl("/proc/self/exe", arguments[0], "race", NULL);
            _exit(5);
        }
        if (waitpid(child, &status, 0) != child || status != 0)
            return 5;
    } else if (strcmp(what, "close") == 0) {
        for (int i = 3; i < 256; i++)
            close(i);
        race();
        steps(100000);
    } else if (strcmp(what, "full") == 0) {
        struct rlimit limit = {3 << 20, 3 << 20};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
            return 7;
        steps(200000);
    } else if (strcmp(what, "nothing") != 0) {
        return 2;
    }
    end();
    return 0;
}

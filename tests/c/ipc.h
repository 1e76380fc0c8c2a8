/* Two processes that share something: what they say to each other, and how they are started. */
#ifndef IPC_H
#define IPC_H
#include "child.h"
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)
#define DRIVER 507899
#define NOT_PERMITTED 207006

/* What a process says to the other. */
typedef struct Message {
    char key[65];
    uint64_t shareable;
    aclrtIpcEventHandle event;
    int32_t pid;
    int number;
} Message;

typedef struct Line {
    int in, out;
} Line;

static void say(Line line, Message message)
{
    message.pid = getpid();
    CHECK(write(line.out, &message, sizeof message) == (ssize_t)sizeof message);
}

static int hear(Line line, Message *message)
{
    return read(line.in, message, sizeof *message) == (ssize_t)sizeof *message;
}

static void begin(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
}

static void end(void)
{
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
}

/* Runs both sides in children of their own; 0 if all checks of both held. */
static int two(void (*exporter)(Line), void (*importer)(Line))
{
    int there[2], back[2];
    if (pipe(there) != 0 || pipe(back) != 0)
        abort();
    fflush(NULL);
    pid_t pids[2];
    for (int side = 0; side < 2; side++) {
        pids[side] = fork();
        if (pids[side] == 0) {
            check_failures = 0;
            start_watchdog();
            alarm(60);
            Line line = {side ? there[0] : back[0], side ? back[1] : there[1]};
            close(side ? there[1] : there[0]);
            close(side ? back[0] : back[1]);
            signal(SIGPIPE, SIG_IGN);
            (side ? importer : exporter)(line);
            exit(check_failures != 0);
        }
    }
    close(there[0]), close(there[1]), close(back[0]), close(back[1]);
    int statuses = 0;
    for (int side = 0; side < 2; side++) {
        int status = child_status(pids[side]);
        statuses += status != 0 && status != 1000 + SIGKILL;
    }
    return statuses;
}

static int all_are(const char *bytes, size_t count, int value)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != (char)value)
            return 0;
    return 1;
}

static void fill(void *address, size_t bytes, int value)
{
    CHECK_OK(aclrtMemset(address, bytes, value, bytes));
}

static int holds(void *address, size_t bytes, int value)
{
    char *copy = (char *)malloc(bytes);
    CHECK_OK(aclrtMemcpy(copy, bytes, address, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    int is_same = all_are(copy, bytes, value);
    free(copy);
    return is_same;
}

#endif

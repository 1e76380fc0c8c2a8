/* Forked children that report by their exit status. */
#ifndef CAIRN_TESTS_CHILD_H
#define CAIRN_TESTS_CHILD_H

#include "gate.h"
#include <errno.h>
#include <sys/wait.h>

/* Waits for a child: its exit status, or 1000 plus the signal that ended it. */
__attribute__((unused)) static int child_status(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/*
 * Runs `body` in a forked child with a watchdog of its own. The child ends through exit(), so that
 * what a library does at the end of a process is part of the test; its status is 0 when all its
 * checks held.
 */
__attribute__((unused)) static int in_child(void (*body)(void), unsigned limit)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        check_failures = 0;
        start_watchdog();
        alarm(limit);
        body();
        exit(check_failures != 0);
    }
    return child_status(pid);
}

#endif

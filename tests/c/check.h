/*
 * Assertions for the programs in tests/c and tests/cpp. Include it first.
 *
 *     int main(void)
 *     {
 *         GROUP("acl_3_2_1 what is checked");
 *         CHECK_CODE(aclInit(NULL), 0);
 *         CHECK_FAIL(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE, "aclInit");
 *         return END();
 *     }
 *
 * A failed assertion is printed and counted; the program goes on. A group ends where the next one
 * begins and prints `ok <group>` or `FAILED <group>`. All of it may be used from any thread, and in
 * the child after a fork. A program that does not end within WATCHDOG seconds ends itself with
 * status 99 and names the group it was in.
 */
#ifndef CAIRN_TESTS_CHECK_H
#define CAIRN_TESTS_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "acl/acl.h"

#ifndef WATCHDOG
#define WATCHDOG 100
#endif

static int check_failures;
static int check_failures_before_group;
static const char *check_group;

__attribute__((unused)) static void check_on_alarm(int signal_number)
{
    static const char text[] = "\nWATCHDOG: the program hangs in group: ";
    const char *group = check_group ? check_group : "(none)";
    ssize_t ignored = write(2, text, sizeof text - 1);
    ignored = write(2, group, strlen(group));
    ignored = write(2, "\n", 1);
    (void)ignored;
    (void)signal_number;
    _exit(99);
}

/* Starts the watchdog. Runs by itself before main; a forked child must call it again. */
__attribute__((constructor, unused)) static void start_watchdog(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGALRM, check_on_alarm);
    alarm(WATCHDOG);
}

__attribute__((unused)) static void check_failed(void)
{
    __atomic_add_fetch(&check_failures, 1, __ATOMIC_RELAXED);
}

__attribute__((unused)) static void check_group_end(void)
{
    int failures = __atomic_load_n(&check_failures, __ATOMIC_RELAXED);
    if (check_group)
        printf("%s %s\n", failures == check_failures_before_group ? "ok" : "FAILED", check_group);
    check_failures_before_group = failures;
    check_group = NULL;
}

__attribute__((unused)) static void check_group_begin(const char *name)
{
    check_group_end();
    check_group = name;
}

__attribute__((unused)) static int check_end(void)
{
    check_group_end();
    int failures = __atomic_load_n(&check_failures, __ATOMIC_RELAXED);
    if (failures)
        printf("%d checks failed\n", failures);
    fflush(stdout);
    return failures != 0;
}

__attribute__((unused)) static int check_true(const char *file, int line, const char *text, int holds)
{
    if (!holds) {
        check_failed();
        printf("%s:%d: does not hold: %s\n", file, line, text);
    }
    return holds;
}

__attribute__((unused)) static int check_equal(
    const char *file, int line, const char *left, const char *right, long long a, long long b)
{
    if (a != b) {
        check_failed();
        printf(
            "%s:%d: %s is %lld (0x%llx), expected %s = %lld (0x%llx)\n", file, line, left, a,
            (unsigned long long)a, right, b, (unsigned long long)b);
    }
    return a == b;
}

__attribute__((unused)) static int check_code(
    const char *file, int line, const char *call, int got, int expected)
{
    if (got != expected) {
        check_failed();
        const char *text = aclGetRecentErrMsg();
        printf(
            "%s:%d: %s returned %d, expected %d; text: %s\n", file, line, call, got, expected,
            text ? text : "(none)");
    }
    return got == expected;
}

__attribute__((unused)) static int check_text(const char *file, int line, const char *part)
{
    const char *text = aclGetRecentErrMsg();
    int holds = text != NULL && strstr(text, part) != NULL;
    if (!holds) {
        check_failed();
        printf(
            "%s:%d: the error text lacks \"%s\": %s\n", file, line, part,
            text ? text : "(there is no text)");
    }
    return holds;
}

/* A group of assertions; the name begins with the id of a sentence, see README.md. */
#define GROUP(name) check_group_begin(name)

/* Ends the last group; the exit status of the program. */
#define END() check_end()

/* Each gives 1 when it holds. */
#define CHECK(condition) check_true(__FILE__, __LINE__, #condition, (condition) ? 1 : 0)
#define CHECK_EQ(a, b) check_equal(__FILE__, __LINE__, #a, #b, (long long)(a), (long long)(b))
#define CHECK_CODE(call, code) check_code(__FILE__, __LINE__, #call, (call), (code))
#define CHECK_OK(call) CHECK_CODE(call, ACL_SUCCESS)

/* The thread has an error text that contains `part`. This clears it. */
#define CHECK_TEXT(part) check_text(__FILE__, __LINE__, part)

/* Nothing failed on this thread since the text was last read. */
#define CHECK_NO_TEXT() check_true(__FILE__, __LINE__, "no error text", aclGetRecentErrMsg() == NULL)

/* The call fails with this code and leaves a fresh text that contains `part`. */
#define CHECK_FAIL(call, code, part) \
    ((void)aclGetRecentErrMsg(), CHECK_CODE(call, code) && CHECK_TEXT(part))

/* Polls until `condition` holds; the watchdog is the limit. */
#define SPIN_UNTIL(condition) \
    while (!(condition)) \
    sched_yield()

#endif

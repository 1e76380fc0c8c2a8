/*
 * Ways to block a stream and to see what it did, without sleeping: a host function that waits
 * until the test opens its gate, host functions that set a flag or count, and threads.
 */
#ifndef CAIRN_TESTS_GATE_H
#define CAIRN_TESTS_GATE_H

#include "check.h"
#include <time.h>

/* Blocks the stream that runs gate_hold until gate_open. */
typedef struct Gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int entered;
    int is_open;
} Gate;

#define GATE_CLOSED {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0}

/* A host function. */
__attribute__((unused)) static void gate_hold(void *argument)
{
    Gate *gate = (Gate *)argument;
    pthread_mutex_lock(&gate->lock);
    gate->entered++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->is_open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

__attribute__((unused)) static void gate_open(Gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = 1;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

/* Waits until gate_hold has begun `times` times. */
__attribute__((unused)) static void gate_wait_entered(Gate *gate, int times)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->entered < times)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

/* Closes the gate for another use. */
__attribute__((unused)) static void gate_close(Gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = 0;
    gate->entered = 0;
    pthread_mutex_unlock(&gate->lock);
}

/* Queues gate_hold and waits until the stream runs it. */
__attribute__((unused)) static void gate_put(Gate *gate, aclrtStream stream)
{
    gate_close(gate);
    if (CHECK_OK(aclrtLaunchHostFunc(stream, gate_hold, gate)))
        gate_wait_entered(gate, 1);
}

/* A host function that sets an int to 1. */
__attribute__((unused)) static void raise_flag(void *flag)
{
    __atomic_store_n((int *)flag, 1, __ATOMIC_SEQ_CST);
}

__attribute__((unused)) static int raised(int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_SEQ_CST);
}

__attribute__((unused)) static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A host function that works for 100 ms and then sets an int to 1: a synchronize that returns too
 * early finds 0. */
__attribute__((unused)) static void raise_flag_late(void *flag)
{
    double end = seconds() + 0.1;
    while (seconds() < end)
        sched_yield();
    raise_flag(flag);
}

/* A host function that adds 1 to an int. */
__attribute__((unused)) static void count_up(void *counter)
{
    __atomic_add_fetch((int *)counter, 1, __ATOMIC_SEQ_CST);
}

typedef struct ThreadCall {
    void (*function)(void *);
    void *argument;
} ThreadCall;

__attribute__((unused)) static void *thread_body(void *argument)
{
    ThreadCall call = *(ThreadCall *)argument;
    free(argument);
    call.function(call.argument);
    return NULL;
}

__attribute__((unused)) static pthread_t start_thread(void (*function)(void *), void *argument)
{
    pthread_t thread;
    ThreadCall *call = (ThreadCall *)malloc(sizeof *call);
    call->function = function;
    call->argument = argument;
    if (pthread_create(&thread, NULL, thread_body, call) != 0)
        abort();
    return thread;
}

__attribute__((unused)) static void join_thread(pthread_t thread)
{
    pthread_join(thread, NULL);
}

/* Calls `function` on a fresh thread and waits for it. */
__attribute__((unused)) static void on_thread(void (*function)(void *), void *argument)
{
    join_thread(start_thread(function, argument));
}

#endif

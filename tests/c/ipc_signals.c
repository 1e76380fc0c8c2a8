// env: CAIRN_HOST_MEMORY=2gib
// env: CAIRN_MEMORY=no-host-access
// unchecked: it ends by signals, and handles them
/* SIGSEGV in a program that exports memory, so that Cairn handles it, too: what is sent and what is ignored does what it does
 * without Cairn, handlers that call each other end, and a fault that is none of Cairn's ends the process. */
#include "child.h"
#include <sys/mman.h>

#define PAGE ((size_t)2 << 20)

/* What handlers saw; the parent reads it when the child is dead. */
typedef struct Seen {
    int first, second, sent, blocked;
} Seen;

static Seen *seen;

static void begin(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
}

/* With each export the handler of Cairn is installed in front of whatever is there. */
static void export(void)
{
    void *block = NULL;
    char key[65];
    CHECK_OK(aclrtMalloc(&block, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtIpcMemGetExportKey(block, PAGE, key, 65, 1));
}

static void end(void)
{
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
}

static void cause_fault(void)
{
    *(volatile char *)8 = 1;
}

static struct sigaction before;

/* What a handler does that was installed over another one. */
static void call_before(int number, siginfo_t *info, void *context)
{
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(number);
    else if (before.sa_handler == SIG_DFL) {
        signal(number, SIG_DFL);
        if (info->si_code <= 0)
            raise(number);
    }
}

static void note(int number, siginfo_t *info)
{
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    seen->sent += info->si_code <= 0 && info->si_pid == getpid();
    seen->blocked += sigismember(&now, number) == 1 && sigismember(&now, SIGUSR1) == 1;
}

static void counting(int number, siginfo_t *info, void *context)
{
    (void)context;
    seen->first++;
    note(number, info);
}

static void plain(int number)
{
    (void)number;
    seen->first++;
}

static void chaining(int number, siginfo_t *info, void *context)
{
    seen->second++;
    note(number, info);
    /* A recursion would end in an overflow of the stack, and be the right signal. */
    if (seen->second > 9)
        _exit(77);
    call_before(number, info, context);
}

static void install(void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, &before);
}

static int is(int first, int second, int sent, int blocked)
{
    if (seen->first == first && seen->second == second && seen->sent == sent && seen->blocked == blocked)
        return 1;
    printf("  seen: %d %d, sent %d, blocked %d\n", seen->first, seen->second, seen->sent, seen->blocked);
    return 0;
}

/* Runs it as a child; how that ended. */
static int ended(void (*body)(void))
{
    memset(seen, 0, sizeof *seen);
    return in_child(body, 60);
}

static void send_all(void)
{
    raise(SIGSEGV);
    kill(getpid(), SIGSEGV);
    pthread_kill(pthread_self(), SIGSEGV);
}

static void handler_before(void)
{
    install(counting, 0);
    begin();
    export();
    send_all();
    CHECK(is(3, 0, 3, 3));
    /* The mask is as it was. */
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    CHECK(!sigismember(&now, SIGSEGV) && !sigismember(&now, SIGUSR1));
    end();
}

static void handler_after(void)
{
    begin();
    export();
    install(counting, 0);
    send_all();
    CHECK(is(3, 0, 3, 3));
    export();
    send_all();
    CHECK(is(6, 0, 6, 6));
    end();
}

static void plain_handler(void)
{
    begin();
    signal(SIGSEGV, plain);
    export();
    send_all();
    CHECK(is(3, 0, 0, 0));
    end();
}

/* The second signal finds the default again. */
static void handler_for_once(void)
{
    begin();
    install(counting, SA_RESETHAND);
    export();
    raise(SIGSEGV);
    CHECK(is(1, 0, 1, 1));
    raise(SIGSEGV);
    _exit(78);
}

static void raise_default(void)
{
    begin();
    export();
    raise(SIGSEGV);
    _exit(78);
}

static void kill_default(void)
{
    begin();
    export();
    kill(getpid(), SIGSEGV);
    for (;;)
        pause();
}

static void ignored(void)
{
    signal(SIGSEGV, SIG_IGN);
    begin();
    export();
    send_all();
    send_all();
    export();
    send_all();
    end();
}

static void fault_while_ignored(void)
{
    signal(SIGSEGV, SIG_IGN);
    begin();
    export();
    raise(SIGSEGV);
    cause_fault();
    _exit(78);
}

static void fault_by_default(void)
{
    begin();
    export();
    cause_fault();
    _exit(78);
}

/* The program's handler calls what was there before it, which is Cairn's, which is put in front of it. */
static void chain_sent_by_default(void)
{
    begin();
    export();
    install(chaining, 0);
    export();
    raise(SIGSEGV);
    _exit(78);
}

static void chain_fault_by_default(void)
{
    begin();
    export();
    install(chaining, 0);
    export();
    cause_fault();
    _exit(78);
}

static void chain_over_handler(void)
{
    install(counting, 0);
    begin();
    export();
    install(chaining, 0);
    export();
    export();
    send_all();
    CHECK(is(3, 3, 6, 6));
    /* The program takes its handler away again. */
    sigaction(SIGSEGV, &before, NULL);
    export();
    send_all();
    CHECK(is(6, 3, 9, 9));
    end();
}

static void chain_over_ignored(void)
{
    signal(SIGSEGV, SIG_IGN);
    begin();
    export();
    install(chaining, 0);
    export();
    send_all();
    CHECK(is(0, 3, 3, 3));
    end();
}

/* As many handlers as a program has: each is found, and those that come again take no further place. */
static void many_handlers(void)
{
    begin();
    for (int round = 0; round < 60; round++) {
        install(counting, round % 2 ? SA_RESTART : 0);
        export();
        raise(SIGSEGV);
    }
    CHECK(is(60, 0, 60, 60));
    install(chaining, 0);
    export();
    raise(SIGSEGV);
    CHECK(is(61, 1, 62, 62));
    end();
}

/* A handler that faults itself ends the process: the signal is blocked while it runs. */
static void faulting(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    if (++seen->first > 1)
        _exit(77);
    cause_fault();
}

static void fault_in_handler(void)
{
    begin();
    install(faulting, 0);
    export();
    cause_fault();
    _exit(78);
}

int main(void)
{
    const int killed = 1000 + SIGSEGV;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(seen != MAP_FAILED);
    GROUP("acl_ipc_15 signals that are sent reach the handler of the program");
    CHECK_EQ(ended(handler_before), 0);
    CHECK_EQ(ended(handler_after), 0);
    CHECK_EQ(ended(plain_handler), 0);
    CHECK_EQ(ended(handler_for_once), killed);
    CHECK(is(1, 0, 1, 1));
    GROUP("acl_ipc_15 signals that are sent end the process by default");
    CHECK_EQ(ended(raise_default), killed);
    CHECK_EQ(ended(kill_default), killed);
    GROUP("acl_ipc_15 signals that are ignored stay ignored, faults do not");
    CHECK_EQ(ended(ignored), 0);
    CHECK_EQ(ended(fault_while_ignored), killed);
    GROUP("acl_ipc_15 a fault ends the process");
    CHECK_EQ(ended(fault_by_default), killed);
    CHECK_EQ(ended(fault_in_handler), killed);
    CHECK_EQ(seen->first, 1);
    GROUP("acl_ipc_15 handlers that call each other end");
    CHECK_EQ(ended(chain_sent_by_default), killed);
    CHECK(is(0, 1, 1, 1));
    CHECK_EQ(ended(chain_fault_by_default), killed);
    CHECK(is(0, 1, 0, 1));
    CHECK_EQ(ended(chain_over_handler), 0);
    CHECK_EQ(ended(chain_over_ignored), 0);
    CHECK_EQ(ended(many_handlers), 0);
    return END();
}

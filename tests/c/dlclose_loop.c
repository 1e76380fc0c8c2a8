// nolink
// links: -ldl
/* Loading and unloading the library in a loop, under several of its names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "acl/acl.h"

static int failures;

#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            failures++; \
            printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
        } \
    } while (0)

typedef aclError (*Init)(const char *);
typedef aclError (*NoArguments)(void);
typedef aclError (*SetDevice)(int32_t);
typedef aclError (*Create)(void **);
typedef aclError (*WithHandle)(void *);
typedef aclError (*Launch)(aclrtStream, aclrtHostFunc, void *);

static void *find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    EXPECT(symbol != NULL);
    return symbol;
}

static void count(void *counter)
{
    __atomic_add_fetch((int *)counter, 1, __ATOMIC_SEQ_CST);
}

static void too_long(int signal_number)
{
    (void)signal_number;
    _exit(99);
}

static const char *const names[] = {"libascendcl.so", "libacl_rt.so", "libruntime.so", "libhccl.so"};

static void load_and_use(int round, int *ran)
{
    void *library = dlopen(names[round % 4], RTLD_NOW | (round & 1 ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!library && round % 4)
        library = dlopen(names[0], RTLD_NOW);
    EXPECT(library != NULL);
    if (!library)
        return;
    void *stream = NULL;
    EXPECT(((Init)find(library, "aclInit"))(NULL) == 0);
    EXPECT(((SetDevice)find(library, "aclrtSetDevice"))(0) == 0);
    EXPECT(((Create)find(library, "aclrtCreateStream"))(&stream) == 0);
    EXPECT(((Launch)find(library, "aclrtLaunchHostFunc"))(stream, count, ran) == 0);
    EXPECT(((WithHandle)find(library, "aclrtSynchronizeStream"))(stream) == 0);
    EXPECT(((WithHandle)find(library, "aclrtDestroyStream"))(stream) == 0);
    if (round % 3 == 0)
        EXPECT(((Launch)find(library, "aclrtLaunchHostFunc"))(NULL, count, ran) == 0);
    if (round % 3 != 1)
        EXPECT(((SetDevice)find(library, "aclrtResetDevice"))(0) == 0);
    EXPECT(((NoArguments)find(library, "aclFinalize"))() == 0);
    EXPECT(dlclose(library) == 0);
}

static void *on_thread(void *ran)
{
    for (int round = 0; round < 5; round++)
        load_and_use(round * 3, ran);
    return NULL;
}

int main(void)
{
    int ran = 0;
    signal(SIGALRM, too_long);
    alarm(100);
    for (int round = 0; round < 200; round++)
        load_and_use(round, &ran);
    EXPECT(ran == 200 + 67);
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        pthread_create(&thread, NULL, on_thread, &ran);
        pthread_join(thread, NULL);
    }
    void *first = dlopen("libascendcl.so", RTLD_NOW), *second = dlopen("libascendcl.so", RTLD_NOW);
    EXPECT(first && first == second && dlsym(first, "aclInit") == dlsym(second, "aclInit"));
    void *other = dlopen("libacl_rt.so", RTLD_NOW);
    if (other)
        EXPECT(dlsym(other, "aclInit") == dlsym(first, "aclInit"));
    printf("%s acl_3_2_8 dlopen and dlclose in a loop\n", failures ? "FAILED" : "ok");
    return failures != 0;
}

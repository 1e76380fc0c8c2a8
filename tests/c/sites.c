// env:
// env: CAIRN_WORKERS=1
/* The log names the call that a task comes from: for an operator the first phase, whichever thread submits it. */
#include "logged.h"
#include "aclnn.h"
#include "aclnnop/aclnn_abs.h"
#include <sys/syscall.h>

static aclrtContext context;
static aclrtStream stream;
static aclOpExecutor *executor;

static void *second_phase(void *argument)
{
    (void)argument;
    CHECK_OK(aclrtSetCurrentContext(context));
    CHECK_OK(aclnnAbs(NULL, 0, executor, stream));
    return NULL;
}

int main(void)
{
    char submitted_by[128];
    float values[4] = {-1, 2, -3, 4};
    uint64_t bytes = 1;
    pthread_t thread;
    log_begin();
    setenv("ASCEND_GLOBAL_LOG_LEVEL", "0", 1);
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtGetCurrentContext(&context));
    CHECK_OK(aclrtCreateStream(&stream));
    void *memory = on_device(values, sizeof values);
    aclTensor *tensor = vector_of(4, memory);

    GROUP("a call is the site of its task");
    CHECK_OK(aclrtMemsetAsync(memory, 4, 0, 4, stream));
    CHECK_EQ(LOGGED("is aclrtMemsetAsync", "submitted by aclrtMemsetAsync"), 1);

    GROUP("the site of an operator is the call of its first phase, with its thread");
    CHECK_OK(aclnnAbsGetWorkspaceSize(tensor, tensor, &bytes, &executor));
    CHECK_EQ(bytes, 0);
    CHECK_EQ(pthread_create(&thread, NULL, second_phase, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    snprintf(submitted_by, sizeof submitted_by, "submitted by aclnnAbsGetWorkspaceSize on thread %ld", syscall(SYS_gettid));
    CHECK_EQ(LOGGED("is aclnnAbs", submitted_by), 1);

    GROUP("a synchronous copy is no task");
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(memory, 2) == 3.0f);
    CHECK_EQ(LOGGED("aclrtMemcpy touched 2 ranges itself", "for aclrtMemcpy on thread"), 2);

    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    log_end();
    return END();
}

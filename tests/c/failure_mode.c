/* What happens after a task failed. */
#include "gate.h"

static Gate gate = GATE_CLOSED;
static void *memory;

/* A task that fails when it runs. */
static void submit_failure(aclrtStream stream, size_t count)
{
    CHECK_OK(aclrtMemsetAsync(memory, count, 1, count, stream));
}

static void continue_mode(void)
{
    aclrtStream stream = NULL, other = NULL;
    int later = 0;
    GROUP("acl_3_2_36 continue, the default: later tasks run, the first failure is reported once");
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&other));
    gate_put(&gate, stream);
    submit_failure(stream, 1000001);
    submit_failure(stream, 2000002);
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &later));
    CHECK_OK(aclrtSynchronizeStream(other));
    gate_open(&gate);
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID, "1000001");
    CHECK_EQ(raised(&later), 1);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtSynchronizeStream(other));

    submit_failure(stream, 3000003);
    CHECK_FAIL(aclrtSynchronizeStreamWithTimeout(stream, 10000), ACL_ERROR_RT_PARAM_INVALID, "3000003");
    CHECK_OK(aclrtSynchronizeStream(stream));
    submit_failure(stream, 4000004);
    CHECK_FAIL(aclrtSynchronizeDevice(), ACL_ERROR_RT_PARAM_INVALID, "4000004");
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_OK(aclrtSynchronizeStream(stream));
    submit_failure(stream, 5000005);
    CHECK_FAIL(aclrtSynchronizeDeviceWithTimeout(10000), ACL_ERROR_RT_PARAM_INVALID, "5000005");
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtDestroyStream(other));
}

static void mode_is_set_once(void)
{
    aclrtStream stream = NULL;
    GROUP("acl_3_2_36 the mode is set once");
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_FAIL(aclrtSetStreamFailureMode(NULL, ACL_STOP_ON_FAILURE), ACL_ERROR_INVALID_PARAM, "stream");
    CHECK_FAIL(aclrtSetStreamFailureMode(stream, 2), ACL_ERROR_RT_PARAM_INVALID, "2");
    CHECK_OK(aclrtSetStreamFailureMode(stream, ACL_CONTINUE_ON_FAILURE));
    CHECK_CODE(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(aclrtSetStreamFailureMode(stream, ACL_CONTINUE_ON_FAILURE), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtDestroyStream(stream));
}

static void stop_in_context(void)
{
    aclrtContext primary = NULL, failing = NULL;
    aclrtStream stream = NULL, second_stream = NULL, other_stream = NULL;
    int later = 0, second_stream_ran = 0, ran = 0;
    GROUP("acl_3_2_36 stop: queued tasks are dropped and the whole context fails");
    CHECK_OK(aclrtGetCurrentContext(&primary));
    CHECK_OK(aclrtCreateStream(&other_stream));
    CHECK_OK(aclrtCreateContext(&failing, 0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&second_stream));
    CHECK_OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
    gate_put(&gate, stream);
    submit_failure(stream, 6000006);
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &later));
    gate_open(&gate);
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID, "6000006");
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(raised(&later), 0);
    CHECK_CODE(aclrtLaunchHostFunc(stream, raise_flag, &later), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_FAIL(aclrtLaunchHostFunc(second_stream, raise_flag, &second_stream_ran), ACL_ERROR_RT_PARAM_INVALID, "6000006");
    CHECK_CODE(aclrtSynchronizeStream(second_stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(aclrtMemsetAsync(memory, 8, 1, 8, NULL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(raised(&second_stream_ran), 0);

    GROUP("acl_3_2_36 other contexts continue");
    CHECK_OK(aclrtSetCurrentContext(primary));
    CHECK_OK(aclrtLaunchHostFunc(other_stream, raise_flag, &ran));
    CHECK_OK(aclrtSynchronizeStream(other_stream));
    CHECK_EQ(raised(&ran), 1);
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtDestroyContext(failing));
    CHECK_OK(aclrtCreateContext(&failing, 0));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    CHECK_OK(aclrtDestroyContext(failing));
    CHECK_OK(aclrtSetCurrentContext(primary));
    CHECK_OK(aclrtDestroyStream(other_stream));
}

static void stop_and_reset(void)
{
    aclrtStream stream = NULL;
    int ran = 0;
    GROUP("acl_3_2_36 resetting the device ends the failure of its primary context");
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
    submit_failure(stream, 7000007);
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(aclrtSynchronizeStream(NULL), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtLaunchHostFunc(NULL, raise_flag, &ran));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    CHECK_EQ(raised(&ran), 1);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMallocAlign32(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    continue_mode();
    mode_is_set_once();
    stop_in_context();
    stop_and_reset();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

/* The error text and the last code of a thread. */
#include "gate.h"

static char folder[] = "/tmp/cairn-errors-XXXXXX";
static char path[256];

static const char *config(const char *text)
{
    snprintf(path, sizeof path, "%s/acl.json", folder);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
    return path;
}

static void no_text_after_success(void)
{
    GROUP("acl_3_2_11 no text after calls that succeed");
    aclrtStream stream = NULL;
    aclrtStreamStatus status;
    void *memory = NULL;
    uint32_t count = 0;
    CHECK_NO_TEXT();
    CHECK_OK(aclInit(NULL));
    CHECK_NO_TEXT();
    CHECK_OK(aclrtGetDeviceCount(&count));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_NO_TEXT();
    CHECK_OK(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemsetAsync(memory, 1 << 20, 1, 1 << 20, stream));
    CHECK_OK(aclrtStreamQuery(stream, &status));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_NO_TEXT();
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_NO_TEXT();
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
}

static void text_is_read_once(void)
{
    GROUP("acl_3_2_9 a failure leaves a text, reading it clears it");
    uint32_t count = 0;
    CHECK_CODE(aclrtGetDeviceCount(NULL), ACL_ERROR_INVALID_PARAM);
    const char *text = aclGetRecentErrMsg();
    CHECK(text && strstr(text, "aclrtGetDeviceCount") && strstr(text, "count"));
    CHECK_NO_TEXT();
    CHECK_NO_TEXT();
    CHECK_CODE(aclrtGetDeviceCount(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_OK(aclrtGetDeviceCount(&count));
    CHECK_TEXT("aclrtGetDeviceCount");
    CHECK_CODE(aclrtGetDeviceCount(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_CODE(aclrtSetDevice(4711), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_TEXT("4711");
    CHECK_NO_TEXT();
    for (int i = 0; i < 100000; i++)
        aclrtSetDevice(-5);
    text = aclGetRecentErrMsg();
    CHECK(text && strlen(text) < 100000);
    CHECK_NO_TEXT();
}

static void fail_on_thread(void *read_text)
{
    CHECK_NO_TEXT();
    CHECK_CODE(aclrtSetDevice(1234), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
    if (*(int *)read_text)
        CHECK_TEXT("1234");
}

static void read_on_thread(void *part)
{
    CHECK_TEXT((const char *)part);
    CHECK_NO_TEXT();
}

static void per_thread(void)
{
    int read_text = 1, leave_text = 0;
    GROUP("acl_3_2_10 texts belong to their thread");
    (void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    on_thread(fail_on_thread, &read_text);
    CHECK_NO_TEXT();
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
    on_thread(fail_on_thread, &leave_text);
    CHECK_NO_TEXT();
    CHECK_OK(aclFinalize());

    GROUP("acl_3_2_10 err_msg_mode 1 shares them in the process");
    CHECK_OK(aclInit(config("{\"err_msg_mode\":\"1\"}")));
    on_thread(fail_on_thread, &leave_text);
    CHECK_TEXT("1234");
    CHECK_NO_TEXT();
    CHECK_CODE(aclrtSetDevice(4321), ACL_ERROR_RT_INVALID_DEVICEID);
    on_thread(read_on_thread, "4321");
    CHECK_NO_TEXT();
    (void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    CHECK_OK(aclFinalize());

    CHECK_OK(aclInit(config("{\"err_msg_mode\":\"0\"}")));
    on_thread(fail_on_thread, &leave_text);
    CHECK_NO_TEXT();
}

static void last_code(void)
{
    GROUP("acl_3_2_12 get clears the last code, peek does not");
    (void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
    CHECK_CODE(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_TEXT("-1");
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_CODE(aclrtGetDeviceCount(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_OK(aclrtSetDevice(0));
    CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
    CHECK_OK(aclrtResetDevice(0));

    GROUP("acl_3_2_12 an unknown level");
    (void)aclGetRecentErrMsg();
    CHECK_FAIL(aclrtPeekAtLastError((aclrtLastErrLevel)3), ACL_ERROR_INVALID_PARAM, "level");
    CHECK_FAIL(aclrtGetLastError((aclrtLastErrLevel)3), ACL_ERROR_INVALID_PARAM, "level");
}

static void fail_in_stream(void *stream)
{
    CHECK_OK(aclrtSetDevice(0));
    CHECK_NO_TEXT();
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_TEXT("aclrtMemsetAsync");
    CHECK_OK(aclrtResetDevice(0));
}

static void from_a_task(void)
{
    GROUP("acl_3_2_9 a task's failure reaches the thread that synchronizes");
    aclrtStream stream = NULL;
    void *memory = NULL;
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMallocAlign32(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMemsetAsync(memory, 1 << 20, 1, 1 << 20, stream));
    on_thread(fail_in_stream, stream);
    CHECK_NO_TEXT();
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
}

int main(void)
{
    if (!mkdtemp(folder))
        abort();
    no_text_after_success();
    text_is_read_once();
    per_thread();
    last_code();
    from_a_task();
    CHECK_OK(aclFinalize());
    unlink(path);
    rmdir(folder);
    return END();
}

/* Starting and ending ACL: configuration files, reference counts, codes for repeated calls. */
#include "gate.h"
#include "logged.h"
#include <sys/stat.h>

static char folder[] = "/tmp/cairn-init-XXXXXX";
static char path[256];

/* Writes a configuration file and gives its path. */
static const char *config(const char *text)
{
    snprintf(path, sizeof path, "%s/acl.json", folder);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
    return path;
}

static void accepts(const char *text)
{
    if (!CHECK_OK(aclInit(config(text))))
        printf("  the configuration was %s\n", text);
    else
        CHECK_OK(aclFinalize());
}

static void refuses(const char *text, int code)
{
    (void)aclGetRecentErrMsg();
    int failed = aclInit(config(text));
    if (!CHECK_CODE(failed, code))
        printf("  the configuration was %.200s\n", text);
    else
        CHECK_TEXT("acl.json");
    if (failed == 0)
        CHECK_OK(aclFinalize());
}

/* `{"x":{"x":...1...}}` or `{"x":[[...]]}` with this depth. */
static char *nested(int braces, int brackets)
{
    char *text = malloc((size_t)braces * 8 + (size_t)brackets * 2 + 16), *end = text;
    for (int i = 0; i < braces; i++)
        end += sprintf(end, "{\"x\":");
    memset(end, '[', (size_t)brackets);
    end += brackets;
    *end++ = '1';
    memset(end, ']', (size_t)brackets);
    end += brackets;
    memset(end, '}', (size_t)braces);
    end += braces;
    *end = 0;
    return text;
}

static void accepts_nested(int braces, int brackets)
{
    char *text = nested(braces, brackets);
    accepts(text);
    free(text);
}

static void refuses_nested(int braces, int brackets)
{
    char *text = nested(braces, brackets);
    refuses(text, ACL_ERROR_PARSE_FILE);
    free(text);
}

static void without_init(void)
{
    GROUP("acl_3_2_6 finalize without init");
    uint64_t left = 77;
    CHECK_FAIL(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE, "aclFinalize");
    CHECK_FAIL(aclFinalizeReference(&left), ACL_ERROR_REPEAT_FINALIZE, "aclFinalizeReference");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclFinalize());
    CHECK_CODE(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
}

static void files(void)
{
    GROUP("acl_3_2_1 NULL, a JSON file, and an empty object");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclFinalize());
    accepts("{}");
    accepts(" {\n}\n");
    accepts("{\"a_key_of_tomorrow\": [1, {\"x\": null}, true]}");

    GROUP("acl_3_2_1 files that cannot be read or parsed");
    char missing[300];
    snprintf(missing, sizeof missing, "%s/missing.json", folder);
    CHECK_FAIL(aclInit(missing), ACL_ERROR_INVALID_FILE, "missing.json");
    CHECK_FAIL(aclInit(folder), ACL_ERROR_INVALID_FILE, folder);
    CHECK_CODE(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    static const char *const bad[] = {
        "{", "}", "{\"a\"}", "{\"a\":1,}", "{} {}", "\xff\xfe{}", "{\"a\":\"\\ud800\"}", "{\"a\":01}", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(bad[i], ACL_ERROR_PARSE_FILE);
    CHECK_CODE(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
}

static void depth(void)
{
    GROUP("acl_3_2_2 at most ten nested braces and ten brackets");
    accepts_nested(10, 0);
    accepts_nested(1, 10);
    accepts_nested(10, 10);
    refuses_nested(11, 0);
    refuses_nested(1, 11);
    refuses_nested(1, 1000000);
    refuses_nested(1000000, 0);
    accepts("{\"x\": \"{{{{{{{{{{{{{[[[[[[[[[[[[[[[\\\"[[\"}");
}

static void references(void)
{
    uint64_t left = 77;
    GROUP("acl_3_2_3 a second init raises the count");
    CHECK_OK(aclInit(NULL));
    CHECK_FAIL(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE, "aclInit");
    CHECK_CODE(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);

    GROUP("acl_3_2_5 aclFinalizeReference counts down");
    CHECK_OK(aclFinalizeReference(&left));
    CHECK_EQ(left, 2);
    CHECK_OK(aclFinalizeReference(NULL));
    CHECK_CODE(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    CHECK_OK(aclFinalizeReference(&left));
    CHECK_EQ(left, 1);
    CHECK_OK(aclFinalizeReference(&left));
    CHECK_EQ(left, 0);
    CHECK_CODE(aclFinalizeReference(&left), ACL_ERROR_REPEAT_FINALIZE);

    GROUP("acl_3_2_4 aclFinalize drops the whole count");
    CHECK_OK(aclInit(NULL));
    CHECK_CODE(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    CHECK_CODE(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    CHECK_OK(aclFinalize());
    CHECK_CODE(aclFinalizeReference(&left), ACL_ERROR_REPEAT_FINALIZE);
    for (int i = 0; i < 100; i++) {
        CHECK_OK(aclInit(NULL));
        CHECK_OK(aclFinalize());
    }
}

static void keys(void)
{
    GROUP("acl_3_2_7 the keys of the configuration");
    accepts(
        "{\"dump\":{\"dump_list\":[{\"model_name\":\"m\",\"layer\":[\"a\",\"b\"]}],"
        "\"dump_path\":\"/tmp\",\"dump_mode\":\"output\",\"dump_op_switch\":\"off\","
        "\"dump_data\":\"tensor\",\"dump_level\":\"op\"}}");
    accepts("{\"dump\":{\"dump_scene\":\"lite_exception\"}}");
    accepts("{\"dump\":{\"dump_path\":\"/tmp\",\"dump_debug\":\"on\"}}");
    accepts("{\"dump\":{\"dump_kernel_data\":\"printf\",\"dump_path\":\"/tmp\"}}");
    accepts("{\"profiler\":{\"switch\":\"off\"}}");
    accepts("{\"max_opqueue_num\":\"10000\"}");
    accepts("{\"err_msg_mode\":\"0\"}");
    accepts("{\"err_msg_mode\":\"1\"}");
    accepts("{\"defaultDevice\":{\"default_device\":\"0\"}}");
    accepts("{\"StackSize\":{\"aicore_stack_size\":32768}}");
    accepts("{\"StackSize\":{\"aicore_stack_size\":65536,\"simt_stack_size\":1024,\"simt_divergence_stack_size\":1024}}");
    accepts("{\"simt_printf_fifo_size\":1048576,\"simd_printf_fifo_size_per_core\":1048576}");

    GROUP("acl_3_2_7 keys without effect leave a warning that names them");
    CHECK(LOGGED("keys taken without effect: dump") > 0);
    CHECK(LOGGED("keys taken without effect: profiler") > 0);
    CHECK(LOGGED("keys taken without effect: max_opqueue_num") > 0);
    CHECK(LOGGED("taken without effect", "StackSize.aicore_stack_size, StackSize.simt_divergence_stack_size") > 0);
    CHECK(LOGGED("unknown keys, taken without effect: a_key_of_tomorrow") > 0);
    CHECK_EQ(LOGGED("taken without effect", "err_msg_mode"), 0);
    CHECK_EQ(LOGGED("taken without effect", "default_device"), 0);

    GROUP("acl_3_2_7 known keys with bad values");
    refuses("{\"max_opqueue_num\":\"many\"}", ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG);
    refuses("{\"err_msg_mode\":\"2\"}", ACL_ERROR_FILE_ATTR_INVALID);
    refuses("{\"defaultDevice\":{\"default_device\":\"first\"}}", ACL_ERROR_FILE_ATTR_INVALID);
    refuses("{\"StackSize\":{\"aicore_stack_size\":1000}}", ACL_ERROR_FILE_ATTR_INVALID);
    refuses("{\"StackSize\":{\"aicore_stack_size\":16384}}", ACL_ERROR_FILE_ATTR_INVALID);
    (void)aclGetRecentErrMsg();
    CHECK_CODE(aclInit(config("{\"err_msg_mode\":\"7\"}")), ACL_ERROR_FILE_ATTR_INVALID);
    CHECK_TEXT("err_msg_mode");
    CHECK_CODE(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
}

static void use_default_device(void *unused)
{
    (void)unused;
    int32_t device = -1;
    void *memory = NULL;
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 1);
    CHECK_OK(aclrtFree(memory));
}

static void default_device(void)
{
    GROUP("acl_3_2_7 defaultDevice gives every thread a device");
    CHECK_OK(aclInit(config("{\"defaultDevice\":{\"default_device\":\"1\"}}")));
    on_thread(use_default_device, NULL);
    on_thread(use_default_device, NULL);
    CHECK_OK(aclFinalize());
}

static void handles_survive(void)
{
    GROUP("acl_3_2_8 handles survive finalize, init works again");
    aclrtStream stream = NULL;
    int flag = 0;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclFinalize());
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(raised(&flag), 1);
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclFinalize());
}

int main(void)
{
    if (!mkdtemp(folder))
        abort();
    log_begin();
    without_init();
    files();
    depth();
    references();
    keys();
    handles_survive();
    default_device();
    config("");
    unlink(path);
    rmdir(folder);
    log_end();
    return END();
}

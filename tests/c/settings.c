// env: CAIRN_DEVICES=0
// env: CAIRN_DEVICES=17
// env: CAIRN_WORKERS=many
// env: CAIRN_DEVICE_MEMORY=big
// env: CAIRN_QUARANTINE=-1
// env: CAIRN_TRACE=/no/such/folder/trace
/* An invalid setting fails every call that needs the runtime; the text names it and its value. */
#include "check.h"

static const char *const names[] = {
    "CAIRN_DEVICES", "CAIRN_WORKERS", "CAIRN_DEVICE_MEMORY", "CAIRN_QUARANTINE", "CAIRN_TRACE"};

int main(void)
{
    uint32_t count = 0;
    void *memory = NULL;
    GROUP("acl_3_2_1 an invalid setting");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (!value)
            continue;
        int code = aclInit(NULL);
        CHECK(code == ACL_ERROR_INVALID_PARAM || code == ACL_ERROR_INVALID_FILE);
        const char *text = aclGetRecentErrMsg();
        if (!CHECK(text && strstr(text, names[i]) && strstr(text, value)))
            printf("  the text: %s\n", text ? text : "(none)");
        CHECK_CODE(aclrtSetDevice(0), code);
        CHECK_CODE(aclrtGetDeviceCount(&count), code);
        CHECK_CODE(aclrtMallocHost(&memory, 64), code);
        CHECK_CODE(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
        CHECK(aclrtGetSocName() == NULL);
    }
    return END();
}

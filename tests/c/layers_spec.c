// env: CAIRN_MEMORY=gard WANT='gard' AT=1 MAYBE=guard,
// env: CAIRN_MEMORY=stats,,guard WANT='' AT=7 MAYBE=stats,
// env: CAIRN_MEMORY=limit WANT='limit' AT=1 MAYBE=limit:8gib
// env: CAIRN_MEMORY=stats,limit:lots WANT='lots' AT=13 MAYBE=8gib
// env: CAIRN_MEMORY=guard:inside WANT='inside' AT=7 MAYBE=external
// env: CAIRN_MEMORY=fault:p=2 WANT='p=2' AT=7 MAYBE=1
// env: CAIRN_MEMORY=fault:often=3 WANT='often=3' AT=7 MAYBE=every=N,
/* An invalid CAIRN_MEMORY fails every call, with a text that says which part is wrong and why. */
#include "check.h"

int main(void)
{
    uint32_t count = 0;
    void *memory = (void *)1;
    char expected[100];
    GROUP("CAIRN_MEMORY: an invalid string");
    snprintf(
        expected, sizeof expected, "CAIRN_MEMORY=%s cannot be used: %s at character %s:", getenv("CAIRN_MEMORY"),
        getenv("WANT"), getenv("AT"));
    CHECK_CODE(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
    const char *text = aclGetRecentErrMsg();
    if (!CHECK(text && strstr(text, expected) && strstr(text, getenv("MAYBE"))))
        printf("  expected: %s, the text: %s\n", expected, text ? text : "(none)");
    CHECK_CODE(aclrtSetDevice(0), ACL_ERROR_INVALID_PARAM);
    CHECK_CODE(aclrtGetDeviceCount(&count), ACL_ERROR_INVALID_PARAM);
    CHECK_FAIL(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM, expected);
    CHECK(memory == NULL);
    return END();
}

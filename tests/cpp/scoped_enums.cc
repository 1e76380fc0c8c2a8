/* The headers as C++ programs use them: enumerators by the name of their type, codes as constants. */
#include "check.h"
#include "acl/acl_op_compiler.h"
#include <type_traits>

static_assert(std::is_same<aclError, int>::value, "a code is an int");
static_assert(ACL_ERROR_REPEAT_INITIALIZE == 100002, "codes are constant expressions");

static const char *code_name(aclError code)
{
    switch (code) {
    case ACL_SUCCESS:
        return "success";
    case ACL_ERROR_INVALID_PARAM:
        return "invalid";
    case ACL_ERROR_RT_CONTEXT_NULL:
        return "no context";
    default:
        return "other";
    }
}

int main()
{
    void *memory = nullptr;
    unsigned char byte = 0;
    GROUP("acl_3_2_52 enumerators named through their type");
    CHECK_OK(aclInit(nullptr));
    CHECK(strcmp(code_name(aclrtSynchronizeDevice()), "no context") == 0);
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMalloc(&memory, 4096, aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemset(memory, 4096, 7, 4096));
    CHECK_OK(aclrtMemcpy(&byte, 1, memory, 1, aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(byte, 7);
    CHECK_OK(aclrtFree(memory));
    CHECK(strcmp(code_name(aclrtMalloc(nullptr, 1, aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_ONLY)), "invalid") == 0);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

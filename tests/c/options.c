/* Options of the process, of a context and of the operator compiler. */
#include "gate.h"
#include "acl/acl_op_compiler.h"

static void context_options(void)
{
    int64_t value = -7;
    aclrtContext context = NULL;
    GROUP("acl_3_2_25 an option of a context must be set first");
    CHECK_FAIL(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), ACL_ERROR_RT_CONTEXT_NULL, "context");
    CHECK_CODE(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_OK(aclrtSetDevice(0));
    for (int opt = 0; opt <= 3; opt++) {
        CHECK_FAIL(
            aclrtCtxGetSysParamOpt((aclSysParamOpt)opt, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
            "aclrtCtxGetSysParamOpt");
        CHECK_OK(aclrtCtxSetSysParamOpt((aclSysParamOpt)opt, opt & 1));
        CHECK_OK(aclrtCtxGetSysParamOpt((aclSysParamOpt)opt, &value));
        CHECK_EQ(value, opt & 1);
    }
    CHECK_OK(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    CHECK_OK(aclrtCreateContext(&context, 0));
    CHECK_CODE(
        aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
    CHECK_OK(aclrtDestroyContext(context));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    CHECK_EQ(value, 1);

    GROUP("acl_3_2_25 options that do not exist");
    CHECK_FAIL(aclrtCtxSetSysParamOpt((aclSysParamOpt)4, 1), ACL_ERROR_RT_PARAM_INVALID, "4");
    CHECK_CODE(aclrtCtxSetSysParamOpt((aclSysParamOpt)-1, 1), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(aclrtCtxGetSysParamOpt((aclSysParamOpt)4, &value), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_FAIL(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL), ACL_ERROR_INVALID_PARAM, "value");
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtResetDevice(0));
}

static void process_options(void)
{
    int64_t value = -7;
    GROUP("acl_3_2_25 the same for the process needs no context");
    for (int opt = 0; opt <= 3; opt++) {
        CHECK_OK(aclrtGetSysParamOpt((aclSysParamOpt)opt, &value));
        CHECK_EQ(value, 0);
        CHECK_OK(aclrtSetSysParamOpt((aclSysParamOpt)opt, 1));
        CHECK_OK(aclrtGetSysParamOpt((aclSysParamOpt)opt, &value));
        CHECK_EQ(value, 1);
        CHECK_OK(aclrtSetSysParamOpt((aclSysParamOpt)opt, 0));
    }
    CHECK_FAIL(aclrtSetSysParamOpt((aclSysParamOpt)4, 1), ACL_ERROR_RT_PARAM_INVALID, "4");
    CHECK_FAIL(aclrtGetSysParamOpt((aclSysParamOpt)99, &value), ACL_ERROR_RT_PARAM_INVALID, "99");
    CHECK_FAIL(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL), ACL_ERROR_INVALID_PARAM, "value");
}

static void compiler_options(void)
{
    GROUP("acl_3_2_25 options of the operator compiler");
    char text[64];
    for (int opt = ACL_PRECISION_MODE; opt <= ACL_OP_DEBUG_OPTION; opt++) {
        char value[32];
        snprintf(value, sizeof value, "value_of_%d", opt);
        CHECK_OK(aclSetCompileopt((aclCompileOpt)opt, value));
        size_t size = aclGetCompileoptSize((aclCompileOpt)opt);
        CHECK_EQ(size, strlen(value) + 1);
        memset(text, 'x', sizeof text);
        CHECK_OK(aclGetCompileopt((aclCompileOpt)opt, text, size));
        CHECK(strcmp(text, value) == 0);
        CHECK_EQ(text[size], 'x');
        CHECK_CODE(aclGetCompileopt((aclCompileOpt)opt, text, size - 1), ACL_ERROR_INVALID_PARAM);
        CHECK_OK(aclGetCompileopt((aclCompileOpt)opt, text, sizeof text));
    }
    CHECK_OK(aclSetCompileopt(ACL_PRECISION_MODE, ""));
    CHECK_FAIL(aclSetCompileopt(ACL_PRECISION_MODE, NULL), ACL_ERROR_INVALID_PARAM, "value");
    CHECK_FAIL(aclSetCompileopt((aclCompileOpt)17, "x"), ACL_ERROR_INVALID_PARAM, "17");
    CHECK_FAIL(aclSetCompileopt((aclCompileOpt)-1, "x"), ACL_ERROR_INVALID_PARAM, "-1");
    CHECK_FAIL(aclGetCompileopt(ACL_PRECISION_MODE, NULL, 10), ACL_ERROR_INVALID_PARAM, "value");
    CHECK_FAIL(aclGetCompileopt((aclCompileOpt)99, text, 64), ACL_ERROR_INVALID_PARAM, "99");
    CHECK_EQ(aclGetCompileoptSize((aclCompileOpt)99), 0);
    CHECK_TEXT("99");
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    process_options();
    context_options();
    compiler_options();
    CHECK_OK(aclFinalize());
    return END();
}

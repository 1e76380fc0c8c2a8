/* Marks of a program for tools: domains, moments, ranges, regions of memory. What is recorded of them: tests/src/pictures.rs. */
#include "check.h"
#include "mstx/ms_tools_ext.h"

static void domains(void)
{
    GROUP("mstx domains are found by their names");
    mstxDomainHandle_t pool = mstxDomainCreateA("pool"), same = mstxDomainCreateA("pool"), other = mstxDomainCreateA("");
    CHECK(pool != NULL && pool == same && other != NULL && other != pool);
    CHECK(mstxDomainCreateA(NULL) == NULL);
    CHECK(strstr(aclGetRecentErrMsg(), "name") != NULL);
    mstxDomainDestroy(other);
    mstxDomainDestroy((mstxDomainHandle_t)(uintptr_t)0x1234);
    CHECK(strstr(aclGetRecentErrMsg(), "0x1234 is not a domain") != NULL);
}

static void ranges(void)
{
    GROUP("mstx ranges have ids of their own, and end once they began");
    mstxDomainHandle_t pool = mstxDomainCreateA("pool");
    mstxRangeId first = mstxRangeStartA("step", NULL), second = mstxDomainRangeStartA(pool, "inner", NULL);
    CHECK(first != MSTX_INVALID_ID && second != MSTX_INVALID_ID && first != second);
    mstxMarkA("here", NULL);
    mstxDomainMarkA(pool, "there", NULL);
    mstxDomainRangeEnd(pool, second);
    mstxRangeEnd(first);
    CHECK(aclGetRecentErrMsg() == NULL);
    CHECK_EQ(mstxRangeStartA(NULL, NULL), MSTX_INVALID_ID);
    CHECK(strstr(aclGetRecentErrMsg(), "message") != NULL);
    mstxRangeEnd(987654321);
    CHECK(strstr(aclGetRecentErrMsg(), "987654321") != NULL);
    mstxRangeEnd(MSTX_INVALID_ID);
    CHECK(aclGetRecentErrMsg() != NULL);
}

static void regions(void)
{
    GROUP("mstx regions of memory");
    mstxDomainHandle_t pool = mstxDomainCreateA("pool");
    char *memory = NULL;
    CHECK_OK(aclrtMalloc((void **)&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    mstxMemVirtualRangeDesc_t whole = {0, memory, 1 << 20}, parts[2] = {{0, memory, 4096}, {0, memory + 8192, 512}};
    mstxMemHeapDesc_t heap = {MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR, MSTX_MEM_TYPE_VIRTUAL_ADDRESS, &whole};
    mstxMemHeapHandle_t handle = mstxMemHeapRegister(pool, &heap);
    CHECK(handle != NULL);
    /* As torch_npu does it: fields that nobody reads are not set, and are not written to. */
    mstxMemRegionsRegisterBatch_t batch;
    memset(&batch, 0xff, sizeof batch);
    batch.regionCount = 2;
    batch.regionDescArray = parts;
    mstxMemRegionsRegister(pool, &batch);
    mstxMemRegionRef_t refs[2] = {{.refType = MSTX_MEM_REGION_REF_TYPE_POINTER, .pointer = memory},
                                  {.refType = MSTX_MEM_REGION_REF_TYPE_POINTER, .pointer = memory + 8192}};
    mstxMemRegionsUnregisterBatch_t ended = {2, refs};
    mstxMemRegionsUnregister(pool, &ended);
    mstxMemHeapUnregister(pool, handle);
    CHECK(aclGetRecentErrMsg() == NULL);

    CHECK(mstxMemHeapRegister(pool, NULL) == NULL);
    CHECK(aclGetRecentErrMsg() != NULL);
    mstxMemRegionsRegister(pool, NULL);
    CHECK(strstr(aclGetRecentErrMsg(), "desc") != NULL);
    batch.regionDescArray = NULL;
    mstxMemRegionsRegister(pool, &batch);
    CHECK(strstr(aclGetRecentErrMsg(), "regionDescArray") != NULL);
    refs[0].refType = MSTX_MEM_REGION_REF_TYPE_HANDLE;
    mstxMemRegionsUnregister(pool, &ended);
    CHECK(strstr(aclGetRecentErrMsg(), "refArray[0].refType 1") != NULL);
    CHECK_OK(aclrtFree(memory));
}

int main(void)
{
    domains();
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    ranges();
    regions();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

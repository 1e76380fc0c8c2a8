// links: -ldl
/*
 * Functions that clients link and Cairn does not implement: each is exported, returns the code for
 * "not supported" or 0, and leaves a text with its name. Arguments are not checked.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <link.h>

typedef uint64_t (*Function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static const char *const with_code[] = {
    "acldumpRegCallback", "acldumpUnregCallback", "aclmdlFinalizeDump", "aclmdlInitDump", "aclmdlSetDump", "aclDestroyGraphDumpOpt",
    "aclGenGraphAndDumpForOp", "aclopCreateKernel", "aclopRegisterCompileFunc", "aclopSetKernelArgs",
    "aclopSetKernelWorkspaceSizes", "aclopUnregisterCompileFunc", "aclopUpdateParams", "aclopStartDumpArgs", "aclopStopDumpArgs", "aclrtBinaryGetFunction",
    "aclrtBinaryLoadFromData", "aclrtGetFunctionAddr", "aclrtProcessReport", "acltdtDestroyChannel", "acltdtDestroyDataset",
    "acltdtGetDimsFromItem", "acltdtReceiveTensor", "rtDevBinaryRegister", "rtFunctionRegister",
    "rtGetC2cCtrlAddr", "rtKernelLaunch", "aclrtMemMapSelectedLink", "aclrtCntNotifyCreate"};

static const char *const of_hccl[] = {
    "HcclAicpuKernelLaunch", "HcclAllocComResource", "HcclAllocComResourceByTiling", "HcclBatchGet", "HcclBatchPut", "HcclChannelAcquire",
    "HcclChannelAcquireWithConfig", "HcclChannelConfigCreate", "HcclChannelConfigDestroy", "HcclChannelConfigSetInt", "HcclChannelConfigSetStr",
    "HcclChannelDestroy", "HcclChannelGetHcclBuffer", "HcclChannelGetRemoteMems", "HcclChannelQuery", "HcclCommAssignCcuIns", "HcclCommBindMem",
    "HcclCommMemReg", "HcclCommPrepare", "HcclCommQueryAssignedCcuIns", "HcclCommQueryCcuIns", "HcclCommUnbindMem", "HcclCreateComResource",
    "HcclCreateOpResCtx", "HcclDedicatedThreadAcquire", "HcclDeregisterGlobalMem", "HcclDeregisterMem", "HcclDisableMemAccess", "HcclEnableMemAccess",
    "HcclEngineCtxCopy", "HcclEngineCtxCreate", "HcclEngineCtxDestroy", "HcclEngineCtxGet", "HcclExchangeMemDesc", "HcclFinalizeComm",
    "HcclGetAicpuOpStreamAndNotify", "HcclGetAicpuOpStreamNotify", "HcclGetHcclBuffer", "HcclGetHcclBufferCleared", "HcclGetHeterogMode",
    "HcclGetTopoDesc", "HcclInitComm", "HcclKfcAllocOpArgs", "HcclKfcFreeOpArgs", "HcclKfcOpArgsSetAlgConfig", "HcclKfcOpArgsSetCommEngine",
    "HcclKfcOpArgsSetCount", "HcclKfcOpArgsSetDstDataType", "HcclKfcOpArgsSetReduceType", "HcclKfcOpArgsSetSrcDataType",
    "HcclRankGraphGetEndpointDesc", "HcclRankGraphGetEndpointInfo", "HcclRankGraphGetEndpointNum", "HcclRankGraphGetInstSizeListByLayer",
    "HcclRankGraphGetLayers", "HcclRankGraphGetLinks", "HcclRankGraphGetRankSizeByLayer", "HcclRankGraphGetRanksByLayer",
    "HcclRankGraphGetRanksByTopoInst", "HcclRankGraphGetTopoInstsByLayer", "HcclRankGraphGetTopoType", "HcclRankGraphGetTopoTypeByLayer",
    "HcclRawAccept", "HcclRawBind", "HcclRawClose", "HcclRawConnect", "HcclRawForceClose", "HcclRawGetCount", "HcclRawImprobe", "HcclRawImrecv",
    "HcclRawImrecvScatter", "HcclRawIsend", "HcclRawListen", "HcclRawOpen", "HcclRawTestSome", "HcclRegisterGlobalMem", "HcclRegisterGlobalMemory",
    "HcclRegisterMem", "HcclRegisterMemory", "HcclRemapRegistedMemory", "HcclSetGrpIdCallback", "HcclSubTeamCreate", "HcclTeamChannelsCreate",
    "HcclTeamDestroy", "HcclTeamWindowDeregister", "HcclTeamWindowRegister", "HcclThreadAcquire", "HcclThreadAcquireWithConfig",
    "HcclThreadAcquireWithStream", "HcclThreadResGetInfo", "HcclUnregisterGlobalMemory", "HcclUnregisterMemory", "HcclWorldTeamCreate",
    "HcomCalcAivCoreNum", "HcomCalcOpOnline", "HcomCalcOpResOffline", "HcomClearAivSyncBuf", "HcomCreateComResourceByComm", "HcomCreateCommCCLbuffer",
    "HcomGenerateCclOpTag", "HcomGetAicpuOpStreamNotify", "HcomGetAlgExecParam", "HcomGetAlgorithm", "HcomGetBandWidthPerNPU",
    "HcomGetCommCCLBufferSize", "HcomGetGroupNameByOpBase", "HcomGetInCCLbuffer", "HcomGetL0TopoTypeEx", "HcomGetMemType", "HcomGetOutCCLbuffer",
    "HcomGetRankSizeEx", "HcomGetServerNumAndDeviceNumPerServer", "HcomGetSplitStrategy", "HcomInitByMasterInfo", "HcomInitByString",
    "HcomMc2AiCpuStreamAllocAndGet", "HcomReleaseSubComms", "HcomSelectAlg", "HcomSetAivCoreLimit", "HcomSetAttachedStream", "HcomSetGlobalWorkSpace",
    "HcomSetProfilingMode", "HcomSetWorkflowMode", "HcomSetWorkspaceResource", "HcomSupportDeterministicOptim", "HcomTbeMemClean", "HcomUnloadTask",
    "HcommAclrtNotifyRecordOnThread", "HcommAclrtNotifyWaitOnThread", "HcommAcquireComm", "HcommAicpuTsTaskCacheClear", "HcommAicpuTsTaskCacheEnd",
    "HcommAicpuTsTaskCacheExecute", "HcommAicpuTsTaskCacheLookup", "HcommAicpuTsTaskCacheStart", "HcommBatchModeEnd", "HcommBatchModeStart",
    "HcommBatchTransferOnThread", "HcommChannelConfigCreate", "HcommChannelConfigDestroy", "HcommChannelConfigSetInt", "HcommChannelCreate",
    "HcommChannelCreateWithConfig", "HcommChannelDestroy", "HcommChannelDrainOnThread", "HcommChannelFence", "HcommChannelFenceOnThread",
    "HcommChannelGetStatus", "HcommChannelNotifyRecord", "HcommChannelNotifyRecordOnThread", "HcommChannelNotifyWait",
    "HcommChannelNotifyWaitOnThread", "HcommChannelNotifyWaitOnThreadWithDefaultTimeout", "HcommEndpointCheckFeature", "HcommEndpointCreate",
    "HcommEndpointDestroy", "HcommEndpointGetDescNum", "HcommEndpointGetDescs", "HcommEndpointGetListenPort", "HcommFenceOnThread",
    "HcommLocalCopyOnThread", "HcommLocalReduceOnThread", "HcommMemExport", "HcommMemImport", "HcommMemReg", "HcommMemUnimport", "HcommMemUnreg",
    "HcommReadNbi", "HcommReadNbiOnThread", "HcommReadOnThread", "HcommReadReduceOnThread", "HcommReleaseComm", "HcommSetNotifyWaitTimeOut",
    "HcommThreadAlloc", "HcommThreadFree", "HcommThreadNotifyRecordOnThread", "HcommThreadNotifyWaitOnThread",
    "HcommThreadNotifyWaitOnThreadWithDefaultTimeout", "HcommThreadResAcquireTimeOut", "HcommThreadResGetInfo", "HcommWriteNbi",
    "HcommWriteNbiOnThread", "HcommWriteOnThread", "HcommWriteReduceOnThread", "HcommWriteReduceWithNotifyOnThread", "HcommWriteWithNotifyNbi",
    "HcommWriteWithNotifyNbiOnThread", "HcommWriteWithNotifyOnThread"};

/* torch_npu raises with this code, and goes on with the other. */
static const char *const not_there[] = {
    "aclmdlRICaptureBegin", "aclmdlRIExecuteAsync", "aclprofInit", "aclrtGetDeviceUtilizationRate", "aclrtDeviceTaskAbort", "aclrtSubscribeReport",
    "aclrtLaunchKernelWithHostArgs", "aclrtMemAllocManaged", "aclblasGemmEx"};

static const char *const with_zero[] = {
    "aclCreateGraphDumpOpt",
    "acltdtCreateChannelWithCapacity", "acltdtCreateDataset", "acltdtGetDataAddrFromItem",
    "acltdtGetDataItem", "acltdtGetDataSizeFromItem", "acltdtGetDatasetSize", "acltdtGetDimNumFromItem"};

static const char *const with_failure[] = {
    "acltdtGetDataTypeFromItem"};

/* Calls a function by name, with zeros for arguments. */
static uint64_t call(const char *name)
{
    Function function = (Function)dlsym(RTLD_DEFAULT, name);
    (void)aclGetRecentErrMsg();
    if (!CHECK(function != NULL)) {
        printf("  %s is not exported\n", name);
        return 0;
    }
    return function(0, 0, 0, 0, 0, 0);
}

/* The first line of the message says that Cairn is what lacks the function. */
static void says_so(const char *name)
{
    char expected[200];
    const char *text = aclGetRecentErrMsg(), *suffix = strstr(name, "GetWorkspaceSize");
    int length = suffix ? (int)(suffix - name) : (int)strlen(name);
    snprintf(expected, sizeof expected, "Cairn lacks %.*s: ", length, name);
    if (!CHECK(text != NULL && strncmp(text, expected, strlen(expected)) == 0))
        printf("  it says: %s\n", text ? text : "nothing");
}

/* What would allocate leaves no address behind. */
static void no_allocation(void)
{
    static const char *const names[] = {"aclrtAllocBuf", "aclrtMallocForTaskScheduler", "aclrtMemAllocManaged"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *address = (void *)names;
        Function function = (Function)dlsym(RTLD_DEFAULT, names[i]);
        (void)aclGetRecentErrMsg();
        CHECK(function != NULL && function((uintptr_t)&address, 4096, 0, 0, 0, 0) == ACL_ERROR_API_NOT_SUPPORT);
        CHECK(address == NULL);
        says_so(names[i]);
    }
}

#define EACH(list, body) \
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) { \
        uint64_t result = call(list[i]); \
        int before = check_failures; \
        body; \
        says_so(list[i]); \
        if (check_failures != before) \
            printf("  by %s\n", list[i]); \
    }

/* Those of the list that the library itself keeps, a line each: a code, NULL or 0. Not those of models that check their arguments first
 * (mdl_absent.c). */
static void each_of_the_list(void)
{
    const char *line = (const char *)dlsym(RTLD_DEFAULT, "cairn_refused");
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;
    int count = 0;
    if (!CHECK(line != NULL && dladdr1(line, &info, (void **)&symbol, RTLD_DL_SYMENT) != 0 && symbol != NULL))
        return;
    for (const char *end = line + symbol->st_size, *next; line < end; line = next) {
        char name[128];
        next = (const char *)memchr(line, '\n', (size_t)(end - line)) + 1;
        snprintf(name, sizeof name, "%.*s", (int)(next - line) - 1, line);
        if (strncmp(name, "aclmdl", 6) == 0 && strncmp(name, "aclmdlRI", 8) != 0)
            continue;
        int result = (int)call(name);
        if (!CHECK(result == 0 || result == ACL_ERROR_API_NOT_SUPPORT || result == ACL_ERROR_RT_FEATURE_NOT_SUPPORT || result == 5 || result == -1 ||
                   (result == 561003 && strncmp(name, "aclnn", 5) == 0)))
            printf("  %s is %d\n", name, result);
        says_so(name);
        count++;
    }
    CHECK(count > 400);
}

int main(void)
{
    GROUP("acl_3_2_64 functions that are not implemented fail with a text");
    EACH(with_code, CHECK_EQ((int)result, ACL_ERROR_RT_FEATURE_NOT_SUPPORT));
    EACH(of_hccl, CHECK_EQ((int)result, 5));
    EACH(with_zero, CHECK_EQ(result, 0));
    EACH(with_failure, CHECK((int)result != 0));
    CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    EACH(not_there, CHECK_EQ((int)result, ACL_ERROR_API_NOT_SUPPORT));
    CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_API_NOT_SUPPORT);
    no_allocation();
    each_of_the_list();
    return END();
}

//! Functions that clients link, or look up, but that Cairn does not have yet. Each answers with the code that makes them stop
//! or go on without it as they would on a device that lacks it, says so once in the log, and is listed in `docs/coverage.md`.

use crate::door;
use crate::message;
use crate::process;
use cairn_runtime::error::Code;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// Defines functions by what they return, now and in a forked child; one of C that returns nothing returns a code
/// that nobody reads. Those after `elsewhere` are defined in other files:
/// they check their arguments and then fail. `allocations` write null to their first argument.
macro_rules! unsupported {
    (elsewhere $($checked:ident)*; allocations $($allocation:ident)*; $($code:ident $returns:ty = $answer:expr, forked $forked:expr; $($name:ident)*;)*) => {
        $($(
            /// Not supported yet. Arguments are not read, so none are declared.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> $returns {
                static IS_LOGGED: AtomicBool = AtomicBool::new(false);
                if process::forked() {
                    return $forked;
                }
                report(stringify!($name), Code::$code as i32, &IS_LOGGED);
                $answer
            }
        )*)*
        $(
            /// Not supported yet. The caller's address becomes null; other arguments are not read.
            #[unsafe(no_mangle)]
            pub extern "C" fn $allocation(out: *mut *mut c_void) -> c_int {
                static IS_LOGGED: AtomicBool = AtomicBool::new(false);
                if process::forked() {
                    return Code::RtInternal as c_int;
                }
                if !out.is_null() {
                    // SAFETY: not null; the user passes room for an address. If it is none, the failure says enough.
                    let _ = unsafe { door::write(out, "the address", std::ptr::null_mut()) };
                }
                report(stringify!($allocation), API, &IS_LOGGED);
                API
            }
        )*
        /// Every function that is not supported, by name.
        pub const NAMES: &[&str] =
            &[$($(stringify!($name),)*)* $(stringify!($checked),)* $(stringify!($allocation),)*];
        const LINES: &str = concat!(
            $($(stringify!($name), "\n",)*)* $(stringify!($checked), "\n",)* $(stringify!($allocation), "\n",)*
        );
    };
}

/// Every function here, a line each: `cairn doctor` reads it from the file.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static cairn_refused: [u8; LINES.len()] = {
    let mut bytes = [0; LINES.len()];
    bytes.copy_from_slice(LINES.as_bytes());
    bytes
};

/// True if the function only says that it is not supported.
pub fn is_listed(name: &str) -> bool {
    NAMES.contains(&name)
}

/// True if a function that failed with this code only said that it is not supported.
pub fn is_absent(name: &str, code: i32) -> bool {
    let codes = [Code::FeatureNotSupport, Code::ApiNotSupported, Code::OperatorKernel];
    codes.iter().any(|&absent| absent as i32 == code) && is_listed(name)
}

/// Keeps the failure for the thread, and logs it once.
fn report(name: &str, code: i32, is_logged: &AtomicBool) {
    let text = "it is not supported yet, docs/coverage.md lists what works";
    door::set_last_code(code);
    message::keep(name, code, text);
    if !is_logged.swap(true, Ordering::Relaxed) {
        cairn_runtime::logs::install();
        log::error!("Cairn lacks {name}: {text}");
    }
}

/// `HCCL_E_NOT_SUPPORT`.
const HCCL: c_int = 5;
/// `HCCL_E_INTERNAL`.
const HCCL_FORKED: c_int = 4;
/// CANN's code of the runtime. torch_npu takes it for a device that is too old, warns, and goes on.
const ACL: c_int = Code::FeatureNotSupport as c_int;
/// CANN's code of functions that are not there. torch_npu raises.
const API: c_int = Code::ApiNotSupported as c_int;
/// The code of operators whose kernel is not found. Those that torch_npu uses only if they are there, and else does without, are absent:
/// it looks for a newer version of a function before it takes an older one.
const KERNEL: c_int = Code::OperatorKernel as c_int;

unsupported! {
    elsewhere
        aclmdlBundleGetModelId aclmdlBundleGetModelNum aclmdlBundleGetSize aclmdlBundleInitFromFile aclmdlBundleInitFromMem
        aclmdlBundleLoadFromFile aclmdlBundleLoadFromMem aclmdlBundleLoadModel aclmdlBundleLoadModelWithConfig
        aclmdlBundleLoadModelWithMem aclmdlBundleQueryInfoFromFile aclmdlBundleQueryInfoFromMem aclmdlBundleUnload
        aclmdlBundleUnloadModel aclmdlCreateAndGetOpDesc aclmdlLoadFromFileWithQ
        aclmdlLoadFromMemWithQ aclmdlSetAIPPByInputIndex aclmdlSetInputAIPP;
    allocations
        aclrtAllocBuf aclrtMallocForTaskScheduler aclrtMemAllocManaged;
    FeatureNotSupport c_int = ACL, forked Code::RtInternal as c_int;
        aclDestroyGraphDumpOpt aclGenGraphAndDumpForOp acldumpRegCallback acldumpUnregCallback aclRecoverAllHcclTasks aclmdlFinalizeDump aclmdlInitDump
        aclmdlQueryExeOMDesc aclmdlSetDump
        aclopCreateKernel aclopRegisterCompileFunc aclopSetKernelArgs aclopSetKernelWorkspaceSizes
        aclopStartDumpArgs aclopStopDumpArgs aclopUnregisterCompileFunc aclopUpdateParams
        aclrtBinaryGetFunction aclrtBinaryLoadFromData aclrtGetFunctionAddr aclrtProcessReport
        acltdtDestroyChannel acltdtDestroyDataset
        acltdtGetDimsFromItem acltdtReceiveTensor rtDevBinaryRegister rtFunctionRegister
        rtGetC2cCtrlAddr rtKernelLaunch
        aclrtCntNotifyCreate aclrtCntNotifyDestroy aclrtCntNotifyGetId aclrtCntNotifyRecord aclrtCntNotifyReset aclrtCntNotifyWaitWithTimeout
        aclrtIpcMemImportPidInterServer aclrtMemMapSelectedLink aclrtMemMapSetLink aclrtNotifySetImportPidInterServer;
    FeatureNotSupport c_int = HCCL, forked HCCL_FORKED;
        HcclAicpuKernelLaunch HcclAllocComResource HcclAllocComResourceByTiling HcclBatchGet HcclBatchPut HcclChannelAcquire
        HcclChannelAcquireWithConfig HcclChannelConfigCreate HcclChannelConfigDestroy HcclChannelConfigSetInt HcclChannelConfigSetStr
        HcclChannelDestroy HcclChannelGetHcclBuffer HcclChannelGetRemoteMems HcclChannelQuery HcclCommAssignCcuIns HcclCommBindMem HcclCommMemReg
        HcclCommPrepare HcclCommQueryAssignedCcuIns HcclCommQueryCcuIns HcclCommUnbindMem HcclCreateComResource HcclCreateOpResCtx
        HcclDedicatedThreadAcquire HcclDeregisterGlobalMem HcclDeregisterMem HcclDisableMemAccess HcclEnableMemAccess HcclEngineCtxCopy
        HcclEngineCtxCreate HcclEngineCtxDestroy HcclEngineCtxGet HcclExchangeMemDesc HcclFinalizeComm HcclGetAicpuOpStreamAndNotify
        HcclGetAicpuOpStreamNotify HcclGetHcclBuffer HcclGetHcclBufferCleared HcclGetHeterogMode HcclGetTopoDesc HcclInitComm HcclKfcAllocOpArgs
        HcclKfcFreeOpArgs HcclKfcOpArgsSetAlgConfig HcclKfcOpArgsSetCommEngine HcclKfcOpArgsSetCount HcclKfcOpArgsSetDstDataType
        HcclKfcOpArgsSetReduceType HcclKfcOpArgsSetSrcDataType HcclRankGraphGetEndpointDesc HcclRankGraphGetEndpointInfo HcclRankGraphGetEndpointNum
        HcclRankGraphGetInstSizeListByLayer HcclRankGraphGetLayers HcclRankGraphGetLinks HcclRankGraphGetRankSizeByLayer HcclRankGraphGetRanksByLayer
        HcclRankGraphGetRanksByTopoInst HcclRankGraphGetTopoInstsByLayer HcclRankGraphGetTopoType HcclRankGraphGetTopoTypeByLayer HcclRawAccept
        HcclRawBind HcclRawClose HcclRawConnect HcclRawForceClose HcclRawGetCount HcclRawImprobe HcclRawImrecv HcclRawImrecvScatter HcclRawIsend
        HcclRawListen HcclRawOpen HcclRawTestSome HcclRegisterGlobalMem HcclRegisterGlobalMemory HcclRegisterMem HcclRegisterMemory
        HcclRemapRegistedMemory HcclSetGrpIdCallback HcclSubTeamCreate HcclTeamChannelsCreate HcclTeamDestroy HcclTeamWindowDeregister
        HcclTeamWindowRegister HcclThreadAcquire HcclThreadAcquireWithConfig HcclThreadAcquireWithStream HcclThreadResGetInfo
        HcclUnregisterGlobalMemory HcclUnregisterMemory HcclWorldTeamCreate HcomCalcAivCoreNum HcomCalcOpOnline HcomCalcOpResOffline
        HcomClearAivSyncBuf HcomCreateComResourceByComm HcomCreateCommCCLbuffer HcomGenerateCclOpTag HcomGetAicpuOpStreamNotify HcomGetAlgExecParam
        HcomGetAlgorithm HcomGetBandWidthPerNPU HcomGetCommCCLBufferSize HcomGetGroupNameByOpBase HcomGetInCCLbuffer HcomGetL0TopoTypeEx
        HcomGetMemType HcomGetOutCCLbuffer HcomGetRankSizeEx HcomGetServerNumAndDeviceNumPerServer HcomGetSplitStrategy HcomInitByMasterInfo
        HcomInitByString HcomMc2AiCpuStreamAllocAndGet HcomReleaseSubComms HcomSelectAlg HcomSetAivCoreLimit HcomSetAttachedStream HcomSetAutoTuneMode
        HcomSetDumpDebugMode HcomSetGlobalWorkSpace HcomSetLaunchKernelMode HcomSetProfilingMode HcomSetWorkflowMode HcomSetWorkspaceResource
        HcomSupportDeterministicOptim HcomTbeMemClean HcomTopoInfoRegCallback HcomUnloadTask HcommAclrtNotifyRecordOnThread
        HcommAclrtNotifyWaitOnThread HcommAcquireComm HcommAicpuTsTaskCacheClear HcommAicpuTsTaskCacheEnd HcommAicpuTsTaskCacheExecute
        HcommAicpuTsTaskCacheLookup HcommAicpuTsTaskCacheStart HcommBatchModeEnd HcommBatchModeStart HcommBatchTransferOnThread
        HcommChannelConfigCreate HcommChannelConfigDestroy HcommChannelConfigSetInt HcommChannelCreate HcommChannelCreateWithConfig
        HcommChannelDestroy HcommChannelDrainOnThread HcommChannelFence HcommChannelFenceOnThread HcommChannelGetStatus HcommChannelNotifyRecord
        HcommChannelNotifyRecordOnThread HcommChannelNotifyWait HcommChannelNotifyWaitOnThread HcommChannelNotifyWaitOnThreadWithDefaultTimeout
        HcommEndpointCheckFeature HcommEndpointCreate HcommEndpointDestroy HcommEndpointGetDescNum HcommEndpointGetDescs HcommEndpointGetListenPort
        HcommFenceOnThread HcommLocalCopyOnThread HcommLocalReduceOnThread HcommMemExport HcommMemImport HcommMemReg HcommMemUnimport HcommMemUnreg
        HcommReadNbi HcommReadNbiOnThread HcommReadOnThread HcommReadReduceOnThread HcommReleaseComm HcommSetNotifyWaitTimeOut HcommThreadAlloc
        HcommThreadFree HcommThreadNotifyRecordOnThread HcommThreadNotifyWaitOnThread HcommThreadNotifyWaitOnThreadWithDefaultTimeout
        HcommThreadResAcquireTimeOut HcommThreadResGetInfo HcommWriteNbi HcommWriteNbiOnThread HcommWriteOnThread HcommWriteReduceOnThread
        HcommWriteReduceWithNotifyOnThread HcommWriteWithNotifyNbi HcommWriteWithNotifyNbiOnThread HcommWriteWithNotifyOnThread;
    FeatureNotSupport bool = false, forked false;
        HcomGetSecAddrCopyFlag;
    FeatureNotSupport *mut c_void = std::ptr::null_mut(), forked std::ptr::null_mut();
        aclCreateGraphDumpOpt acltdtCreateChannelWithCapacity acltdtCreateDataset acltdtGetDataAddrFromItem
        acltdtGetDataItem;
    FeatureNotSupport u64 = 0, forked 0;
        MsprofGetHashId MsprofSysCycleTime acltdtGetDataSizeFromItem acltdtGetDatasetSize
        acltdtGetDimNumFromItem;
    FeatureNotSupport c_int = -1, forked -1;
        MsprofRegisterCallback MsprofReportAdditionalInfo MsprofReportApi MsprofReportCompactInfo
        acltdtGetDataTypeFromItem;
    ApiNotSupported c_int = API, forked Code::RtInternal as c_int;
        aclFinalizeCallbackRegister aclFinalizeCallbackUnRegister aclInitCallbackRegister aclInitCallbackUnRegister aclblasCreateHandleForGemmEx
        aclblasCreateHandleForGemvEx aclblasCreateHandleForHgemm aclblasCreateHandleForHgemv aclblasCreateHandleForS8gemm aclblasCreateHandleForS8gemv
        aclblasGemmEx aclblasGemvEx aclblasHgemm aclblasHgemv aclblasS8gemm aclblasS8gemv acldumpGetExceptionInfoPath acldumpSaveExceptionInfo
        aclmdlRIAbort aclmdlRIAddCondTask aclmdlRIBindStream aclmdlRIBuildBegin aclmdlRIBuildEnd aclmdlRICaptureBegin aclmdlRICaptureEnd
        aclmdlRICaptureTaskGrpBegin aclmdlRICaptureTaskGrpEnd aclmdlRICaptureTaskUpdateBegin aclmdlRICaptureTaskUpdateEnd
        aclmdlRICaptureToModelRIBegin aclmdlRICondHandleCreate aclmdlRICondHandleGetCondPtr aclmdlRIDebugJsonPrint aclmdlRIDebugPrint aclmdlRIDestroy
        aclmdlRIDestroyRegisterCallback aclmdlRIDestroyUnregisterCallback aclmdlRIEndTask aclmdlRIExecute aclmdlRIExecuteAsync aclmdlRIGetId
        aclmdlRIGetName aclmdlRIGetStreams aclmdlRIGetTasksByStream aclmdlRIKernelTaskGetAttribute aclmdlRISetName aclmdlRITaskDisable
        aclmdlRITaskGetParams aclmdlRITaskGetSeqId aclmdlRITaskGetType aclmdlRITaskSetParams aclmdlRIUnbindStream aclmdlRIUpdate
        aclplatformGetDeviceInfo aclplatformGetInstructionInfo aclprofDestroyConfig aclprofDestroyStamp aclprofDestroyStepInfo
        aclprofDestroySubscribeConfig aclprofFinalize aclprofGetOpDescSize aclprofGetOpName aclprofGetOpNameLen aclprofGetOpNum aclprofGetOpType
        aclprofGetOpTypeLen aclprofGetStepTimestamp aclprofInit aclprofMark aclprofMarkEx aclprofModelSubscribe aclprofModelUnSubscribe aclprofPop
        aclprofPush aclprofRangePop aclprofRangePushEx aclprofRangeStart aclprofRangeStop aclprofSetConfig aclprofSetStampTraceMessage aclprofStart
        aclprofStop aclrtActiveStream aclrtAppendBufChain aclrtBinaryGetDevAddress aclrtBinaryGetFunctionByEntry aclrtBinaryGetGlobal
        aclrtBinaryLoad aclrtBinaryLoadFromFile aclrtBinarySetExceptionCallback aclrtBinaryUnLoad aclrtCacheLastTaskExtendInfo
        aclrtCacheLastTaskOpInfo aclrtCheckArchCompatibility aclrtCheckMemType aclrtCmoAsyncWithBarrier aclrtCmoWaitBarrier aclrtCopyBufRef
        aclrtCreateLabel aclrtCreateLabelList aclrtCtxGetFloatOverflowAddr aclrtDestroyBinary aclrtDestroyGroupInfo aclrtDestroyLabel
        aclrtDestroyLabelList aclrtDeviceGetByPCIBusId aclrtDeviceGetHostAtomicCapabilities aclrtDeviceGetLimit aclrtDeviceGetP2PAtomicCapabilities
        aclrtDeviceGetPCIBusId aclrtDeviceL2CacheFlush aclrtDeviceSetLimit aclrtDeviceTaskAbort aclrtExceptionInfoCallbackRegister
        aclrtExceptionInfoCallbackUnregister aclrtFreeBuf aclrtFunctionGetAvailDynUbufPerBlock aclrtFunctionGetBinary aclrtFunctionGetParamCount
        aclrtFunctionGetParamInfo aclrtGetAllGroupInfo aclrtGetArgsFromExceptionInfo aclrtGetBufChainNum aclrtGetBufData aclrtGetBufDataLen
        aclrtGetBufFromChain aclrtGetBufUserData aclrtGetDeviceUtilizationRate aclrtGetDevicesTopo aclrtGetFuncBySymbol
        aclrtGetFuncHandleFromExceptionInfo aclrtGetFunctionAttribute aclrtGetFunctionName aclrtGetFunctionSize aclrtGetGroupCount
        aclrtGetGroupInfoDetail aclrtGetHardwareSyncAddr aclrtGetSymbolAddress aclrtGetSymbolSize aclrtGetThreadLastTaskId aclrtKernelArgsAppend
        aclrtKernelArgsAppendPlaceHolder aclrtKernelArgsFinalize aclrtKernelArgsGetHandleMemSize aclrtKernelArgsGetMemSize
        aclrtKernelArgsGetPlaceHolderBuffer aclrtKernelArgsInit aclrtKernelArgsInitByUserMem aclrtKernelArgsParaUpdate aclrtLaunchCallback
        aclrtLaunchKernel aclrtLaunchKernelV2 aclrtLaunchKernelWithArgsArray aclrtLaunchKernelWithConfig aclrtLaunchKernelWithHostArgs
        aclrtLaunchSIMTKernelWithArgsArray aclrtLaunchSIMTKernelWithHostArgs aclrtMemManagedAdvise
        aclrtMemManagedGetAttr aclrtMemManagedGetAttrs aclrtMemManagedPrefetchAsync aclrtMemManagedPrefetchBatchAsync aclrtMemP2PMap
        aclrtMemcpyFromSymbol aclrtMemcpyFromSymbolAsync aclrtMemcpyToSymbol aclrtMemcpyToSymbolAsync aclrtPersistentTaskClean aclrtProcessHostFunc
        aclrtProfTrace aclrtRecordEventWithFlag aclrtRegisterCpuFunc aclrtSetBufDataLen aclrtSetBufUserData aclrtSetDeviceTaskAbortCallback
        aclrtSetExceptionInfoCallback aclrtSetGroup aclrtSetLabel aclrtSetTsDevice aclrtSnapShotCallbackRegister aclrtSnapShotCallbackUnregister
        aclrtSnapShotProcessBackup aclrtSnapShotProcessLock aclrtSnapShotProcessRestore aclrtSnapShotProcessUnlock aclrtStreamStop
        aclrtStreamWaitEventWithFlag aclrtSubscribeHostFunc aclrtSubscribeReport aclrtSwitchLabelByIndex aclrtSwitchStream aclrtTaskUpdateAsync
        aclrtUnSubscribeHostFunc aclrtUnSubscribeReport acltdtAddDataItem acltdtAddQueueRoute acltdtAllocBuf acltdtAppendBufChain acltdtAttachQueue
        acltdtBindQueueRoutes acltdtCleanChannel acltdtCopyBufRef acltdtCreateQueue acltdtDequeue acltdtDequeueData acltdtDestroyDataItem
        acltdtDestroyQueue acltdtDestroyQueueAttr acltdtDestroyQueueRoute acltdtDestroyQueueRouteList acltdtDestroyQueueRouteQueryInfo acltdtEnqueue
        acltdtEnqueueData acltdtFreeBuf acltdtGetBufChainNum acltdtGetBufData acltdtGetBufDataLen acltdtGetBufFromChain acltdtGetBufUserData
        acltdtGetQueueAttr acltdtGetQueueRoute acltdtGetQueueRouteParam acltdtGetSliceInfoFromItem acltdtGrantQueue acltdtQueryChannelSize
        acltdtQueryQueueRoutes acltdtSendTensor acltdtSetBufDataLen acltdtSetBufUserData acltdtSetQueueAttr acltdtSetQueueRouteQueryInfo
        acltdtStopChannel acltdtUnbindQueueRoutes;
    ApiNotSupported *mut c_void = std::ptr::null_mut(), forked std::ptr::null_mut();
        acldumpGetPath aclprofCreateConfig aclprofCreateStamp aclprofCreateStepInfo aclprofCreateSubscribeConfig aclprofGetOpAttriValue
        aclrtCreateBinary aclrtCreateGroupInfo acltdtCreateChannel acltdtCreateDataItem acltdtCreateQueueAttr acltdtCreateQueueRoute
        acltdtCreateQueueRouteList acltdtCreateQueueRouteQueryInfo acltdtGetDatasetName;
    ApiNotSupported u64 = 0, forked 0;
        aclprofGetModelId aclprofGetOpDuration aclprofGetOpEnd aclprofGetOpFlag aclprofGetOpStart aclprofStr2Id aclrtGetDeviceIdFromExceptionInfo
        aclrtGetErrorCodeFromExceptionInfo aclrtGetStreamIdFromExceptionInfo aclrtGetTaskIdFromExceptionInfo aclrtGetThreadIdFromExceptionInfo
        acltdtGetQueueRouteNum acltdtGetTensorTypeFromItem;
    OperatorKernel c_int = KERNEL, forked Code::RtInternal as c_int;
        aclnnAddLora aclnnAddLoraGetWorkspaceSize aclnnAddRmsNormDynamicQuantV2 aclnnAddRmsNormDynamicQuantV2GetWorkspaceSize aclnnAddRmsNormQuant
        aclnnAddRmsNormQuantGetWorkspaceSize aclnnAddmmWeightNz aclnnAddmmWeightNzGetWorkspaceSize aclnnAlltoAllQuantMatmul
        aclnnAlltoAllQuantMatmulGetWorkspaceSize aclnnAlltoAllvGroupedMatMul aclnnAlltoAllvGroupedMatMulGetWorkspaceSize
        aclnnAlltoAllvQuantGroupedMatMul aclnnAlltoAllvQuantGroupedMatMulGetWorkspaceSize aclnnAntiMxQuant aclnnAntiMxQuantGetWorkspaceSize
        aclnnAscendAntiQuant aclnnAscendAntiQuantGetWorkspaceSize aclnnAscendQuant aclnnAscendQuantGetWorkspaceSize aclnnAttentionToFFN
        aclnnAttentionToFFNGetWorkspaceSize aclnnAttentionWorkerCombine aclnnAttentionWorkerCombineGetWorkspaceSize aclnnBatchMatMulWeightNz
        aclnnBatchMatMulWeightNzGetWorkspaceSize aclnnBlockSparseAttention aclnnBlockSparseAttentionGetWorkspaceSize aclnnBlockSparseAttentionGrad
        aclnnBlockSparseAttentionGradGetWorkspaceSize aclnnDequantBias aclnnDequantBiasGetWorkspaceSize aclnnDequantRopeQuantKvcache
        aclnnDequantRopeQuantKvcacheGetWorkspaceSize aclnnDequantSwigluQuant aclnnDequantSwigluQuantGetWorkspaceSize aclnnDualLevelQuantMatmulWeightNz
        aclnnDualLevelQuantMatmulWeightNzGetWorkspaceSize aclnnDynamicBlockMxQuant aclnnDynamicBlockMxQuantGetWorkspaceSize aclnnDynamicBlockQuant
        aclnnDynamicBlockQuantGetWorkspaceSize aclnnDynamicDualLevelMxQuant aclnnDynamicDualLevelMxQuantGetWorkspaceSize aclnnDynamicMxQuant
        aclnnDynamicMxQuantGetWorkspaceSize aclnnDynamicMxQuantWithDualAxis aclnnDynamicMxQuantWithDualAxisGetWorkspaceSize aclnnDynamicQuant
        aclnnDynamicQuantGetWorkspaceSize aclnnFFNToAttention aclnnFFNToAttentionGetWorkspaceSize aclnnFakeQuantPerChannelAffineCachemask
        aclnnFakeQuantPerChannelAffineCachemaskGetWorkspaceSize aclnnFakeQuantPerTensorAffineCachemask
        aclnnFakeQuantPerTensorAffineCachemaskGetWorkspaceSize aclnnFfnWorkerBatching aclnnFfnWorkerBatchingGetWorkspaceSize aclnnFlatQuant
        aclnnFlatQuantGetWorkspaceSize aclnnFusedFloydAttention aclnnFusedFloydAttentionGetWorkspaceSize aclnnFusedFloydAttentionGrad
        aclnnFusedFloydAttentionGradGetWorkspaceSize aclnnFusedQuantMatmul aclnnFusedQuantMatmulGetWorkspaceSize aclnnFusedQuantMatmulWeightNz
        aclnnFusedQuantMatmulWeightNzGetWorkspaceSize aclnnGeluQuant aclnnGeluQuantGetWorkspaceSize aclnnGroupQuant aclnnGroupQuantGetWorkspaceSize
        aclnnGroupedDynamicBlockQuant aclnnGroupedDynamicBlockQuantGetWorkspaceSize aclnnGroupedDynamicMxQuant
        aclnnGroupedDynamicMxQuantGetWorkspaceSize aclnnGroupedMatMulAlltoAllv aclnnGroupedMatMulAlltoAllvGetWorkspaceSize
        aclnnGroupedMatmulFinalizeRoutingV2 aclnnGroupedMatmulFinalizeRoutingV2GetWorkspaceSize aclnnGroupedMatmulFinalizeRoutingWeightNz
        aclnnGroupedMatmulFinalizeRoutingWeightNzGetWorkspaceSize aclnnGroupedMatmulSwigluQuantV2 aclnnGroupedMatmulSwigluQuantV2GetWorkspaceSize
        aclnnGroupedMatmulSwigluQuantWeightNZ aclnnGroupedMatmulSwigluQuantWeightNZGetWorkspaceSize aclnnHansDecode aclnnHansDecodeGetWorkspaceSize
        aclnnHansEncode aclnnHansEncodeGetWorkspaceSize aclnnInplaceAttentionWorkerScheduler aclnnInplaceAttentionWorkerSchedulerGetWorkspaceSize
        aclnnInplaceFfnWorkerScheduler aclnnInplaceFfnWorkerSchedulerGetWorkspaceSize aclnnInplaceQuantScatter
        aclnnInplaceQuantScatterGetWorkspaceSize aclnnKvQuantSparseFlashAttention aclnnKvQuantSparseFlashAttentionGetWorkspaceSize
        aclnnMatmulAbftVerify aclnnMatmulAbftVerifyGetWorkspaceSize aclnnMatmulWeightNz aclnnMatmulWeightNzGetWorkspaceSize aclnnMhcPost
        aclnnMhcPostGetWorkspaceSize aclnnMhcPreBackwardV2 aclnnMhcPreBackwardV2GetWorkspaceSize aclnnMhcSinkhorn aclnnMhcSinkhornGetWorkspaceSize
        aclnnMhcSinkhornBackward aclnnMhcSinkhornBackwardGetWorkspaceSize aclnnMoeDistributeCombineAddRmsNorm
        aclnnMoeDistributeCombineAddRmsNormGetWorkspaceSize aclnnMoeInitRoutingQuantV2 aclnnMoeInitRoutingQuantV2GetWorkspaceSize
        aclnnObfuscationCalculateV2 aclnnObfuscationCalculateV2GetWorkspaceSize aclnnObfuscationSetupV2 aclnnObfuscationSetupV2GetWorkspaceSize
        aclnnQuantFlashAttentionScore aclnnQuantFlashAttentionScoreGetWorkspaceSize aclnnQuantFlashAttentionScoreGrad
        aclnnQuantFlashAttentionScoreGradGetWorkspaceSize aclnnQuantGroupedMatMulAlltoAllv aclnnQuantGroupedMatMulAlltoAllvGetWorkspaceSize
        aclnnQuantGroupedMatmulDequant aclnnQuantGroupedMatmulDequantGetWorkspaceSize aclnnQuantLightningIndexer
        aclnnQuantLightningIndexerGetWorkspaceSize aclnnQuantMatmulAllReduce aclnnQuantMatmulAllReduceGetWorkspaceSize aclnnQuantMatmulAllReduceV2
        aclnnQuantMatmulAllReduceV2GetWorkspaceSize aclnnQuantMatmulAllReduceV3 aclnnQuantMatmulAllReduceV3GetWorkspaceSize
        aclnnQuantMatmulAllReduceV4 aclnnQuantMatmulAllReduceV4GetWorkspaceSize aclnnQuantMatmulAlltoAll aclnnQuantMatmulAlltoAllGetWorkspaceSize
        aclnnQuantMatmulDequant aclnnQuantMatmulDequantGetWorkspaceSize aclnnQuantMatmulReduceSumWeightNz
        aclnnQuantMatmulReduceSumWeightNzGetWorkspaceSize aclnnRmsNormGradQuant aclnnRmsNormGradQuantGetWorkspaceSize aclnnRmsNormQuant
        aclnnRmsNormQuantGetWorkspaceSize aclnnRmsNormQuantV3 aclnnRmsNormQuantV3GetWorkspaceSize aclnnRotateQuant aclnnRotateQuantGetWorkspaceSize
        aclnnStatelessExponentialTensor aclnnStatelessExponentialTensorGetWorkspaceSize aclnnSwiGluQuantV2 aclnnSwiGluQuantV2GetWorkspaceSize
        aclnnSwigluGroupQuant aclnnSwigluGroupQuantGetWorkspaceSize aclnnSwigluGroupQuantGrad aclnnSwigluGroupQuantGradGetWorkspaceSize
        aclnnTransQuantParamV2 aclnnTransQuantParamV2GetWorkspaceSize aclnnTransposeBatchMatMulWeightNz
        aclnnTransposeBatchMatMulWeightNzGetWorkspaceSize aclnnTransposeQuantBatchMatMul aclnnTransposeQuantBatchMatMulGetWorkspaceSize
        aclnnWeightQuantBatchMatmulV2 aclnnWeightQuantBatchMatmulV2GetWorkspaceSize aclnnWeightQuantBatchMatmulV3
        aclnnWeightQuantBatchMatmulV3GetWorkspaceSize aclnnWeightQuantMatmulAllReduce aclnnWeightQuantMatmulAllReduceGetWorkspaceSize
        aclnnWeightQuantPreprocess aclnnWeightQuantPreprocessGetWorkspaceSize;
}

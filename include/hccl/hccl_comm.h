/*
 * Communicators: how ranks meet, what a communicator is, and how it ends.
 *
 * Ranks are processes, or threads of one process with a device each. Every function may be called from any thread, a
 * communicator that is being destroyed excepted. After a failure aclGetRecentErrMsg has the reason for the calling thread.
 */
#ifndef HCCL_COMM_H_
#define HCCL_COMM_H_

#include <stdbool.h>
#include "acl/acl.h"
#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A communicator by a rank table file; `rank` is the id in the table. Blocks until all ranks came. */
HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *comm);

/** The same with a configuration. */
HcclResult HcclCommInitClusterInfoConfig(
    const char *clusterInfo, uint32_t rank, HcclCommConfig *config, HcclComm *comm);

/**
 * A communicator of some ranks of another, called by those. `rankIds` are ranks of *comm in the order of the new ranks. A rank that
 * is no member may call it with rankIds null and subCommId 0xFFFFFFFF, and gets success and no communicator.
 */
HcclResult HcclCreateSubCommConfig(
    HcclComm *comm, uint32_t rankNum, uint32_t *rankIds, uint64_t subCommId, uint32_t subCommRankId,
    HcclCommConfig *config, HcclComm *subComm);

/** Opens a meeting point on the calling thread's device; one rank calls it for each communicator. */
HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo);

/** The same for a communicator with several meeting points. */
HcclResult HcclGetRootInfoScalable(HcclRootInfo *rootInfo);

/** A communicator of nRanks ranks that meet at the root info. Blocks until all came, at most HCCL_CONNECT_TIMEOUT. */
HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm);

/** The same with a configuration. */
HcclResult HcclCommInitRootInfoConfig(
    uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, const HcclCommConfig *config, HcclComm *comm);

/** The same with nRoot meeting points. All ranks pass them in the same order; the first serves. */
HcclResult HcclCommInitRootInfoScalable(
    uint32_t nRanks, uint32_t nRoot, const HcclRootInfo *rootInfoList, uint32_t rank, uint32_t nExtRoot,
    const HcclCommConfig *config, HcclComm *comm);

/** Sets an option of the process. The environment variable HCCL_DETERMINISTIC has precedence. */
HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue);
HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue);

/** Sets an option of one communicator, from its next operator on. */
HcclResult HcclSetCommConfig(HcclComm comm, HcclConfig config, HcclConfigValue configValue);
HcclResult HcclGetCommConfig(HcclComm comm, HcclConfig config, HcclConfigValue *configValue);

/** The name, into COMM_NAME_MAX_LENGTH bytes. */
HcclResult HcclGetCommName(HcclComm comm, char *commName);

/** The communicator of this name on the calling thread's device. */
HcclResult HcclCommGetHandleWithName(const char *commName, HcclComm *comm);

/** How many ranks there are. */
HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize);

/** Which one this is. */
HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank);

/** Queues an operator that ends when all ranks have reached theirs. */
HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);

/** Ends a communicator; operators in progress end with an error. Null is success. */
HcclResult HcclCommDestroy(HcclComm comm);

/** Communicators for devices of this process; rank i has devices[i]. */
HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms);

/** How a communicator failed, HCCL_SUCCESS if it did not; then aclGetRecentErrMsg has the reason. */
HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError);

/** A text for a code. */
const char *HcclGetErrorString(HcclResult code);

/** Fields of HcclCommConfigCapability with smaller numbers are known. */
uint32_t HcclGetCommConfigCapability(void);

/** Fills in a configuration in which nothing is set. */
static inline void HcclCommConfigInit(HcclCommConfig *config)
{
    struct Head {
        size_t size;
        uint32_t magic;
        uint32_t version;
        uint64_t zero;
    } *head;
    char *byte = (char *)config;
    size_t i;
    if (!config)
        return;
    for (i = 0; i < sizeof *config; i++)
        byte[i] = 0;
    head = (struct Head *)(void *)config;
    head->size = sizeof *config;
    head->magic = HCCL_COMM_CONFIG_MAGIC_WORD;
    head->version = HCCL_COMM_CONFIG_VERSION;
    config->hcclBufferSize = HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET;
    config->hcclDeterministic = HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
    config->hcclOpExpansionMode = HCCL_COMM_DEFAULT_OP_EXPANSION_MODE;
    config->hcclRdmaTrafficClass = HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET;
    config->hcclRdmaServiceLevel = HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET;
    config->hcclExecTimeOut = HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET;
    config->hcclQos = HCCL_COMM_QOS_CONFIG_NOT_SET;
    config->hcclSymWinMaxMemSizePerRank = HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE;
    config->hcclChannelSqDepth = HCCL_COMM_SQ_DEPTH_CONFIG_NOT_SET;
}

/** Refuses operators until HcclCommResume, and ends those in progress. */
HcclResult HcclCommSuspend(HcclComm comm);

/** Is called before and after a communicator is destroyed or resumed, on the thread that does it. */
typedef HcclResult (*HcclCommStateCallback)(HcclComm comm, HcclCommStatePhase state, void *args);

/** Registers a callback of the process under a name; null removes it. */
HcclResult HcclCommRegCommStateCallback(const char *regName, HcclCommStateCallback cb, void *args);

/** Takes operators again after HcclCommSuspend; called by all ranks. */
HcclResult HcclCommResume(HcclComm comm);

/** What the communicator of this name can do. */
HcclResult HcclCommGetStatus(const char *commId, HcclCommStatus *status);

/** Names a range of addresses whose memory operators may use without copies. Kept; every operator does here. */
HcclResult HcclCommSetMemoryRange(
    HcclComm comm, void *baseVirPtr, size_t size, size_t alignment, uint64_t flags);

/** Ends that. */
HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void *baseVirPtr);

/** Says which part of such a range has memory. */
HcclResult HcclCommActivateCommMemory(
    HcclComm comm, void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);

/** Ends that. */
HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void *virPtr);

/** Chooses network interfaces of ranks. Refused: software devices have none. */
HcclResult HcclCommWorkingDevNicSet(HcclComm comm, uint32_t *ranks, bool *useBackup, uint32_t nRanks);

/** Until the matching end, operators and new communicators of this thread are only noted. */
HcclResult HcclGroupStart(void);

/** Ends a group; the last end does what was noted, and returns its first error. */
HcclResult HcclGroupEnd(void);

/** Whether the calling thread is in a group. */
HcclResult HcclGroupStatusGet(bool *isGroupEnabled);

/** Registers device memory for use by operators of a communicator. */
HcclResult HcclCommRegister(HcclComm comm, void *addr, uint64_t size, void **handle, uint32_t flag);

/** Ends a registration. */
HcclResult HcclCommDeregister(HcclComm comm, void *handle);

/** Tells peers of registered memory. */
HcclResult HcclCommExchangeMem(HcclComm comm, void *windowHandle, uint32_t *peerRanks, uint32_t peerRankNum);

/** Registers memory as this rank's part of a window; all ranks register theirs in the same order. */
HcclResult HcclCommSymWinRegister(
    HcclComm comm, void *addr, uint64_t size, HcclCommSymWindow *winHandle, uint32_t flag);

/** Ends a window. */
HcclResult HcclCommSymWinDeregister(HcclCommSymWindow winHandle);

/** The window that contains a range, and where in it the range begins. */
HcclResult HcclCommSymWinGet(
    HcclComm comm, void *ptr, size_t size, HcclCommSymWindow *winHandle, size_t *offset);

/** What runs the operators. */
typedef enum {
    HCCL_OP_EXPANSION_MODE_INVALID = -1,
    HCCL_OP_EXPANSION_MODE_AI_CPU = 0,
    HCCL_OP_EXPANSION_MODE_AIV = 1,
    HCCL_OP_EXPANSION_MODE_HOST = 2,
    HCCL_OP_EXPANSION_MODE_HOST_TS = 3,
    HCCL_OP_EXPANSION_MODE_CCU_MS = 4,
    HCCL_OP_EXPANSION_MODE_CCU_SCHED = 5,
    HCCL_OP_EXPANSION_AIV_ONLY = 6
} HcclOpExpansionMode;

/** What HcclConfigGetInfo can tell. */
typedef enum {
    HCCL_CONFIG_TYPE_INVALID = -1,
    /** A HcclConfigTypeOpExpansionMode. */
    HCCL_CONFIG_TYPE_OP_EXPANSION_MODE = 0
} HcclConfigType;

typedef HcclOpExpansionMode HcclConfigTypeOpExpansionMode;

/** A part of a communicator's configuration, into infoLen bytes. */
HcclResult HcclConfigGetInfo(HcclComm comm, HcclConfigType cfgType, uint32_t infoLen, void *info);

#ifdef __cplusplus
}
#endif

#endif

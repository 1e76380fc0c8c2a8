/*
 * Collective communication by the names of communicators, as graphs use it. A group is the communicator of that name on the calling thread's
 * device; null is "hccl_world_group", which HcomInitByRankTable makes. Operators are those of hccl.h; tags are not used.
 */
#ifndef HCOM_H
#define HCOM_H

#include <stdbool.h>
#include "acl/acl.h"
#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Makes the communicator of all ranks by a rank table file. */
HcclResult HcomInitByRankTable(const char *rankTable, uint32_t rankId);

/** Ends it, and the groups made from it. */
HcclResult HcomDestroy(void);

/** Whether it was made. */
HcclResult HcomGetInitStatus(bool *initiated);

/** A communicator of some ranks of it, called by those. */
HcclResult HcomCreateGroup(const char *group, uint32_t rankNum, uint32_t *rankIds);

/** Ends a group. */
HcclResult HcomDestroyGroup(const char *group);

/** Whether there is such a group. */
bool HcomFindGroup(const char *group);

/** The communicator of a group. */
HcclResult HcomGetCommHandleByGroup(const char *group, HcclComm *commHandle);

/** How many ranks a group has. */
HcclResult HcomGetRankSize(const char *group, uint32_t *rankSize);

/** Which rank of a group this is. */
HcclResult HcomGetRankId(const char *group, uint32_t *rankId);

HcclResult HcomAllGather(
    const char *tag, void *inputPtr, void *outputPtr, uint64_t inputCount, HcclDataType dataType, const char *group,
    aclrtStream stream);
HcclResult HcomAllGatherV(
    const char *tag, const void *sendBuf, uint64_t sendCount, const void *recvBuf, const void *recvCounts,
    const void *rdispls, HcclDataType dataType, const char *group, aclrtStream stream);
HcclResult HcomAllReduce(
    const char *tag, void *inputPtr, void *outputPtr, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    const char *group, aclrtStream stream);
HcclResult HcomReduce(
    const char *tag, void *inputPtr, void *outputPtr, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    uint32_t root, const char *group, aclrtStream stream);
HcclResult HcomBroadcast(
    const char *tag, void *ptr, uint64_t count, HcclDataType dataType, uint32_t root, const char *group,
    aclrtStream stream);
HcclResult HcomReduceScatter(
    const char *tag, void *inputPtr, void *outputPtr, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    const char *group, aclrtStream stream);
HcclResult HcomReduceScatterV(
    const char *tag, void *sendBuf, const void *sendCounts, const void *sdispls, void *recvBuf, uint64_t recvCount,
    HcclDataType dataType, HcclReduceOp op, const char *group, aclrtStream stream);
HcclResult HcomSend(
    const char *tag, void *inputPtr, uint64_t count, HcclDataType dataType, uint32_t destRank, uint32_t srTag,
    const char *group, aclrtStream stream);
HcclResult HcomReceive(
    const char *tag, void *outputPtr, uint64_t count, HcclDataType dataType, uint32_t srcRank, uint32_t srTag,
    const char *group, aclrtStream stream);
HcclResult HcomAlltoAllV(
    const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType, const void *recvBuf,
    const void *recvCounts, const void *rdispls, HcclDataType recvType, const char *group, aclrtStream stream,
    const char *tag);
HcclResult HcomAlltoAllVC(
    const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType, const void *recvBuf,
    HcclDataType recvType, const char *group, aclrtStream stream, const char *tag);
HcclResult HcomAllToAll(
    const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf, uint64_t recvCount,
    HcclDataType recvType, const char *group, aclrtStream stream, const char *tag);

#ifdef __cplusplus
}
#endif

#endif

/*
 * The operators of collective communication.
 *
 * A call queues the operator on the stream and returns; its result is there when the stream has passed it. All ranks of a
 * communicator call the same operators in the same order. Buffers are device memory of the communicator's device; counts are
 * elements, and arrays of counts are uint64_t in host memory, read during the call. A count of 0 returns success and
 * takes no part: all ranks agree on it.
 */
#ifndef HCCL_H_
#define HCCL_H_

#include "acl/acl.h"
#include "hccl/hccl_comm.h"
#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Combines the `count` elements of all ranks; every rank has the result. The buffers may be the same. */
HcclResult HcclAllReduce(
    void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
    aclrtStream stream);

/** Copies the root's elements to every rank. */
HcclResult HcclBroadcast(
    void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm, aclrtStream stream);

/** Combines ranks x recvCount elements; each rank has its part of the result. */
HcclResult HcclReduceScatter(
    void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
    aclrtStream stream);

/** The same with parts of different sizes: rank i has sendCounts[i] elements from sendDispls[i] on. */
HcclResult HcclReduceScatterV(
    void *sendBuf, const void *sendCounts, const void *sendDispls, void *recvBuf, uint64_t recvCount,
    HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream);

/** Hands out the root's ranks x recvCount elements, a part to each rank. Others may pass null for sendBuf. */
HcclResult HcclScatter(
    void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root, HcclComm comm,
    aclrtStream stream);

/** Collects sendCount elements of each rank, in the order of ranks. sendBuf may be its place in recvBuf. */
HcclResult HcclAllGather(
    void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm, aclrtStream stream);

/** The same with different counts: recvCounts[i] elements of rank i go to recvDispls[i]. */
HcclResult HcclAllGatherV(
    void *sendBuf, uint64_t sendCount, void *recvBuf, const void *recvCounts, const void *recvDispls,
    HcclDataType dataType, HcclComm comm, aclrtStream stream);

/** Sends to a rank that calls HcclRecv. */
HcclResult HcclSend(
    void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm, aclrtStream stream);

/** Receives what a rank sends by HcclSend. */
HcclResult HcclRecv(
    void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm, aclrtStream stream);

/** Each rank sends matrix[i][j] elements to each other, row i of the matrix being rank i's. Both sides are packed. */
HcclResult HcclAlltoAllVC(
    const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType, const void *recvBuf,
    HcclDataType recvType, HcclComm comm, aclrtStream stream);

/** Each rank sends to each other, with counts and displacements of its own. */
HcclResult HcclAlltoAllV(
    const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType, const void *recvBuf,
    const void *recvCounts, const void *rdispls, HcclDataType recvType, HcclComm comm, aclrtStream stream);

/** Each rank sends the same number of elements to each other. */
HcclResult HcclAlltoAll(
    const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf, uint64_t recvCount,
    HcclDataType recvType, HcclComm comm, aclrtStream stream);

/** Combines the elements of all ranks; the root has the result. */
HcclResult HcclReduce(
    void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, uint32_t root,
    HcclComm comm, aclrtStream stream);

/** Sends and receives, none of which waits for another of the same call. */
HcclResult HcclBatchSendRecv(
    HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif

/*
 * Two ranks of one communicator in one process, on a device each, called from one thread: calls never wait for other ranks.
 */
#ifndef CAIRN_TESTS_CHECK_RANKS_H
#define CAIRN_TESTS_CHECK_RANKS_H

#include "program.h"
#include <hccl/hccl.h>
#include <string.h>

enum { RANKS = 2, COUNT = 256, BYTES = COUNT * 4 };

typedef struct Rank {
    HcclComm comm;
    aclrtStream stream;
    void *send, *receive;
} Rank;

static inline void begin_ranks(Rank ranks[RANKS])
{
    HcclRootInfo root;
    HcclCommConfig config;
    begin();
    MUST(HcclGetRootInfo(&root));
    HcclCommConfigInit(&config);
    strcpy(config.hcclCommName, "world");
    MUST(HcclGroupStart());
    for (uint32_t i = 0; i < RANKS; i++) {
        MUST(aclrtSetDevice((int32_t)i));
        MUST(HcclCommInitRootInfoConfig(RANKS, &root, i, &config, &ranks[i].comm));
    }
    MUST(HcclGroupEnd());
    for (int i = 0; i < RANKS; i++) {
        MUST(aclrtSetDevice(i));
        ranks[i].stream = new_stream();
        ranks[i].send = device_memory(BYTES);
        ranks[i].receive = device_memory(BYTES);
    }
}

static inline void sum(Rank *rank)
{
    MUST(HcclAllReduce(rank->send, rank->receive, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, rank->comm, rank->stream));
}

/* Whether operators fail is not this program's question: the wrong one's may. Destroying ends those that wait. */
static inline void end_ranks(Rank ranks[RANKS], int waits)
{
    for (int i = 0; i < RANKS; i++) {
        MUST(aclrtSetDevice(i));
        if (waits)
            MUST(aclrtSynchronizeStream(ranks[i].stream));
        MUST(HcclCommDestroy(ranks[i].comm));
    }
    for (int i = 0; i < RANKS; i++) {
        MUST(aclrtSetDevice(i));
        aclrtSynchronizeStream(ranks[i].stream);
        MUST(aclrtFree(ranks[i].send));
        MUST(aclrtFree(ranks[i].receive));
        MUST(aclrtDestroyStream(ranks[i].stream));
    }
    MUST(aclrtResetDevice(1));
    MUST(aclrtSetDevice(0));
    end();
}

#endif

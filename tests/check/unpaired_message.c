/* Rank 0 sends twice; rank 1 receives once, and fewer elements. */
#include "ranks.h"

int main(void)
{
    Rank ranks[RANKS];
    begin_ranks(ranks);
    MUST(HcclSend(ranks[0].send, COUNT, HCCL_DATA_TYPE_FP32, 1, ranks[0].comm, ranks[0].stream));
    MUST(HcclSend(ranks[0].send, COUNT, HCCL_DATA_TYPE_FP32, 1, ranks[0].comm, ranks[0].stream));
#ifdef RIGHT
    MUST(HcclRecv(ranks[1].receive, COUNT, HCCL_DATA_TYPE_FP32, 0, ranks[1].comm, ranks[1].stream));
    MUST(HcclRecv(ranks[1].receive, COUNT, HCCL_DATA_TYPE_FP32, 0, ranks[1].comm, ranks[1].stream));
    end_ranks(ranks, 1);
#else
    MUST(HcclRecv(ranks[1].receive, COUNT / 2, HCCL_DATA_TYPE_FP32, 0, ranks[1].comm, ranks[1].stream));
    end_ranks(ranks, 0);
#endif
    return 0;
}

/* After an allreduce of both, rank 1 broadcasts while rank 0 reduces again. */
#include "ranks.h"

int main(void)
{
    Rank ranks[RANKS];
    begin_ranks(ranks);
    sum(&ranks[0]);
    sum(&ranks[1]);
    sum(&ranks[0]);
#ifdef RIGHT
    sum(&ranks[1]);
    end_ranks(ranks, 1);
#else
    MUST(HcclBroadcast(ranks[1].send, COUNT, HCCL_DATA_TYPE_FP32, 0, ranks[1].comm, ranks[1].stream));
    end_ranks(ranks, 0);
#endif
    return 0;
}

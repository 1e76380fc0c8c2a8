/* Rank 0 reduces twice, rank 1 once. */
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
    end_ranks(ranks, 0);
#endif
    return 0;
}

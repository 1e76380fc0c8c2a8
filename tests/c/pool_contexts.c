// links: -lcairn_pool
/* Default streams are destroyed with their contexts, without a callback: memory freed on them is not lost. */
#include "gate.h"
#include "cairn/pool.h"

#define MIB ((size_t)1 << 20)

int main(void)
{
    GROUP("pool many contexts, a block on the default stream of each");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    aclrtContext primary;
    CHECK_OK(aclrtGetCurrentContext(&primary));
    for (int round = 0; round < 300; round++) {
        aclrtContext context;
        aclrtStream stream;
        CHECK_OK(aclrtCreateContext(&context, 0));
        CHECK_OK(aclrtCtxGetCurrentDefaultStream(&stream));
        void *block = cairn_pool_malloc(MIB, 0, stream);
        CHECK(block != NULL);
        CHECK_OK(aclrtMemsetAsync(block, MIB, 1, MIB, stream));
        CHECK_EQ(cairn_pool_free(block, 0, stream), 0);
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_OK(aclrtDestroyContext(context));
        CHECK_OK(aclrtSetCurrentContext(primary));
    }
    cairnPoolFigures figures;
    CHECK_EQ(cairn_pool_figures(0, &figures), 0);
    CHECK_EQ(figures.live, 0);
    CHECK(figures.reserved <= 64 * MIB);
    cairn_pool_trim(0, 0);
    cairn_pool_trim(0, 0);
    CHECK_EQ(cairn_pool_figures(0, &figures), 0);
    CHECK_EQ(figures.reserved, 0);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

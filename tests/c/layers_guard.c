// unchecked: it touches device memory itself
// env: CAIRN_MEMORY=guard
// env: CAIRN_MEMORY=guard,guard
// env: CAIRN_MEMORY=stats,guard,limit:64mib
/*
 * Writes beside a block, and what detects them. For calls of ACL the address check ends at the padded
 * allocation, with or without a guard. Plain stores through the pointer, by the host or a host
 * function, are found by the guard when the block is freed.
 */
#include "gate.h"

#define MIB ((size_t)1 << 20)

static unsigned char *allocate(size_t bytes)
{
    void *block = NULL;
    CHECK_OK(aclrtMallocAlign32(&block, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
    return (unsigned char *)block;
}

static void store_after(void *block)
{
    ((unsigned char *)block)[256] ^= 0xff;
}

int main(void)
{
    aclrtStream stream = NULL;
    char text[100];
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));

    GROUP("CAIRN_MEMORY guard: a call of ACL cannot write beyond the allocation");
    unsigned char *block = allocate(100);
    CHECK_OK(aclrtMemsetAsync(block, 129, 1, 129, stream));
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID, "of 128 bytes");
    CHECK_FAIL(aclrtMemset(block + 128, 1, 1, 1), ACL_ERROR_RT_PARAM_INVALID, "no allocation is there");
    CHECK_FAIL(aclrtMemset(block - 1, 2, 1, 2), ACL_ERROR_RT_PARAM_INVALID, "no allocation is there");
    CHECK_OK(aclrtFree(block));

    GROUP("CAIRN_MEMORY guard: padding belongs to the allocation");
    block = allocate(100);
    CHECK_OK(aclrtMemsetAsync(block, 128, 1, 128, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtFree(block));

    GROUP("CAIRN_MEMORY guard: a store past the block");
    block = allocate(100);
    block[128] = 0x5a;
    snprintf(text, sizeof text, "the block %p of 128 bytes: 1 byte after it, the first at offset 128, where 5a ", (void *)block);
    CHECK_FAIL(aclrtFree(block), ACL_ERROR_RT_MEMORY_FREE, text);
    CHECK_FAIL(aclrtFree(block), ACL_ERROR_RT_PARAM_INVALID, "already freed");

    GROUP("CAIRN_MEMORY guard: stores in front of the block");
    block = allocate(100);
    memset(block - 8, 0, 8);
    CHECK_FAIL(
        aclrtFreeWithDevSync(block), ACL_ERROR_RT_MEMORY_FREE,
        "8 bytes before it, the first at offset -8, where 00 00 00 00 00 00 00 00 was found");

    GROUP("CAIRN_MEMORY guard: a host function that writes one byte too far");
    block = allocate(256);
    CHECK_OK(aclrtLaunchHostFunc(stream, store_after, block));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_FAIL(aclrtFree(block), ACL_ERROR_RT_MEMORY_FREE, "1 byte after it, the first at offset 256");

    GROUP("CAIRN_MEMORY guard: an exact allocation has no padding");
    void *exact = NULL;
    CHECK_OK(aclrtMallocWithCfg(&exact, 77, ACL_MEM_MALLOC_NORMAL_ONLY, NULL));
    ((unsigned char *)exact)[77] = 0;
    CHECK_FAIL(aclrtFree(exact), ACL_ERROR_RT_MEMORY_FREE, "of 77 bytes: 1 byte after it, the first at offset 77");

    GROUP("CAIRN_MEMORY guard: blocks are aligned as before, and keep what is written");
    void *large = NULL;
    CHECK_OK(aclrtMalloc(&large, 2 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_EQ((uintptr_t)large % (2 * MIB), 0);
    CHECK_OK(aclrtMemsetAsync(large, 2 * MIB, 7, 2 * MIB, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtFree(large));

    GROUP("CAIRN_MEMORY guard: freed memory is intact in the quarantine, and poisoned when it leaves");
    unsigned char *middle = (unsigned char *)large + MIB;
    CHECK_EQ(*middle, 7);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtFree(allocate(32)));
    CHECK_EQ(*middle, 0xfd);

    GROUP("CAIRN_MEMORY guard: a reset checks the blocks that are left");
    block = allocate(64);
    block[64] = 1;
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_FAIL(aclrtFree(block), ACL_ERROR_RT_PARAM_INVALID, "");
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

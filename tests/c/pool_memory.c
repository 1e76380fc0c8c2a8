// links: -lcairn_pool
// env: CAIRN_DEVICE_MEMORY=256mib CAIRN_POOL_WAIT_MS=20
/* Memory given back to ACL, the fraction of the device that a pool may have, and the text of out of memory. */
#include "gate.h"
#include "cairn/pool.h"
#include <math.h>

#define MIB ((size_t)1 << 20)

static aclrtStream streams[4];

static size_t acl_free(void)
{
    size_t bytes = 0, total = 0;
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &bytes, &total));
    return bytes;
}

static cairnPoolFigures figures(void)
{
    cairnPoolFigures all;
    CHECK_EQ(cairn_pool_figures(0, &all), 0);
    return all;
}

static int has(const char *text, const char *part)
{
    if (text && strstr(text, part))
        return 1;
    printf("the text lacks \"%s\": %s\n", part, text ? text : "(there is none)");
    return 0;
}

static void trimming(void)
{
    GROUP("pool trim gives memory back to ACL");
    size_t before = acl_free();
    void *blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = cairn_pool_malloc(10 * MIB, 0, streams[i % 2]);
    uint64_t reserved = figures().reserved;
    CHECK(reserved >= 80 * MIB);
    CHECK(before - acl_free() >= reserved);
    CHECK_EQ(cairn_pool_trim(0, 0), 0);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(cairn_pool_free(blocks[i], 0, streams[i % 2]), 0);
    CHECK(before - acl_free() >= reserved);
    size_t part = cairn_pool_trim(0, 40 * MIB);
    CHECK(part >= 20 * MIB && part <= reserved - 40 * MIB);
    CHECK_EQ(figures().reserved, reserved - part);
    CHECK_EQ(cairn_pool_trim(0, 0), reserved - part);
    CHECK_EQ(figures().reserved, 0);
    CHECK_EQ(acl_free(), before);

    GROUP("pool trim keeps blocks in use, and the pool works on");
    for (int i = 0; i < 8; i++)
        blocks[i] = cairn_pool_malloc(10 * MIB, 0, streams[0]);
    for (int i = 1; i < 8; i++)
        CHECK_EQ(cairn_pool_free(blocks[i], 0, streams[0]), 0);
    CHECK(cairn_pool_trim(0, 0) >= 60 * MIB);
    CHECK(figures().reserved >= 10 * MIB && figures().reserved <= 20 * MIB);
    CHECK_OK(aclrtMemset(blocks[0], 10 * MIB, 1, 10 * MIB));
    blocks[1] = cairn_pool_malloc(30 * MIB, 0, streams[0]);
    CHECK_OK(aclrtMemset(blocks[1], 30 * MIB, 2, 30 * MIB));
    CHECK_EQ(cairn_pool_free(blocks[0], 0, streams[0]), 0);
    CHECK_EQ(cairn_pool_free(blocks[1], 0, streams[0]), 0);
    cairn_pool_empty_cache(false);
    CHECK_EQ(figures().reserved, 0);

    GROUP("pool segments: many small blocks share one allocation of ACL's");
    enum { SMALL = 3000 };
    static void *small[SMALL];
    for (int i = 0; i < SMALL; i++)
        small[i] = cairn_malloc(4096, 0, streams[0]);
    CHECK(figures().reserved <= SMALL * 4096 * 17 / 16 + 2 * MIB);
    for (int i = 0; i < SMALL; i++)
        cairn_free(small[i], 4096, 0, streams[0]);
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    CHECK(cairn_pool_trim(0, 0) > 0);
    CHECK_EQ(figures().reserved, 0);
}

static void fractions(void)
{
    GROUP("pool fraction: a hard limit on what it reserves");
    size_t free_bytes, total;
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    CHECK_EQ(cairn_pool_set_fraction(0.25, 0), 0);
    uint64_t budget = figures().budget;
    CHECK(budget <= total / 4 && budget > total / 4 - 512);
    void *first = cairn_pool_malloc(budget / 2, 0, streams[0]);
    CHECK(first != NULL);
    CHECK(cairn_pool_malloc(budget / 2 + MIB, 0, streams[1]) == NULL);
    CHECK(has(cairn_pool_last_error(), "cairn_pool_set_fraction"));
    void *second = cairn_pool_malloc(budget / 2 - 4 * MIB, 0, streams[1]);
    CHECK(second != NULL);
    CHECK(figures().reserved <= budget);
    CHECK_EQ(figures().failed, 1);

    GROUP("pool fraction: raised, more fits; lowered, free memory is given back");
    CHECK_EQ(cairn_pool_set_fraction(0.75, 0), 0);
    void *third = cairn_pool_malloc(budget, 0, streams[1]);
    CHECK(third != NULL);
    CHECK_EQ(cairn_pool_free(third, 0, streams[1]), 0);
    CHECK_EQ(cairn_pool_free(second, 0, streams[1]), 0);
    CHECK(figures().waiting > 0);
    CHECK(figures().reserved > budget);
    CHECK_EQ(cairn_pool_set_fraction(0.25, 0), 0);
    CHECK(figures().reserved <= budget && figures().reserved >= figures().live);
    CHECK_EQ(cairn_pool_free(first, 0, streams[0]), 0);

    GROUP("pool fraction: wrong values");
    const double wrong[] = {0, -0.5, 1.01, NAN, INFINITY};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_EQ(cairn_pool_set_fraction(wrong[i], 0), -1);
        CHECK(has(cairn_pool_last_error(), "a fraction of"));
    }
    CHECK_EQ(cairn_pool_set_fraction(0.5, 9), -1);
    CHECK_EQ(cairn_pool_set_fraction(1e-9, 0), -1);
    CHECK(has(cairn_pool_last_error(), "a fraction of 0.000000001: that is less than one block of 512 bytes"));
    CHECK_EQ(figures().budget, budget);
    CHECK_EQ(cairn_pool_set_fraction(513.0 / (256 * MIB), 0), 0);
    CHECK_EQ(figures().budget, 512);
    CHECK_EQ(cairn_pool_set_fraction(1.0, 0), 0);
    cairn_pool_trim(0, 0);
}

static void out_of_memory(void)
{
    GROUP("pool out of memory: the text has the figures and the owners");
    char part[96];
    void *memory[4];
    for (int i = 0; i < 4; i++) {
        memory[i] = cairn_malloc((size_t)(i + 1) * 10 * MIB, 0, streams[i]);
        CHECK(memory[i] != NULL);
    }
    uint64_t failed = figures().failed;
    CHECK(cairn_malloc(400 * MIB, 0, streams[0]) == NULL);
    const char *text = cairn_pool_last_error();
    CHECK(has(text, "cairn_malloc: no memory on device 0 for 400 MiB (419430400 bytes)"));
    CHECK(has(text, "capacity 256 MiB, of which "));
    CHECK(has(text, "budget 256 MiB"));
    CHECK(has(text, "100 MiB live, 0 bytes waiting for streams, largest hole "));
    CHECK(has(text, "What to do: "));
    for (int i = 1; i < 4; i++) {
        snprintf(part, sizeof part, "stream %p %d MiB in 1 block", streams[i], (i + 1) * 10);
        CHECK(has(text, part));
    }
    snprintf(part, sizeof part, "stream %p 10 MiB", streams[0]);
    CHECK(text && strstr(text, part) == NULL);
    CHECK(figures().failed > failed);

    GROUP("pool out of memory: memory that waits for torch's queue is named, and how to release it");
    for (int i = 0; i < 4; i++)
        cairn_free(memory[i], (size_t)(i + 1) * 10 * MIB, 0, streams[i]);
    CHECK(cairn_malloc(200 * MIB, 0, streams[0]) == NULL);
    text = cairn_pool_last_error();
    CHECK(has(text, "0 bytes live, 100 MiB waiting for streams"));
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    void *large = cairn_malloc(200 * MIB, 0, streams[0]);
    CHECK(large != NULL);
    CHECK(cairn_malloc(100 * MIB, 0, streams[1]) == NULL);
    cairn_free(large, 200 * MIB, 0, streams[0]);
    CHECK(cairn_malloc(200 * MIB, 0, streams[1]) == NULL);
    text = cairn_pool_last_error();
    CHECK(has(text, "torch.npu.synchronize()") && has(text, "cairn_pool_synchronized(0)"));
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    CHECK(cairn_malloc(200 * MIB, 0, streams[1]) == large);
    cairn_free(large, 200 * MIB, 0, streams[1]);
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    cairn_pool_trim(0, 0);
    CHECK_EQ(figures().reserved, 0);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    for (int i = 0; i < 4; i++)
        CHECK_OK(aclrtCreateStream(&streams[i]));
    trimming();
    fractions();
    out_of_memory();
    return END();
}

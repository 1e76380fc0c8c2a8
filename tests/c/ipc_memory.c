// env: CAIRN_HOST_MEMORY=2gib
// unchecked: several processes
/* What sharing costs in memory, and whose it is: an export takes no second copy, what others hold counts with its owner as long
 * as that lives and with one of the others afterwards; and blocks whose pages are on their way are exported. */
#include "ipc.h"
#include "mem_pool.h"

#define BLOCK (192 * MIB)

/* A figure of /proc/self/status, in bytes. */
static size_t status_bytes(const char *name)
{
    char line[256];
    size_t bytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            bytes = strtoull(line + strlen(name) + 1, NULL, 10) << 10;
    if (file)
        fclose(file);
    return bytes;
}

/* The most memory since the last call begins anew. */
static void forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (CHECK(file != NULL)) {
        fputs("5", file);
        fclose(file);
    }
}

static void export_takes_no_second_copy(void)
{
    void *block = NULL, *untouched = NULL;
    char key[65];
    begin();
    CHECK_OK(aclrtMalloc(&block, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMalloc(&untouched, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(block, BLOCK, 7);
    forget_peak();
    size_t before = status_bytes("VmRSS");
    CHECK(before > BLOCK);
    CHECK_OK(aclrtIpcMemGetExportKey(block, BLOCK, key, 65, 1));
    CHECK(status_bytes("VmHWM") < before + 64 * MIB);
    CHECK(holds(block, BLOCK, 7));
    before = status_bytes("VmRSS");
    CHECK_OK(aclrtIpcMemGetExportKey(untouched, BLOCK, key, 65, 1));
    CHECK(status_bytes("VmRSS") < before + 64 * MIB);
    CHECK_OK(aclrtFree(block));
    CHECK_OK(aclrtFree(untouched));
    end();
}

static void owner(Line line)
{
    Message message;
    void *block = NULL;
    begin();
    size_t before = free_bytes();
    memset(&message, 0, sizeof message);
    CHECK_OK(aclrtMalloc(&block, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(block, BLOCK, 1);
    CHECK_OK(aclrtIpcMemGetExportKey(block, BLOCK, message.key, 65, 1));
    say(line, message);
    CHECK(hear(line, &message));
    /* The importer has it: it is no memory for others. */
    CHECK_OK(aclrtFree(block));
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK(free_bytes() + BLOCK <= before + MIB);
    say(line, message);
    CHECK(hear(line, &message));
    /* The importer has closed it. */
    CHECK(free_bytes() + 8 * MIB >= before);
    CHECK(status_bytes("RssShmem") < 64 * MIB);
    /* Once more, and the owner ends while the importer has it. */
    CHECK_OK(aclrtMalloc(&block, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(block, BLOCK, 2);
    CHECK_OK(aclrtIpcMemGetExportKey(block, BLOCK, message.key, 65, 1));
    say(line, message);
    CHECK(hear(line, &message));
    fflush(NULL);
    if (!check_failures)
        kill(getpid(), SIGKILL);
}

static void holder(Line line)
{
    Message message, next;
    void *block = NULL;
    begin();
    CHECK(hear(line, &message));
    size_t before = free_bytes();
    CHECK_OK(aclrtIpcMemImportByKey(&block, message.key, 1));
    CHECK(free_bytes() + 8 * MIB >= before);
    say(line, message);
    CHECK(hear(line, &next));
    CHECK(holds(block, BLOCK, 1));
    CHECK_OK(aclrtIpcMemClose(message.key));
    say(line, message);
    CHECK(hear(line, &message));
    CHECK_OK(aclrtIpcMemImportByKey(&block, message.key, 1));
    say(line, message);
    CHECK(!hear(line, &next));
    /* The owner has ended, and its claim with it: this process has the memory now. */
    size_t left = free_bytes();
    CHECK(holds(block, BLOCK, 2));
    CHECK_OK(aclrtIpcMemClose(message.key));
    CHECK(free_bytes() + MIB >= left + BLOCK);
    end();
}

enum { HOLES = 33 };

/* A block of pages that a stream has yet to move there is exported, while the stream moves them and writes. */
static void stitched_blocks(void)
{
    begin();
    aclrtStream stream;
    CHECK_OK(aclrtCreateStream(&stream));
    char *host = (char *)malloc(HOLES / 2 * MIB);
    for (int round = 0; round < 24; round++) {
        Gate gate = GATE_CLOSED;
        char key[65];
        void *blocks[HOLES], *large = NULL;
        size_t bytes = HOLES / 2 * MIB;
        aclrtMemPool pool = make_pool(0, 0);
        set_release_threshold(pool, UINT64_MAX);
        for (int i = 0; i < HOLES; i++) {
            blocks[i] = pool_malloc(pool, MIB, stream);
            CHECK_OK(aclrtMemsetAsync(blocks[i], MIB, 1, MIB, stream));
        }
        CHECK_OK(aclrtSynchronizeStream(stream));
        uint64_t before = reserved(pool);
        gate_put(&gate, stream);
        for (int i = 0; i < HOLES; i += 2)
            CHECK_OK(aclrtMemPoolFreeAsync(blocks[i], stream));
        large = pool_malloc(pool, bytes, stream);
        CHECK_EQ(reserved(pool), before);
        CHECK_OK(aclrtMemsetAsync(large, bytes, 7, bytes, stream));
        gate_open(&gate);
        CHECK_OK(aclrtIpcMemGetExportKey(large, bytes, key, 65, 1));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_OK(aclrtMemcpy(host, bytes, large, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK(all_are(host, bytes, 7));
        for (int i = 1; i < HOLES; i += 2) {
            CHECK(holds(blocks[i], MIB, 1));
            CHECK_OK(aclrtMemPoolFreeAsync(blocks[i], stream));
        }
        CHECK_OK(aclrtMemPoolFreeAsync(large, stream));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_OK(aclrtMemPoolDestroy(pool));
    }
    free(host);
    CHECK_OK(aclrtDestroyStream(stream));
    end();
}

int main(void)
{
    GROUP("acl_ipc_10 an export takes no second copy, and nothing for what was never written");
    CHECK_EQ(in_child(export_takes_no_second_copy, 60), 0);
    GROUP("acl_ipc_11 what an importer holds counts with its owner, and when that has ended with the importer");
    CHECK_EQ(two(owner, holder), 0);
    GROUP("acl_ipc_12 a stitched block is exported while its pages are on their way");
    CHECK_EQ(in_child(stitched_blocks, 60), 0);
    return END();
}

// unchecked: it touches device memory itself
// env: CAIRN_MEMORY=stats,guard
/* What layers print on standard error when a process ends: figures, and damage to blocks that
 * were not freed. Each process is a child whose standard error is read here. */
#include "child.h"

static char report[1 << 16];

/* Runs `body` in a child; its standard error is then in `report`. */
static int read_child(void (*body)(void))
{
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0)
        abort();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        check_failures = 0;
        start_watchdog();
        dup2(pipe_ends[1], 2);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        body();
        exit(check_failures != 0);
    }
    close(pipe_ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(pipe_ends[0], report + length, sizeof report - 1 - length)) > 0)
        length += (size_t)got;
    report[length] = 0;
    close(pipe_ends[0]);
    return child_status(pid);
}

static void *blocks[4];

static void allocate(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    for (int i = 0; i < 4; i++)
        CHECK_OK(aclrtMallocAlign32(&blocks[i], 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
}

static void clean(void)
{
    allocate();
    for (int i = 0; i < 4; i++)
        CHECK_OK(aclrtFree(blocks[i]));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
}

static void leaky(void)
{
    allocate();
    CHECK_OK(aclrtFree(blocks[0]));
    ((char *)blocks[2])[4096] = 1;
}

static void without_stderr(void)
{
    leaky();
    close(2);
}

static void without_exit_handlers(void)
{
    leaky();
    _exit(0);
}

static void without_acl(void)
{
    report[0] = 0;
}

int main(void)
{
    GROUP("CAIRN_MEMORY stats: a clean end");
    CHECK_EQ(read_child(clean), 0);
    CHECK(
        strcmp(
            report,
            "cairn: stats of device 0: live 0 bytes, blocks 0, peak 16384, largest 4096, taken 4 (16384 bytes), "
            "given back 4, failed 0\n") == 0);
    printf("%s", report);

    GROUP("CAIRN_MEMORY stats, guard: blocks were not freed, one of them damaged");
    CHECK_EQ(read_child(leaky), 0);
    CHECK(strstr(report, "stats of device 0: live 12288 bytes, blocks 3") != NULL);
    CHECK(strstr(report, "cairn: guard: somebody wrote beside the block ") == report);
    CHECK(strstr(report, "of 4096 bytes: 1 byte after it, the first at offset 4096, where 01 ") != NULL);
    printf("%s", report);

    GROUP("CAIRN_MEMORY: standard error is closed");
    CHECK_EQ(read_child(without_stderr), 0);
    CHECK_EQ(report[0], 0);

    GROUP("CAIRN_MEMORY: no report without exit handlers, or without use of ACL");
    CHECK_EQ(read_child(without_exit_handlers), 0);
    CHECK_EQ(report[0], 0);
    CHECK_EQ(read_child(without_acl), 0);
    CHECK_EQ(report[0], 0);
    return END();
}

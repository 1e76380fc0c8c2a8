// env: CAIRN_DEVICES=2
// links: -lhccl
/* Many collectives of all sizes on one communicator, without growth: 10^5 in deep runs. */
#include "ranks.h"
#include <dirent.h>

enum { LARGEST = 1 << 14 };

static int number_of(const char *folder)
{
    int count = 0;
    DIR *entries = opendir(folder);
    while (entries != NULL && readdir(entries) != NULL)
        count++;
    if (entries != NULL)
        closedir(entries);
    return count;
}

static long resident_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    if (status != NULL)
        fclose(status);
    return kib;
}

static int collectives(void)
{
    const char *depth = getenv("CAIRN_TESTS");
    return depth != NULL && strcmp(depth, "deep") == 0 ? 100000 : 3000;
}

static void rounds(Rank *rank, int count)
{
    float *buffer = (float *)device_bytes(LARGEST * sizeof(float));
    for (int i = 0; i < count; i++) {
        uint64_t elements = 1u << (i % 15);
        switch (i % 3) {
        case 0:
            CHECK_OK(HcclAllReduce(buffer, buffer, elements, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MAX, rank->comm, rank->stream));
            break;
        case 1:
            CHECK_OK(HcclBroadcast(buffer, elements, HCCL_DATA_TYPE_FP32, (uint32_t)i % rank->size, rank->comm, rank->stream));
            break;
        default:
            CHECK_OK(HcclBarrier(rank->comm, rank->stream));
        }
        if (i % 64 == 63)
            CHECK_OK(aclrtSynchronizeStream(rank->stream));
    }
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    CHECK_OK(aclrtFree(buffer));
}

/* What the process has of everything that could grow. One rank counts for both, while the other waits: each sees the descriptors of the other,
 * also the one that it counts with. */
typedef struct {
    int files, threads;
    long kib;
} Use;

static Use use_of(Rank *rank)
{
    Use use = {0, 0, 0};
    ranks_meet(rank);
    if (rank->rank == 0) {
        use.files = number_of("/proc/self/fd");
        use.threads = number_of("/proc/self/task");
        use.kib = resident_kib();
    }
    ranks_meet(rank);
    return use;
}

static void soak(Rank *rank)
{
    rounds(rank, 1000);
    Use before = use_of(rank);
    rounds(rank, collectives());
    Use after = use_of(rank);
    CHECK(after.files <= before.files);
    CHECK(after.threads <= before.threads + 8);
    CHECK(after.kib <= before.kib + 8192);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    GROUP("hccl_9 many collectives: no growth of memory, threads or descriptors");
    ranks_run(2, NULL, soak, NULL);
    CHECK_OK(aclFinalize());
    return check_end();
}

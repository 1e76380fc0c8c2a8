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

static void soak(Rank *rank)
{
    rounds(rank, 1000);
    ranks_meet(rank);
    int files = number_of("/proc/self/fd"), threads = number_of("/proc/self/task");
    long before = resident_kib();
    ranks_meet(rank);
    rounds(rank, collectives());
    ranks_meet(rank);
    CHECK(number_of("/proc/self/fd") <= files);
    CHECK(number_of("/proc/self/task") <= threads + 8);
    CHECK(resident_kib() <= before + 8192);
    ranks_meet(rank);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    GROUP("hccl_9 many collectives: no growth of memory, threads or descriptors");
    ranks_run(2, NULL, soak, NULL);
    CHECK_OK(aclFinalize());
    return check_end();
}

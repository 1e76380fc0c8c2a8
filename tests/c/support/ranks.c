/*
 * A rank of a job that `cairn run --ranks` starts: two allreduces and a message from rank 0 to rank 1, then what the argument says.
 * Ranks meet by a file `root` in the current folder.
 */
#include <time.h>
#include <acl/acl.h>
#include <hccl/hccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1024, BYTES = COUNT * 4 };

#define MUST(call)                                                                          \
    do {                                                                                    \
        int code = (int)(call);                                                             \
        if (code != 0) {                                                                    \
            const char *text = aclGetRecentErrMsg();                                        \
            fprintf(stderr, "%s: %d\n  %s\n", #call, code, text != NULL ? text : "");       \
            exit(9);                                                                        \
        }                                                                                   \
    } while (0)

static int number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : -1;
}

/* Rank 0 writes the root info, under another name first: nobody reads a part of it. */
static HcclRootInfo meet(int rank)
{
    HcclRootInfo root;
    FILE *file;
    if (rank == 0) {
        MUST(HcclGetRootInfo(&root));
        file = fopen("root.new", "wb");
        if (file == NULL || fwrite(&root, sizeof root, 1, file) != 1 || fclose(file) != 0 || rename("root.new", "root") != 0)
            exit(8);
        return root;
    }
    while ((file = fopen("root", "rb")) == NULL)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (fread(&root, sizeof root, 1, file) != 1)
        exit(8);
    fclose(file);
    return root;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int rank = number("RANK"), size = number("WORLD_SIZE");
    HcclComm comm;
    HcclCommConfig config;
    aclrtStream stream;
    void *send, *receive;
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(number("DEVICE_ID")));
    HcclRootInfo root = meet(rank);
    HcclCommConfigInit(&config);
    strcpy(config.hcclCommName, "world");
    MUST(HcclCommInitRootInfoConfig((uint32_t)size, &root, (uint32_t)rank, &config, &comm));
    MUST(aclrtCreateStream(&stream));
    MUST(aclrtMalloc(&send, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMalloc(&receive, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMemset(send, BYTES, 0, BYTES));
    for (int i = 0; i < 2; i++)
        MUST(HcclAllReduce(send, receive, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
    if (rank == 0)
        MUST(HcclSend(send, COUNT, HCCL_DATA_TYPE_FP32, 1, comm, stream));
    if (rank == 1)
        MUST(HcclRecv(receive, COUNT, HCCL_DATA_TYPE_FP32, 0, comm, stream));
    MUST(aclrtSynchronizeStream(stream));
    if (strcmp(what, "differ") == 0 || (strcmp(what, "stop") == 0 && rank == 0)) {
        uint64_t count = rank == 0 ? COUNT : COUNT / 2;
        MUST(HcclAllReduce(send, receive, count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
        aclrtSynchronizeStream(stream);
    }
    if (strcmp(what, "hold") == 0) {
        printf("ready\n");
        fflush(stdout);
        pause();
    }
    MUST(HcclCommDestroy(comm));
    MUST(aclrtFree(send));
    MUST(aclrtFree(receive));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtResetDevice(number("DEVICE_ID")));
    MUST(aclFinalize());
    return 0;
}

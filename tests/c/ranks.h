/*
 * Ranks as threads of one process, a device each, and elements of every type as numbers. The environment needs as many
 * devices as ranks: `env: CAIRN_DEVICES=8`.
 */
#ifndef CAIRN_TESTS_RANKS_H
#define CAIRN_TESTS_RANKS_H

#include "gate.h"
#include "hccl/hccl.h"

#define MAX_RANKS 16

/* One rank: its own thread, device and stream, and a communicator of all. */
typedef struct Rank {
    uint32_t rank;
    uint32_t size;
    HcclComm comm;
    aclrtStream stream;
    struct Ranks *all;
} Rank;

/* What the ranks of one run share. */
typedef struct Ranks {
    uint32_t size;
    HcclRootInfo root;
    const HcclCommConfig *config;
    void (*body)(Rank *);
    void *argument;
    pthread_barrier_t barrier;
    Rank rank[MAX_RANKS];
} Ranks;

/* Waits until every rank of the run is here. */
__attribute__((unused)) static void ranks_meet(Rank *rank)
{
    pthread_barrier_wait(&rank->all->barrier);
}

__attribute__((unused)) static void rank_begin(Rank *rank)
{
    CHECK_OK(aclrtSetDevice((int32_t)rank->rank));
    CHECK_OK(aclrtCreateStream(&rank->stream));
}

__attribute__((unused)) static void rank_end(Rank *rank)
{
    CHECK_OK(aclrtDestroyStream(rank->stream));
    CHECK_OK(aclrtResetDevice((int32_t)rank->rank));
}

__attribute__((unused)) static void rank_thread(void *argument)
{
    Rank *rank = (Rank *)argument;
    Ranks *all = rank->all;
    rank_begin(rank);
    HcclResult code = all->config
        ? HcclCommInitRootInfoConfig(rank->size, &all->root, rank->rank, all->config, &rank->comm)
        : HcclCommInitRootInfo(rank->size, &all->root, rank->rank, &rank->comm);
    if (CHECK_CODE(code, HCCL_SUCCESS)) {
        all->body(rank);
        if (rank->comm)
            CHECK_OK(HcclCommDestroy(rank->comm));
    }
    rank_end(rank);
}

/* Runs `body` on `size` ranks of a new communicator, in the shape of the vendor's samples. */
__attribute__((unused)) static void ranks_run(
    uint32_t size, const HcclCommConfig *config, void (*body)(Rank *), void *argument)
{
    Ranks *all = (Ranks *)calloc(1, sizeof *all);
    pthread_t threads[MAX_RANKS];
    all->size = size;
    all->config = config;
    all->body = body;
    all->argument = argument;
    pthread_barrier_init(&all->barrier, NULL, size);
    CHECK_OK(aclrtSetDevice(0));
    if (CHECK_OK(HcclGetRootInfo(&all->root))) {
        for (uint32_t i = 0; i < size; i++) {
            all->rank[i].rank = i;
            all->rank[i].size = size;
            all->rank[i].all = all;
            threads[i] = start_thread(rank_thread, &all->rank[i]);
        }
        for (uint32_t i = 0; i < size; i++)
            join_thread(threads[i]);
    }
    CHECK_OK(aclrtResetDevice(0));
    pthread_barrier_destroy(&all->barrier);
    free(all);
}

/* Runs `body` on `size` ranks that make no communicator by themselves. */
__attribute__((unused)) static void bare_thread(void *argument)
{
    Rank *rank = (Rank *)argument;
    rank_begin(rank);
    rank->all->body(rank);
    rank_end(rank);
}

__attribute__((unused)) static void ranks_bare(uint32_t size, void (*body)(Rank *), void *argument)
{
    Ranks *all = (Ranks *)calloc(1, sizeof *all);
    pthread_t threads[MAX_RANKS];
    all->size = size;
    all->body = body;
    all->argument = argument;
    pthread_barrier_init(&all->barrier, NULL, size);
    for (uint32_t i = 0; i < size; i++) {
        all->rank[i].rank = i;
        all->rank[i].size = size;
        all->rank[i].all = all;
        threads[i] = start_thread(bare_thread, &all->rank[i]);
    }
    for (uint32_t i = 0; i < size; i++)
        join_thread(threads[i]);
    pthread_barrier_destroy(&all->barrier);
    free(all);
}

/* Bytes of an element. */
__attribute__((unused)) static size_t type_bytes(HcclDataType type)
{
    static const unsigned char bytes[] = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16, 0, 1, 1, 1, 1};
    return (unsigned)type < sizeof bytes ? bytes[type] : 0;
}

/* Types with numbers that can be reduced. */
static const HcclDataType numbers[] = {
    HCCL_DATA_TYPE_INT8,   HCCL_DATA_TYPE_INT16,  HCCL_DATA_TYPE_INT32,  HCCL_DATA_TYPE_FP16,
    HCCL_DATA_TYPE_FP32,   HCCL_DATA_TYPE_INT64,  HCCL_DATA_TYPE_UINT64, HCCL_DATA_TYPE_UINT8,
    HCCL_DATA_TYPE_UINT16, HCCL_DATA_TYPE_UINT32, HCCL_DATA_TYPE_FP64,   HCCL_DATA_TYPE_BFP16};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

/* Writes a small whole number as element `i`; other types get its bits in their first byte. */
__attribute__((unused)) static void element_set(void *array, HcclDataType type, size_t i, int value)
{
    char *at = (char *)array + i * type_bytes(type);
    memset(at, 0, type_bytes(type));
    float f = (float)value;
    double d = value;
    int64_t wide = value;
    uint32_t bits;
    switch (type) {
    case HCCL_DATA_TYPE_FP16: {
        aclFloat16 half = aclFloatToFloat16(f);
        memcpy(at, &half, 2);
        break;
    }
    case HCCL_DATA_TYPE_BFP16:
        memcpy(&bits, &f, 4);
        bits >>= 16;
        memcpy(at, &bits, 2);
        break;
    case HCCL_DATA_TYPE_FP32:
        memcpy(at, &f, 4);
        break;
    case HCCL_DATA_TYPE_FP64:
        memcpy(at, &d, 8);
        break;
    default:
        memcpy(at, &wide, type_bytes(type) < 8 ? type_bytes(type) : 8);
    }
}

/* Device memory with one number in every element. */
__attribute__((unused)) static void *device_bytes(size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(aclrtMalloc(&memory, bytes ? bytes : 1, ACL_MEM_MALLOC_HUGE_FIRST));
    return memory;
}

typedef int (*ElementValue)(uint32_t rank, size_t index);

/* Device memory with `count` elements that a function gives. */
__attribute__((unused)) static void *device_elements(
    HcclDataType type, size_t count, ElementValue value, uint32_t rank)
{
    size_t bytes = count * type_bytes(type);
    char *host = (char *)malloc(bytes ? bytes : 1);
    for (size_t i = 0; i < count; i++)
        element_set(host, type, i, value(rank, i));
    void *memory = device_bytes(bytes);
    if (bytes)
        CHECK_OK(aclrtMemcpy(memory, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    free(host);
    return memory;
}

/* Whether device memory has these elements; the first wrong one is printed. */
__attribute__((unused)) static int elements_are(
    const void *memory, HcclDataType type, size_t count, ElementValue value, uint32_t rank, const char *what)
{
    size_t bytes = count * type_bytes(type), each = type_bytes(type);
    char *host = (char *)malloc(bytes ? bytes : 1), expected[16];
    int same = 1;
    if (bytes)
        CHECK_OK(aclrtMemcpy(host, bytes, memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < count && same; i++) {
        element_set(expected, type, 0, value(rank, i));
        same = memcmp(host + i * each, expected, each) == 0;
        if (!same) {
            unsigned long long got = 0, wanted = 0;
            memcpy(&got, host + i * each, each < 8 ? each : 8);
            memcpy(&wanted, expected, each < 8 ? each : 8);
            printf("  %s, type %d, rank %u: element %zu is 0x%llx, expected 0x%llx\n", what, type, rank, i, got, wanted);
        }
    }
    free(host);
    return CHECK(same);
}

#endif

// env: CAIRN_DEVICES=4
// links: -lhccl -lopapi
/* Operators that compute and communicate, on 2 and 4 ranks as threads, against plain loops; and what they refuse. */
#include "ranks.h"
#include "aclnn.h"
#include "aclnnop/aclnn_all_gather_matmul.h"
#include "aclnnop/aclnn_allto_all_matmul.h"
#include "aclnnop/aclnn_distribute_barrier.h"
#include "aclnnop/aclnn_matmul_all_reduce_v2.h"
#include "aclnnop/aclnn_matmul_allto_all.h"
#include "aclnnop/aclnn_matmul_reduce_scatter.h"
#include "aclnnop/aclnn_moe_distribute_combine_v2.h"
#include "aclnnop/aclnn_moe_distribute_dispatch_v2.h"
#include <math.h>

enum { ROWS = 4, DEPTH = 5, COLUMNS = 8, TOKENS = 5, CHOICES = 2, WIDTH = 6, EXPERTS_EACH = 2 };

/* A number that depends on the tensor, the rank and the place. */
static float value(int tensor, uint32_t rank, size_t i)
{
    return (float)((int)((i * 7 + rank * 13 + (size_t)tensor * 5) % 11) - 5) / 4;
}

static void *filled(int tensor, uint32_t rank, size_t count)
{
    float *host = (float *)malloc(count * sizeof *host);
    for (size_t i = 0; i < count; i++)
        host[i] = value(tensor, rank, i);
    void *memory = on_device(host, count * sizeof *host);
    free(host);
    return memory;
}

static aclTensor *matrix(void *memory, int64_t rows, int64_t columns)
{
    int64_t dims[] = {rows, columns};
    return tensor_of(dims, 2, ACL_FLOAT, memory);
}

/* Element (row, column) of x1 of rank `rank` times x2 of rank `weights`. */
static float product(uint32_t rank, uint32_t weights, size_t row, size_t column)
{
    float sum = 0;
    for (size_t k = 0; k < DEPTH; k++)
        sum += value(1, rank, row * DEPTH + k) * value(2, weights, k * COLUMNS + column);
    return sum;
}

static void are(const char *what, const void *memory, size_t count, float (*expected)(Rank *, size_t), Rank *rank)
{
    float *host = (float *)malloc(count * sizeof *host);
    CHECK_OK(aclrtMemcpy(host, count * 4, memory, count * 4, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < count; i++) {
        float want = expected(rank, i);
        if (!CHECK(fabsf(host[i] - want) <= 1e-4f)) {
            printf("%s: rank %u, element %zu is %g, expected %g\n", what, rank->rank, i, host[i], want);
            break;
        }
    }
    free(host);
}

static float gathered_product(Rank *rank, size_t i)
{
    return product((uint32_t)(i / COLUMNS / ROWS), rank->rank, i / COLUMNS % ROWS, i % COLUMNS);
}

static float gathered(Rank *rank, size_t i)
{
    (void)rank;
    return value(1, (uint32_t)(i / DEPTH / ROWS), i % (DEPTH * ROWS));
}

static float reduced_product(Rank *rank, size_t i)
{
    float sum = 0;
    for (uint32_t r = 0; r < rank->size; r++)
        sum += product(r, r, i / COLUMNS, i % COLUMNS) + value(3, r, i % COLUMNS) + value(4, r, i);
    return sum;
}

static float scattered_product(Rank *rank, size_t i)
{
    size_t first = rank->rank * (ROWS / rank->size);
    float sum = 0;
    for (uint32_t r = 0; r < rank->size; r++)
        sum += product(r, r, first + i / COLUMNS, i % COLUMNS);
    return sum;
}

/* Rows of x1 for this rank, side by side, times x2 of size x DEPTH rows. */
static float exchanged_product(Rank *rank, size_t i)
{
    size_t row = rank->rank * (ROWS / rank->size) + i / COLUMNS;
    float sum = 0;
    for (uint32_t r = 0; r < rank->size; r++)
        for (size_t k = 0; k < DEPTH; k++)
            sum += value(1, r, row * DEPTH + k) * value(5, rank->rank, (r * DEPTH + k) * COLUMNS + i % COLUMNS);
    return sum;
}

static float product_exchanged(Rank *rank, size_t i)
{
    size_t part = COLUMNS / rank->size, row = i / part;
    return product((uint32_t)(row / ROWS), (uint32_t)(row / ROWS), row % ROWS, rank->rank * part + i % part);
}

#define RUN(name, rank, ...)                                                                     \
    do {                                                                                         \
        uint64_t bytes = 0;                                                                      \
        aclOpExecutor *executor = NULL;                                                          \
        void *workspace = NULL;                                                                  \
        if (CHECK_OK(name##GetWorkspaceSize(__VA_ARGS__, &bytes, &executor))) {                  \
            if (bytes)                                                                           \
                CHECK_OK(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST));             \
            CHECK_OK(name(workspace, bytes, executor, (rank)->stream));                          \
            CHECK_OK(aclrtSynchronizeStream((rank)->stream));                                    \
            if (workspace)                                                                       \
                CHECK_OK(aclrtFree(workspace));                                                  \
        }                                                                                        \
    } while (0)

static void products(Rank *rank, const char *group)
{
    uint32_t size = rank->size;
    void *m1 = filled(1, rank->rank, ROWS * DEPTH), *m2 = filled(2, rank->rank, DEPTH * COLUMNS);
    void *bias_memory = filled(3, rank->rank, COLUMNS), *added_memory = filled(4, rank->rank, ROWS * COLUMNS);
    void *wide = filled(5, rank->rank, size * DEPTH * COLUMNS);
    void *out = filled(9, 0, size * ROWS * COLUMNS), *all = filled(9, 0, size * ROWS * DEPTH);
    aclTensor *x1 = matrix(m1, ROWS, DEPTH), *x2 = matrix(m2, DEPTH, COLUMNS);
    aclTensor *bias = vector_of(COLUMNS, bias_memory), *added = matrix(added_memory, ROWS, COLUMNS);

    aclTensor *y = matrix(out, size * ROWS, COLUMNS), *gather = matrix(all, size * ROWS, DEPTH);
    RUN(aclnnAllGatherMatmul, rank, x1, x2, NULL, group, 0, 0, 1, y, gather);
    are("AllGatherMatmul", out, size * ROWS * COLUMNS, gathered_product, rank);
    are("AllGatherMatmul, gathered", all, size * ROWS * DEPTH, gathered, rank);
    CHECK_OK(aclDestroyTensor(gather));
    CHECK_OK(aclDestroyTensor(y));

    y = matrix(out, ROWS, COLUMNS);
    RUN(aclnnMatmulAllReduceV2, rank, x1, x2, bias, added, group, "sum", 0, 1, y);
    are("MatmulAllReduce", out, ROWS * COLUMNS, reduced_product, rank);
    CHECK_OK(aclDestroyTensor(y));

    y = matrix(out, ROWS / size, COLUMNS);
    RUN(aclnnMatmulReduceScatter, rank, x1, x2, NULL, group, "sum", 0, 1, y);
    are("MatmulReduceScatter", out, ROWS / size * COLUMNS, scattered_product, rank);
    aclTensor *tall = matrix(wide, size * DEPTH, COLUMNS);
    RUN(aclnnAlltoAllMatmul, rank, x1, tall, NULL, NULL, group, false, false, y, NULL);
    are("AlltoAllMatmul", out, ROWS / size * COLUMNS, exchanged_product, rank);
    CHECK_OK(aclDestroyTensor(tall));
    CHECK_OK(aclDestroyTensor(y));

    y = matrix(out, size * ROWS, COLUMNS / size);
    RUN(aclnnMatmulAlltoAll, rank, x1, x2, NULL, NULL, group, false, false, y);
    are("MatmulAlltoAll", out, ROWS * COLUMNS, product_exchanged, rank);
    CHECK_OK(aclDestroyTensor(y));

    aclTensor *tensors[] = {x1, x2, bias, added};
    for (int i = 0; i < 4; i++)
        CHECK_OK(aclDestroyTensor(tensors[i]));
    void *memory[] = {m1, m2, bias_memory, added_memory, wide, out, all};
    for (int i = 0; i < 7; i++)
        CHECK_OK(aclrtFree(memory[i]));
}

static int chosen(uint32_t rank, uint32_t size, size_t slot)
{
    int experts = (int)size * EXPERTS_EACH;
    size_t token = slot / CHOICES, choice = slot % CHOICES;
    return (int)((token * 3 + rank + choice * 2) % (size_t)experts);
}

/* What the experts, which multiply by their number and one, make of a token. */
static float mixed(Rank *rank, size_t i)
{
    size_t token = i / WIDTH;
    float sum = 0;
    for (size_t choice = 0; choice < CHOICES; choice++) {
        size_t slot = token * CHOICES + choice;
        float scale = value(7, rank->rank, slot);
        sum += scale * (float)(chosen(rank->rank, rank->size, slot) + 1) * value(6, rank->rank, i);
    }
    return sum;
}

static void experts(Rank *rank, const char *group)
{
    int64_t size = rank->size, count = size * EXPERTS_EACH, capacity = size * TOKENS * CHOICES;
    int64_t ids_dims[] = {TOKENS, CHOICES}, each = EXPERTS_EACH, counts = count, info = capacity * 128, one = 1;
    int32_t ids_host[TOKENS * CHOICES];
    for (size_t slot = 0; slot < TOKENS * CHOICES; slot++)
        ids_host[slot] = chosen(rank->rank, rank->size, slot);
    void *x_memory = filled(6, rank->rank, TOKENS * WIDTH), *weights_memory = filled(7, rank->rank, TOKENS * CHOICES);
    void *ids_memory = on_device(ids_host, sizeof ids_host), *expanded = filled(9, 0, (size_t)capacity * WIDTH);
    void *info_memory = filled(9, 0, (size_t)info), *nums_memory = filled(9, 0, EXPERTS_EACH * 2);
    void *counts_memory = filled(9, 0, (size_t)counts), *out = filled(9, 0, TOKENS * WIDTH), *unused = filled(9, 0, 1);
    aclTensor *x = matrix(x_memory, TOKENS, WIDTH), *ids = tensor_of(ids_dims, 2, ACL_INT32, ids_memory);
    aclTensor *weights = tensor_of(ids_dims, 2, ACL_FLOAT, weights_memory), *expand = matrix(expanded, capacity, WIDTH);
    aclTensor *assist = tensor_of(&info, 1, ACL_INT32, info_memory), *nums = tensor_of(&each, 1, ACL_INT64, nums_memory);
    aclTensor *received = tensor_of(&counts, 1, ACL_INT32, counts_memory), *y = matrix(out, TOKENS, WIDTH);
    aclTensor *scales = tensor_of(&one, 1, ACL_FLOAT, unused);

    RUN(aclnnMoeDistributeDispatchV2, rank, x, ids, NULL, NULL, NULL, group, size, rank->rank, count, "", 0, 0, 0, 0, 0, 0,
        0, 1, "", expand, scales, assist, nums, received, NULL, NULL);
    int64_t nums_host[EXPERTS_EACH] = {0};
    CHECK_OK(aclrtMemcpy(nums_host, sizeof nums_host, nums_memory, sizeof nums_host, ACL_MEMCPY_DEVICE_TO_HOST));
    int64_t came[EXPERTS_EACH] = {0};
    for (uint32_t r = 0; r < rank->size; r++)
        for (size_t slot = 0; slot < TOKENS * CHOICES; slot++) {
            int expert = chosen(r, rank->size, slot);
            if ((uint32_t)expert / EXPERTS_EACH == rank->rank)
                came[expert % EXPERTS_EACH]++;
        }
    CHECK(memcmp(came, nums_host, sizeof came) == 0);

    size_t bytes = (size_t)capacity * WIDTH * sizeof(float);
    float *host = (float *)malloc(bytes);
    CHECK_OK(aclrtMemcpy(host, bytes, expanded, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    size_t row = 0;
    for (int expert = 0; expert < EXPERTS_EACH; expert++)
        for (int64_t i = 0; i < nums_host[expert]; i++, row++)
            for (size_t at = 0; at < WIDTH; at++)
                host[row * WIDTH + at] *= (float)(rank->rank * EXPERTS_EACH + (uint32_t)expert + 1);
    CHECK_OK(aclrtMemcpy(expanded, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    free(host);

    RUN(aclnnMoeDistributeCombineV2, rank, expand, ids, assist, received, weights, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        group, size, rank->rank, count, "", 0, 0, 0, 0, 0, 0, 0, 0, 0, "", y);
    are("MoeDistributeCombine", out, TOKENS * WIDTH, mixed, rank);

    aclTensor *tensors[] = {x, ids, weights, expand, assist, nums, received, y, scales};
    for (int i = 0; i < 9; i++)
        CHECK_OK(aclDestroyTensor(tensors[i]));
    void *memory[] = {x_memory, weights_memory, ids_memory, expanded, info_memory, nums_memory, counts_memory, out, unused};
    for (int i = 0; i < 9; i++)
        CHECK_OK(aclrtFree(memory[i]));
}

static void works(Rank *rank)
{
    char group[128];
    CHECK_OK(HcclGetCommName(rank->comm, group));
    products(rank, group);
    experts(rank, group);
    void *memory = filled(0, 0, 1);
    aclTensor *x = vector_of(1, memory);
    RUN(aclnnDistributeBarrier, rank, x, group, rank->size);
    CHECK_OK(aclDestroyTensor(x));
    CHECK_OK(aclrtFree(memory));
}

/* Wrong names and sizes are refused before anything is sent; an expert that does not exist ends the operator on every rank. */
static void refuses(Rank *rank)
{
    char group[128];
    CHECK_OK(HcclGetCommName(rank->comm, group));
    void *memory = filled(0, 0, ROWS * DEPTH * 4);
    aclTensor *x = vector_of(1, memory);
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    CHECK_CODE(aclnnDistributeBarrierGetWorkspaceSize(x, "", rank->size, &bytes, &executor), 161002);
    if (CHECK_OK(aclnnDistributeBarrierGetWorkspaceSize(x, "nobody", rank->size, &bytes, &executor))) {
        CHECK(aclnnDistributeBarrier(NULL, 0, executor, rank->stream) != 0);
        CHECK_TEXT("nobody");
    }
    if (CHECK_OK(aclnnDistributeBarrierGetWorkspaceSize(x, group, 7, &bytes, &executor))) {
        CHECK(aclnnDistributeBarrier(NULL, 0, executor, rank->stream) != 0);
        CHECK_TEXT("7 ranks");
    }
    CHECK_OK(aclDestroyTensor(x));
    CHECK_OK(aclrtFree(memory));
    ranks_meet(rank);

    int64_t dims[] = {1, 1}, each = 1, info = 128;
    int32_t id = rank->rank == 0 ? 99 : 0;
    void *ids_memory = on_device(&id, sizeof id), *rows = filled(0, 0, 16), *words = filled(0, 0, 256);
    aclTensor *token = matrix(rows, 1, 1), *ids = tensor_of(dims, 2, ACL_INT32, ids_memory);
    aclTensor *expand = matrix((char *)rows + 32, rank->size, 1), *assist = tensor_of(&info, 1, ACL_INT32, words);
    int64_t counts = rank->size;
    void *more = filled(0, 0, 64);
    aclTensor *nums = tensor_of(&each, 1, ACL_INT64, more), *received = tensor_of(&counts, 1, ACL_INT32, (char *)more + 64);
    aclTensor *scales = tensor_of(&each, 1, ACL_FLOAT, (char *)more + 128);
    void *workspace = NULL;
    if (CHECK_OK(aclnnMoeDistributeDispatchV2GetWorkspaceSize(token, ids, NULL, NULL, NULL, group, rank->size, rank->rank,
            rank->size, "", 0, 0, 0, 0, 0, 0, 0, 1, "", expand, scales, assist, nums, received, NULL, NULL, &bytes,
            &executor))) {
        CHECK_OK(aclrtMalloc(&workspace, bytes ? bytes : 1, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK_OK(aclnnMoeDistributeDispatchV2(workspace, bytes, executor, rank->stream));
        CHECK(aclrtSynchronizeStream(rank->stream) != 0);
        CHECK_TEXT("expert 99");
        CHECK_OK(aclrtFree(workspace));
    }
    HcclResult failure = HCCL_SUCCESS;
    CHECK_OK(HcclGetCommAsyncError(rank->comm, &failure));
    CHECK(failure != HCCL_SUCCESS);
    aclTensor *tensors[] = {token, ids, expand, assist, nums, received, scales};
    for (int i = 0; i < 7; i++)
        CHECK_OK(aclDestroyTensor(tensors[i]));
    void *blocks[] = {ids_memory, rows, words, more};
    for (int i = 0; i < 4; i++)
        CHECK_OK(aclrtFree(blocks[i]));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    GROUP("hccl fused: products and experts on 2 and 4 ranks");
    ranks_run(2, NULL, works, NULL);
    ranks_run(4, NULL, works, NULL);
    GROUP("hccl fused: refused");
    ranks_run(2, NULL, refuses, NULL);
    CHECK_OK(aclFinalize());
    return check_end();
}

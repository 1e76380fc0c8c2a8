// breaks: pool-freed-while-pending
// env:
// env: CAIRN_WORKERS=1
/*
 * Single operators take their workspace, and memory for host inputs, from the allocator that is registered on
 * the stream: all inside the call, before any task has run.
 */
#include "aclop.h"
#include "cairn/reason.h"

enum { BYTE = 0x5a };

/* Bytes that each operator asks for, as in the table of docs/operators.md. */
enum { SORT_BYTES = 32768, TOPK_BYTES = 32768, MATMUL_BYTES = 49152, SUM_BYTES = 8 };

static Pool pool;
static aclrtStream stream;
static void *z, *second_out;

/* Every call of the pool's functions, in order: 'A' alloc, 'G' address, 'F' free; and sizes and addresses of the blocks. */
static char call_log[64];
static size_t sizes[64], calls;
static char *addresses[64];

/* What the last alloc and free were for. */
static cairnAllocationReason taken_for, freed_for;

static void log_call(char kind)
{
    size_t length = strlen(call_log);
    if (length + 1 < sizeof call_log)
        call_log[length] = kind;
}

static void *logged_alloc(aclrtAllocator object, size_t size)
{
    log_call('A');
    CHECK(cairnGetAllocationReason(&taken_for));
    PoolBlock *block = (PoolBlock *)pool_alloc(object, size);
    if (block && calls < 64) {
        sizes[calls] = size;
        addresses[calls++] = block->address;
    }
    return block;
}

static void *logged_address(aclrtAllocatorBlock block)
{
    log_call('G');
    return pool_address(block);
}

static void logged_free(aclrtAllocator object, aclrtAllocatorBlock block)
{
    log_call('F');
    CHECK(cairnGetAllocationReason(&freed_for));
    pool_free(object, block);
}

static void reset_pool(void)
{
    memset(call_log, 0, sizeof call_log);
    calls = 0;
    CHECK_OK(aclrtMemset(pool.base, POOL_BYTES, BYTE, POOL_BYTES));
}

/* How many bytes of a block were written. */
static size_t written_bytes(size_t call)
{
    static unsigned char block[POOL_BYTES];
    size_t changed = 0;
    CHECK_OK(aclrtMemcpy(block, sizeof block, addresses[call], sizes[call], ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < sizes[call]; i++)
        changed += block[i] != BYTE;
    return changed;
}

/* Runs an operator while the stream is blocked: memory is taken and given back before any task runs. */
static void run_blocked(const char *name, Operands *in, Operands *out, aclopAttr *attr, size_t bytes, const char *calls_expected)
{
    static Gate gate = GATE_CLOSED;
    reset_pool();
    gate_put(&gate, stream);
    CHECK_OK(run_op(EXECUTE_V2, name, in, out, attr, stream));
    CHECK(strcmp(call_log, calls_expected) == 0);
    if (strcmp(call_log, calls_expected) != 0)
        printf("  %s: the calls are %s\n", name, call_log);
    CHECK_EQ(pool.out, 0);
    size_t sum = 0;
    for (size_t i = 0; i < calls; i++)
        sum += sizes[i];
    if (sum != bytes)
        printf("  %s asked for %zu bytes\n", name, sum);
    CHECK_EQ(sum, bytes);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    for (size_t i = 0; i < calls; i++)
        CHECK(written_bytes(i) > sizes[i] / 2);
    destroy_operands(in);
    destroy_operands(out);
}

static void workspaces(void)
{
    static float numbers[1 << 16];
    static uint16_t halves[64 * 64];
    Operands in = {0}, out = {0};
    const int64_t long_vector[] = {1 << 16}, short_vector[] = {4096}, one[] = {1}, eight[] = {8}, matrix[] = {64, 64};
    for (int i = 0; i < 1 << 16; i++)
        numbers[i] = (float)((i * 7919) % 1000) + 0.25f;
    for (int i = 0; i < 64 * 64; i++)
        halves[i] = aclFloatToFloat16((float)(i % 13) + 0.5f);
    void *x = on_device(numbers, sizeof numbers), *h = on_device(halves, sizeof halves);

    GROUP("acl_reg_5 Sort: alloc, address, submit, free; this many bytes, most of them written");
    operand(&in, ACL_FLOAT, 1, short_vector, x, 4096 * 4);
    operand(&out, ACL_FLOAT, 1, short_vector, z, 4096 * 4);
    operand(&out, ACL_INT32, 1, short_vector, second_out, 4096 * 4);
    run_blocked("Sort", &in, &out, NULL, SORT_BYTES, "AGF");
    CHECK_EQ(taken_for.memoryClass, CAIRN_CLASS_WORKSPACE);
    CHECK_EQ(taken_for.graphId, UINT32_MAX);
    CHECK(taken_for.operatorName && strcmp(taken_for.operatorName, "Sort") == 0);
    CHECK(memcmp(&taken_for, &freed_for, sizeof taken_for) == 0);
    cairnAllocationReason outside;
    CHECK(!cairnGetAllocationReason(&outside));

    GROUP("acl_reg_5 TopKV2 of a vector, with k on the host");
    int32_t k = 8;
    operand(&in, ACL_FLOAT, 1, short_vector, x, 4096 * 4);
    CHECK_OK(aclSetTensorPlaceMent(operand(&in, ACL_INT32, 1, one, &k, 4), ACL_MEMTYPE_HOST));
    operand(&out, ACL_FLOAT, 1, eight, z, 32);
    operand(&out, ACL_INT32, 1, eight, second_out, 32);
    run_blocked("TopKV2", &in, &out, NULL, TOPK_BYTES, "AGF");

    GROUP("acl_reg_5 MatMul of half numbers, the first transposed");
    aclopAttr *attr = aclopCreateAttr();
    CHECK_OK(aclopSetAttrBool(attr, "transpose_x1", 1));
    operand(&in, ACL_FLOAT16, 2, matrix, h, sizeof halves);
    operand(&in, ACL_FLOAT16, 2, matrix, h, sizeof halves);
    operand(&out, ACL_FLOAT16, 2, matrix, z, sizeof halves);
    run_blocked("MatMul", &in, &out, attr, MATMUL_BYTES, "AGF");
    aclopDestroyAttr(attr);

    GROUP("acl_reg_5 ReduceSum of many numbers, with constant axes");
    int64_t axis = 0;
    operand(&in, ACL_FLOAT, 1, long_vector, x, sizeof numbers);
    CHECK_OK(aclSetTensorConst(operand(&in, ACL_INT64, 1, one, NULL, 0), &axis, sizeof axis));
    operand(&out, ACL_FLOAT, 1, one, z, 4);
    attr = aclopCreateAttr();
    CHECK_OK(aclopSetAttrBool(attr, "keep_dims", 1));
    run_blocked("ReduceSum", &in, &out, attr, SUM_BYTES, "AGF");
    aclopDestroyAttr(attr);
    CHECK_OK(aclrtFree(x));
    CHECK_OK(aclrtFree(h));
}

static void host_inputs(void)
{
    float numbers[100], constant[100];
    Operands in = {0}, out = {0};
    const int64_t size = 100;
    for (int i = 0; i < 100; i++) {
        numbers[i] = (float)i;
        constant[i] = 1000.0f;
    }
    GROUP("acl_1_8_8 a host input and a constant are tensors: rounded up to 32 bytes, and 32 more");
    CHECK_OK(aclSetTensorPlaceMent(operand(&in, ACL_FLOAT, 1, &size, numbers, sizeof numbers), ACL_MEMTYPE_HOST));
    CHECK_OK(aclSetTensorConst(operand(&in, ACL_FLOAT, 1, &size, NULL, 0), constant, sizeof constant));
    operand(&out, ACL_FLOAT, 1, &size, z, sizeof numbers);
    static Gate gate = GATE_CLOSED;
    reset_pool();
    gate_put(&gate, stream);
    CHECK_OK(run_op(EXECUTE, "Add", &in, &out, NULL, stream));
    memset(numbers, 0, sizeof numbers);
    destroy_operands(&in);
    destroy_operands(&out);
    CHECK(strcmp(call_log, "AGAGFF") == 0);
    CHECK_EQ(sizes[0], 416 + 32);
    CHECK_EQ(sizes[1], 416 + 32);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(number_at(z, 42) == 1042.0f && number_at(z, 99) == 1099.0f);
    CHECK(number_at(addresses[0], 42) == 42.0f && number_at(addresses[1], 42) == 1000.0f);
}

static void host_input_and_workspace(void)
{
    float numbers[100];
    Operands in = {0}, out = {0};
    const int64_t size = 100;
    for (int i = 0; i < 100; i++)
        numbers[i] = (float)(99 - i) + 0.25f;
    GROUP("acl_reg_5 a host input and a workspace: both are taken before anything is submitted");
    CHECK_OK(aclSetTensorPlaceMent(operand(&in, ACL_FLOAT, 1, &size, numbers, sizeof numbers), ACL_MEMTYPE_HOST));
    operand(&out, ACL_FLOAT, 1, &size, z, sizeof numbers);
    operand(&out, ACL_INT32, 1, &size, second_out, sizeof numbers);
    run_blocked("Sort", &in, &out, NULL, 448 + 800, "AGAGFF");
    CHECK_EQ(sizes[0], 448);
    CHECK(number_at(z, 0) == 0.25f && number_at(z, 99) == 99.25f);
}

static void no_workspace(void)
{
    Operands in = {0}, out = {0};
    GROUP("acl_1_8_8 an operator without workspace asks for nothing");
    reset_pool();
    vector_operand(&in, 64, z);
    vector_operand(&out, 64, second_out);
    CHECK_OK(run_op(COMPILE, "Abs", &in, &out, NULL, stream));
    CHECK_EQ(calls, 0);
    CHECK_OK(aclrtSynchronizeStream(stream));
    destroy_operands(&in);
    destroy_operands(&out);
}

/* An operator that takes one block. */
static aclError sort_once(aclrtStream target, Entry entry)
{
    Operands in = {0}, out = {0};
    const int64_t size = 512;
    operand(&in, ACL_FLOAT, 1, &size, z, 2048);
    operand(&out, ACL_FLOAT, 1, &size, (char *)z + 2048, 2048);
    operand(&out, ACL_INT32, 1, &size, second_out, 2048);
    aclError code = run_op(entry, "Sort", &in, &out, NULL, target);
    destroy_operands(&in);
    destroy_operands(&out);
    return code;
}

static int alloc_fails;

static void *failing_alloc(aclrtAllocator object, size_t size)
{
    return alloc_fails ? NULL : logged_alloc(object, size);
}

static void registrations(void)
{
    static Pool second_pool;
    GROUP("acl_reg_5 every entry takes from the allocator");
    for (int entry = 0; entry < ENTRIES; entry++) {
        reset_pool();
        CHECK_OK(sort_once(stream, (Entry)entry));
        CHECK(strcmp(call_log, "AGF") == 0);
        CHECK_OK(aclrtSynchronizeStream(stream)); /* reset_pool() writes over the pool */
    }

    GROUP("acl_reg_4 the last registration is used, from the next execution on");
    pool_open(&second_pool);
    pool_register(stream, &second_pool);
    reset_pool();
    CHECK_OK(sort_once(stream, EXECUTE));
    CHECK_EQ(calls, 0);
    CHECK_EQ(second_pool.allocs, 1);
    CHECK_OK(aclrtSynchronizeStream(stream));

    GROUP("acl_reg_6 one allocator on two streams, one after the other");
    aclrtStream other;
    CHECK_OK(aclrtCreateStream(&other));
    pool_register(other, &second_pool);
    CHECK_OK(sort_once(other, EXECUTE));
    CHECK_OK(aclrtSynchronizeStream(other));
    CHECK_OK(sort_once(stream, EXECUTE));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(second_pool.allocs, 3);
    CHECK_OK(aclrtDestroyStream(other));

    GROUP("acl_reg_7 memory freed while the stream still uses it stays intact");
    static Gate gate = GATE_CLOSED;
    gate_put(&gate, stream);
    CHECK_OK(sort_once(stream, EXECUTE));
    CHECK_OK(aclrtAllocatorUnregister(stream));
    pool_close(&second_pool);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));

    GROUP("acl_1_8_4 without a registration the device serves");
    reset_pool();
    CHECK_OK(sort_once(stream, EXECUTE));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(calls, 0);

    GROUP("acl_1_8_6 alloc gives null: 500002, nothing leaks, the stream stays usable");
    register_with(stream, &pool, failing_alloc, logged_free, logged_address);
    alloc_fails = 1;
    for (int entry = 0; entry < ENTRIES; entry++)
        CHECK_FAIL(sort_once(stream, (Entry)entry), ACL_ERROR_GE_FAILURE, "alloc");
    CHECK_EQ(pool.out, 0);
    CHECK_OK(aclrtSynchronizeStream(stream));
    alloc_fails = 0;
    reset_pool();
    CHECK_OK(sort_once(stream, EXECUTE));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(calls, 1);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMalloc(&z, 1 << 18, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMalloc(&second_out, 1 << 18, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemset(z, 1 << 18, 0, 1 << 18));
    pool_open(&pool);
    register_with(stream, &pool, logged_alloc, logged_free, logged_address);
    workspaces();
    host_inputs();
    host_input_and_workspace();
    no_workspace();
    registrations();
    CHECK_OK(aclrtDestroyStream(stream));
    pool_close(&pool);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

// env:
// env: CAIRN_WORKERS=1
/* Callbacks of an allocator that throw C++ exceptions, or end their thread. */
#include "logged.h"
#include "pool.h"
#include <new>
#include <stdexcept>

static Pool pool;
static aclrtStream stream;
static int frees;

static void *throw_alloc(aclrtAllocator, size_t)
{
    throw std::bad_alloc();
}

static void *throw_advise(aclrtAllocator, size_t, aclrtAllocatorAddr)
{
    throw std::runtime_error("thrown by advise");
}

static void *throw_address(aclrtAllocatorBlock)
{
    throw 42;
}

static void throw_free(aclrtAllocator object, aclrtAllocatorBlock block)
{
    pool_free(object, block);
    throw std::runtime_error("thrown by free");
}

static void count_free(aclrtAllocator object, aclrtAllocatorBlock block)
{
    frees++;
    pool_free(object, block);
}

static void check_pool_works()
{
    pool_register(stream, &pool);
    CHECK_OK(execute_with_tensor(stream, 64, nullptr));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(pool.out, 0);
}

static void exceptions()
{
    GROUP("acl_1_8_6 an exception in alloc is 500002, with its text");
    register_with(stream, &pool, throw_alloc, count_free, pool_address);
    CHECK_FAIL(execute_with_tensor(stream, 64, nullptr), ACL_ERROR_GE_FAILURE, "threw an exception");
    CHECK_FAIL(execute_with_tensor(stream, 64, nullptr), ACL_ERROR_GE_FAILURE, "bad_alloc");
    CHECK_EQ(frees, 0);
    check_pool_works();

    GROUP("acl_1_8_6 an exception in allocAdvise too");
    aclrtAllocatorDesc desc = pool_describe(&pool);
    CHECK_OK(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, throw_advise));
    CHECK_OK(aclrtAllocatorRegister(stream, desc));
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
    CairnProbeBlock block = {64, 0, 1, pool.base, nullptr, nullptr, 0};
    CairnProbe probe = {&block, 1, 0, nullptr};
    CHECK_FAIL(cairnProbeExecute(stream, &probe), ACL_ERROR_GE_FAILURE, "thrown by advise");
    check_pool_works();

    GROUP("acl_1_8_6 an exception in getAddrFromBlock too, and the block goes back");
    register_with(stream, &pool, pool_alloc, count_free, throw_address);
    CHECK_FAIL(execute_with_tensor(stream, 64, nullptr), ACL_ERROR_GE_FAILURE, "getAddrFromBlock");
    CHECK_EQ(frees, 1);
    check_pool_works();

    GROUP("acl_1_8_6 an exception in free fails the call; every block is given back once");
    register_with(stream, &pool, pool_alloc, throw_free, pool_address);
    CairnProbeBlock blocks[3] = {{64, 0, 1, nullptr, nullptr, nullptr, 0}, {64, 0, 1, nullptr, nullptr, nullptr, 0}, {64, 0, 1, nullptr, nullptr, nullptr, 0}};
    CairnProbe three = {blocks, 3, 0, nullptr};
    CHECK_FAIL(cairnProbeExecute(stream, &three), ACL_ERROR_GE_FAILURE, "thrown by free");
    CHECK_EQ(pool.out, 0);
    check_pool_works();

    GROUP("acl_1_8_6 exceptions in both: the first is reported, the other logged");
    register_with(stream, &pool, pool_alloc, throw_free, throw_address);
    CHECK_FAIL(execute_with_tensor(stream, 64, nullptr), ACL_ERROR_GE_FAILURE, "getAddrFromBlock");
    CHECK(LOGGED("free(0x", "thrown by free") > 0);
    check_pool_works();
}

static void *exit_in_alloc(aclrtAllocator, size_t)
{
    pthread_exit(nullptr);
}

static void exit_in_free(aclrtAllocator object, aclrtAllocatorBlock block)
{
    pool_free(object, block);
    pthread_exit(nullptr);
}

static void execute_and_finish(void *finished)
{
    CHECK_OK(aclrtSetDevice(0));
    (void)execute_with_tensor(stream, 64, nullptr);
    raise_flag(finished);
}

static int waiting;

static void wait_in_alloc(Pool *)
{
    raise_flag(&waiting);
    for (;;)
        pause();
}

/* The thread cannot unwind through Rust: it stays parked, and blocks nobody else. */
static void ended_threads()
{
    static int finished;
    GROUP("acl_reg_6 a callback that ends its thread is named in the log and blocks nobody");
    register_with(stream, &pool, exit_in_alloc, pool_free, pool_address);
    pthread_detach(start_thread(execute_and_finish, &finished));
    SPIN_UNTIL(LOGGED("ended itself", "alloc(96)"));
    check_pool_works();
    register_with(stream, &pool, pool_alloc, exit_in_free, pool_address);
    pthread_detach(start_thread(execute_and_finish, &finished));
    SPIN_UNTIL(LOGGED("ended itself", "free(0x"));
    check_pool_works();

    GROUP("acl_reg_6 so is a callback whose thread is cancelled");
    pool.in_alloc = wait_in_alloc;
    pthread_t thread = start_thread(execute_and_finish, &finished);
    pthread_detach(thread);
    SPIN_UNTIL(raised(&waiting));
    pthread_cancel(thread);
    SPIN_UNTIL(LOGGED("ended itself", "alloc(96)") == 2);
    pool.in_alloc = nullptr;
    check_pool_works();
    CHECK_EQ(raised(&finished), 0);
}

int main()
{
    log_begin();
    CHECK_OK(aclInit(nullptr));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    pool_open(&pool);
    exceptions();
    ended_threads();
    CHECK_OK(aclrtDestroyStream(stream));
    pool_close(&pool);
    log_end();
    return END();
}

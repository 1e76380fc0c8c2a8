/* Descriptors and registrations: what is accepted and refused, and what a registration stores. */
#include "pool.h"

static Pool pool;
static aclrtStream stream;

static void *other_alloc(aclrtAllocator object, size_t size)
{
    return pool_alloc(object, size);
}

static void descriptors(void)
{
    int foreign = 0;
    GROUP("acl_reg_1 a descriptor is made, filled, registered");
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    CHECK(desc != NULL);
    CHECK_OK(aclrtAllocatorSetObjToDesc(desc, &pool));
    CHECK_OK(aclrtAllocatorSetAllocFuncToDesc(desc, pool_alloc));
    CHECK_OK(aclrtAllocatorSetFreeFuncToDesc(desc, pool_free));
    CHECK_OK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, pool_address));
    CHECK_OK(aclrtAllocatorRegister(stream, desc));
    CHECK_OK(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, pool_advise));
    CHECK_OK(aclrtAllocatorRegister(stream, desc));
    CHECK_OK(aclrtAllocatorUnregister(stream));
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
    CHECK_NO_TEXT();

    GROUP("acl_1_8_1 null arguments of every function are 100000 and named");
    desc = aclrtAllocatorCreateDesc();
    CHECK_FAIL(aclrtAllocatorDestroyDesc(NULL), ACL_ERROR_INVALID_PARAM, "allocatorDesc");
    CHECK_FAIL(aclrtAllocatorSetObjToDesc(NULL, &pool), ACL_ERROR_INVALID_PARAM, "allocatorDesc");
    CHECK_FAIL(aclrtAllocatorSetObjToDesc(desc, NULL), ACL_ERROR_INVALID_PARAM, "allocator");
    CHECK_FAIL(aclrtAllocatorSetAllocFuncToDesc(NULL, pool_alloc), ACL_ERROR_INVALID_PARAM, "allocatorDesc");
    CHECK_FAIL(aclrtAllocatorSetAllocFuncToDesc(desc, NULL), ACL_ERROR_INVALID_PARAM, "func");
    CHECK_FAIL(aclrtAllocatorSetFreeFuncToDesc(NULL, pool_free), ACL_ERROR_INVALID_PARAM, "allocatorDesc");
    CHECK_FAIL(aclrtAllocatorSetFreeFuncToDesc(desc, NULL), ACL_ERROR_INVALID_PARAM, "func");
    CHECK_FAIL(aclrtAllocatorSetAllocAdviseFuncToDesc(NULL, pool_advise), ACL_ERROR_INVALID_PARAM, "allocatorDesc");
    CHECK_FAIL(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, NULL), ACL_ERROR_INVALID_PARAM, "func");
    CHECK_FAIL(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(NULL, pool_address), ACL_ERROR_INVALID_PARAM, "allocatorDesc");
    CHECK_FAIL(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, NULL), ACL_ERROR_INVALID_PARAM, "func");

    GROUP("acl_1_8_1 an invalid or destroyed descriptor is an error");
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
    CHECK_FAIL(aclrtAllocatorDestroyDesc(desc), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
    CHECK_FAIL(aclrtAllocatorSetObjToDesc(desc, &pool), ACL_ERROR_RT_INVALID_HANDLE, "descriptor");
    CHECK_FAIL(aclrtAllocatorRegister(stream, desc), ACL_ERROR_RT_INVALID_HANDLE, "descriptor");
    CHECK_FAIL(aclrtAllocatorDestroyDesc(&foreign), ACL_ERROR_RT_INVALID_HANDLE, "descriptor");
    CHECK_FAIL(aclrtAllocatorSetAllocFuncToDesc(stream, pool_alloc), ACL_ERROR_RT_INVALID_HANDLE, "it is a stream");
}

static aclError find(aclrtStream stream_handle, aclrtAllocatorDesc *desc)
{
    return aclrtAllocatorGetByStream(stream_handle, desc, NULL, NULL, NULL, NULL, NULL);
}

/* A registration with one part left out is refused, and the one before stays. */
static void refused_without(aclrtAllocatorDesc before, int part)
{
    aclrtAllocatorDesc found = NULL, desc = aclrtAllocatorCreateDesc();
    static const char *const names[] = {"object", "alloc function", "free function", "get-address"};
    if (part != 0)
        CHECK_OK(aclrtAllocatorSetObjToDesc(desc, &pool));
    if (part != 1)
        CHECK_OK(aclrtAllocatorSetAllocFuncToDesc(desc, other_alloc));
    if (part != 2)
        CHECK_OK(aclrtAllocatorSetFreeFuncToDesc(desc, pool_free));
    if (part != 3)
        CHECK_OK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, pool_address));
    CHECK_FAIL(aclrtAllocatorRegister(stream, desc), ACL_ERROR_INVALID_PARAM, names[part]);
    CHECK_OK(find(stream, &found));
    CHECK(found == before);
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
}

static void refusals(void)
{
    int foreign = 0;
    aclrtAllocatorDesc found = NULL, desc = pool_describe(&pool);
    GROUP("acl_reg_2 null or incomplete is 100000 and changes nothing");
    CHECK_OK(aclrtAllocatorRegister(stream, desc));
    CHECK_FAIL(aclrtAllocatorRegister(NULL, desc), ACL_ERROR_INVALID_PARAM, "stream");
    CHECK_FAIL(aclrtAllocatorRegister(stream, NULL), ACL_ERROR_INVALID_PARAM, "allocatorDesc");
    for (int part = 0; part < 4; part++)
        refused_without(desc, part);

    GROUP("acl_reg_2 a handle that is no live stream is 107017");
    aclrtStream destroyed = NULL;
    aclrtEvent event = NULL;
    CHECK_OK(aclrtCreateStream(&destroyed));
    CHECK_OK(aclrtCreateEvent(&event));
    CHECK_OK(aclrtDestroyStream(destroyed));
    CHECK_FAIL(aclrtAllocatorRegister(destroyed, desc), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
    CHECK_FAIL(aclrtAllocatorRegister(&foreign, desc), ACL_ERROR_RT_INVALID_HANDLE, "stream");
    CHECK_FAIL(aclrtAllocatorRegister(event, desc), ACL_ERROR_RT_INVALID_HANDLE, "event");
    CHECK_OK(aclrtDestroyEvent(event));

    GROUP("acl_reg_2 unregistering what is not registered, or twice, succeeds");
    CHECK_FAIL(aclrtAllocatorUnregister(NULL), ACL_ERROR_INVALID_PARAM, "stream");
    CHECK_OK(aclrtAllocatorUnregister(destroyed));
    CHECK_OK(aclrtAllocatorUnregister(&foreign));
    CHECK_OK(find(stream, &found));
    CHECK_OK(aclrtAllocatorUnregister(stream));
    CHECK_OK(aclrtAllocatorUnregister(stream));
    CHECK_FAIL(find(stream, &found), ACL_ERROR_INVALID_PARAM, "no allocator");
    CHECK_FAIL(find(destroyed, &found), ACL_ERROR_INVALID_PARAM, "no allocator");
    CHECK_FAIL(find(NULL, &found), ACL_ERROR_INVALID_PARAM, "stream");
    CHECK_FAIL(find(stream, NULL), ACL_ERROR_INVALID_PARAM, "allocatorDesc");
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
}

static void copies(void)
{
    aclrtAllocatorDesc found = NULL, desc = pool_describe(&pool);
    aclrtAllocator object = NULL;
    aclrtAllocatorAllocFunc alloc = NULL;
    aclrtAllocatorFreeFunc release = NULL;
    aclrtAllocatorAllocAdviseFunc advise = pool_advise;
    aclrtAllocatorGetAddrFromBlockFunc address = NULL;
    GROUP("acl_1_8_2 the registration stores functions, object and descriptor");
    CHECK_OK(aclrtAllocatorRegister(stream, desc));
    CHECK_OK(aclrtAllocatorSetAllocFuncToDesc(desc, other_alloc));
    CHECK_OK(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, pool_advise));
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
    CHECK_OK(aclrtAllocatorGetByStream(stream, &found, &object, &alloc, &release, &advise, &address));
    CHECK(found == desc && object == &pool);
    CHECK(alloc == pool_alloc && release == pool_free && advise == NULL && address == pool_address);

    GROUP("acl_reg_3 a descriptor may be changed or destroyed at once");
    CHECK_OK(execute_with_tensor(stream, 100, NULL));
    CHECK_EQ(pool.allocs, 1);
    CHECK_EQ(pool.frees, 1);

    GROUP("acl_reg_3 changes count when it is registered again");
    desc = describe(&pool, other_alloc, pool_free, pool_address);
    CHECK_OK(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, pool_advise));
    CHECK_OK(aclrtAllocatorRegister(stream, desc));
    CHECK_OK(aclrtAllocatorGetByStream(stream, &found, NULL, &alloc, NULL, &advise, NULL));
    CHECK(found == desc && alloc == other_alloc && advise == pool_advise);
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
    CHECK_OK(aclrtAllocatorUnregister(stream));
}

static void *register_elsewhere(void *unused)
{
    (void)unused;
    pool_register(stream, &pool);
    return NULL;
}

static void contexts(void)
{
    pthread_t thread;
    aclrtAllocatorDesc found = NULL;
    GROUP("acl_reg_1 the thread needs no device, the stream is enough");
    CHECK_EQ(pthread_create(&thread, NULL, register_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_OK(find(stream, &found));
    CHECK_OK(aclrtAllocatorUnregister(stream));
}

static void exit_order(void)
{
    GROUP("acl_1_8_12 the stream ends first, then the descriptor, then the registration");
    aclrtAllocatorDesc found = NULL, desc = pool_describe(&pool);
    CHECK_OK(aclrtAllocatorRegister(stream, desc));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_FAIL(find(stream, &found), ACL_ERROR_INVALID_PARAM, "no allocator");
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
    CHECK_OK(aclrtAllocatorUnregister(stream));

    GROUP("acl_1_8_12 also after the device is reset and ACL finalized");
    desc = pool_describe(&pool);
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtAllocatorRegister(stream, desc));
    pool_close(&pool);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
    CHECK_OK(aclrtAllocatorUnregister(stream));
    CHECK_NO_TEXT();
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    pool_open(&pool);
    descriptors();
    refusals();
    copies();
    contexts();
    exit_order();
    return END();
}

/* Pools: creation, attributes, and what is refused. */
#include "mem_pool.h"

static void check_refused(aclrtMemPoolProps props, int code, const char *part)
{
    aclrtMemPool pool = (aclrtMemPool)1;
    CHECK_FAIL(aclrtMemPoolCreate(&pool, &props), code, part);
    CHECK(pool == NULL);
}

static void creation(void)
{
    aclrtMemPoolProps props = pool_props(0, 0), bad;
    aclrtMemPool pool = NULL, second = NULL;
    GROUP("acl_soma_1 a pool is made from its properties");
    CHECK_OK(aclrtMemPoolCreate(&pool, &props));
    CHECK_OK(aclrtMemPoolCreate(&second, &props));
    CHECK(pool != NULL && second != NULL && pool != second);
    CHECK_OK(aclrtMemPoolDestroy(second));
    props.handleType = ACL_MEM_HANDLE_TYPE_POSIX;
    props.location.id = 1;
    CHECK_OK(aclrtMemPoolCreate(&second, &props));
    CHECK_OK(aclrtMemPoolDestroy(second));

    GROUP("acl_soma_1 wrong properties are named");
    CHECK_FAIL(aclrtMemPoolCreate(NULL, &props), ACL_ERROR_INVALID_PARAM, "memPool");
    second = (aclrtMemPool)1;
    CHECK_FAIL(aclrtMemPoolCreate(&second, NULL), ACL_ERROR_INVALID_PARAM, "poolProps");
    CHECK(second == NULL);
    bad = pool_props(0, 0);
    *(int *)&bad.allocType = 3;
    check_refused(bad, ACL_ERROR_INVALID_PARAM, "allocType 3");
    bad = pool_props(0, 0);
    *(int *)&bad.handleType = 1;
    check_refused(bad, ACL_ERROR_INVALID_PARAM, "handleType 1");
    bad = pool_props(0, 0);
    bad.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    check_refused(bad, ACL_ERROR_INVALID_PARAM, "location.type 0");
    bad = pool_props(0, 0);
    bad.reserved[31] = 7;
    check_refused(bad, ACL_ERROR_INVALID_PARAM, "reserved[31] is 7");
    check_refused(pool_props(2, 0), ACL_ERROR_RT_INVALID_DEVICEID, "device 2 does not exist");
    check_refused(pool_props(0xffffffff, 0), ACL_ERROR_RT_INVALID_DEVICEID, "4294967295");

    GROUP("acl_soma_1 invalid and destroyed handles");
    aclrtStream stream = NULL;
    uint64_t value = 0;
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMemPoolDestroy(pool));
    aclrtMemPool wrong[] = {pool, stream, (aclrtMemPool)0x1234, &value};
    const char *parts[] = {"destroyed", "stream", "0x1234", "0x"};
    for (int i = 0; i < 4; i++) {
        void *block = (void *)1;
        CHECK_FAIL(aclrtMemPoolDestroy(wrong[i]), ACL_ERROR_RT_INVALID_HANDLE, parts[i]);
        CHECK_FAIL(
            aclrtMemPoolGetAttr(wrong[i], ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value),
            ACL_ERROR_RT_INVALID_HANDLE, parts[i]);
        CHECK_FAIL(
            aclrtMemPoolSetAttr(wrong[i], ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value),
            ACL_ERROR_RT_INVALID_HANDLE, parts[i]);
        CHECK_FAIL(
            aclrtMemPoolMallocAsync(&block, 1, wrong[i], stream), ACL_ERROR_RT_INVALID_HANDLE, parts[i]);
        CHECK(block == NULL);
        CHECK_FAIL(aclrtMemPoolTrimTo(wrong[i], 0), ACL_ERROR_RT_INVALID_HANDLE, parts[i]);
    }
    CHECK_FAIL(aclrtMemPoolDestroy(NULL), ACL_ERROR_INVALID_PARAM, "memPool");
    CHECK_FAIL(aclrtMemPoolTrimTo(NULL, 0), ACL_ERROR_INVALID_PARAM, "memPool");
    CHECK_OK(aclrtDestroyStream(stream));
}

static void attributes(void)
{
    aclrtMemPool pool = make_pool(0, 0);
    uint64_t value = 0;
    GROUP("acl_soma_2 the three switches are 32 bits wide");
    aclrtMemPoolAttr switches[] = {
        ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC,
        ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES};
    const uint32_t defaults[] = {1, 1, 0};
    for (int i = 0; i < 3; i++) {
        uint32_t flag[2] = {77, 77};
        CHECK_OK(aclrtMemPoolGetAttr(pool, switches[i], &flag));
        CHECK(flag[0] == defaults[i] && flag[1] == 77);
        for (uint32_t setting = 0; setting < 2; setting++) {
            uint32_t set[2] = {setting, 99};
            CHECK_OK(aclrtMemPoolSetAttr(pool, switches[i], &set));
            CHECK_OK(aclrtMemPoolGetAttr(pool, switches[i], &flag));
            CHECK(flag[0] == setting && flag[1] == 77);
        }
        uint32_t two = 2;
        CHECK_FAIL(aclrtMemPoolSetAttr(pool, switches[i], &two), ACL_ERROR_RT_PARAM_INVALID, "0 (off)");
        CHECK_OK(aclrtMemPoolGetAttr(pool, switches[i], &flag));
        CHECK_EQ(flag[0], 1);
    }

    GROUP("acl_soma_2 the threshold is 0 by default and can be any number");
    CHECK_EQ(pool_attr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD), 0);
    set_release_threshold(pool, UINT64_MAX);
    CHECK_EQ(pool_attr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD), UINT64_MAX);

    GROUP("acl_soma_2 figures can be read, and the two peaks reset");
    void *large = pool_malloc(pool, 6 * MIB, NULL), *small = pool_malloc(pool, 1000, NULL);
    CHECK_EQ(used(pool), 6 * MIB + 1 * KIB);
    CHECK(reserved(pool) >= used(pool));
    CHECK_OK(aclrtMemPoolFreeAsync(large, NULL));
    CHECK_EQ(used(pool), 1 * KIB);
    CHECK_EQ(pool_attr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH), 6 * MIB + 1 * KIB);
    CHECK_OK(aclrtMemPoolTrimTo(pool, 0));
    uint64_t peak = pool_attr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH);
    CHECK(peak >= 6 * MIB && reserved(pool) < 6 * MIB);
    value = 0;
    CHECK_OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &value));
    CHECK_EQ(pool_attr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH), 1 * KIB);
    CHECK_EQ(pool_attr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH), peak);
    CHECK_OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, &value));
    CHECK_EQ(pool_attr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH), reserved(pool));
    CHECK_OK(aclrtMemPoolFreeAsync(small, NULL));

    GROUP("acl_soma_2 read-only and unknown attributes");
    value = 1;
    aclrtMemPoolAttr peaks[] = {
        ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH};
    aclrtMemPoolAttr figures[] = {
        ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT};
    for (int i = 0; i < 2; i++) {
        CHECK_FAIL(aclrtMemPoolSetAttr(pool, peaks[i], &value), ACL_ERROR_RT_PARAM_INVALID, "set to 0");
        CHECK_FAIL(aclrtMemPoolSetAttr(pool, figures[i], &value), ACL_ERROR_RT_PARAM_INVALID, "only be read");
    }
    for (int attribute = 0; attribute < 10; attribute += 9) {
        CHECK_FAIL(
            aclrtMemPoolSetAttr(pool, (aclrtMemPoolAttr)attribute, &value), ACL_ERROR_RT_PARAM_INVALID,
            "1 to 8");
        CHECK_FAIL(
            aclrtMemPoolGetAttr(pool, (aclrtMemPoolAttr)attribute, &value), ACL_ERROR_RT_PARAM_INVALID,
            "1 to 8");
    }
    CHECK_EQ(value, 1);
    CHECK_FAIL(aclrtMemPoolSetAttr(pool, figures[0], NULL), ACL_ERROR_INVALID_PARAM, "value");
    CHECK_FAIL(aclrtMemPoolGetAttr(pool, figures[0], NULL), ACL_ERROR_INVALID_PARAM, "value");
    CHECK_FAIL(aclrtMemPoolSetAttr(NULL, figures[0], &value), ACL_ERROR_INVALID_PARAM, "memPool");
    CHECK_FAIL(aclrtMemPoolGetAttr(NULL, figures[0], &value), ACL_ERROR_INVALID_PARAM, "memPool");
    CHECK_OK(aclrtMemPoolDestroy(pool));
}

int main(void)
{
    aclrtMemPoolProps props = pool_props(0, 0);
    aclrtMemPool pool = NULL;
    CHECK_OK(aclInit(NULL));
    GROUP("acl_soma_1 a pool needs a device that is set");
    CHECK_FAIL(aclrtMemPoolCreate(&pool, &props), ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice");
    CHECK_OK(aclrtSetDevice(0));
    props.location.id = 1;
    CHECK_FAIL(aclrtMemPoolCreate(&pool, &props), ACL_ERROR_RT_PARAM_INVALID, "aclrtSetDevice(1)");
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtSetDevice(0));
    creation();
    attributes();
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

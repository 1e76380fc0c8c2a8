// env:
// env: CAIRN_SOC=Ascend310P3
// links: -lm
/* Versions, the name of the processor, data types, half-precision numbers, the log. */
#include "check.h"
#include <math.h>

static void versions(void)
{
    GROUP("acl_3_2_19 versions of the interface and of the packages");
    int32_t major = 0, minor = 0, patch = -1;
    CHECK_OK(aclrtGetVersion(&major, &minor, &patch));
    CHECK_EQ(major, ACL_MAJOR_VERSION);
    CHECK_EQ(minor, ACL_MINOR_VERSION);
    CHECK_EQ(patch, ACL_PATCH_VERSION);
    CHECK_FAIL(aclrtGetVersion(NULL, &minor, &patch), ACL_ERROR_INVALID_PARAM, "majorVersion");
    CHECK_FAIL(aclrtGetVersion(&major, NULL, &patch), ACL_ERROR_INVALID_PARAM, "minorVersion");
    CHECK_FAIL(aclrtGetVersion(&major, &minor, NULL), ACL_ERROR_INVALID_PARAM, "patchVersion");

    aclCANNPackageVersion package;
    for (int name = ACL_PKG_NAME_CANN; name <= ACL_PKG_NAME_DRIVER; name++) {
        memset(&package, 'x', sizeof package);
        CHECK_OK(aclsysGetCANNVersion((aclCANNPackageName)name, &package));
        const char *expected = name == ACL_PKG_NAME_DRIVER ? "25.5.0" : "9.0.0";
        CHECK(strncmp(package.version, expected, sizeof package.version) == 0);
        CHECK(strcmp(package.majorVersion, name == ACL_PKG_NAME_DRIVER ? "25" : "9") == 0);
        CHECK(strcmp(package.minorVersion, name == ACL_PKG_NAME_DRIVER ? "5" : "0") == 0);
        CHECK(memchr(package.releaseVersion, 0, sizeof package.releaseVersion) != NULL);
        CHECK(memchr(package.patchVersion, 0, sizeof package.patchVersion) != NULL);
    }
    CHECK_FAIL(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, NULL), ACL_ERROR_INVALID_PARAM, "version");
    CHECK_FAIL(aclsysGetCANNVersion((aclCANNPackageName)99, &package), ACL_ERROR_INVALID_PARAM, "99");

    char text[ACL_PKG_VERSION_MAX_SIZE];
    int32_t number = -1;
    char runtime[] = "runtime", unknown[] = "no_such_package";
    memset(text, 'x', sizeof text);
    CHECK_OK(aclsysGetVersionStr(runtime, text));
    CHECK(strcmp(text, "9.0.0") == 0);
    CHECK_OK(aclsysGetVersionNum(runtime, &number));
    CHECK_EQ(number, 9 * 10000000);
    CHECK_FAIL(aclsysGetVersionStr(NULL, text), ACL_ERROR_INVALID_PARAM, "pkgName");
    CHECK_FAIL(aclsysGetVersionStr(runtime, NULL), ACL_ERROR_INVALID_PARAM, "versionStr");
    CHECK_FAIL(aclsysGetVersionStr(unknown, text), ACL_ERROR_INVALID_PARAM, unknown);
    CHECK_FAIL(aclsysGetVersionNum(NULL, &number), ACL_ERROR_INVALID_PARAM, "pkgName");
    CHECK_FAIL(aclsysGetVersionNum(runtime, NULL), ACL_ERROR_INVALID_PARAM, "versionNum");
    CHECK_FAIL(aclsysGetVersionNum(unknown, &number), ACL_ERROR_INVALID_PARAM, unknown);
}

static void processor(void)
{
    GROUP("acl_3_2_18 the name of the processor");
    const char *expected = getenv("CAIRN_SOC") ? getenv("CAIRN_SOC") : "Ascend910B1";
    const char *name = aclrtGetSocName();
    CHECK(name && strcmp(name, expected) == 0);
    CHECK(aclrtGetSocName() == name);

    GROUP("acl_3_2_19 the program runs on a host");
    aclrtRunMode mode = ACL_DEVICE;
    CHECK_OK(aclrtGetRunMode(&mode));
    CHECK_EQ(mode, ACL_HOST);
    CHECK_FAIL(aclrtGetRunMode(NULL), ACL_ERROR_INVALID_PARAM, "runMode");
}

static void features(void)
{
    GROUP("acl_3_2_18 features and attributes");
    const aclCannAttr *list = NULL;
    size_t count = 99;
    int32_t present = -1;
    CHECK_OK(aclGetCannAttributeList(&list, &count));
    CHECK(count <= 3 && (count == 0 || list != NULL));
    for (size_t i = 0; i < count; i++) {
        CHECK_OK(aclGetCannAttribute(list[i], &present));
        CHECK_EQ(present, 1);
    }
    CHECK_FAIL(aclGetCannAttributeList(NULL, &count), ACL_ERROR_INVALID_PARAM, "cannAttrList");
    CHECK_FAIL(aclGetCannAttributeList(&list, NULL), ACL_ERROR_INVALID_PARAM, "num");
    CHECK_FAIL(aclGetCannAttribute(ACL_CANN_ATTR_BF16, NULL), ACL_ERROR_INVALID_PARAM, "value");
    CHECK_FAIL(aclGetCannAttribute((aclCannAttr)77, &present), ACL_ERROR_INVALID_PARAM, "77");
    CHECK_FAIL(aclGetCannAttribute(ACL_CANN_ATTR_UNDEFINED, &present), ACL_ERROR_INVALID_PARAM, "-1");

    int64_t value = -1;
    for (int info = ACL_DEVICE_INFO_AI_CORE_NUM; info <= ACL_DEVICE_INFO_L2_SIZE; info++) {
        value = -1;
        CHECK_OK(aclGetDeviceCapability(0, (aclDeviceInfo)info, &value));
        CHECK(value > 0);
    }
    CHECK_FAIL(
        aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, NULL), ACL_ERROR_INVALID_PARAM, "value");
    CHECK_FAIL(
        aclGetDeviceCapability(0, (aclDeviceInfo)55, &value), ACL_ERROR_INVALID_PARAM, "55");
    CHECK_FAIL(
        aclGetDeviceCapability(99, ACL_DEVICE_INFO_AI_CORE_NUM, &value),
        ACL_ERROR_RT_INVALID_DEVICEID, "99");
}

static void types(void)
{
    GROUP("acl_3_2_18 sizes of data types");
    static const struct {
        int type;
        size_t size;
    } sizes[] = {
        {ACL_DT_UNDEFINED, 0}, {ACL_FLOAT, 4}, {ACL_FLOAT16, 2}, {ACL_INT8, 1}, {ACL_INT32, 4},
        {ACL_UINT8, 1}, {ACL_INT16, 2}, {ACL_UINT16, 2}, {ACL_UINT32, 4}, {ACL_INT64, 8},
        {ACL_UINT64, 8}, {ACL_DOUBLE, 8}, {ACL_BOOL, 1}, {ACL_STRING, 0}, {ACL_COMPLEX64, 8},
        {ACL_COMPLEX128, 16}, {ACL_BF16, 2}, {ACL_INT4, 0}, {ACL_UINT1, 0}, {ACL_COMPLEX32, 4},
        {ACL_HIFLOAT8, 1}, {ACL_FLOAT8_E5M2, 1}, {ACL_FLOAT8_E4M3FN, 1}, {ACL_FLOAT8_E8M0, 1},
        {ACL_FLOAT4_E2M1, 0}, {ACL_FLOAT4_E1M2, 0}, {5, 0}, {99, 0}, {-7, 0}, {INT32_MAX, 0},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!CHECK_EQ(aclDataTypeSize((aclDataType)sizes[i].type), sizes[i].size))
            printf("  for data type %d\n", sizes[i].type);

    GROUP("acl_3_2_18 half-precision numbers");
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = aclFloat16ToFloat((aclFloat16)bits);
        uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
        if (exponent == 31 && fraction) {
            if (!isnan(value) || !isnan(aclFloat16ToFloat(aclFloatToFloat16(value))))
                CHECK_EQ(bits, -1);
            continue;
        }
        double expected = exponent == 31 ? INFINITY
            : exponent ? ldexp(1024 + fraction, (int)exponent - 25)
                       : ldexp(fraction, -24);
        if (bits >> 15)
            expected = -expected;
        if ((double)value != expected || aclFloatToFloat16(value) != bits)
            CHECK_EQ(bits, -1);
    }
    CHECK_EQ(aclFloatToFloat16(1.0f + 1.0f / 2048), 0x3c00);
    CHECK_EQ(aclFloatToFloat16(1.0f + 3.0f / 2048), 0x3c02);
    CHECK_EQ(aclFloatToFloat16(65519.0f), 0x7bff);
    CHECK_EQ(aclFloatToFloat16(65520.0f), 0x7c00);
    CHECK_EQ(aclFloatToFloat16(-1e30f), 0xfc00);
    CHECK_EQ(aclFloatToFloat16(1e-30f), 0);
    CHECK_EQ(aclFloatToFloat16(ldexpf(1, -25)), 0);
    CHECK_EQ(aclFloatToFloat16(ldexpf(1.5f, -25)), 1);
}

static void log_lines(void)
{
    GROUP("acl_3_2_18 the log takes any level and text");
    const char *volatile nothing = NULL;
    for (int level = -1; level < 6; level++)
        aclAppLog((aclLogLevel)level, "f", "file.c", 7, "%s %d %5.2f %p %%", "text", 42, 1.5, (void *)0);
    ACL_APP_LOG(ACL_INFO, "plain");
    ACL_APP_LOG(ACL_ERROR, "%s", "through the macro");
    aclAppLog(ACL_ERROR, nothing, nothing, 0, "%s", "no source location");
    aclAppLog(ACL_ERROR, "f", "file.c", 0, nothing);
    static char longer[100001];
    memset(longer, 'a', sizeof longer - 1);
    aclAppLog(ACL_DEBUG, "f", "file.c", 0, "%s", longer);
    CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
}

int main(void)
{
    (void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    log_lines();
    versions();
    processor();
    features();
    types();
    return END();
}

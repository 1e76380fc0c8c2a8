// links: -lhccl
/* Configurations of every version and size that programs exist with: a field counts if both cover it. */
#include "check.h"
#include "hccl/hccl.h"

/* What programs were compiled with. */
static const struct {
    uint32_t version;
    size_t size;
} compiled[] = {{1, 32},   {2, 160},  {3, 288},  {4, 292},   {5, 300},   {6, 312},  {7, 320},
                {8, 2104}, {9, 2232}, {10, 2232}, {10, 2240}, {11, 2248}, {12, 4000}};

static void set_head(void *config, size_t size, uint32_t magic, uint32_t version)
{
    memcpy(config, &size, 8);
    memcpy((char *)config + 8, &magic, 4);
    memcpy((char *)config + 12, &version, 4);
    memset((char *)config + 16, 0, 8);
}

/* A configuration with `size` bytes at the end of readable memory, filled with what no field takes after them. */
static HcclCommConfig *config_of(char room[8192], uint32_t version, size_t size)
{
    HcclCommConfig whole;
    HcclCommConfigInit(&whole);
    strcpy(whole.hcclCommName, "named");
    memset(room, 0xff, 8192);
    memcpy(room, &whole, size < sizeof whole ? size : sizeof whole);
    set_head(room, size, HCCL_COMM_CONFIG_MAGIC_WORD, version);
    return (HcclCommConfig *)(void *)room;
}

static HcclResult make(const HcclCommConfig *config, HcclComm *comm)
{
    HcclRootInfo info;
    CHECK_OK(HcclGetRootInfo(&info));
    return HcclCommInitRootInfoConfig(1, &info, 0, config, comm);
}

/* Makes a communicator; its name is expected, or one made from the root info. */
static void accepted(const HcclCommConfig *config, const char *expected)
{
    HcclComm comm = NULL;
    char name[COMM_NAME_MAX_LENGTH] = "";
    if (!CHECK_OK(make(config, &comm)))
        return;
    CHECK_OK(HcclGetCommName(comm, name));
    CHECK(strlen(name) > 0);
    CHECK_EQ(strcmp(name, "named") == 0, strcmp(expected, "named") == 0);
    CHECK_OK(HcclCommDestroy(comm));
}

static void refused(const HcclCommConfig *config, const char *part)
{
    HcclComm comm = (HcclComm)1;
    (void)aclGetRecentErrMsg();
    CHECK_CODE(make(config, &comm), HCCL_E_PARA);
    CHECK_TEXT(part);
}

int main(void)
{
    static _Alignas(8) char room[8192];
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));

    GROUP("hccl_4 every version and size: the name is read from version 2 and 160 bytes on");
    for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++)
        accepted(config_of(room, compiled[i].version, compiled[i].size), compiled[i].version >= 2 ? "named" : "");
    GROUP("hccl_4 a version without its bytes, bytes without their version");
    accepted(config_of(room, 11, 32), "");
    accepted(config_of(room, 11, 159), "");
    accepted(config_of(room, 1, 2248), "");
    accepted(config_of(room, 11, 24), "");

    GROUP("hccl_4 the head");
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    set_head(&config, sizeof config, 0x12345678, 11);
    refused(&config, "0x12345678");
    set_head(&config, 23, HCCL_COMM_CONFIG_MAGIC_WORD, 11);
    refused(&config, "23");

    GROUP("hccl_4 values");
#define WITH(field, value, part) \
    do { \
        HcclCommConfigInit(&config); \
        config.field = value; \
        refused(&config, part); \
    } while (0)
    WITH(hcclBufferSize, 0, "hcclBufferSize");
    WITH(hcclDeterministic, 3, "3");
    WITH(hcclOpExpansionMode, 7, "7");
    WITH(aclGraphZeroCopyEnable, 2, "2");
    HcclCommConfigInit(&config);
    memset(config.hcclCommName, 'x', sizeof config.hcclCommName);
    refused(&config, "hcclCommName");
    config.hcclCommName[127] = 0;
    accepted(&config, "");
    HcclCommConfigInit(&config);
    config.hcclExecTimeOut = -5;
    accepted(&config, "");
    config.hcclExecTimeOut = 0;
    config.hcclBufferSize = 1;
    config.hcclDeterministic = 2;
    config.hcclOpExpansionMode = 6;
    config.aclGraphZeroCopyEnable = 1;
    strcpy(config.hcclUdi, "what it is for");
    accepted(&config, "");
    /* Wrong values in fields that the version or the size does not have are not read. */
    config.aclGraphZeroCopyEnable = 2;
    set_head(&config, sizeof config, HCCL_COMM_CONFIG_MAGIC_WORD, 6);
    accepted(&config, "");
    set_head(&config, 312, HCCL_COMM_CONFIG_MAGIC_WORD, 11);
    accepted(&config, "");

    GROUP("hccl_4 a name is taken until its communicator ends");
    HcclComm first = NULL, second = NULL;
    HcclCommConfigInit(&config);
    strcpy(config.hcclCommName, "named");
    CHECK_OK(make(&config, &first));
    (void)aclGetRecentErrMsg();
    CHECK_CODE(make(&config, &second), HCCL_E_PARA);
    CHECK_TEXT("named");
    CHECK(second == NULL);
    CHECK_OK(HcclCommDestroy(first));
    CHECK_OK(make(&config, &second));
    CHECK_OK(HcclCommDestroy(second));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

// env: CAIRN_DEVICES=2
// env: HCCL_DETERMINISTIC=strict
// links: -lhccl -lhcomm
/* Layouts and values of the interface, and the functions that need no communicator. */
#include "check.h"
#include "hccl/hccl.h"
#include "hccl/hccl_sym_win.h"
#include "hccl/hcom.h"
#include "hcomm_res.h"
#include <stddef.h>

_Static_assert(sizeof(HcclResult) == 4 && sizeof(HcclDataType) == 4 && sizeof(HcclReduceOp) == 4, "enums are ints");
_Static_assert(sizeof(HcclRootInfo) == 4108 && _Alignof(HcclRootInfo) == 1, "HcclRootInfo");
_Static_assert(sizeof(HcclConfigValue) == 4, "HcclConfigValue");
_Static_assert(sizeof(HcclSendRecvItem) == 32, "HcclSendRecvItem");
_Static_assert(offsetof(HcclSendRecvItem, buf) == 8 && offsetof(HcclSendRecvItem, count) == 16, "HcclSendRecvItem");
_Static_assert(offsetof(HcclSendRecvItem, dataType) == 24 && offsetof(HcclSendRecvItem, remoteRank) == 28, "HcclSendRecvItem");
_Static_assert(sizeof(HcclCommConfig) == 2248 && _Alignof(HcclCommConfig) == 8, "HcclCommConfig");

#define AT(field, offset) _Static_assert(offsetof(HcclCommConfig, field) == offset, #field)
AT(hcclBufferSize, 24);
AT(hcclDeterministic, 28);
AT(hcclCommName, 32);
AT(hcclUdi, 160);
AT(hcclOpExpansionMode, 288);
AT(hcclRdmaTrafficClass, 292);
AT(hcclRdmaServiceLevel, 296);
AT(hcclWorldRankID, 300);
AT(hcclJobID, 304);
AT(aclGraphZeroCopyEnable, 312);
AT(hcclExecTimeOut, 316);
AT(hcclAlgo, 320);
AT(hcclRetryEnable, 1920);
AT(hcclRetryParams, 1970);
AT(hcclBufferName, 2098);
AT(hcclQos, 2228);
AT(hcclSymWinMaxMemSizePerRank, 2232);
AT(hcclChannelSqDepth, 2240);

static void config_begins_empty(void)
{
    GROUP("hccl_1 HcclCommConfigInit writes size, magic word, version and what is not set");
    HcclCommConfig config;
    memset(&config, 0xaa, sizeof config);
    HcclCommConfigInit(&config);
    HcclCommConfigInit(NULL);
    size_t size = 0;
    uint32_t magic = 0, version = 0;
    uint64_t zero = 1;
    memcpy(&size, config.reserved, sizeof size);
    memcpy(&magic, config.reserved + 8, 4);
    memcpy(&version, config.reserved + 12, 4);
    memcpy(&zero, config.reserved + 16, 8);
    CHECK_EQ(size, 2248);
    CHECK_EQ(magic, 0xf0f0f0f0);
    CHECK_EQ(version, 11);
    CHECK_EQ(zero, 0);
    CHECK_EQ(config.hcclBufferSize, HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET);
    CHECK_EQ(config.hcclDeterministic, HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET);
    CHECK_EQ(config.hcclExecTimeOut, -1);
    CHECK_EQ(config.hcclSymWinMaxMemSizePerRank, 16);
    CHECK(config.hcclCommName[0] == 0 && config.hcclAlgo[0] == 0 && config.hcclBufferName[0] == 0);
}

static void without_communicator(void)
{
    GROUP("hccl_1 texts of codes, and the capability");
    CHECK(strcmp(HcclGetErrorString(HCCL_SUCCESS), "no error") == 0);
    CHECK(strcmp(HcclGetErrorString((HcclResult)25), "unknown error") == 0);
    CHECK(strcmp(HcclGetErrorString((HcclResult)-3), "unknown error") == 0);
    CHECK(strcmp(HcclGetErrorString(HCCL_E_RESERVED), "unknown error") == 0);
    for (int code = 1; code <= 24; code++)
        for (int other = 0; other < code; other++)
            CHECK(strcmp(HcclGetErrorString((HcclResult)code), HcclGetErrorString((HcclResult)other)) != 0);
    CHECK_EQ(HcclGetCommConfigCapability(), 12);
    CHECK_EQ(HCCL_COMM_CONFIG_RESERVED, 12);
}

static void settings(void)
{
    GROUP("hccl_1 HcclSetConfig: 0 to 2, other settings are accepted and ignored");
    /* The environment has precedence over what is set. */
    const char *forced = getenv("HCCL_DETERMINISTIC");
    HcclConfigValue value = {7};
    CHECK_OK(HcclGetConfig(HCCL_DETERMINISTIC, &value));
    CHECK_EQ(value.value, forced ? 2 : 0);
    for (int setting = 2; setting >= 0; setting--) {
        value.value = setting;
        CHECK_OK(HcclSetConfig(HCCL_DETERMINISTIC, value));
        value.value = 7;
        CHECK_OK(HcclGetConfig(HCCL_DETERMINISTIC, &value));
        CHECK_EQ(value.value, forced ? 2 : setting);
    }
    value.value = 3;
    CHECK_FAIL(HcclSetConfig(HCCL_DETERMINISTIC, value), HCCL_E_PARA, "3");
    value.value = -1;
    CHECK_FAIL(HcclSetConfig(HCCL_DETERMINISTIC, value), HCCL_E_PARA, "-1");
    CHECK_OK(HcclSetConfig(HCCL_CONFIG_RESERVED, value));
    CHECK_FAIL(HcclGetConfig(HCCL_DETERMINISTIC, NULL), HCCL_E_PTR, "configValue");
    value.value = 7;
    CHECK_OK(HcclGetConfig(HCCL_DETERMINISTIC, &value));
    CHECK_EQ(value.value, forced ? 2 : 0);
}

int main(void)
{
    config_begins_empty();
    without_communicator();
    settings();
    GROUP("hccl_1 nothing of this is a failure of the thread");
    CHECK_NO_TEXT();
    return END();
}

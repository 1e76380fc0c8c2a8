// env: ASCEND_RT_VISIBLE_DEVICES=1,0
// env: ASCEND_RT_VISIBLE_DEVICES=1
// env: ASCEND_RT_VISIBLE_DEVICES=1,1,0
// env: ASCEND_RT_VISIBLE_DEVICES=0,9,1
// env: ASCEND_RT_VISIBLE_DEVICES=7
// env: ASCEND_RT_VISIBLE_DEVICES=
// env: ASCEND_RT_VISIBLE_DEVICES=0;1
// env: ASCEND_RT_VISIBLE_DEVICES=x
// env: CAIRN_DEVICES=4 ASCEND_RT_VISIBLE_DEVICES=3,1
// env: CAIRN_DEVICES=4 ASCEND_RT_VISIBLE_DEVICES=1,3
// env: CAIRN_DEVICES=16
/* ASCEND_RT_VISIBLE_DEVICES hides and renumbers devices. */
#include "gate.h"

/* As CANN and torch_npu read it: the numbers have to rise; one that does not hides all devices. */
static int parse(int visible[16])
{
    const char *list = getenv("ASCEND_RT_VISIBLE_DEVICES");
    int devices = getenv("CAIRN_DEVICES") ? atoi(getenv("CAIRN_DEVICES")) : 2;
    int count = 0;
    if (!list) {
        for (; count < devices; count++)
            visible[count] = count;
        return count;
    }
    while (*list >= '0' && *list <= '9') {
        int id = (int)strtol(list, (char **)&list, 10);
        if (id >= devices)
            return count;
        if (count && visible[count - 1] >= id)
            return 0;
        visible[count++] = id;
        if (*list != ',')
            break;
        list++;
    }
    return count;
}

int main(void)
{
    int visible[16], expected = parse(visible);
    uint32_t count = 77;
    int32_t id, physical, logic, user;
    GROUP("acl_3_2_21 the number of devices that are visible");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtGetDeviceCount(&count));
    CHECK_EQ(count, expected);
    CHECK_CODE(aclrtSetDevice(expected), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_TEXT(expected ? "valid ids" : "ASCEND_RT_VISIBLE_DEVICES");

    GROUP("acl_3_2_21 renumbering");
    for (int32_t i = 0; i < expected; i++) {
        physical = logic = user = id = -1;
        CHECK_OK(aclrtGetPhyDevIdByUserDevId(i, &physical));
        CHECK_EQ(physical, visible[i]);
        CHECK_OK(aclrtGetUserDevIdByPhyDevId(physical, &user));
        CHECK_EQ(user, i);
        CHECK_OK(aclrtGetLogicDevIdByUserDevId(i, &logic));
        CHECK_OK(aclrtGetPhyDevIdByLogicDevId(logic, &physical));
        CHECK_EQ(physical, visible[i]);
        CHECK_OK(aclrtGetLogicDevIdByPhyDevId(physical, &id));
        CHECK_EQ(id, logic);
        CHECK_OK(aclrtGetUserDevIdByLogicDevId(logic, &user));
        CHECK_EQ(user, i);

        void *memory = NULL;
        aclrtPtrAttributes attributes;
        int64_t chip = -1;
        CHECK_OK(aclrtGetDeviceInfo((uint32_t)i, ACL_DEV_ATTR_PHY_CHIP_ID, &chip));
        CHECK_EQ(chip, visible[i]);
        CHECK_OK(aclrtSetDevice(i));
        CHECK_OK(aclrtGetDevice(&id));
        CHECK_EQ(id, i);
        CHECK_OK(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK_OK(aclrtPointerGetAttributes(memory, &attributes));
        CHECK_EQ(attributes.location.id, i);
        CHECK_OK(aclrtFree(memory));
    }
    for (int hidden = 0; hidden < 2; hidden++) {
        int is_visible = 0;
        for (int i = 0; i < expected; i++)
            is_visible |= visible[i] == hidden;
        if (!is_visible)
            CHECK_CODE(aclrtGetUserDevIdByPhyDevId(hidden, &user), ACL_ERROR_RT_INVALID_DEVICEID);
    }
    for (int32_t i = 0; i < expected; i++)
        CHECK_OK(aclrtResetDevice(i));
    CHECK_OK(aclFinalize());
    return END();
}

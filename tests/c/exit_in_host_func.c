// exit: 0
// env:
// env: CAIRN_WORKERS=1
/* exit() called by a host function ends the process at once, with its status. */
#define WATCHDOG 30
#include "gate.h"

static void call_exit(void *unused)
{
    (void)unused;
    exit(check_end());
}

int main(void)
{
    aclrtStream stream = NULL, other = NULL;
    static Gate gate = GATE_CLOSED;
    int never = 0;
    GROUP("acl_3_2_50 exit() in a host function");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&other));
    gate_put(&gate, other);
    CHECK_OK(aclrtLaunchHostFunc(stream, call_exit, NULL));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &never));
    aclrtSynchronizeStream(other);
    return 2;
}

// env:
// env: CAIRN_WORKERS=1
/* aclFinalize with work pending waits a bounded time; the work is not lost. */
#include "gate.h"

int main(void)
{
    aclrtStream stream = NULL, other = NULL;
    static Gate gate = GATE_CLOSED;
    int flag = 0, short_flag = 0, waiting_flag = 0;
    GROUP("acl_3_2_8 finalize with a blocked host function returns");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&other));
    gate_put(&gate, stream);
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    double start = seconds();
    CHECK_OK(aclFinalize());
    CHECK(seconds() - start < 20);

    GROUP("acl_3_2_8 pending work continues after finalize");
    CHECK_EQ(raised(&flag), 0);
    gate_open(&gate);
    SPIN_UNTIL(raised(&flag));

    GROUP("acl_3_2_8 finalize waits for work that finishes");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtLaunchHostFunc(other, raise_flag_late, &short_flag));
    CHECK_OK(aclFinalize());
    CHECK_EQ(raised(&short_flag), 1);

    GROUP("acl_3_2_8 finalize with a stream that waits for an event that never comes");
    aclrtEvent event = NULL;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtCreateEvent(&event));
    CHECK_OK(aclrtStreamWaitEvent(other, event));
    CHECK_OK(aclrtLaunchHostFunc(other, raise_flag, &waiting_flag));
    start = seconds();
    CHECK_OK(aclFinalize());
    CHECK(seconds() - start < 20);
    CHECK_EQ(raised(&waiting_flag), 0);
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aclrtSynchronizeStream(other));
    CHECK_EQ(raised(&waiting_flag), 1);
    return END();
}

/* A memset on another stream writes what an allreduce reads, and no event orders them. */
#include "program.h"
#include <hccl/hccl.h>

enum { COUNT = 256, BYTES = COUNT * 4 };

int main(void)
{
    begin();
    HcclRootInfo root;
    HcclComm comm;
    MUST(HcclGetRootInfo(&root));
    MUST(HcclCommInitRootInfo(1, &root, 0, &comm));
    aclrtStream stream = new_stream(), writer = new_stream();
    void *send = device_memory(BYTES), *receive = device_memory(BYTES);
    MUST(HcclAllReduce(send, receive, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
#ifdef RIGHT
    aclrtEvent reduced;
    MUST(aclrtCreateEvent(&reduced));
    MUST(aclrtRecordEvent(reduced, stream));
    MUST(aclrtStreamWaitEvent(writer, reduced));
#endif
    MUST(aclrtMemsetAsync(send, BYTES, 1, BYTES, writer));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtSynchronizeStream(writer));
#ifdef RIGHT
    MUST(aclrtDestroyEvent(reduced));
#endif
    MUST(HcclCommDestroy(comm));
    MUST(aclrtFree(send));
    MUST(aclrtFree(receive));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(writer));
    end();
    return 0;
}

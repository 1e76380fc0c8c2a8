/* An operator is prepared, its memory is freed and goes to another owner, and only then the operator is submitted. */
#include "program.h"
#include <aclnnop/aclnn_relu.h>

static aclTensor *tensor(void *memory)
{
    int64_t size = 1024, stride = 1;
    return aclCreateTensor(&size, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &size, 1, memory);
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    void *numbers = device_memory(4096), *results = device_memory(4096);
    aclTensor *in = tensor(numbers), *out = tensor(results);
    uint64_t workspace;
    aclOpExecutor *prepared;
    MUST(aclnnReluGetWorkspaceSize(in, out, &workspace, &prepared));
#ifndef RIGHT
    MUST(aclrtFree(numbers));
    MUST(aclrtSynchronizeStream(stream));
    void *other = device_memory(4096);
#endif
    MUST(aclnnRelu(NULL, workspace, prepared, stream));
    MUST(aclrtSynchronizeStream(stream));
#ifdef RIGHT
    MUST(aclrtFree(numbers));
    void *other = device_memory(4096);
#endif
    MUST(aclrtFree(other));
    MUST(aclrtFree(results));
    aclDestroyTensor(in);
    aclDestroyTensor(out);
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}

/* Products of square matrices at the C door, for ops.py. */
#include "acl/acl.h"
#include "aclnnop/aclnn_mm.h"

#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static aclTensor* square(int64_t n, void* data)
{
    int64_t dims[2] = {n, n}, strides[2] = {n, 1};
    return aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, data);
}

/* Seconds that `count` products take from the first call to the end of a synchronize; negative after a failure. */
double products(aclrtStream stream, int64_t n, int count, void* a, void* b, void* c)
{
    aclTensor *x = square(n, a), *y = square(n, b), *out = square(n, c);
    int failed = !x || !y || !out;
    double start = now();
    for (int i = 0; i < count && !failed; ++i) {
        uint64_t size = 0;
        aclOpExecutor* executor = NULL;
        failed |= aclnnMmGetWorkspaceSize(x, y, out, 0, &size, &executor) != 0 || size != 0;
        failed |= failed || aclnnMm(NULL, 0, executor, stream) != 0;
    }
    failed |= aclrtSynchronizeStream(stream) != 0;
    double took = now() - start;
    aclDestroyTensor(x), aclDestroyTensor(y), aclDestroyTensor(out);
    return failed ? -1.0 : took;
}

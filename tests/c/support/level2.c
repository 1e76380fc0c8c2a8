/* Headers as the vendor's examples name them, and one call of an operator. */
#include "acl/acl.h"
#include "aclnnop/aclnn_gather_v2.h"
#include "aclnnop/aclnn_group_norm.h"
#include "aclnnop/aclnn_index.h"
#include "aclnnop/aclnn_isneginf.h"
#include "aclnnop/aclnn_isposinf.h"
#include "aclnnop/level2/aclnn_add.h"
#include "aclnnop/level2/aclnn_isneginf.h"
#include <stdio.h>

int main(void)
{
    int64_t dims[1] = {4};
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    aclTensor *self = aclCreateTensor(dims, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, NULL);
    aclTensor *out = aclCreateTensor(dims, 1, ACL_BOOL, NULL, 0, ACL_FORMAT_ND, dims, 1, NULL);
    if (aclnnIsNegInfGetWorkspaceSize(self, out, &bytes, &executor) != 0 || executor == NULL)
        return 1;
    printf("planned with %lu bytes\n", (unsigned long)bytes);
    return 0;
}

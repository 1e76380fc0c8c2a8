/* A minimal program: it starts ACL, counts the devices and ends. */
#include <stdint.h>
#include <stdio.h>
#include "acl/acl.h"

int main(void)
{
    uint32_t count = 0;
    if (aclInit(NULL) != ACL_SUCCESS || aclrtGetDeviceCount(&count) != ACL_SUCCESS)
        return 1;
    printf("%u devices\n", count);
    return aclFinalize() != ACL_SUCCESS;
}

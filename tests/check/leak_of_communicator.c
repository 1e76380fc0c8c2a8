/* A communicator is never destroyed. */
#include "program.h"
#include <hccl/hccl.h>
#include <string.h>

int main(void)
{
    begin();
    HcclRootInfo root;
    HcclCommConfig config;
    HcclComm comm;
    MUST(HcclGetRootInfo(&root));
    HcclCommConfigInit(&config);
    strcpy(config.hcclCommName, "world");
    MUST(HcclCommInitRootInfoConfig(1, &root, 0, &config, &comm));
#ifdef RIGHT
    MUST(HcclCommDestroy(comm));
    end();
#endif
    return 0;
}

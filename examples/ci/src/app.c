/* A program that uses the pool, as yours does: layers of another width in every step, forward and backward. */
#include <stdio.h>
#include <stdlib.h>
#include "pool.h"

enum { LAYERS = 12, STEPS = 20 };

static void need(int is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "app: %s failed: %s\n", what, aclGetRecentErrMsg());
        exit(1);
    }
}

int main(void)
{
    aclrtStream stream;
    need(aclInit(NULL) == ACL_SUCCESS, "aclInit");
    need(aclrtSetDevice(0) == ACL_SUCCESS, "aclrtSetDevice");
    need(aclrtCreateStream(&stream) == ACL_SUCCESS, "aclrtCreateStream");
    for (int step = 0; step < STEPS; step++) {
        size_t bytes = (size_t)(512 + 128 * (step % 4)) * 1024;
        void *activations[LAYERS];
        for (int layer = 0; layer < LAYERS; layer++) {
            activations[layer] = my_malloc((ssize_t)bytes, 0, stream);
            need(activations[layer] != NULL, "my_malloc");
            aclrtMemsetAsync(activations[layer], bytes, layer, bytes, stream);
        }
        for (int layer = LAYERS; layer-- > 0;) {
            void *gradient = my_malloc((ssize_t)bytes, 0, stream);
            need(gradient != NULL, "my_malloc");
            aclrtMemcpyAsync(gradient, bytes, activations[layer], bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
            my_free(gradient, (ssize_t)bytes, 0, stream);
            my_free(activations[layer], (ssize_t)bytes, 0, stream);
        }
    }
    need(aclrtSynchronizeStream(stream) == ACL_SUCCESS, "a task");
    printf("app: %d steps\n", STEPS);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}

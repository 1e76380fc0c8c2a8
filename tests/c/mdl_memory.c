// env: CAIRN_DEVICE_MEMORY=64mib
// env: CAIRN_DEVICE_MEMORY=64mib CAIRN_QUARANTINE=4mib
/* Out of device memory in a load and in a run. */
#include "mdl.h"

enum { MOST = 16 };

int main(void)
{
    uint32_t ids[MOST], id = 0;
    int count = 0;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));

    GROUP("aclmdl_9 out of memory in a load: 245000, no leak, and the next load works");
    for (int turn = 0; turn < 3; turn++) {
        aclError code = ACL_SUCCESS;
        count = 0;
        while (count < MOST && (code = aclmdlLoadFromFile(model_path("large.om"), &ids[count])) == ACL_SUCCESS)
            count++;
        CHECK_EQ(code, 245000);
        CHECK(count >= 1 && count <= 3);
        size_t before = free_memory();
        for (int i = 0; i < 3; i++) {
            CHECK_FAIL(aclmdlLoadFromFile(model_path("large.om"), &id), 245000, "bytes");
            CHECK_EQ(free_memory(), before);
        }
        while (count > 0)
            CHECK_OK(aclmdlUnload(ids[--count]));
    }
    CHECK_OK(aclmdlLoadFromFile(model_path("large.om"), &id));

    GROUP("aclmdl_9 out of memory for an output: 207001, and the buffer is unchanged");
    Tensors in = tensors_new(), out = tensors_new();
    tensors_add(&in, 16 << 20);
    tensors_borrow(&out, NULL, 0);
    void *hoard[64];
    int hoarded = 0;
    while (hoarded < 64 && aclrtMalloc(&hoard[hoarded], 1 << 20, ACL_MEM_MALLOC_NORMAL_ONLY) == ACL_SUCCESS)
        hoarded++;
    CHECK_FAIL(aclmdlExecute(id, in.set, out.set), 207001, "bytes");
    CHECK(aclGetDataBufferAddr(out.buffers[0]) == NULL);
    while (hoarded > 0)
        CHECK_OK(aclrtFree(hoard[--hoarded]));
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    CHECK_OK(aclrtFree(aclGetDataBufferAddr(out.buffers[0])));
    tensors_end(&in);
    tensors_end(&out);
    CHECK_OK(aclmdlUnload(id));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

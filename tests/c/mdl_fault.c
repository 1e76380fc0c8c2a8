// env: CAIRN_MEMORY=fault:every=4
// env: CAIRN_MEMORY=fault:every=3
// env: CAIRN_MEMORY=fault:every=5
/* Device memory that fails in the middle of loads: each fails as a whole, and the next one works. */
#include "mdl.h"

enum { ROWS = 2, BYTES = ROWS * 3 * 4, TURNS = 60, WARM = 20 };

static void *allocate(size_t bytes)
{
    void *memory = NULL;
    while (aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_NORMAL_ONLY) != ACL_SUCCESS)
        ;
    return memory;
}

int main(void)
{
    const char *models[] = {"affine.om", "batch.om", "range.om", "separate/bias.om"};
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    Tensors in = tensors_new(), out = tensors_new();
    void *x = allocate(BYTES), *y = allocate(BYTES);
    tensors_borrow(&in, x, BYTES);
    tensors_borrow(&out, y, BYTES);
    put_counted(x, ROWS * 3);

    GROUP("aclmdl_9 memory that fails in a load: 245000, no leak, and a later load works");
    for (int model = 0; model < 4; model++) {
        int failed = 0, loaded = 0;
        size_t before = 0;
        for (int turn = 0; turn < TURNS; turn++) {
            uint32_t id = 0;
            aclError code = aclmdlLoadFromFile(model_path(models[model]), &id);
            if (code == ACL_SUCCESS) {
                if (model == 0) {
                    CHECK_OK(aclmdlExecute(id, in.set, out.set));
                    CHECK(is_affine(y, ROWS));
                }
                CHECK_OK(aclmdlUnload(id));
                loaded++;
            } else {
                CHECK_EQ(code, 245000);
                CHECK_EQ(id, 0);
                failed++;
            }
            if (turn == WARM)
                before = free_memory();
        }
        CHECK(failed > 0 && loaded > 0);
        CHECK_EQ(free_memory(), before);
        if (!failed || !loaded)
            printf("  %s: %d loads failed, %d did not\n", models[model], failed, loaded);
    }
    tensors_end(&in);
    tensors_end(&out);
    CHECK_OK(aclrtFree(x));
    CHECK_OK(aclrtFree(y));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}

/* One loaded model runs on two streams, and the program has not ordered the runs. */
#include "program.h"
#include <acl/acl_mdl.h>

static aclmdlDataset *data_set(size_t bytes)
{
    aclmdlDataset *set = aclmdlCreateDataset();
    MUST(aclmdlAddDatasetBuffer(set, aclCreateDataBuffer(device_memory(bytes), bytes)));
    return set;
}

static void end_data_set(aclmdlDataset *set)
{
    aclDataBuffer *buffer = aclmdlGetDatasetBuffer(set, 0);
    MUST(aclrtFree(aclGetDataBufferAddr(buffer)));
    MUST(aclDestroyDataBuffer(buffer));
    MUST(aclmdlDestroyDataset(set));
}

int main(void)
{
    begin();
    char path[4096];
    snprintf(path, sizeof path, "%s/affine.om", getenv("CAIRN_TEST_MODELS"));
    uint32_t model;
    MUST(aclmdlLoadFromFile(path, &model));
    aclmdlDesc *desc = aclmdlCreateDesc();
    MUST(aclmdlGetDesc(desc, model));
    size_t in = aclmdlGetInputSizeByIndex(desc, 0), out = aclmdlGetOutputSizeByIndex(desc, 0);
    MUST(aclmdlDestroyDesc(desc));
    aclrtStream streams[2];
    aclmdlDataset *inputs[2], *outputs[2];
    for (int i = 0; i < 2; i++) {
        streams[i] = new_stream();
        inputs[i] = data_set(in);
        outputs[i] = data_set(out);
    }
    MUST(aclmdlExecuteAsync(model, inputs[0], outputs[0], streams[0]));
#ifdef RIGHT
    MUST(aclrtSynchronizeStream(streams[0]));
#endif
    MUST(aclmdlExecuteAsync(model, inputs[1], outputs[1], streams[1]));
    for (int i = 0; i < 2; i++) {
        MUST(aclrtSynchronizeStream(streams[i]));
        MUST(aclrtDestroyStream(streams[i]));
        end_data_set(inputs[i]);
        end_data_set(outputs[i]);
    }
    MUST(aclmdlUnload(model));
    end();
    return 0;
}

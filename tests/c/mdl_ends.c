// breaks: model-on-two-streams
// env:
// env: CAIRN_WORKERS=1
/* Unloads with queued runs and running threads, device resets, and aclFinalize. */
#include "mdl.h"

enum { ROWS = 2, COUNT = ROWS * 3, BYTES = COUNT * 4, THREADS = 4, TURNS = 100 };

static aclrtStream stream;

/* A model that is unloaded while its run is queued. */
static void unload_queued(const char *name)
{
    static Gate gate = GATE_CLOSED;
    int64_t dims[2] = {ROWS, 3};
    Tensors in = tensors_new(), out = tensors_new();
    put_counted(tensors_add(&in, BYTES), COUNT);
    void *y = tensors_add(&out, BYTES);
    tensors_shape(&in, 0, 2, dims);
    uint32_t id = model_load(name);
    gate_put(&gate, stream);
    CHECK_OK(aclmdlExecuteAsync(id, in.set, out.set, stream));
    CHECK_OK(aclmdlUnload(id));
    CHECK_CODE(aclmdlExecuteAsync(id, in.set, out.set, stream), 145003);
    /* Another model must not get memory of the queued run. */
    uint32_t next = model_load("affine.om");
    Tensors other = tensors_new();
    void *z = tensors_add(&other, BYTES);
    CHECK_OK(aclmdlExecute(next, in.set, other.set));
    CHECK(is_affine(z, ROWS));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(is_affine(y, ROWS));
    gate_close(&gate);
    CHECK_OK(aclmdlUnload(next));
    tensors_end(&other);
    tensors_end(&in);
    tensors_end(&out);
}

static uint32_t shared_id;
static void *shared_x;

static void *work(void *argument)
{
    int is_async = (int)(intptr_t)argument % 2;
    int64_t dims[2] = {ROWS, 3};
    aclrtStream own;
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&own));
    Tensors in = tensors_new(), out = tensors_new();
    tensors_borrow(&in, shared_x, BYTES);
    tensors_shape(&in, 0, 2, dims);
    void *y = tensors_add(&out, BYTES);
    int done = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        aclError code = is_async ? aclmdlExecuteAsync(shared_id, in.set, out.set, own)
                                 : aclmdlExecute(shared_id, in.set, out.set);
        if (is_async)
            CHECK_OK(aclrtSynchronizeStream(own));
        if (code == ACL_SUCCESS) {
            CHECK(is_affine(y, ROWS));
            done++;
        } else {
            CHECK(code == 145003 || code == 500002 || code == 107017);
        }
    }
    CHECK_OK(aclrtDestroyStream(own));
    tensors_end(&in);
    tensors_end(&out);
    CHECK_OK(aclrtResetDevice(0));
    return (void *)(intptr_t)done;
}

/* Threads on one model; with `ends` it is unloaded meanwhile. */
static void threads(const char *name, int ends)
{
    pthread_t all[THREADS];
    CHECK_OK(aclrtMalloc(&shared_x, BYTES, ACL_MEM_MALLOC_NORMAL_ONLY));
    put_counted(shared_x, COUNT);
    shared_id = model_load(name);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&all[i], NULL, work, (void *)(intptr_t)i);
    if (ends) {
        for (int i = 0; i < 1000; i++)
            sched_yield();
        CHECK_OK(aclmdlUnload(shared_id));
    }
    for (int i = 0; i < THREADS; i++) {
        void *done = NULL;
        pthread_join(all[i], &done);
        if (!ends)
            CHECK_EQ((intptr_t)done, TURNS);
    }
    if (!ends)
        CHECK_OK(aclmdlUnload(shared_id));
    CHECK_OK(aclrtFree(shared_x));
}

int main(void)
{
    const char *models[] = {"affine.om", "range.om"};
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));

    GROUP("aclmdl_9 an unload with a queued run: the run finishes");
    for (int i = 0; i < 2; i++)
        unload_queued(models[i]);

    GROUP("aclmdl_9 threads on one model");
    for (int i = 0; i < 2; i++)
        threads(models[i], 0);

    GROUP("aclmdl_9 threads on a model that is unloaded meanwhile");
    for (int i = 0; i < 2; i++)
        threads(models[i], 1);

    GROUP("aclmdl_9 loads and unloads leak no memory and no stream");
    size_t before = 0, after = 0;
    for (int turn = 0; turn < 50; turn++) {
        uint32_t id = model_load(models[turn % 2]);
        CHECK_OK(aclmdlUnload(id));
        if (turn == 5)
            before = free_memory();
        after = free_memory();
    }
    CHECK_EQ(after, before);
    uint32_t streams = 0;
    CHECK_OK(aclrtGetStreamAvailableNum(&streams));
    CHECK_EQ(streams, 1984 - 1);

    GROUP("aclmdl_9 aclFinalize unloads every model");
    uint32_t id = model_load("affine.om");
    CHECK_OK(aclFinalize());
    CHECK_CODE(aclmdlUnload(id), 145003);
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));

    GROUP("aclmdl_9 models of a device that was reset cannot run, only be unloaded");
    Tensors in = tensors_new(), out = tensors_new();
    uint32_t gone = model_load("affine.om"), range = model_load("range.om");
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclrtSetDevice(0));
    put_counted(tensors_add(&in, BYTES), COUNT);
    tensors_add(&out, BYTES);
    CHECK_FAIL(aclmdlExecute(gone, in.set, out.set), 107002, "load the model again");
    CHECK_FAIL(aclmdlExecuteAsync(range, in.set, out.set, NULL), 107002, "load the model again");
    CHECK_OK(aclmdlUnload(gone));
    id = model_load("affine.om");
    CHECK_OK(aclmdlExecute(id, in.set, out.set));
    CHECK_OK(aclmdlUnload(range));
    tensors_end(&in);
    tensors_end(&out);
    /* The process ends with a model loaded. */
    return END();
}

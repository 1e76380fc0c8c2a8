// links: -lcairn_pool -ldl
/* Two copies of libcairn_pool.so in one process: two pools, each with its own books. */
#include "gate.h"
#include "cairn/pool.h"
#include <dlfcn.h>

#define MIB ((size_t)1 << 20)

/* Loads a copy of the library that this program is linked with. */
static void *load_copy(void)
{
    Dl_info info;
    char path[] = "/tmp/cairn-pool-copy-XXXXXX", command[1024];
    if (!CHECK(dladdr((void *)cairn_malloc, &info) != 0))
        return NULL;
    int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    snprintf(command, sizeof command, "cp '%s' %s", info.dli_fname, path);
    CHECK_EQ(system(command), 0);
    void *copy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK_EQ(unlink(path), 0);
    if (!CHECK(copy != NULL))
        printf("%s\n", dlerror());
    return copy;
}

int main(void)
{
    static Gate gate = GATE_CLOSED;
    aclrtStream a, b;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&a));
    CHECK_OK(aclrtCreateStream(&b));

    GROUP("pool copies: each has its own memory");
    void *copy = load_copy();
    if (!copy)
        return END();
    __typeof__(cairn_pool_malloc) *take;
    __typeof__(cairn_pool_free) *give;
    __typeof__(cairn_pool_trim) *trim;
    *(void **)&take = dlsym(copy, "cairn_pool_malloc");
    *(void **)&give = dlsym(copy, "cairn_pool_free");
    *(void **)&trim = dlsym(copy, "cairn_pool_trim");
    CHECK(take && give && trim && take != cairn_pool_malloc);
    void *ours = cairn_pool_malloc(8 * MIB, 0, a), *theirs = take(8 * MIB, 0, a);
    CHECK(ours && theirs && ours != theirs);
    CHECK_EQ(cairn_pool_free(theirs, 0, a), -1);
    CHECK_EQ(give(ours, 0, a), -1);

    GROUP("pool copies: both hear of streams that end, and ask their own events");
    gate_put(&gate, a);
    CHECK_EQ(cairn_pool_free(ours, 0, a), 0);
    CHECK_EQ(give(theirs, 0, a), 0);
    CHECK_EQ(cairn_pool_trim(0, 0), 0);
    CHECK_EQ(trim(0, 0), 0);
    gate_open(&gate);
    CHECK_OK(aclrtDestroyStream(a));
    CHECK(cairn_pool_malloc(8 * MIB, 0, b) == ours);
    CHECK(take(8 * MIB, 0, b) == theirs);
    CHECK_EQ(cairn_pool_free(ours, 0, b), 0);
    CHECK_EQ(give(theirs, 0, b), 0);
    CHECK(cairn_pool_trim(0, 0) >= 8 * MIB);
    CHECK(trim(0, 0) >= 8 * MIB);
    return END();
}

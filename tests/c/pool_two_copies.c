// links: -lcairn_pool -ldl
/* Two copies of libcairn_pool.so in one process: two pools that know nothing of each other. */
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
    __typeof__(cairn_pool_malloc) *copy_malloc;
    __typeof__(cairn_pool_free) *copy_free;
    __typeof__(cairn_pool_trim) *copy_trim;
    *(void **)&copy_malloc = dlsym(copy, "cairn_pool_malloc");
    *(void **)&copy_free = dlsym(copy, "cairn_pool_free");
    *(void **)&copy_trim = dlsym(copy, "cairn_pool_trim");
    CHECK(copy_malloc && copy_free && copy_trim && copy_malloc != cairn_pool_malloc);
    void *block = cairn_pool_malloc(8 * MIB, 0, a), *copy_block = copy_malloc(8 * MIB, 0, a);
    CHECK(block && copy_block && block != copy_block);
    CHECK_EQ(cairn_pool_free(copy_block, 0, a), -1);
    CHECK_EQ(copy_free(block, 0, a), -1);

    GROUP("pool copies: both get callbacks of destroyed streams, and query their own events");
    gate_put(&gate, a);
    CHECK_EQ(cairn_pool_free(block, 0, a), 0);
    CHECK_EQ(copy_free(copy_block, 0, a), 0);
    CHECK_EQ(cairn_pool_trim(0, 0), 0);
    CHECK_EQ(copy_trim(0, 0), 0);
    gate_open(&gate);
    CHECK_OK(aclrtDestroyStream(a));
    CHECK(cairn_pool_malloc(8 * MIB, 0, b) == block);
    CHECK(copy_malloc(8 * MIB, 0, b) == copy_block);
    CHECK_EQ(cairn_pool_free(block, 0, b), 0);
    CHECK_EQ(copy_free(copy_block, 0, b), 0);
    CHECK(cairn_pool_trim(0, 0) >= 8 * MIB);
    CHECK(copy_trim(0, 0) >= 8 * MIB);
    return END();
}

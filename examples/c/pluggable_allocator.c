/*
 * An allocator for torch_npu: the two functions of NPUPluggableAllocator, which count what goes through
 * them. examples/torch/pluggable_allocator.py trains a network in their memory:
 *
 *     gcc -shared -fPIC pluggable_allocator.c -I$ASCEND_HOME_PATH/include \
 *         -L$ASCEND_HOME_PATH/lib64 -lascendcl -o pluggable_allocator.so
 *
 * As a program of its own it calls them as torch_npu does.
 */
#include <acl/acl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

typedef struct {
    uint64_t taken, returned, bytes, live, peak, failed;
} Figures;

static Figures figures;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Called for every tensor, with exactly its bytes. torch_npu asks for empty tensors too: they get NULL.
void *my_malloc(ssize_t size, int device, aclrtStream stream) {
    void *address = NULL;
    (void)device, (void)stream;
    if (size == 0) return NULL;
    aclError code = aclrtMallocAlign32(&address, (size_t)size, ACL_MEM_MALLOC_HUGE_FIRST);
    pthread_mutex_lock(&lock);
    if (code != ACL_SUCCESS) {
        figures.failed++;
        address = NULL; // torch_npu raises
    } else {
        figures.taken++;
        figures.bytes += (uint64_t)size;
        figures.live += (uint64_t)size;
        if (figures.live > figures.peak) figures.peak = figures.live;
    }
    pthread_mutex_unlock(&lock);
    return address;
}

// Called when the tensor goes, often before its last kernel has run: aclrtFree keeps the bytes until then.
void my_free(void *address, ssize_t size, int device, aclrtStream stream) {
    (void)device, (void)stream;
    if (address == NULL || aclrtFree(address) != ACL_SUCCESS) return;
    pthread_mutex_lock(&lock);
    figures.returned++;
    figures.live -= (uint64_t)size;
    pthread_mutex_unlock(&lock);
}

void my_figures(Figures *out) {
    pthread_mutex_lock(&lock);
    *out = figures;
    pthread_mutex_unlock(&lock);
}

#define MUST(call)                                                                             \
    do {                                                                                       \
        aclError code = (call);                                                                \
        if (code != ACL_SUCCESS) {                                                             \
            const char *text = aclGetRecentErrMsg();                                           \
            fprintf(stderr, "%s: %d\n  %s\n", #call, code, text != NULL ? text : "(no text)"); \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

// Tensors of many sizes: taken, filled on a stream, given back while that still waits.
int main(void) {
    aclrtStream stream;
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateStream(&stream));
    for (ssize_t size = 0; size < 1000000; size = 3 * size + 40) {
        void *tensor = my_malloc(size, 0, stream);
        if (tensor != NULL) MUST(aclrtMemsetAsync(tensor, (size_t)size, 7, (size_t)size, stream));
        my_free(tensor, size, 0, stream);
    }
    MUST(aclrtSynchronizeStream(stream));

    Figures totals;
    my_figures(&totals);
    printf("%" PRIu64 " blocks taken, %" PRIu64 " given back, %" PRIu64 " bytes in all, %" PRIu64 " at most at a time\n",
           totals.taken, totals.returned, totals.bytes, totals.peak);
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    return totals.taken > 0 && totals.taken == totals.returned && totals.live == 0 && totals.failed == 0 ? 0 : 1;
}

// links: -lcairn_pool
/* Wrong frees: each leaves a text and a line in the log, and changes nothing else. */
#include "gate.h"
#include "logged.h"
#include "cairn/pool.h"

#define KIB ((size_t)1 << 10)

static int error_has(const char *part)
{
    const char *text = cairn_pool_last_error();
    if (text && strstr(text, part))
        return 1;
    printf("the text lacks \"%s\": %s\n", part, text ? text : "(there is none)");
    return 0;
}

static uint64_t live(int device)
{
    cairnPoolFigures figures;
    CHECK_EQ(cairn_pool_figures(device, &figures), 0);
    return figures.live;
}

static void free_foreign(void *stream)
{
    cairn_free((void *)0x77777200, 1, 0, stream);
    CHECK(error_has("0x77777200 is no block of the pool of device 0"));
    CHECK(cairn_pool_last_error() == NULL);
}

int main(void)
{
    aclrtStream stream, other, on_device_1;
    log_begin();
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&on_device_1));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&other));

    GROUP("pool frees of NULL do nothing");
    cairn_free(NULL, 0, 0, stream);
    CHECK_EQ(cairn_pool_free(NULL, 0, stream), 0);
    cairn_free(NULL, 0, 99, NULL);
    CHECK(cairn_pool_last_error() == NULL);

    GROUP("pool frees of foreign addresses");
    char local[16];
    void *plain = NULL;
    char *block = cairn_malloc(4 * KIB, 0, stream);
    CHECK(block != NULL);
    CHECK_OK(aclrtMalloc(&plain, KIB, ACL_MEM_MALLOC_HUGE_FIRST));
    void *const foreign[] = {local, plain, block + 1, block + 512, (void *)16, (void *)~(uintptr_t)0};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        cairn_free(foreign[i], 4 * KIB, 0, stream);
        CHECK(error_has("is no block of the pool"));
        CHECK_EQ(cairn_pool_free(foreign[i], 0, stream), -1);
        CHECK(error_has("cairn_pool_free"));
        CHECK_EQ(cairn_pool_record_stream(foreign[i], other), -1);
        CHECK(error_has("cairn_pool_record_stream"));
    }
    CHECK_EQ(live(0), 4 * KIB);
    CHECK_OK(aclrtFree(plain));

    GROUP("pool frees on the wrong device");
    char *second = cairn_malloc(4 * KIB, 1, on_device_1);
    CHECK(second != NULL);
    cairn_free(block, 4 * KIB, 1, on_device_1);
    CHECK(error_has("is of device 0, not of device 1"));
    CHECK_EQ(live(0), 4 * KIB);
    cairn_free(second, 4 * KIB, 0, stream);
    CHECK(error_has("is of device 1, not of device 0"));
    cairn_free(second, 4 * KIB, 1, on_device_1);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK_EQ(live(1), 0);

    GROUP("pool requests for a stream of another device");
    CHECK(cairn_malloc(KIB, 0, on_device_1) == NULL);
    CHECK(error_has("is of device 1, not of device 0"));
    aclrtStream fresh;
    CHECK_OK(aclrtCreateStream(&fresh));
    CHECK(cairn_malloc(KIB, 1, fresh) == NULL);
    CHECK(error_has("is none of device 1"));
    CHECK(cairn_malloc(KIB, 1, fresh) == NULL);
    CHECK(error_has("pass a stream of device 1 that is not destroyed"));
    void *allowed = cairn_malloc(KIB, 0, fresh);
    CHECK(allowed != NULL);
    cairn_free(allowed, KIB, 0, fresh);
    CHECK(cairn_malloc(KIB, 0, local) == NULL);
    CHECK(error_has("is none of device 0"));

    GROUP("pool frees twice");
    cairn_free(block, 4 * KIB, 0, stream);
    CHECK(cairn_pool_last_error() == NULL);
    cairn_free(block, 4 * KIB, 0, stream);
    CHECK(error_has("is not held: it was freed before"));
    CHECK_EQ(cairn_pool_free(block, 0, stream), -1);
    CHECK(error_has("freed before"));
    CHECK_EQ(cairn_pool_record_stream(block, other), -1);
    CHECK(error_has("is no block that is held"));
    CHECK_EQ(live(0), 0);
    char *again = cairn_malloc(4 * KIB, 0, stream);
    char *more = cairn_malloc(4 * KIB, 0, stream);
    CHECK(again == block && more != block && more != NULL);

    GROUP("pool frees with the wrong size are reported and carried out");
    cairn_free(again, 5 * KIB, 0, stream);
    CHECK(error_has("was freed as 5120 bytes, but it has 4096"));
    CHECK_EQ(live(0), 4 * KIB);
    again = cairn_malloc(4 * KIB, 0, stream);
    cairn_free(again, -5, 0, stream);
    CHECK(error_has("was freed as -5 bytes, but it has 4096"));
    CHECK(cairn_malloc(-5, 0, stream) == NULL);
    CHECK(error_has("a size of -5 bytes"));
    cairn_free(more, 4 * KIB - 100, 0, stream);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK_EQ(live(0), 0);

    GROUP("pool frees on a stream that it does not know are reported and carried out");
    block = cairn_malloc(4 * KIB, 0, stream);
    cairn_free(block, 4 * KIB, 0, local);
    CHECK(error_has("does not know"));
    CHECK_EQ(live(0), 0);
    again = cairn_malloc(4 * KIB, 0, stream);
    CHECK(again != block);
    cairn_free(again, 4 * KIB, 0, stream);
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    CHECK(cairn_pool_trim(0, 0) > 0);
    cairnPoolFigures figures;
    CHECK_EQ(cairn_pool_figures(0, &figures), 0);
    CHECK_EQ(figures.reserved, 0);

    GROUP("pool texts belong to threads, and are logged");
    on_thread(free_foreign, stream);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK_EQ(LOGGED("ERROR", "libcairn_pool", "cairn_free: 0x77777200 is no block of the pool"), 1);
    log_end();
    return END();
}

// Two devices, four streams: data goes from the host to device 0, on to device 1 and back, while a
// second stream of each device has work of its own. Events order the streams; nothing waits on the
// host until the end. Run it with CAIRN_TRACE=FILE, or `cargo xtask demo`, to see what ran when.

#include <acl/acl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECES = 4, PIECE = 8 << 20 };

#define MUST(call)                                                                          \
    do {                                                                                    \
        aclError code = (call);                                                             \
        if (code != ACL_SUCCESS) {                                                          \
            const char *text = aclGetRecentErrMsg();                                        \
            fprintf(stderr, "%s: %d\n  %s\n", #call, code, text != NULL ? text : "(no text)"); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

typedef struct {
    aclrtStream in, out;   // copies in, copies out
    uint8_t *data, *scratch; // PIECES pieces of data, one piece of scratch
} Device;

static void open_device(int32_t id, Device *device) {
    void *data = NULL, *scratch = NULL;
    MUST(aclrtSetDevice(id));
    MUST(aclrtDeviceEnablePeerAccess(1 - id, 0));
    MUST(aclrtCreateStream(&device->in));
    MUST(aclrtCreateStream(&device->out));
    MUST(aclrtMalloc(&data, PIECES * PIECE, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMalloc(&scratch, PIECE, ACL_MEM_MALLOC_HUGE_FIRST));
    device->data = data;
    device->scratch = scratch;
}

static void close_device(int32_t id, Device *device) {
    MUST(aclrtSetDevice(id));
    MUST(aclrtDestroyStream(device->in));
    MUST(aclrtDestroyStream(device->out));
    MUST(aclrtFree(device->data));
    MUST(aclrtFree(device->scratch));
    MUST(aclrtResetDevice(id));
}

static void count_piece(void *counter) { ++*(int *)counter; }

int main(void) {
    Device first, second;
    void *memory = NULL;
    aclrtEvent start, end, arrived[PIECES], forwarded[PIECES];
    float ms = 0;
    int finished = 0;

    MUST(aclInit(NULL));
    open_device(0, &first);
    MUST(aclrtMallocHost(&memory, 2 * PIECES * PIECE));
    uint8_t *sent = memory, *received = sent + PIECES * PIECE;
    for (size_t i = 0; i < PIECES * PIECE; ++i) sent[i] = (uint8_t)(i * 2654435761u >> 13);
    MUST(aclrtCreateEvent(&start));
    MUST(aclrtCreateEvent(&end));
    for (int i = 0; i < PIECES; ++i) {
        MUST(aclrtCreateEventExWithFlag(&arrived[i], ACL_EVENT_SYNC));
        MUST(aclrtCreateEventExWithFlag(&forwarded[i], ACL_EVENT_SYNC));
    }

    // Device 0: pieces come in on one stream and leave for device 1 on the other. A piece leaves as
    // soon as it has arrived, while the next one is still on its way.
    open_device(1, &second);
    MUST(aclrtSetDevice(0));
    MUST(aclrtRecordEvent(start, first.in));
    for (int i = 0; i < PIECES; ++i) {
        size_t offset = (size_t)i * PIECE;
        MUST(aclrtMemcpyAsync(first.data + offset, PIECE, sent + offset, PIECE, ACL_MEMCPY_HOST_TO_DEVICE, first.in));
        MUST(aclrtRecordEvent(arrived[i], first.in));
        MUST(aclrtStreamWaitEvent(first.out, arrived[i]));
        MUST(aclrtMemcpyAsync(second.data + offset, PIECE, first.data + offset, PIECE, ACL_MEMCPY_DEVICE_TO_DEVICE, first.out));
        MUST(aclrtRecordEvent(forwarded[i], first.out));
    }

    // Device 1: pieces go home on one stream, the other fills scratch memory meanwhile.
    MUST(aclrtSetDevice(1));
    for (int i = 0; i < PIECES; ++i) {
        size_t offset = (size_t)i * PIECE;
        MUST(aclrtStreamWaitEvent(second.out, forwarded[i]));
        MUST(aclrtMemcpyAsync(received + offset, PIECE, second.data + offset, PIECE, ACL_MEMCPY_DEVICE_TO_HOST, second.out));
        MUST(aclrtLaunchHostFunc(second.out, count_piece, &finished));
        MUST(aclrtMemsetAsync(second.scratch, PIECE, i, PIECE, second.in));
    }
    MUST(aclrtRecordEvent(end, second.out));

    MUST(aclrtSynchronizeDevice());
    MUST(aclrtEventElapsedTime(&ms, start, end));
    for (size_t i = 0; i < PIECES * PIECE; ++i) {
        if (received[i] != sent[i]) {
            fprintf(stderr, "byte %zu came back as %u instead of %u\n", i, received[i], sent[i]);
            return 1;
        }
    }
    printf("%d pieces of %d MiB went host > device 0 > device 1 > host in %.2f ms, all bytes right.\n",
           finished, PIECE >> 20, ms);

    MUST(aclrtDestroyEvent(start));
    MUST(aclrtDestroyEvent(end));
    for (int i = 0; i < PIECES; ++i) {
        MUST(aclrtDestroyEvent(arrived[i]));
        MUST(aclrtDestroyEvent(forwarded[i]));
    }
    MUST(aclrtFreeHost(memory));
    close_device(1, &second);
    close_device(0, &first);
    MUST(aclFinalize());
    return 0;
}

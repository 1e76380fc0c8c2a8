/* Twelve streams read memory; the writer waits for all of them but the first. */
#include "program.h"

enum { READERS = 12, BYTES = 4096 };

int main(void)
{
    begin();
    void *memory = device_memory(BYTES), *copies[READERS];
    aclrtStream writer = new_stream(), readers[READERS];
    aclrtEvent read[READERS];
    MUST(aclrtMemsetAsync(memory, BYTES, 1, BYTES, writer));
    MUST(aclrtSynchronizeStream(writer));
    for (int i = 0; i < READERS; ++i) {
        readers[i] = new_stream();
        copies[i] = device_memory(BYTES);
        MUST(aclrtCreateEvent(&read[i]));
        MUST(aclrtMemcpyAsync(copies[i], BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, readers[i]));
        MUST(aclrtRecordEvent(read[i], readers[i]));
    }
#ifdef RIGHT
    int from = 0;
#else
    int from = 1;
#endif
    for (int i = from; i < READERS; ++i)
        MUST(aclrtStreamWaitEvent(writer, read[i]));
    MUST(aclrtMemsetAsync(memory, BYTES, 2, BYTES, writer));
    MUST(aclrtSynchronizeDevice());
    for (int i = 0; i < READERS; ++i) {
        MUST(aclrtDestroyEvent(read[i]));
        MUST(aclrtDestroyStream(readers[i]));
        MUST(aclrtFree(copies[i]));
    }
    MUST(aclrtFree(memory));
    MUST(aclrtDestroyStream(writer));
    end();
    return 0;
}

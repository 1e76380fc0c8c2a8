/*
 * CAIRN_TRACE: a line per task, with name, reads and writes, for one call of every function that
 * submits.
 */
#include "gate.h"

enum { SIZE = 4096, LINES = 64 };
static char path[] = "/tmp/cairn-trace-XXXXXX";

typedef struct Line {
    unsigned long long start, end, seq;
    int device, stream;
    char name[64], reads[256], writes[256];
} Line;

static Line lines[LINES];
static int count;

static void read_lines(void)
{
    char text[1024];
    FILE *file = fopen(path, "r");
    if (!CHECK(file != NULL))
        return;
    while (count < LINES && fgets(text, sizeof text, file)) {
        Line *line = &lines[count];
        char rest[8] = "";
        int fields = sscanf(
            text, "%llu %llu %d %d %llu %63s %255s %255s %7s", &line->start, &line->end, &line->device,
            &line->stream, &line->seq, line->name, line->reads, line->writes, rest);
        if (!CHECK_EQ(fields, 8))
            printf("  in the line: %s", text);
        count++;
    }
    fclose(file);
}

/* One line has this name, these reads and these writes. */
static void check_has_line(const char *name, const char *reads, const char *writes)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(lines[i].name, name) && !strcmp(lines[i].reads, reads)
            && !strcmp(lines[i].writes, writes))
            return;
    check_failed();
    printf("no line with name %s, reads %s, writes %s\n", name, reads, writes);
    for (int i = 0; i < count; i++)
        if (!strcmp(lines[i].name, name))
            printf("  but %s %s %s\n", name, lines[i].reads, lines[i].writes);
}

static const char *range_text(char *text, const void *address, size_t bytes)
{
    sprintf(text, "%p+%zu", address, bytes);
    return text;
}

int main(void)
{
    char a[64], b[64];
    unsigned char *memory = NULL, *pinned = NULL, pageable[SIZE];
    aclrtStream stream = NULL, other = NULL;
    aclrtEvent event = NULL;
    int32_t stream_id = -1;
    int flag = 0;
    int descriptor = mkstemp(path);
    if (descriptor < 0)
        abort();
    close(descriptor);
    setenv("CAIRN_TRACE", path, 1);

    GROUP("acl_3_2_50 every function that submits leaves a line with its name, reads and writes");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&other));
    CHECK_OK(aclrtCreateEvent(&event));
    CHECK_OK(aclrtStreamGetId(stream, &stream_id));
    CHECK_OK(aclrtMalloc((void **)&memory, 4 * SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMallocHost((void **)&pinned, SIZE));
    CHECK_OK(aclrtMemsetAsync(memory, SIZE, 1, SIZE - 1, stream));
    CHECK_OK(aclrtMemcpyAsync(pinned, SIZE, memory, SIZE - 2, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtMemcpyAsync(memory, SIZE, pinned, SIZE - 3, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK_OK(aclrtMemcpyAsync(memory + SIZE, SIZE, memory, SIZE - 4, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    CHECK_OK(aclrtMemcpyAsync(pageable, SIZE, memory, SIZE - 5, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aclrtStreamWaitEvent(other, event));
    CHECK_OK(aclrtStreamWaitEventWithTimeout(other, event, 1));
    CHECK_OK(aclrtResetEvent(event, other));
    CHECK_OK(aclrtMemsetAsync(memory, 1 << 20, 1, 1 << 20, other));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_CODE(aclrtSynchronizeStream(other), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclFinalize());

    read_lines();
    check_has_line("aclrtMemsetAsync", "-", range_text(a, memory, SIZE - 1));
    check_has_line("aclrtMemcpyAsync", range_text(a, memory, SIZE - 2), range_text(b, pinned, SIZE - 2));
    check_has_line("aclrtMemcpyAsync", range_text(a, pinned, SIZE - 3), range_text(b, memory, SIZE - 3));
    check_has_line("aclrtMemcpyAsync", range_text(a, memory, SIZE - 4), range_text(b, memory + SIZE, SIZE - 4));
    check_has_line("aclrtMemcpyAsync", range_text(a, memory, SIZE - 5), range_text(b, pageable, SIZE - 5));
    check_has_line("aclrtLaunchHostFunc", "-", "-");
    check_has_line("aclrtRecordEvent", "-", "-");
    check_has_line("aclrtStreamWaitEvent", "-", "-");
    check_has_line("aclrtStreamWaitEventWithTimeout", "-", "-");
    check_has_line("aclrtResetEvent", "-", "-");
    check_has_line("aclrtMemsetAsync(failed)", "-", range_text(a, memory, 1 << 20));

    GROUP("acl_3_2_50 times, device, stream and sequence of the lines");
    CHECK_EQ(count, 11);
    unsigned long long next = 1;
    for (int i = 0; i < count; i++) {
        CHECK(lines[i].start > 0 && lines[i].start <= lines[i].end);
        CHECK_EQ(lines[i].device, 1);
        if (lines[i].stream == stream_id)
            CHECK_EQ(lines[i].seq, next++);
    }
    CHECK_EQ(next, 8);
    unlink(path);
    return END();
}

// unchecked: it touches device memory itself
// env: CAIRN_MEMORY=fault:nth=3
// env: CAIRN_MEMORY=fault:every=10
// env: CAIRN_MEMORY=guard,fault:p=0.2:seed=7,stats
// env: CAIRN_MEMORY=fault:p=1
// env: CAIRN_MEMORY=fault:delay=1us
/* Injected faults, and a program that retries. */
#include "check.h"

#define BLOCKS 100

static const char *spec;

/* Allocates BLOCKS blocks on a device in at most `max_tries` tries; records
 * which tries failed, and returns the number of blocks. */
static int fill_device(int device, int max_tries, unsigned char failed[], int *failures)
{
    void *blocks[BLOCKS];
    int count = 0;
    *failures = 0;
    CHECK_OK(aclrtSetDevice(device));
    for (int try = 0; count < BLOCKS && try < max_tries; try++) {
        blocks[count] = (void *)1;
        int code = aclrtMalloc(&blocks[count], 1000, ACL_MEM_MALLOC_NORMAL_ONLY);
        failed[try] = code != ACL_SUCCESS;
        if (!failed[try]) {
            CHECK_OK(aclrtMemset(blocks[count], 1000, count, 1000));
            count++;
        } else if (CHECK(code == ACL_ERROR_RT_MEMORY_ALLOCATION && blocks[count] == NULL)) {
            char text[64];
            snprintf(text, sizeof text, "injected fault: request %d, of 1056 bytes", try + 1);
            CHECK_TEXT(text);
            (*failures)++;
        }
    }
    for (int i = 0; i < count; i++) {
        CHECK_EQ(((unsigned char *)blocks[i])[999], i);
        CHECK_OK(aclrtFree(blocks[i]));
    }
    CHECK_OK(aclrtResetDevice(device));
    return count;
}

int main(void)
{
    unsigned char failed[2][1000];
    int failures[2], count[2];
    spec = getenv("CAIRN_MEMORY");
    CHECK_OK(aclInit(NULL));

    GROUP("CAIRN_MEMORY fault: a program that tries again gets its memory");
    for (int device = 0; device < 2; device++)
        count[device] = fill_device(device, 200, failed[device], &failures[device]);

    GROUP("CAIRN_MEMORY fault: the chosen requests failed, and no others");
    CHECK_EQ(count[1], count[0]);
    CHECK_EQ(failures[1], failures[0]);
    CHECK(memcmp(failed[0], failed[1], count[0] + failures[0]) == 0);
    if (strstr(spec, "p=1")) {
        CHECK_EQ(count[0], 0);
        CHECK_EQ(failures[0], 200);
    } else {
        CHECK_EQ(count[0], BLOCKS);
    }
    if (strstr(spec, "nth=3"))
        CHECK(failures[0] == 1 && failed[0][2]);
    if (strstr(spec, "every=10"))
        CHECK(failures[0] == 11 && failed[0][9] && failed[0][109]);
    if (strstr(spec, "p=0.2"))
        CHECK(failures[0] > 5 && failures[0] < 60);
    if (strstr(spec, "delay"))
        CHECK_EQ(failures[0], 0);
    CHECK_OK(aclFinalize());
    return END();
}

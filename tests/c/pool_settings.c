// links: -lcairn_pool
// env: CAIRN_POOL_WAIT_MS=abc
// env: CAIRN_POOL_VMM=maybe
/* An invalid setting of the pool is reported once, with the values that are allowed; the pool works. */
#include "check.h"
#include "logged.h"
#include "cairn/pool.h"

int main(void)
{
    char name[96], path[] = "/tmp/cairn-pool-settings-XXXXXX", line[512] = "";
    const char *wait = getenv("CAIRN_POOL_WAIT_MS");
    snprintf(name, sizeof name, "%s=%s is not used: expected ", wait ? "CAIRN_POOL_WAIT_MS" : "CAIRN_POOL_VMM",
             wait ? wait : getenv("CAIRN_POOL_VMM"));
    log_begin();
    int original_stderr = dup(2), file = mkstemp(path);
    CHECK(file >= 0 && dup2(file, 2) == 2);
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));

    GROUP("pool settings: a bad value is reported once, and the default holds");
    for (int i = 0; i < 2; i++) {
        void *block = cairn_pool_malloc(4096, i, NULL);
        CHECK(block != NULL);
        CHECK_EQ(cairn_pool_free(block, i, NULL), 0);
    }
    dup2(original_stderr, 2);
    FILE *errors = fopen(path, "r");
    int times = 0;
    while (errors && fgets(line, sizeof line, errors))
        times += strstr(line, name) != NULL;
    CHECK_EQ(times, 1);
    CHECK_EQ(LOGGED("ERROR", "libcairn_pool", name), 1);
    if (errors)
        fclose(errors);
    unlink(path);
    log_end();
    return END();
}

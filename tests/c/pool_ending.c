// nolink
// links: -rdynamic -ldl
// env: CAIRN_POOL_WAIT_MS=3600000
/* A stream that is destroyed during capture, when no event can be recorded on it: no request waits for it. */
#define FAKE_FULL
#include "pool_fake_acl.h"

int main(void)
{
    FakeStream destroyed = {0, 0}, other = {0, 0};
    pool_load();

    GROUP("the end of a stream: a request does not wait for a stream on which no event can prove that its work has finished");
    char *block = pool.malloc(200 * MIB, 0, &destroyed);
    CHECK(block != NULL);
    CHECK_EQ(pool.free(block, 0, &destroyed), 0);
    destroyed.capturing = 1;
    fake.on_stream(&destroyed, ACL_RT_STREAM_STATE_DESTROY_PRE, NULL);
    CHECK(pool.malloc(200 * MIB, 0, &other) == NULL);
    CHECK(pool_error_has("cairn_pool_synchronized(0) if some of them are gone"));
    CHECK_EQ(pool.synchronized(0), 0);
    CHECK(pool.malloc(200 * MIB, 0, &other) == block);
    return END();
}

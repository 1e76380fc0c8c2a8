// links: -lcairn_pool
/* The figures of libcairn_pool.so, in total and by stream, as a struct and as JSON. */
#include "gate.h"
#include "cairn/pool.h"
#include <ctype.h>
#include <limits.h>

#define MIB ((size_t)1 << 20)

/* A reader of JSON: each function returns the end of what it read, or NULL. */
static const char *value(const char *at);

static const char *skip_blanks(const char *at)
{
    while (*at && isspace((unsigned char)*at))
        at++;
    return at;
}

static const char *string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    while (*at && *at != '"' && *at != '\\')
        at++;
    return *at == '"' ? at + 1 : NULL;
}

/* Members up to `close`; each has a name in an object. */
static const char *members(const char *at, char close, int named)
{
    at = skip_blanks(at + 1);
    if (*at == close)
        return at + 1;
    for (;;) {
        if (named) {
            at = string(skip_blanks(at));
            if (!at || *(at = skip_blanks(at)) != ':')
                return NULL;
            at++;
        }
        at = value(at);
        if (!at)
            return NULL;
        at = skip_blanks(at);
        if (*at == close)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
}

/* One JSON value without escapes and fractions. */
static const char *value(const char *at)
{
    at = skip_blanks(at);
    if (*at == '{')
        return members(at, '}', 1);
    if (*at == '[')
        return members(at, ']', 0);
    if (*at == '"')
        return string(at);
    if (strncmp(at, "true", 4) == 0)
        return at + 4;
    if (strncmp(at, "false", 5) == 0)
        return at + 5;
    const char *digits = at;
    while (isdigit((unsigned char)*at))
        at++;
    return at > digits ? at : NULL;
}

static int is_json(const char *text)
{
    const char *end = value(text);
    return end && *skip_blanks(end) == 0;
}

static cairnPoolFigures figures_of(int device)
{
    cairnPoolFigures figures;
    memset(&figures, 0xff, sizeof figures);
    CHECK_EQ(cairn_pool_figures(device, &figures), 0);
    return figures;
}

static cairnPoolFigures stream_figures_of(int device, aclrtStream stream)
{
    cairnPoolFigures figures;
    memset(&figures, 0xff, sizeof figures);
    CHECK_EQ(cairn_pool_stream_figures(device, stream, &figures), 0);
    return figures;
}

static char *json(void)
{
    size_t length = cairn_pool_json(0, NULL, 0);
    char *text = malloc(length + 1);
    CHECK_EQ(cairn_pool_json(0, text, length + 1), length);
    CHECK_EQ(strlen(text), length);
    return text;
}

int main(void)
{
    aclrtStream first, second;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&first));
    CHECK_OK(aclrtCreateStream(&second));

    GROUP("pool figures of an unused pool");
    cairnPoolFigures before = figures_of(0);
    CHECK_EQ(before.live | before.reserved | before.taken | before.failed | before.budget, 0);
    CHECK(is_json("{\"a\":[1,{}],\"b\":\"c\"}") && !is_json("{\"a\":1") && !is_json("{a:1}"));
    char *text = json();
    CHECK(is_json(text));
    free(text);

    GROUP("pool blocks: at least the requested size, aligned, disjoint, usable");
    static const ssize_t sizes[] = {1, 40, 511, 512, 513, 100000, 3 * MIB, 5 * MIB + 1};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    char *blocks[COUNT];
    size_t asked = 0, rounded = 0;
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = cairn_malloc(sizes[i], 0, i % 2 ? second : first);
        if (!CHECK(blocks[i] != NULL))
            return END();
        CHECK_EQ((uintptr_t)blocks[i] % 512, 0);
        CHECK_OK(aclrtMemset(blocks[i], sizes[i], i + 1, sizes[i]));
        asked += sizes[i];
        rounded += (sizes[i] + 511) / 512 * 512;
    }
    for (int i = 0; i < COUNT; i++) {
        char ends[2];
        CHECK_OK(aclrtMemcpy(ends, 1, blocks[i], 1, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK_OK(aclrtMemcpy(ends + 1, 1, blocks[i] + sizes[i] - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK_EQ(ends[0], i + 1);
        CHECK_EQ(ends[1], i + 1);
    }

    GROUP("pool figures in total are the sum over the streams");
    cairnPoolFigures all = figures_of(0), one = stream_figures_of(0, first), two = stream_figures_of(0, second);
    CHECK_EQ(all.live, rounded);
    CHECK_EQ(all.requested, asked);
    CHECK_EQ(all.blocks, COUNT);
    CHECK_EQ(all.taken, COUNT);
    CHECK_EQ(all.freed, 0);
    CHECK_EQ(one.live + two.live, all.live);
    CHECK_EQ(one.requested + two.requested, all.requested);
    CHECK_EQ(one.blocks, COUNT / 2);
    CHECK_EQ(two.blocks, COUNT / 2);
    CHECK(all.reserved >= all.live && all.peakReserved == all.reserved && all.peak >= all.live);
    CHECK_EQ(stream_figures_of(0, NULL).taken, 0);

    GROUP("pool figures as JSON");
    text = json();
    char expected[160];
    CHECK(is_json(text));
    snprintf(expected, sizeof expected, "\"total\":{\"live\":%zu,\"requested\":%zu,", rounded, asked);
    CHECK(strstr(text, expected) != NULL);
    snprintf(expected, sizeof expected, "{\"stream\":\"%p\",\"live\":%zu,", first, (size_t)one.live);
    CHECK(strstr(text, expected) != NULL);
    snprintf(expected, sizeof expected, "{\"stream\":\"%p\",\"live\":%zu,", second, (size_t)two.live);
    CHECK(strstr(text, expected) != NULL);
    char small[8] = "1234567";
    CHECK_EQ(cairn_pool_json(0, small, 4), strlen(text));
    CHECK(memcmp(small, text, 3) == 0 && small[3] == 0 && small[4] == '5');
    free(text);

    GROUP("pool figures after the frees, and the peaks");
    for (int i = 0; i < COUNT; i++)
        cairn_free(blocks[i], sizes[i], 0, i % 2 ? second : first);
    all = figures_of(0);
    CHECK_EQ(all.live | all.requested | all.blocks, 0);
    CHECK_EQ(all.freed, COUNT);
    CHECK(all.peak >= rounded && all.largestHole >= 5 * MIB);
    CHECK_EQ(all.waiting, rounded);
    CHECK_EQ(cairn_pool_reset_peak(0), 0);
    CHECK_EQ(stream_figures_of(0, first).peak, 0);
    CHECK(figures_of(0).peak < MIB * 3);
    CHECK_EQ(figures_of(0).peakReserved, figures_of(0).reserved);
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    CHECK_EQ(figures_of(0).waiting, 0);

    GROUP("pool sizes of 0 and less");
    CHECK(cairn_malloc(0, 0, first) == NULL);
    CHECK(cairn_pool_malloc(0, 0, first) == NULL);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK(cairn_malloc(-1, 0, first) == NULL);
    const char *error = cairn_pool_last_error();
    CHECK(error && strstr(error, "cairn_malloc") && strstr(error, "-1"));
    CHECK(cairn_pool_last_error() == NULL);

    GROUP("pool functions with wrong arguments");
    CHECK_EQ(cairn_pool_figures(0, NULL), -1);
    CHECK(cairn_pool_last_error() != NULL);
    CHECK_EQ(cairn_pool_figures(7, &all), -1);
    error = cairn_pool_last_error();
    CHECK(error && strstr(error, "device 7"));
    CHECK_EQ(cairn_pool_figures(-1, &all), -1);
    CHECK_EQ(cairn_pool_json(99, small, sizeof small), 0);
    CHECK_EQ(small[0], 0);
    CHECK_EQ(cairn_pool_trim(99, 0), 0);
    CHECK_EQ(cairn_pool_reset_peak(99), -1);
    CHECK_EQ(cairn_pool_synchronized(99), -1);
    CHECK(cairn_malloc(SSIZE_MAX, 0, first) == NULL && cairn_pool_malloc(SIZE_MAX, 0, first) == NULL);
    error = cairn_pool_last_error();
    CHECK(error && strstr(error, "18446744073709551615 bytes, -1 as a signed number"));
    CHECK(error && strstr(error, "What to do: ask for less") && !strstr(error, "the budget"));
    CHECK(cairn_malloc(1, 99, first) == NULL);
    CHECK(cairn_malloc(1, -1, first) == NULL);

    CHECK_OK(aclrtDestroyStream(first));
    CHECK_OK(aclrtDestroyStream(second));
    return END();
}

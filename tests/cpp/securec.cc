// links: -lge_runner
/* The bounded string functions that CANN's libraries link by name. */
#include "check.h"
#include <cerrno>

extern "C" {
int memcpy_s(void *dest, size_t capacity, const void *source, size_t count);
int memset_s(void *dest, size_t capacity, int value, size_t count);
int strcpy_s(char *dest, size_t capacity, const char *source);
int strcat_s(char *dest, size_t capacity, const char *source);
int snprintf_s(char *dest, size_t capacity, size_t count, const char *format, ...);
int sprintf_s(char *dest, size_t capacity, const char *format, ...);
}

int main()
{
    char text[8];
    GROUP("securec: what fits is written");
    CHECK_EQ(strcpy_s(text, sizeof text, "abc"), 0);
    CHECK_EQ(strcat_s(text, sizeof text, "defg"), 0);
    CHECK(strcmp(text, "abcdefg") == 0);
    CHECK_EQ(snprintf_s(text, sizeof text, 7, "%d", 123), 3);
    CHECK(strcmp(text, "123") == 0);
    CHECK_EQ(memcpy_s(text, 8, "12345678", 8), 0);
    CHECK_EQ(memset_s(text, 8, 0, 8), 0);

    GROUP("securec: what does not fit makes the buffer empty");
    CHECK(strcpy_s(text, sizeof text, "12345678") != 0 && text[0] == 0);
    strcpy(text, "1234567");
    CHECK(strcat_s(text, sizeof text, "8") != 0 && text[0] == 0);
    text[0] = 'x';
    CHECK(sprintf_s(text, sizeof text, "%s", "12345678") == -1 && text[0] == 0);
    text[0] = 'x';
    CHECK(memcpy_s(text, 4, "12345", 5) != 0 && text[0] == 0);
    CHECK(strcpy_s(nullptr, 8, "a") == EINVAL && strcpy_s(text, 0, "a") == ERANGE);

    GROUP("securec: snprintf_s truncates to its count");
    CHECK_EQ(snprintf_s(text, sizeof text, 4, "%s", "12345678"), -1);
    CHECK(strcmp(text, "1234") == 0);
    return END();
}

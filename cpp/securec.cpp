// The bounded string functions that CANN's libraries link by name. `dest_max` is the size of the buffer at `dest`, NUL included.
// Where a result does not fit, the buffer is emptied and a code is returned; nothing is written beyond it.

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

// Codes of these functions.
const int EMPTIED_INVALID = 150;
const int EMPTIED_RANGE = 162;
const int EMPTIED_OVERLAP = 182;
const size_t MAX_BYTES = 0x7fffffff;

bool is_valid(const void *dest, size_t dest_max)
{
    return dest != nullptr && dest_max != 0 && dest_max <= MAX_BYTES;
}

// Empties the buffer, and gives the code.
int empty_text(char *dest, int code)
{
    dest[0] = '\0';
    return code;
}

bool overlap(const void *dest, const void *source, size_t count)
{
    const uintptr_t a = reinterpret_cast<uintptr_t>(dest);
    const uintptr_t b = reinterpret_cast<uintptr_t>(source);
    return a < b ? b - a < count : a - b < count;
}

// Appends up to `count` bytes of a text to the first `used` ones.
int append(char *dest, size_t dest_max, size_t used, const char *source, size_t count)
{
    const size_t length = strnlen(source, count);
    if (length >= dest_max - used) {
        return empty_text(dest, EMPTIED_RANGE);
    }
    if (overlap(dest, source, used + length + 1)) {
        return empty_text(dest, EMPTIED_OVERLAP);
    }
    std::memcpy(dest + used, source, length);
    dest[used + length] = '\0';
    return 0;
}

}  // namespace

extern "C" {

int memcpy_s(void *dest, size_t dest_max, const void *source, size_t count)
{
    if (dest_max == 0 || dest_max > MAX_BYTES) {
        return ERANGE;
    }
    if (dest == nullptr || source == nullptr) {
        if (dest != nullptr) {
            std::memset(dest, 0, dest_max);
            return EMPTIED_INVALID;
        }
        return EINVAL;
    }
    if (count > dest_max || (dest != source && overlap(dest, source, count))) {
        std::memset(dest, 0, dest_max);
        return count > dest_max ? EMPTIED_RANGE : EMPTIED_OVERLAP;
    }
    std::memmove(dest, source, count);
    return 0;
}

int memmove_s(void *dest, size_t dest_max, const void *source, size_t count)
{
    if (dest_max == 0 || dest_max > MAX_BYTES) {
        return ERANGE;
    }
    if (dest == nullptr || source == nullptr) {
        if (dest != nullptr) {
            std::memset(dest, 0, dest_max);
            return EMPTIED_INVALID;
        }
        return EINVAL;
    }
    if (count > dest_max) {
        std::memset(dest, 0, dest_max);
        return EMPTIED_RANGE;
    }
    std::memmove(dest, source, count);
    return 0;
}

int memset_s(void *dest, size_t dest_max, int value, size_t count)
{
    if (dest_max == 0 || dest_max > MAX_BYTES) {
        return ERANGE;
    }
    if (dest == nullptr) {
        return EINVAL;
    }
    std::memset(dest, value, count < dest_max ? count : dest_max);
    return count <= dest_max ? 0 : EMPTIED_RANGE;
}

int strncpy_s(char *dest, size_t dest_max, const char *source, size_t count)
{
    if (!is_valid(dest, dest_max)) {
        return dest == nullptr && dest_max != 0 && dest_max <= MAX_BYTES ? EINVAL : ERANGE;
    }
    return source == nullptr ? empty_text(dest, EMPTIED_INVALID) : append(dest, dest_max, 0, source, count);
}

int strcpy_s(char *dest, size_t dest_max, const char *source)
{
    return dest != nullptr && dest == source && strnlen(dest, dest_max) < dest_max ? 0
                                                                          : strncpy_s(dest, dest_max, source, MAX_BYTES);
}

int strncat_s(char *dest, size_t dest_max, const char *source, size_t count)
{
    if (!is_valid(dest, dest_max)) {
        return dest == nullptr && dest_max != 0 && dest_max <= MAX_BYTES ? EINVAL : ERANGE;
    }
    const size_t used = strnlen(dest, dest_max);
    if (source == nullptr || used == dest_max) {
        return empty_text(dest, EMPTIED_INVALID);
    }
    return append(dest, dest_max, used, source, count);
}

int strcat_s(char *dest, size_t dest_max, const char *source)
{
    return strncat_s(dest, dest_max, source, MAX_BYTES);
}

// At most `count` characters; a longer text is cut there and gives -1. One that does not fit the buffer empties it.
int vsnprintf_s(char *dest, size_t dest_max, size_t count, const char *format, va_list arguments)
{
    if (!is_valid(dest, dest_max) || format == nullptr) {
        if (is_valid(dest, dest_max)) {
            dest[0] = '\0';
        }
        return -1;
    }
    const bool is_cut = count < dest_max;
    const int length = std::vsnprintf(dest, is_cut ? count + 1 : dest_max, format, arguments);
    if (length >= 0 && static_cast<size_t>(length) <= (is_cut ? count : dest_max - 1)) {
        return length;
    }
    if (length < 0 || !is_cut) {
        dest[0] = '\0';
    }
    return -1;
}

int snprintf_s(char *dest, size_t dest_max, size_t count, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf_s(dest, dest_max, count, format, arguments);
    va_end(arguments);
    return length;
}

int vsprintf_s(char *dest, size_t dest_max, const char *format, va_list arguments)
{
    return vsnprintf_s(dest, dest_max, dest_max, format, arguments);
}

int sprintf_s(char *dest, size_t dest_max, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf_s(dest, dest_max, dest_max, format, arguments);
    va_end(arguments);
    return length;
}

}  // extern "C"

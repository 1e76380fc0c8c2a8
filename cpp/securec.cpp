// The bounded string functions that CANN's libraries link by name. Sizes are of the room at `dest`, with the NUL.
// Where a result does not fit, the room is emptied and a code says so; nothing is written beyond it.

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
const size_t LARGEST = 0x7fffffff;

bool is_room(const void *dest, size_t room)
{
    return dest != nullptr && room != 0 && room <= LARGEST;
}

int emptied(char *dest, int code)
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

// Puts up to `count` bytes of a text after the `used` ones.
int append(char *dest, size_t room, size_t used, const char *source, size_t count)
{
    const size_t length = strnlen(source, count);
    if (length >= room - used) {
        return emptied(dest, EMPTIED_RANGE);
    }
    if (overlap(dest, source, used + length + 1)) {
        return emptied(dest, EMPTIED_OVERLAP);
    }
    std::memcpy(dest + used, source, length);
    dest[used + length] = '\0';
    return 0;
}

}  // namespace

extern "C" {

int memcpy_s(void *dest, size_t room, const void *source, size_t count)
{
    if (room == 0 || room > LARGEST) {
        return ERANGE;
    }
    if (dest == nullptr || source == nullptr) {
        if (dest != nullptr) {
            std::memset(dest, 0, room);
            return EMPTIED_INVALID;
        }
        return EINVAL;
    }
    if (count > room || (dest != source && overlap(dest, source, count))) {
        std::memset(dest, 0, room);
        return count > room ? EMPTIED_RANGE : EMPTIED_OVERLAP;
    }
    std::memmove(dest, source, count);
    return 0;
}

int memmove_s(void *dest, size_t room, const void *source, size_t count)
{
    if (room == 0 || room > LARGEST) {
        return ERANGE;
    }
    if (dest == nullptr || source == nullptr) {
        if (dest != nullptr) {
            std::memset(dest, 0, room);
            return EMPTIED_INVALID;
        }
        return EINVAL;
    }
    if (count > room) {
        std::memset(dest, 0, room);
        return EMPTIED_RANGE;
    }
    std::memmove(dest, source, count);
    return 0;
}

int memset_s(void *dest, size_t room, int value, size_t count)
{
    if (room == 0 || room > LARGEST) {
        return ERANGE;
    }
    if (dest == nullptr) {
        return EINVAL;
    }
    std::memset(dest, value, count < room ? count : room);
    return count <= room ? 0 : EMPTIED_RANGE;
}

int strncpy_s(char *dest, size_t room, const char *source, size_t count)
{
    if (!is_room(dest, room)) {
        return dest == nullptr && room != 0 && room <= LARGEST ? EINVAL : ERANGE;
    }
    return source == nullptr ? emptied(dest, EMPTIED_INVALID) : append(dest, room, 0, source, count);
}

int strcpy_s(char *dest, size_t room, const char *source)
{
    return dest != nullptr && dest == source && strnlen(dest, room) < room ? 0
                                                                          : strncpy_s(dest, room, source, LARGEST);
}

int strncat_s(char *dest, size_t room, const char *source, size_t count)
{
    if (!is_room(dest, room)) {
        return dest == nullptr && room != 0 && room <= LARGEST ? EINVAL : ERANGE;
    }
    const size_t used = strnlen(dest, room);
    if (source == nullptr || used == room) {
        return emptied(dest, EMPTIED_INVALID);
    }
    return append(dest, room, used, source, count);
}

int strcat_s(char *dest, size_t room, const char *source)
{
    return strncat_s(dest, room, source, LARGEST);
}

// At most `count` characters; a longer text is cut there and gives -1. One that does not fit the room empties it.
int vsnprintf_s(char *dest, size_t room, size_t count, const char *format, va_list arguments)
{
    if (!is_room(dest, room) || format == nullptr) {
        if (is_room(dest, room)) {
            dest[0] = '\0';
        }
        return -1;
    }
    const bool is_cut = count < room;
    const int length = std::vsnprintf(dest, is_cut ? count + 1 : room, format, arguments);
    if (length >= 0 && static_cast<size_t>(length) <= (is_cut ? count : room - 1)) {
        return length;
    }
    if (length < 0 || !is_cut) {
        dest[0] = '\0';
    }
    return -1;
}

int snprintf_s(char *dest, size_t room, size_t count, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf_s(dest, room, count, format, arguments);
    va_end(arguments);
    return length;
}

int vsprintf_s(char *dest, size_t room, const char *format, va_list arguments)
{
    return vsnprintf_s(dest, room, room, format, arguments);
}

int sprintf_s(char *dest, size_t room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf_s(dest, room, room, format, arguments);
    va_end(arguments);
    return length;
}

}  // extern "C"

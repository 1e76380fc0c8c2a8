// Records each aclnn call of a program: arguments before, tensors after. recorder.py writes a function for each of them
// after this text, and run.py loads the library with LD_PRELOAD. CAIRN_EXAMPLE_CALLS names the file it writes to.

#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>
#include "acl/acl.h"
#include "aclnn/acl_meta.h"

namespace {

constexpr size_t LIMIT = 1 << 22;  // Bytes of a tensor that are recorded; larger ones are recorded without values.

template <typename F> F next(const char *name) { return reinterpret_cast<F>(dlsym(RTLD_NEXT, name)); }

FILE *file()
{
    static FILE *output = fopen(getenv("CAIRN_EXAMPLE_CALLS") ? getenv("CAIRN_EXAMPLE_CALLS") : "/dev/null", "w");
    return output;
}

// The values of lists and scalars, recorded when they are created: there is no function that reads them.
std::map<const void *, std::string> &texts() { static std::map<const void *, std::string> all; return all; }
std::map<const void *, std::vector<const aclTensor *>> &lists()
{
    static std::map<const void *, std::vector<const aclTensor *>> all;
    return all;
}

size_t element_size(aclDataType type)
{
    switch (type) {
        case ACL_FLOAT: case ACL_INT32: case ACL_UINT32: case ACL_COMPLEX32: return 4;
        case ACL_FLOAT16: case ACL_BF16: case ACL_INT16: case ACL_UINT16: return 2;
        case ACL_INT8: case ACL_UINT8: case ACL_BOOL: return 1;
        case ACL_INT64: case ACL_UINT64: case ACL_DOUBLE: case ACL_COMPLEX64: return 8;
        case ACL_COMPLEX128: return 16;
        default: return 0;
    }
}

std::string hex(const void *data, size_t size)
{
    static const char *digits = "0123456789abcdef";
    std::string text;
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = static_cast<const unsigned char *>(data)[i];
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

template <typename T> std::string numbers(const T *values, uint64_t size)
{
    std::string text = "[";
    for (uint64_t i = 0; i < size; i++) text += (i ? "," : "") + std::to_string(values[i]);
    return text + "]";
}

std::string show(const aclTensor *tensor)
{
    if (!tensor) return "null";
    int64_t *sizes = nullptr, *strides = nullptr, offset = 0;
    uint64_t rank = 0, count = 0;
    aclDataType type = ACL_DT_UNDEFINED;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    void *start = nullptr;
    if (aclGetViewShape(tensor, &sizes, &rank) || aclGetViewStrides(tensor, &strides, &count)
        || aclGetViewOffset(tensor, &offset) || aclGetDataType(tensor, &type) || aclGetFormat(tensor, &format)
        || aclGetRawTensorAddr(tensor, &start)) return "\"no tensor\"";
    size_t extent = 1, elements = 1;
    for (uint64_t i = 0; i < rank; i++) {
        elements *= sizes[i];
        if (sizes[i] > 1) extent += (sizes[i] - 1) * strides[i];
    }
    size_t bytes = elements ? extent * element_size(type) : 0;
    std::string data = "null";
    if (element_size(type) && bytes <= LIMIT && start) {
        std::vector<char> values(bytes + 1);
        auto source = static_cast<char *>(start) + offset * element_size(type);
        if (!bytes || aclrtMemcpy(values.data(), bytes, source, bytes, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS)
            data = "\"" + hex(values.data(), bytes) + "\"";
    }
    std::string text = "{\"tensor\":" + std::to_string(type) + ",\"format\":" + std::to_string(format) + ",\"sizes\":"
        + numbers(sizes, rank) + ",\"strides\":" + numbers(strides, count) + ",\"data\":" + data + "}";
    delete[] sizes;
    delete[] strides;
    return text;
}

std::string show(const aclTensorList *list)
{
    if (!list) return "null";
    std::string text = "[";
    for (auto *tensor : lists()[list]) text += (text.size() > 1 ? "," : "") + show(tensor);
    return text + "]";
}

std::string recorded_value(const void *object) { return !object ? "null" : texts().count(object) ? texts()[object] : "\"unknown\""; }
std::string show(const aclScalar *x) { return recorded_value(x); }
std::string show(const aclScalarList *x) { return recorded_value(x); }
std::string show(const aclIntArray *x) { return recorded_value(x); }
std::string show(const aclFloatArray *x) { return recorded_value(x); }
std::string show(const aclBoolArray *x) { return recorded_value(x); }
std::string show(const char *x)
{
    if (!x) return "null";
    std::string text = "\"";
    for (; *x; x++) if (*x != '"' && *x != '\\' && *x >= ' ') text += *x;
    return text + "\"";
}
std::string show(bool x) { return x ? "true" : "false"; }
std::string show(double x) { char text[64]; snprintf(text, sizeof(text), "\"%.17g\"", x); return text; }
std::string show(float x) { return show(static_cast<double>(x)); }
std::string show(int64_t x) { return std::to_string(x); }
std::string show(uint64_t x) { return std::to_string(x); }
std::string show(int32_t x) { return std::to_string(x); }
std::string show(int8_t x) { return std::to_string(static_cast<int>(x)); }
std::string show(aclDataType x) { return std::to_string(static_cast<int>(x)); }

struct Argument {
    const aclTensor *tensor = nullptr;
    const aclTensorList *list = nullptr;
};
Argument argument(const aclTensor *x) { return {x, nullptr}; }
Argument argument(aclTensor *x) { return {x, nullptr}; }
Argument argument(const aclTensorList *x) { return {nullptr, x}; }
Argument argument(aclTensorList *x) { return {nullptr, x}; }
template <typename T> Argument argument(T) { return {}; }

// The arguments of a planned call, by executor; its tensors are recorded again when it has run.
std::map<const void *, std::vector<Argument>> &planned()
{
    static std::map<const void *, std::vector<Argument>> all;
    return all;
}

template <typename... A> std::string show_all(const A &...arguments)
{
    std::string text = "[";
    ((text += (text.size() > 1 ? "," : "") + show(arguments)), ...);
    return text + "]";
}

void record(const char *function, const char *event, int code, const std::string &body)
{
    if (!file()) return;
    fprintf(file(), "{\"function\":\"%s\",\"event\":\"%s\",\"code\":%d,\"values\":%s}\n", function, event, code, body.c_str());
    fflush(file());
}

template <typename... A> void remember(const void *executor, const A &...arguments)
{
    planned()[executor] = {argument(arguments)...};
}

int finish(const char *function, int code, const void *executor, aclrtStream stream)
{
    int result = code ? code : aclrtSynchronizeStream(stream);
    std::string text = "[";
    if (!result)
        for (auto &one : planned()[executor])
            text += std::string(text.size() > 1 ? "," : "") + (one.tensor ? show(one.tensor) : one.list ? show(one.list) : "null");
    record(function, "ran", result, text + "]");
    return code;
}

}  // namespace

extern "C" {

aclScalar *aclCreateScalar(void *value, aclDataType type)
{
    auto *created = next<aclScalar *(*)(void *, aclDataType)>("aclCreateScalar")(value, type);
    if (created && value) texts()[created] = "{\"scalar\":" + std::to_string(type) + ",\"data\":\"" + hex(value, element_size(type)) + "\"}";
    return created;
}
aclIntArray *aclCreateIntArray(const int64_t *values, uint64_t size)
{
    auto *created = next<aclIntArray *(*)(const int64_t *, uint64_t)>("aclCreateIntArray")(values, size);
    if (created) texts()[created] = numbers(values, size);
    return created;
}
aclFloatArray *aclCreateFloatArray(const float *values, uint64_t size)
{
    auto *created = next<aclFloatArray *(*)(const float *, uint64_t)>("aclCreateFloatArray")(values, size);
    if (created) texts()[created] = numbers(values, size);
    return created;
}
aclBoolArray *aclCreateBoolArray(const bool *values, uint64_t size)
{
    auto *created = next<aclBoolArray *(*)(const bool *, uint64_t)>("aclCreateBoolArray")(values, size);
    if (created) texts()[created] = numbers(values, size);
    return created;
}
aclTensorList *aclCreateTensorList(const aclTensor *const *values, uint64_t size)
{
    auto *created = next<aclTensorList *(*)(const aclTensor *const *, uint64_t)>("aclCreateTensorList")(values, size);
    if (created && values) lists()[created].assign(values, values + size);
    return created;
}
aclScalarList *aclCreateScalarList(const aclScalar *const *values, uint64_t size)
{
    auto *created = next<aclScalarList *(*)(const aclScalar *const *, uint64_t)>("aclCreateScalarList")(values, size);
    std::string text = "[";
    for (uint64_t i = 0; created && values && i < size; i++) text += (i ? "," : "") + recorded_value(values[i]);
    if (created) texts()[created] = text + "]";
    return created;
}

/*
 * The attributes of a node at run time. C++ only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_RUNTIME_ATTRS_H
#define CAIRN_EXE_GRAPH_RUNTIME_RUNTIME_ATTRS_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>

#include "exe_graph/runtime/continuous_vector.h"

namespace gert {

class RuntimeAttrsBody;

/**
 * The attributes that REG_OP declares, by their order there. A function gives null where there is no such attribute, it has
 * no value, or one of another type.
 */
class RuntimeAttrs {
public:
    size_t GetAttrNum() const;

    const int64_t *GetInt(size_t index) const;
    const float *GetFloat(size_t index) const;
    const bool *GetBool(size_t index) const;
    /** Ended by NUL. */
    const char *GetStr(size_t index) const;
    const TypedContinuousVector<int64_t> *GetListInt(size_t index) const;
    const TypedContinuousVector<float> *GetListFloat(size_t index) const;

    /** The value whatever its type: int64_t, float, bool, char, ge::DataType, or a TypedContinuousVector of int64_t, float or bool. */
    template <typename T>
    const T *GetAttrPointer(size_t index) const
    {
        return static_cast<const T *>(GetPointer(index));
    }

private:
    friend class ExecutionContextBody;
    explicit RuntimeAttrs(const RuntimeAttrsBody &body) : body_(&body) {}
    const void *GetPointer(size_t index) const;

    const RuntimeAttrsBody *body_;
};

}  // namespace gert

#endif

#endif

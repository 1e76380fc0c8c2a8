// Descriptions and tensors between the classes and the engine.
#ifndef CAIRN_CPP_DESCRIPTION_H
#define CAIRN_CPP_DESCRIPTION_H

#include <vector>

#include "bridge.h"
#include "graph/tensor.h"
#include "text.h"

namespace cairn __attribute__((visibility("hidden"))) {

// A description as the engine takes it: borrowed from this object.
class Description {
public:
    Description() = default;
    explicit Description(const ge::TensorDesc &desc)
        : dims_(desc.GetShape().GetDims()), origin_dims_(desc.GetOriginShape().GetDims())
    {
        (void)desc.GetName(name_);
        borrowed_.dtype = desc.GetDataType();
        borrowed_.format = desc.GetFormat();
        borrowed_.origin_format = desc.GetOriginFormat();
        borrowed_.placement = desc.GetPlacement();
    }

    const CairnDesc &borrowed()
    {
        borrowed_.name = text(name_);
        borrowed_.dims = dims_.data();
        borrowed_.rank = dims_.size();
        borrowed_.origin_dims = origin_dims_.data();
        borrowed_.origin_rank = origin_dims_.size();
        return borrowed_;
    }

private:
    ge::AscendString name_;
    std::vector<int64_t> dims_;
    std::vector<int64_t> origin_dims_;
    CairnDesc borrowed_ = {};
};

inline ge::Shape shape_of(const int64_t *dims, size_t rank)
{
    return ge::Shape(std::vector<int64_t>(dims, dims + rank));
}

inline ge::TensorDesc desc_of(const CairnDesc &from)
{
    ge::TensorDesc desc(shape_of(from.dims, from.rank), static_cast<ge::Format>(from.format),
                        static_cast<ge::DataType>(from.dtype));
    desc.SetName(to_ascend_string(from.name).GetString());
    desc.SetOriginFormat(static_cast<ge::Format>(from.origin_format));
    desc.SetOriginShape(shape_of(from.origin_dims, from.origin_rank));
    desc.SetPlacement(static_cast<ge::Placement>(from.placement));
    return desc;
}

inline void store_desc(void *context, const CairnDesc *from)
{
    *static_cast<ge::TensorDesc *>(context) = desc_of(*from);
}

}  // namespace cairn

#endif

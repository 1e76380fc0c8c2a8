#include "graph/tensor.h"
#include "strings.h"

namespace ge {

std::string TensorDesc::GetName() const
{
    AscendString name;
    (void)GetName(name);
    return to_std_string(name);
}

void TensorDesc::SetName(const std::string &name)
{
    SetName(name.c_str());
}

graphStatus Tensor::SetData(const std::string &data)
{
    return SetData(std::vector<AscendString>(1, to_ascend_string(data)));
}

graphStatus Tensor::SetData(const std::vector<std::string> &data)
{
    return SetData(to_ascend_string(data));
}

}  // namespace ge

#include "../graph.h"

#include "strings.h"

namespace ge {

Graph::Graph(const std::string &name) : Graph(name.c_str()) {}

Graph &Graph::SetOutputs(const std::vector<std::pair<ge::Operator, std::string>> &outputs)
{
    std::vector<std::pair<ge::Operator, AscendString>> named;
    for (const auto &output : outputs) {
        named.emplace_back(output.first, to_ascend_string(output.second));
    }
    return SetOutputs(named);
}

graphStatus Graph::FindOpByName(const std::string &name, ge::Operator &op) const
{
    return FindOpByName(name.c_str(), op);
}

graphStatus Graph::FindOpByType(const std::string &type, std::vector<ge::Operator> &ops) const
{
    return FindOpByType(type.c_str(), ops);
}

graphStatus Graph::GetAllOpName(std::vector<std::string> &op_name) const
{
    std::vector<AscendString> names;
    const graphStatus status = GetAllOpName(names);
    op_name = to_std_string(names);
    return status;
}

graphStatus Graph::SaveToFile(const std::string &file_name) const
{
    return SaveToFile(file_name.c_str());
}

graphStatus Graph::LoadFromFile(const std::string &file_name)
{
    return LoadFromFile(file_name.c_str());
}

const std::string &Graph::GetName() const
{
    static const std::string *const empty = new std::string();
    if (impl_ == nullptr) {
        return *empty;
    }
    AscendString name;
    (void)GetName(name);
    const std::lock_guard<std::mutex> guard(impl_->lock);
    std::shared_ptr<void> &cached = impl_->names[_GLIBCXX_USE_CXX11_ABI];
    if (cached == nullptr) {
        cached = std::make_shared<std::string>(to_std_string(name));
    }
    return *static_cast<const std::string *>(cached.get());
}

}  // namespace ge

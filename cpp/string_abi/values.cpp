#include "ge/ge_api_error_codes.h"
#include "graph/attr_value.h"
#include "graph/utils/type_utils.h"
#include "strings.h"

namespace ge {

graphStatus AttrValue::GetValue(AttrValue::STR &val) const
{
    AscendString value;
    const graphStatus status = GetAttrValue(value);
    if (status == GRAPH_SUCCESS) {
        val = to_std_string(value);
    }
    return status;
}

std::string TypeUtils::DataTypeToSerialString(const DataType data_type)
{
    return to_std_string(DataTypeToAscendString(data_type));
}

DataType TypeUtils::SerialStringToDataType(const std::string &str)
{
    return AscendStringToDataType(to_ascend_string(str));
}

std::string TypeUtils::FormatToSerialString(const Format format)
{
    return to_std_string(FormatToAscendString(format));
}

Format TypeUtils::SerialStringToFormat(const std::string &str)
{
    return AscendStringToFormat(to_ascend_string(str));
}

Format TypeUtils::DataFormatToFormat(const std::string &str)
{
    return DataFormatToFormat(to_ascend_string(str));
}

void StatusFactory::RegisterErrorNo(const uint32_t err, const std::string &desc)
{
    RegisterErrorNo(err, desc.c_str());
}

std::string StatusFactory::GetErrDesc(const uint32_t err)
{
    return to_std_string(GetErrDescV2(err));
}

}  // namespace ge

/*
 * Names of data types and formats. C++ only.
 */
#ifndef CAIRN_GRAPH_UTILS_TYPE_UTILS_H
#define CAIRN_GRAPH_UTILS_TYPE_UTILS_H

#ifdef __cplusplus

#include <string>

#include "graph/ascend_string.h"
#include "graph/types.h"

namespace ge {

/** Numbers to names and back: DT_FLOAT is "DT_FLOAT", FORMAT_ND is "ND". */
class TypeUtils {
public:
    /** "UNDEFINED" for a number that is no type. */
    static std::string DataTypeToSerialString(const DataType data_type);
    /** DT_UNDEFINED for an unknown name. */
    static DataType SerialStringToDataType(const std::string &str);
    /** "RESERVED" for a number that is no format. */
    static std::string FormatToSerialString(const Format format);
    /** FORMAT_RESERVED for an unknown name. A sub-format follows a colon. */
    static Format SerialStringToFormat(const std::string &str);
    /** The plain data formats only: ND, NCHW, NHWC, NCDHW, NDHWC, HWCN and the like. */
    static Format DataFormatToFormat(const std::string &str);
    /** The bytes of one element; false where there is no such size. */
    static bool GetDataTypeLength(const ge::DataType data_type, uint32_t &length);

    static AscendString DataTypeToAscendString(const DataType &data_type);
    static DataType AscendStringToDataType(const AscendString &str);
    static AscendString FormatToAscendString(const Format &format);
    static Format AscendStringToFormat(const AscendString &str);
    static Format DataFormatToFormat(const AscendString &str);
};

}  // namespace ge

#endif

#endif

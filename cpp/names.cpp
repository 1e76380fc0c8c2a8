// Names of data types and formats.

#include <cstring>
#include <string>

#include "graph/types.h"
#include "graph/utils/type_utils.h"

namespace ge {

// CANN's names: the enumerator without FORMAT_, some of them shorter still (DECONV_SP_STRIDE8_TRANS, LOOKUP_..).
static const char *const FORMATS[FORMAT_END] = {
    "NCHW",
    "NHWC",
    "ND",
    "NC1HWC0",
    "FRACTAL_Z",
    "NC1C0HWPAD",
    "NHWC1C0",
    "FSR_NCHW",
    "FRACTAL_DECONV",
    "C1HWNC0",
    "FRACTAL_DECONV_TRANSPOSE",
    "FRACTAL_DECONV_SP_STRIDE_TRANS",
    "NC1HWC0_C04",
    "FRACTAL_Z_C04",
    "CHWN",
    "DECONV_SP_STRIDE8_TRANS",
    "HWCN",
    "NC1KHKWHWC0",
    "BN_WEIGHT",
    "FILTER_HWCK",
    "LOOKUP_LOOKUPS",
    "LOOKUP_KEYS",
    "LOOKUP_VALUE",
    "LOOKUP_OUTPUT",
    "LOOKUP_HITS",
    "C1HWNCoC0",
    "MD",
    "NDHWC",
    "FRACTAL_ZZ",
    "FRACTAL_NZ",
    "NCDHW",
    "DHWCN",
    "NDC1HWC0",
    "FRACTAL_Z_3D",
    "CN",
    "NC",
    "DHWNC",
    "FRACTAL_Z_3D_TRANSPOSE",
    "FRACTAL_ZN_LSTM",
    "FRACTAL_Z_G",
    "RESERVED",
    "ALL",
    "NULL",
    "ND_RNN_BIAS",
    "FRACTAL_ZN_RNN",
    "NYUV",
    "NYUV_A",
    "NCL",
    "FRACTAL_Z_WINO",
    "C1HWC0",
    "FRACTAL_NZ_C0_16",
    "FRACTAL_NZ_C0_32",
    "FRACTAL_NZ_C0_2",
    "FRACTAL_NZ_C0_4",
    "FRACTAL_NZ_C0_8",
};

static const char *const TYPES[DT_MAX] = {
    "DT_FLOAT",    "DT_FLOAT16",   "DT_INT8",        "DT_INT32",       "DT_UINT8",       nullptr,
    "DT_INT16",    "DT_UINT16",    "DT_UINT32",      "DT_INT64",       "DT_UINT64",      "DT_DOUBLE",
    "DT_BOOL",     "DT_STRING",    "DT_DUAL_SUB_INT8", "DT_DUAL_SUB_UINT8", "DT_COMPLEX64", "DT_COMPLEX128",
    "DT_QINT8",    "DT_QINT16",    "DT_QINT32",      "DT_QUINT8",      "DT_QUINT16",     "DT_RESOURCE",
    "DT_STRING_REF", "DT_DUAL",    "DT_VARIANT",     "DT_BF16",        "DT_UNDEFINED",   "DT_INT4",
    "DT_UINT1",    "DT_INT2",      "DT_UINT2",       "DT_COMPLEX32",   "DT_HIFLOAT8",    "DT_FLOAT8_E5M2",
    "DT_FLOAT8_E4M3FN", "DT_FLOAT8_E8M0", "DT_FLOAT6_E3M2", "DT_FLOAT6_E2M3", "DT_FLOAT4_E2M1", "DT_FLOAT4_E1M2",
    "DT_HIFLOAT4",
};

const char_t *GetFormatName(Format format)
{
    const int32_t primary = GetPrimaryFormat(format);
    return primary < FORMAT_END ? FORMATS[primary] : "RESERVED";
}

bool TypeUtils::GetDataTypeLength(const ge::DataType data_type, uint32_t &length)
{
    const int size = GetSizeByDataType(data_type);
    if (size <= 0 || size >= kDataTypeSizeBitOffset) {
        return false;
    }
    length = static_cast<uint32_t>(size);
    return true;
}

AscendString TypeUtils::DataTypeToAscendString(const DataType &data_type)
{
    const bool known = data_type >= 0 && data_type < DT_MAX && TYPES[data_type] != nullptr;
    return AscendString(known ? TYPES[data_type] : "UNDEFINED");
}

DataType TypeUtils::AscendStringToDataType(const AscendString &str)
{
    for (int at = 0; at < DT_MAX; ++at) {
        if (TYPES[at] != nullptr && str == TYPES[at]) {
            return static_cast<DataType>(at);
        }
    }
    return DT_UNDEFINED;
}

AscendString TypeUtils::FormatToAscendString(const Format &format)
{
    const std::string name = GetFormatName(format);
    const std::string sub = HasSubFormat(format) ? ":" + std::to_string(GetSubFormat(format)) : "";
    return AscendString((name + sub).c_str());
}

Format TypeUtils::AscendStringToFormat(const AscendString &str)
{
    const std::string text = str.GetString();
    const size_t colon = text.find(':');
    const std::string name = text.substr(0, colon);
    int32_t sub = 0;
    if (colon != std::string::npos) {
        const std::string digits = text.substr(colon + 1);
        if (digits.empty() || digits.size() > 5 || digits.find_first_not_of("0123456789") != std::string::npos) {
            return FORMAT_RESERVED;
        }
        sub = std::stoi(digits);
    }
    for (int32_t at = 0; at < FORMAT_END; ++at) {
        if (name == FORMATS[at]) {
            return static_cast<Format>(sub == 0 ? at : GetFormatFromSub(at, sub));
        }
    }
    return FORMAT_RESERVED;
}

Format TypeUtils::DataFormatToFormat(const AscendString &str)
{
    static const Format plain_formats[] = {FORMAT_NCHW,  FORMAT_NHWC,  FORMAT_ND, FORMAT_HWCN, FORMAT_CHWN, FORMAT_NDHWC,
                                   FORMAT_NCDHW, FORMAT_DHWCN, FORMAT_NC, FORMAT_CN,   FORMAT_NCL,  FORMAT_DHWNC};
    for (const Format format : plain_formats) {
        if (str == FORMATS[format]) {
            return format;
        }
    }
    return FORMAT_RESERVED;
}

}  // namespace ge

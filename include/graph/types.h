/*
 * Data types, formats and placements of tensors, and the sets of types that operators declare. C++ only.
 */
#ifndef CAIRN_GRAPH_TYPES_H
#define CAIRN_GRAPH_TYPES_H

#ifdef __cplusplus

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "graph/ge_error_codes.h"

namespace ge {

using char_t = char;
using float32_t = float;
using float64_t = double;
using vector_bit_t = std::vector<bool>;

static const int64_t SHAPE_RANGE_LOWER_LIMIT = 0;
/** A dim whose size is not known before the run. */
static const int64_t UNKNOWN_DIM = -1;
/** As the only dim: the number of dims is not known. */
static const int64_t UNKNOWN_DIM_NUM = -2;
/* Left out where the library itself is compiled: constants that need code at load time. */
#ifndef CAIRN_GE_RUNNER
static const std::vector<int64_t> UNKNOWN_SHAPE = {-1};
static const std::vector<int64_t> UNKNOWN_RANK = {-2};
static const std::vector<int64_t> DUMMY_SHAPE = {-3};
#endif

/** What GetSizeByDataType adds to a size in bits. */
static constexpr int32_t kDataTypeSizeBitOffset = 1000;
static constexpr uint32_t kBitNumOfOneByte = 8U;
static constexpr uint32_t kBitThreeBytes = 24U;

enum DataType {
    DT_FLOAT = 0,
    DT_FLOAT16 = 1,
    DT_INT8 = 2,
    DT_INT32 = 3,
    DT_UINT8 = 4,
    DT_INT16 = 6,
    DT_UINT16 = 7,
    DT_UINT32 = 8,
    DT_INT64 = 9,
    DT_UINT64 = 10,
    DT_DOUBLE = 11,
    DT_BOOL = 12,
    DT_STRING = 13,
    DT_DUAL_SUB_INT8 = 14,
    DT_DUAL_SUB_UINT8 = 15,
    DT_COMPLEX64 = 16,
    DT_COMPLEX128 = 17,
    DT_QINT8 = 18,
    DT_QINT16 = 19,
    DT_QINT32 = 20,
    DT_QUINT8 = 21,
    DT_QUINT16 = 22,
    DT_RESOURCE = 23,
    DT_STRING_REF = 24,
    DT_DUAL = 25,
    DT_VARIANT = 26,
    DT_BF16 = 27,
    DT_UNDEFINED = 28,
    DT_INT4 = 29,
    DT_UINT1 = 30,
    DT_INT2 = 31,
    DT_UINT2 = 32,
    DT_COMPLEX32 = 33,
    DT_HIFLOAT8 = 34,
    DT_FLOAT8_E5M2 = 35,
    DT_FLOAT8_E4M3FN = 36,
    DT_FLOAT8_E8M0 = 37,
    DT_FLOAT6_E3M2 = 38,
    DT_FLOAT6_E2M3 = 39,
    DT_FLOAT4_E2M1 = 40,
    DT_FLOAT4_E1M2 = 41,
    DT_HIFLOAT4 = 42,
    DT_MAX = 43
};

/** How one text of a DT_STRING tensor is found: the texts follow the heads. */
struct StringHead {
    int64_t addr;
    int64_t len;
};

/** The bytes of one element; kDataTypeSizeBitOffset and the bits for types below a byte; -1 where there is none. */
inline int GetSizeByDataType(DataType data_type)
{
    static const short sizes[DT_MAX] = {4,    2,  1,  4,  1,    -1,   2,    2,    4,    8, 8, 8, 1, -1,   1,
                                        1,    8,  16, 1,  2,    4,    1,    2,    8,    -1, 5, 8, 2, -1,  1004,
                                        1001, 1002, 1002, 4, 1, 1, 1, 1, 1006, 1006, 1004, 1004, 1004};
    return data_type < 0 || data_type >= DT_MAX ? -1 : sizes[data_type];
}

/** The bytes of this many elements; -1 for a count below 0, a type without a size, or too many. */
int64_t GetSizeInBytes(int64_t element_count, DataType data_type);

enum Format {
    FORMAT_NCHW = 0,
    FORMAT_NHWC,
    FORMAT_ND,
    FORMAT_NC1HWC0,
    FORMAT_FRACTAL_Z,
    FORMAT_NC1C0HWPAD,
    FORMAT_NHWC1C0,
    FORMAT_FSR_NCHW,
    FORMAT_FRACTAL_DECONV,
    FORMAT_C1HWNC0,
    FORMAT_FRACTAL_DECONV_TRANSPOSE,
    FORMAT_FRACTAL_DECONV_SP_STRIDE_TRANS,
    FORMAT_NC1HWC0_C04,
    FORMAT_FRACTAL_Z_C04,
    FORMAT_CHWN,
    FORMAT_FRACTAL_DECONV_SP_STRIDE8_TRANS,
    FORMAT_HWCN,
    FORMAT_NC1KHKWHWC0,
    FORMAT_BN_WEIGHT,
    FORMAT_FILTER_HWCK,
    FORMAT_HASHTABLE_LOOKUP_LOOKUPS,
    FORMAT_HASHTABLE_LOOKUP_KEYS,
    FORMAT_HASHTABLE_LOOKUP_VALUE,
    FORMAT_HASHTABLE_LOOKUP_OUTPUT,
    FORMAT_HASHTABLE_LOOKUP_HITS,
    FORMAT_C1HWNCoC0,
    FORMAT_MD,
    FORMAT_NDHWC,
    FORMAT_FRACTAL_ZZ,
    FORMAT_FRACTAL_NZ,
    FORMAT_NCDHW,
    FORMAT_DHWCN,
    FORMAT_NDC1HWC0,
    FORMAT_FRACTAL_Z_3D,
    FORMAT_CN,
    FORMAT_NC,
    FORMAT_DHWNC,
    FORMAT_FRACTAL_Z_3D_TRANSPOSE,
    FORMAT_FRACTAL_ZN_LSTM,
    FORMAT_FRACTAL_Z_G,
    FORMAT_RESERVED,
    FORMAT_ALL,
    FORMAT_NULL,
    FORMAT_ND_RNN_BIAS,
    FORMAT_FRACTAL_ZN_RNN,
    FORMAT_NYUV,
    FORMAT_NYUV_A,
    FORMAT_NCL,
    FORMAT_FRACTAL_Z_WINO,
    FORMAT_C1HWC0,
    FORMAT_FRACTAL_NZ_C0_16,
    FORMAT_FRACTAL_NZ_C0_32,
    FORMAT_FRACTAL_NZ_C0_2,
    FORMAT_FRACTAL_NZ_C0_4,
    FORMAT_FRACTAL_NZ_C0_8,
    FORMAT_END,
    FORMAT_MAX = 0xff
};

/* A format may carry a sub-format (bits 8 to 23) and the size of C0 (bits 24 to 27). */

inline int32_t GetFormatFromSubAndC0(int32_t primary_format, int32_t sub_format, int32_t c0_format)
{
    const uint32_t sub = (static_cast<uint32_t>(sub_format) & 0xffffU) << kBitNumOfOneByte;
    const uint32_t c0 = (static_cast<uint32_t>(c0_format) & 0xfU) << kBitThreeBytes;
    return static_cast<int32_t>((static_cast<uint32_t>(primary_format) & 0xffU) | sub | c0);
}

inline int32_t GetFormatFromSub(int32_t primary_format, int32_t sub_format)
{
    return GetFormatFromSubAndC0(primary_format, sub_format, 0);
}

inline int32_t GetFormatFromC0(int32_t format, int32_t c0_format)
{
    const uint32_t c0 = (static_cast<uint32_t>(c0_format) & 0xfU) << kBitThreeBytes;
    return static_cast<int32_t>((static_cast<uint32_t>(format) & 0xffffffU) | c0);
}

inline int32_t GetPrimaryFormat(int32_t format) { return format & 0xff; }

inline int32_t GetSubFormat(int32_t format) { return (format >> kBitNumOfOneByte) & 0xffff; }

inline bool HasSubFormat(int32_t format) { return GetSubFormat(format) != 0; }

inline int32_t GetC0Format(int32_t format) { return (format >> kBitThreeBytes) & 0xf; }

inline bool HasC0Format(int32_t format) { return GetC0Format(format) != 0; }

/** The size of C0, or -1 when the format has none. */
inline int64_t GetC0Value(int32_t format)
{
    return HasC0Format(format) ? int64_t(1) << (GetC0Format(format) - 1) : -1;
}

enum UnknowShapeOpType {
    DEPEND_IN_SHAPE = 1,
    DEPEND_CONST_VALUE = 2,
    DEPEND_SHAPE_RANGE = 3,
    DEPEND_COMPUTE = 4
};

struct TensorDescInfo {
    Format format_ = FORMAT_RESERVED;
    DataType dataType_ = DT_UNDEFINED;
};

enum DeviceType { NPU = 0, CPU = 1 };

/** Where a tensor's data are. */
enum Placement { kPlacementHost = 0, kPlacementDevice = 1, kPlacementEnd };

/** The name of a format without FORMAT_, for example "ND"; "RESERVED" for an unknown number. */
const char_t *GetFormatName(Format format);

class TensorTypeBody;

/** A set of data types that an operator takes. */
struct TensorType {
    explicit TensorType(DataType dt);
    TensorType(const std::initializer_list<DataType> &initial_types);

    static TensorType ALL()
    {
        return TensorType{DT_BOOL,   DT_COMPLEX128, DT_COMPLEX64, DT_DOUBLE, DT_FLOAT,  DT_FLOAT16,
                          DT_INT16,  DT_INT32,      DT_INT64,     DT_INT8,   DT_QINT16, DT_QINT32,
                          DT_QINT8,  DT_QUINT16,    DT_QUINT8,    DT_RESOURCE, DT_STRING, DT_UINT16,
                          DT_UINT32, DT_UINT64,     DT_UINT8,     DT_BF16,   DT_COMPLEX32};
    }
    static TensorType QuantifiedType() { return TensorType{DT_QINT16, DT_QINT32, DT_QINT8, DT_QUINT16, DT_QUINT8}; }
    static TensorType OrdinaryType()
    {
        return TensorType{DT_BOOL,  DT_COMPLEX128, DT_COMPLEX64, DT_DOUBLE, DT_FLOAT,  DT_FLOAT16, DT_INT16, DT_INT32,
                          DT_INT64, DT_INT8,       DT_UINT16,    DT_UINT32, DT_UINT64, DT_UINT8,   DT_BF16,  DT_COMPLEX32};
    }
    static TensorType BasicType()
    {
        return TensorType{DT_COMPLEX128, DT_COMPLEX64, DT_DOUBLE, DT_FLOAT,   DT_FLOAT16, DT_INT16,  DT_INT32,
                          DT_INT64,      DT_INT8,      DT_QINT16, DT_QINT32,  DT_QINT8,   DT_QUINT16, DT_QUINT8,
                          DT_UINT16,     DT_UINT32,    DT_UINT64, DT_UINT8,   DT_BF16,    DT_COMPLEX32};
    }
    static TensorType NumberType()
    {
        return TensorType{DT_COMPLEX128, DT_COMPLEX64, DT_DOUBLE, DT_FLOAT,  DT_FLOAT16, DT_INT16,
                          DT_INT32,      DT_INT64,     DT_INT8,   DT_QINT32, DT_QINT8,   DT_QUINT8,
                          DT_UINT16,     DT_UINT32,    DT_UINT64, DT_UINT8,  DT_BF16,    DT_COMPLEX32};
    }
    static TensorType RealNumberType()
    {
        return TensorType{DT_DOUBLE, DT_FLOAT,  DT_FLOAT16, DT_INT16,  DT_INT32, DT_INT64,
                          DT_INT8,   DT_UINT16, DT_UINT32,  DT_UINT64, DT_UINT8, DT_BF16};
    }
    static TensorType ComplexDataType() { return TensorType{DT_COMPLEX128, DT_COMPLEX64, DT_COMPLEX32}; }
    static TensorType IntegerDataType()
    {
        return TensorType{DT_INT16, DT_INT32, DT_INT64, DT_INT8, DT_UINT16, DT_UINT32, DT_UINT64, DT_UINT8};
    }
    static TensorType SignedDataType() { return TensorType{DT_INT16, DT_INT32, DT_INT64, DT_INT8}; }
    static TensorType UnsignedDataType() { return TensorType{DT_UINT16, DT_UINT32, DT_UINT64, DT_UINT8}; }
    static TensorType FloatingDataType() { return TensorType{DT_DOUBLE, DT_FLOAT, DT_FLOAT16}; }
    static TensorType IndexNumberType() { return TensorType{DT_INT32, DT_INT64}; }
    static TensorType UnaryDataType()
    {
        return TensorType{DT_COMPLEX128, DT_COMPLEX64, DT_DOUBLE, DT_FLOAT, DT_FLOAT16, DT_BF16, DT_COMPLEX32};
    }
    static TensorType FLOAT() { return TensorType{DT_FLOAT, DT_FLOAT16, DT_BF16}; }

    std::shared_ptr<TensorTypeBody> tensor_type_impl_;
};

/** The types that each element of a list of tensors may have. */
struct ListTensorType {
    explicit ListTensorType(const TensorType &type) : tensor_type(type) {}
    TensorType tensor_type;
};

/** A type that follows from promoting the types of others. */
class Promote {
public:
    Promote(const std::initializer_list<const char *> &syms);
    Promote(const Promote &other) = delete;
    Promote &operator=(const Promote &other) = delete;
    Promote(Promote &&other) noexcept;
    Promote &operator=(Promote &&other) noexcept;

    /** The symbols whose types are promoted. */
    std::vector<const char *> Syms() const;

private:
    std::shared_ptr<void> data_;
};

}  // namespace ge

#endif

#endif

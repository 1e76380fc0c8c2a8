/*
 * Handles, codes, data types and formats, and the functions that need no device.
 */
#ifndef INC_EXTERNAL_ACL_ACL_BASE_RT_H_
#define INC_EXTERNAL_ACL_ACL_BASE_RT_H_

#include <stddef.h>
#include <stdint.h>

#if defined(FUNC_VISIBILITY) && defined(__GNUC__)
#define ACL_FUNC_VISIBILITY __attribute__((visibility("default")))
#else
#define ACL_FUNC_VISIBILITY
#endif

#if defined(__GNUC__)
#define ACL_DEPRECATED __attribute__((deprecated))
#define ACL_DEPRECATED_MESSAGE(message) __attribute__((deprecated(message)))
#else
#define ACL_DEPRECATED
#define ACL_DEPRECATED_MESSAGE(message)
#endif

/*
 * A code is an int in both languages; in C it is a constant expression too, so that it can
 * stand in a case label.
 */
#ifdef __cplusplus
extern "C" {
#define CAIRN_CODE(name, value) static const int name = value
#else
#define CAIRN_CODE(name, value) enum { name = value }
#endif

/**
 * What a function returns: ACL_SUCCESS, or a code from here or from error_codes/. The text that
 * belongs to it is in aclGetRecentErrMsg.
 */
typedef int aclError;

/* Handles. They are checked at every use: a foreign or destroyed one is an error. */
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtContext;
typedef void *aclrtNotify;
typedef void *aclrtCntNotify;
typedef void *aclrtLabel;
typedef void *aclrtLabelList;
typedef void *aclrtMbuf;
typedef void *aclrtTaskGrp;
typedef void *aclrtAllocatorDesc;
typedef void *aclrtAllocator;
typedef void *aclrtAllocatorBlock;
typedef void *aclrtAllocatorAddr;
typedef void *aclmdlRITask;

/** The bits of an IEEE 754 half-precision number. */
typedef uint16_t aclFloat16;

/** An address with a length. It does not own the memory. */
typedef struct aclDataBuffer aclDataBuffer;

CAIRN_CODE(ACL_ERROR_NONE, 0);
CAIRN_CODE(ACL_SUCCESS, 0);

/* Wrong arguments and states. */
CAIRN_CODE(ACL_ERROR_INVALID_PARAM, 100000);
CAIRN_CODE(ACL_ERROR_UNINITIALIZE, 100001);
CAIRN_CODE(ACL_ERROR_REPEAT_INITIALIZE, 100002);
CAIRN_CODE(ACL_ERROR_INVALID_FILE, 100003);
CAIRN_CODE(ACL_ERROR_WRITE_FILE, 100004);
CAIRN_CODE(ACL_ERROR_INVALID_FILE_SIZE, 100005);
CAIRN_CODE(ACL_ERROR_PARSE_FILE, 100006);
CAIRN_CODE(ACL_ERROR_FILE_MISSING_ATTR, 100007);
CAIRN_CODE(ACL_ERROR_FILE_ATTR_INVALID, 100008);
CAIRN_CODE(ACL_ERROR_INVALID_DUMP_CONFIG, 100009);
CAIRN_CODE(ACL_ERROR_INVALID_PROFILING_CONFIG, 100010);
CAIRN_CODE(ACL_ERROR_INVALID_MODEL_ID, 100011);
CAIRN_CODE(ACL_ERROR_DESERIALIZE_MODEL, 100012);
CAIRN_CODE(ACL_ERROR_PARSE_MODEL, 100013);
CAIRN_CODE(ACL_ERROR_READ_MODEL_FAILURE, 100014);
CAIRN_CODE(ACL_ERROR_MODEL_SIZE_INVALID, 100015);
CAIRN_CODE(ACL_ERROR_MODEL_MISSING_ATTR, 100016);
CAIRN_CODE(ACL_ERROR_MODEL_INPUT_NOT_MATCH, 100017);
CAIRN_CODE(ACL_ERROR_MODEL_OUTPUT_NOT_MATCH, 100018);
CAIRN_CODE(ACL_ERROR_MODEL_NOT_DYNAMIC, 100019);
CAIRN_CODE(ACL_ERROR_OP_TYPE_NOT_MATCH, 100020);
CAIRN_CODE(ACL_ERROR_OP_INPUT_NOT_MATCH, 100021);
CAIRN_CODE(ACL_ERROR_OP_OUTPUT_NOT_MATCH, 100022);
CAIRN_CODE(ACL_ERROR_OP_ATTR_NOT_MATCH, 100023);
CAIRN_CODE(ACL_ERROR_OP_NOT_FOUND, 100024);
CAIRN_CODE(ACL_ERROR_OP_LOAD_FAILED, 100025);
CAIRN_CODE(ACL_ERROR_UNSUPPORTED_DATA_TYPE, 100026);
CAIRN_CODE(ACL_ERROR_FORMAT_NOT_MATCH, 100027);
CAIRN_CODE(ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED, 100028);
CAIRN_CODE(ACL_ERROR_KERNEL_NOT_FOUND, 100029);
CAIRN_CODE(ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED, 100030);
CAIRN_CODE(ACL_ERROR_KERNEL_ALREADY_REGISTERED, 100031);
CAIRN_CODE(ACL_ERROR_INVALID_QUEUE_ID, 100032);
CAIRN_CODE(ACL_ERROR_REPEAT_SUBSCRIBE, 100033);
CAIRN_CODE(ACL_ERROR_STREAM_NOT_SUBSCRIBE, 100034);
CAIRN_CODE(ACL_ERROR_THREAD_NOT_SUBSCRIBE, 100035);
CAIRN_CODE(ACL_ERROR_WAIT_CALLBACK_TIMEOUT, 100036);
CAIRN_CODE(ACL_ERROR_REPEAT_FINALIZE, 100037);
CAIRN_CODE(ACL_ERROR_NOT_STATIC_AIPP, 100038);
CAIRN_CODE(ACL_ERROR_COMPILING_STUB_MODE, 100039);
CAIRN_CODE(ACL_ERROR_GROUP_NOT_SET, 100040);
CAIRN_CODE(ACL_ERROR_GROUP_NOT_CREATE, 100041);
CAIRN_CODE(ACL_ERROR_PROF_ALREADY_RUN, 100042);
CAIRN_CODE(ACL_ERROR_PROF_NOT_RUN, 100043);
CAIRN_CODE(ACL_ERROR_DUMP_ALREADY_RUN, 100044);
CAIRN_CODE(ACL_ERROR_DUMP_NOT_RUN, 100045);
CAIRN_CODE(ACL_ERROR_PROF_REPEAT_SUBSCRIBE, 148046);
CAIRN_CODE(ACL_ERROR_PROF_API_CONFLICT, 148047);
CAIRN_CODE(ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG, 148048);
CAIRN_CODE(ACL_ERROR_INVALID_OPP_PATH, 148049);
CAIRN_CODE(ACL_ERROR_OP_UNSUPPORTED_DYNAMIC, 148050);
CAIRN_CODE(ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED, 148051);
CAIRN_CODE(ACL_ERROR_UNSUPPORTED_JPEG, 148052);
CAIRN_CODE(ACL_ERROR_INVALID_BUNDLE_MODEL_ID, 148053);

/* Resources and missing features. */
CAIRN_CODE(ACL_ERROR_BAD_ALLOC, 200000);
CAIRN_CODE(ACL_ERROR_API_NOT_SUPPORT, 200001);
CAIRN_CODE(ACL_ERROR_INVALID_DEVICE, 200002);
CAIRN_CODE(ACL_ERROR_MEMORY_ADDRESS_UNALIGNED, 200003);
CAIRN_CODE(ACL_ERROR_RESOURCE_NOT_MATCH, 200004);
CAIRN_CODE(ACL_ERROR_INVALID_RESOURCE_HANDLE, 200005);
CAIRN_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, 200006);
CAIRN_CODE(ACL_ERROR_PROF_MODULES_UNSUPPORTED, 200007);
CAIRN_CODE(ACL_ERROR_STORAGE_OVER_LIMIT, 300000);

/* Failures. */
CAIRN_CODE(ACL_ERROR_INTERNAL_ERROR, 500000);
CAIRN_CODE(ACL_ERROR_FAILURE, 500001);
CAIRN_CODE(ACL_ERROR_GE_FAILURE, 500002);
CAIRN_CODE(ACL_ERROR_RT_FAILURE, 500003);
CAIRN_CODE(ACL_ERROR_DRV_FAILURE, 500004);
CAIRN_CODE(ACL_ERROR_PROFILING_FAILURE, 500005);

#undef CAIRN_CODE

/** The type of a tensor's elements. */
typedef enum aclDataType {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_STRING = 13,
    ACL_COMPLEX64 = 16,
    ACL_COMPLEX128 = 17,
    ACL_BF16 = 27,
    ACL_INT4 = 29,
    ACL_UINT1 = 30,
    ACL_COMPLEX32 = 33,
    ACL_HIFLOAT8 = 34,
    ACL_FLOAT8_E5M2 = 35,
    ACL_FLOAT8_E4M3FN = 36,
    ACL_FLOAT8_E8M0 = 37,
    ACL_FLOAT6_E3M2 = 38,
    ACL_FLOAT6_E2M3 = 39,
    ACL_FLOAT4_E2M1 = 40,
    ACL_FLOAT4_E1M2 = 41
} aclDataType;

/** How the elements of a tensor lie in memory. */
typedef enum aclFormat {
    ACL_FORMAT_UNDEFINED = -1,
    ACL_FORMAT_NCHW = 0,
    ACL_FORMAT_NHWC = 1,
    ACL_FORMAT_ND = 2,
    ACL_FORMAT_NC1HWC0 = 3,
    ACL_FORMAT_FRACTAL_Z = 4,
    ACL_FORMAT_NC1HWC0_C04 = 12,
    ACL_FORMAT_HWCN = 16,
    ACL_FORMAT_NDHWC = 27,
    ACL_FORMAT_FRACTAL_NZ = 29,
    ACL_FORMAT_NCDHW = 30,
    ACL_FORMAT_NDC1HWC0 = 32,
    ACL_FRACTAL_Z_3D = 33,
    ACL_FORMAT_NC = 35,
    ACL_FORMAT_NCL = 47,
    ACL_FORMAT_FRACTAL_NZ_C0_16 = 50,
    ACL_FORMAT_FRACTAL_NZ_C0_32 = 51,
    ACL_FORMAT_FRACTAL_NZ_C0_2 = 52,
    ACL_FORMAT_FRACTAL_NZ_C0_4 = 53,
    ACL_FORMAT_FRACTAL_NZ_C0_8 = 54
} aclFormat;

/** Severity of a log line. */
typedef enum aclLogLevel {
    ACL_DEBUG = 0,
    ACL_INFO = 1,
    ACL_WARNING = 2,
    ACL_ERROR = 3
} aclLogLevel;

/** Where the data of a tensor is. */
typedef enum aclMemType {
    ACL_MEMTYPE_DEVICE = 0,
    ACL_MEMTYPE_HOST = 1,
    ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT = 2
} aclMemType;

/** Options of the process or of a context; see aclrtSetSysParamOpt. */
typedef enum aclSysParamOpt {
    ACL_OPT_DETERMINISTIC = 0,
    ACL_OPT_ENABLE_DEBUG_KERNEL = 1,
    ACL_OPT_STRONG_CONSISTENCY = 2,
    ACL_OPT_ENABLE_KERNEL_EARLY_START = 3
} aclSysParamOpt;

/** Features that aclGetCannAttribute can be asked for. */
typedef enum aclCannAttr {
    ACL_CANN_ATTR_UNDEFINED = -1,
    ACL_CANN_ATTR_INF_NAN = 0,
    ACL_CANN_ATTR_BF16 = 1,
    ACL_CANN_ATTR_JIT_COMPILE = 2
} aclCannAttr;

/** Attributes that aclGetDeviceCapability returns. */
typedef enum aclDeviceInfo {
    ACL_DEVICE_INFO_UNDEFINED = -1,
    ACL_DEVICE_INFO_AI_CORE_NUM = 0,
    ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1,
    ACL_DEVICE_INFO_L2_SIZE = 2
} aclDeviceInfo;

/** The value of a half-precision number as a float. */
float aclFloat16ToFloat(aclFloat16 value);

/** A float rounded to the nearest half-precision number. */
aclFloat16 aclFloatToFloat16(float value);

/** Bytes of one element; 0 for types below one byte, for strings and for unknown types. */
size_t aclDataTypeSize(aclDataType dataType);

/** A buffer over `size` bytes at `data`; NULL when it cannot be made. */
aclDataBuffer *aclCreateDataBuffer(void *data, size_t size);

/** Destroys the buffer, not the memory that it points to. */
aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer);

/** Points the buffer to other memory. */
aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size);

/** The address that the buffer points to; NULL for an invalid buffer. */
void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer);

/** The length of the buffer, cut to 32 bits. Prefer aclGetDataBufferSizeV2. */
uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer);

/** The length of the buffer in bytes; 0 for an invalid buffer. */
size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer);

/** Writes a line to the log; `fmt` and what follows are those of printf. */
void aclAppLog(
    aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...);

/** aclAppLog with the calling function, file and line filled in. */
#define ACL_APP_LOG(level, ...) aclAppLog((level), __func__, __FILE__, __LINE__, __VA_ARGS__)

/**
 * The name of the simulated processor, such as "Ascend910B1"; lives as long as the process.
 */
const char *aclrtGetSocName(void);

/** The features that are present. The list belongs to the library. */
aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num);

/** Sets `*value` to 1 when the feature is present, else to 0. */
aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value);

/** An attribute of a device. */
aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value);

#ifdef __cplusplus
}
#endif

#endif

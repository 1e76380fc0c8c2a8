/*
 * The runtime: devices, contexts, streams, events, memory.
 *
 * A function returns ACL_SUCCESS or a code; aclGetRecentErrMsg then has the text. Times are in
 * milliseconds unless the name says otherwise, and a timeout of -1 waits indefinitely.
 */
#ifndef INC_EXTERNAL_ACL_ACL_RT_H_
#define INC_EXTERNAL_ACL_ACL_RT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "acl_base.h"
#include "acl_rt_allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. */
#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 17
#define ACL_PATCH_VERSION 0

/* Flags of an event: what it can do. */
#define ACL_EVENT_SYNC 0x00000001U
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002U
#define ACL_EVENT_TIME_LINE 0x00000008U
#define ACL_EVENT_DEVICE_USE_ONLY 0x00000010U
#define ACL_EVENT_EXTERNAL 0x00000020U
#define ACL_EVENT_IPC 0x00000040U

/* Flags of recording an event and of waiting for it. */
#define ACL_EVENT_RECORD_DEFAULT 0x00000000U
#define ACL_EVENT_RECORD_EXTERNAL 0x00000001U
#define ACL_EVENT_WAIT_DEFAULT 0x00000000U
#define ACL_EVENT_WAIT_EXTERNAL 0x00000001U

/* Flags of a stream. */
#define ACL_STREAM_FAST_LAUNCH 0x00000001U
#define ACL_STREAM_FAST_SYNC 0x00000002U
#define ACL_STREAM_PERSISTENT 0x00000004U
#define ACL_STREAM_HUGE 0x00000008U
#define ACL_STREAM_CPU_SCHEDULE 0x00000010U
#define ACL_STREAM_DEVICE_USE_ONLY 0x00000020U

/* How a stream compares a value in memory that it waits for. */
#define ACL_STREAM_WAIT_VALUE_GEQ 0x00000000U
#define ACL_STREAM_WAIT_VALUE_EQ 0x00000001U
#define ACL_STREAM_WAIT_VALUE_AND 0x00000002U
#define ACL_STREAM_WAIT_VALUE_NOR 0x00000003U

/* What a stream does after a task of it failed. */
#define ACL_CONTINUE_ON_FAILURE 0x00000000U
#define ACL_STOP_ON_FAILURE 0x00000001U

/* Flags of a notify. */
#define ACL_NOTIFY_DEFAULT 0x00000000U
#define ACL_NOTIFY_DEVICE_USE_ONLY 0x00000001U

/* Results of aclrtGetDeviceCapability. */
#define ACL_DEV_FEATURE_SUPPORT 0x00000001
#define ACL_DEV_FEATURE_NOT_SUPPORT 0x00000000

/* Flags of handles that go to another process. */
#define ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x2UL
#define ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS 0x2UL
#define ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x1UL
#define ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS 0x1UL
#define ACL_RT_VMM_EXPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x1UL
#define ACL_IPC_EVENT_HANDLE_SIZE 64U

/* Flags of aclrtHostRegisterV2. */
#define ACL_HOST_REG_MAPPED 0x2UL
#define ACL_HOST_REG_IOMEMORY 0x4UL
#define ACL_HOST_REG_READONLY 0x8UL
#define ACL_HOST_REG_PINNED 0x10000000UL

/* Results of aclrtGetDeviceInfo for ACL_DEV_ATTR_HD_CONNECT_TYPE. */
#define ACL_HOST_DEVICE_CONNECT_TYPE_PCIE 0
#define ACL_HOST_DEVICE_CONNECT_TYPE_HCCS 1
#define ACL_HOST_DEVICE_CONNECT_TYPE_UB 2

/* Results of aclrtGetDeviceInfo for ACL_DEV_ATTR_DEVICE_FORM_FACTOR. */
#define ACL_DEVICE_FORM_FACTOR_POD 0
#define ACL_DEVICE_FORM_FACTOR_A_K 1
#define ACL_DEVICE_FORM_FACTOR_A_X 2
#define ACL_DEVICE_FORM_FACTOR_PCIE_CARD 3

/* First bytes of a kernel binary. */
#define ACL_RT_BINARY_MAGIC_ELF_AICORE 0x43554245U
#define ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE 0x41415246U
#define ACL_RT_BINARY_MAGIC_ELF_CUBE_CORE 0x41494343U

/* Room for the parts of a package version. */
#define ACL_PKG_VERSION_MAX_SIZE 128
#define ACL_PKG_VERSION_PARTS_MAX_SIZE 64

/* Entries in aclrtMemUceInfoArray. */
#define ACL_RT_MEM_UCE_INFO_MAX_NUM 20

/* Capacity of a caller's array for ranges with uncorrectable memory errors (UCE). */
#define MAX_MEM_UCE_INFO_ARRAY_SIZE 128

/** Where the program itself runs. Here it is always the host. */
typedef enum aclrtRunMode {
    ACL_DEVICE = 0,
    ACL_HOST = 1
} aclrtRunMode;

/** Result of aclrtQueryEvent. */
typedef enum aclrtEventStatus {
    ACL_EVENT_STATUS_COMPLETE = 0,
    ACL_EVENT_STATUS_NOT_READY = 1,
    ACL_EVENT_STATUS_RESERVED = 2
} aclrtEventStatus;

/** Result of aclrtQueryEventStatus. Note that the values are the other way round. */
typedef enum aclrtEventRecordedStatus {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;

/** Result of aclrtQueryEventWaitStatus. */
typedef enum aclrtEventWaitStatus {
    ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
    ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
    ACL_EVENT_WAIT_STATUS_RESERVED = 0xFFFF
} aclrtEventWaitStatus;

/** Result of aclrtStreamQuery. */
typedef enum aclrtStreamStatus {
    ACL_STREAM_STATUS_COMPLETE = 0,
    ACL_STREAM_STATUS_NOT_READY = 1,
    ACL_STREAM_STATUS_RESERVED = 0xFFFF
} aclrtStreamStatus;

/** Whether a callback holds up its stream. */
typedef enum aclrtCallbackBlockType {
    ACL_CALLBACK_NO_BLOCK = 0,
    ACL_CALLBACK_BLOCK = 1
} aclrtCallbackBlockType;

/** Direction of a copy. A synchronous copy looks at the addresses and takes this as advice. */
typedef enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
    ACL_MEMCPY_DEFAULT = 4,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7
} aclrtMemcpyKind;

/** Page size of an allocation, with optional bits for the kind of memory. */
typedef enum aclrtMemMallocPolicy {
    ACL_MEM_MALLOC_HUGE_FIRST = 0,
    ACL_MEM_MALLOC_HUGE_ONLY = 1,
    ACL_MEM_MALLOC_NORMAL_ONLY = 2,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
    ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
    ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x100,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000,
    ACL_MEM_ACCESS_USER_SPACE_READONLY = 0x100000
} aclrtMemMallocPolicy;

/** How host memory is registered. */
typedef enum aclrtHostRegisterType {
    ACL_HOST_REGISTER_MAPPED = 0,
    ACL_HOST_REGISTER_IOMEMORY = 4,
    ACL_HOST_REGISTER_READONLY = 8
} aclrtHostRegisterType;

/** Names of the optional attributes of an allocation. */
typedef enum aclrtMallocAttrType {
    ACL_RT_MEM_ATTR_RSV = 0,
    ACL_RT_MEM_ATTR_MODULE_ID = 1,
    ACL_RT_MEM_ATTR_DEVICE_ID = 2,
    ACL_RT_MEM_ATTR_VA_FLAG = 3
} aclrtMallocAttrType;

/** Kinds of device memory. */
typedef enum aclrtMemAttr {
    ACL_DDR_MEM = 0,
    ACL_HBM_MEM = 1,
    ACL_DDR_MEM_HUGE = 2,
    ACL_DDR_MEM_NORMAL = 3,
    ACL_HBM_MEM_HUGE = 4,
    ACL_HBM_MEM_NORMAL = 5,
    ACL_DDR_MEM_P2P_HUGE = 6,
    ACL_DDR_MEM_P2P_NORMAL = 7,
    ACL_HBM_MEM_P2P_HUGE = 8,
    ACL_HBM_MEM_P2P_NORMAL = 9,
    ACL_HBM_MEM_HUGE1G = 10,
    ACL_HBM_MEM_P2P_HUGE1G = 11,
    ACL_MEM_NORMAL = 12,
    ACL_MEM_HUGE = 13,
    ACL_MEM_HUGE1G = 14,
    ACL_MEM_P2P_NORMAL = 15,
    ACL_MEM_P2P_HUGE = 16,
    ACL_MEM_P2P_HUGE1G = 17
} aclrtMemAttr;

/** Attributes of a group of cores. */
typedef enum aclrtGroupAttr {
    ACL_GROUP_AICORE_INT = 0,
    ACL_GROUP_AIV_INT = 1,
    ACL_GROUP_AIC_INT = 2,
    ACL_GROUP_SDMANUM_INT = 3,
    ACL_GROUP_ASQNUM_INT = 4,
    ACL_GROUP_GROUPID_INT = 5
} aclrtGroupAttr;

/** Schedulers of a device. */
typedef enum aclrtTsId {
    ACL_TS_ID_AICORE = 0,
    ACL_TS_ID_AIVECTOR = 1,
    ACL_TS_ID_RESERVED = 2
} aclrtTsId;

/** What an overflow gives: the greatest finite number, or an infinity. */
typedef enum aclrtFloatOverflowMode {
    ACL_RT_OVERFLOW_MODE_SATURATION = 0,
    ACL_RT_OVERFLOW_MODE_INFNAN = 1,
    ACL_RT_OVERFLOW_MODE_UNDEF = 2
} aclrtFloatOverflowMode;

/** Settings for aclrtSetStreamConfigOpt. */
typedef enum aclrtStreamConfigAttr {
    ACL_RT_STREAM_WORK_ADDR_PTR = 0,
    ACL_RT_STREAM_WORK_SIZE = 1,
    ACL_RT_STREAM_FLAG = 2,
    ACL_RT_STREAM_PRIORITY = 3
} aclrtStreamConfigAttr;

/** Where memory is. */
typedef enum aclrtMemLocationType {
    ACL_MEM_LOCATION_TYPE_HOST = 0,
    ACL_MEM_LOCATION_TYPE_DEVICE = 1,
    ACL_MEM_LOCATION_TYPE_UNREGISTERED = 2,
    ACL_MEM_LOCATION_TYPE_MANAGED = 3,
    ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4
} aclrtMemLocationType;

/** Kinds of physical memory. */
typedef enum aclrtMemAllocationType {
    ACL_MEM_ALLOCATION_TYPE_PINNED = 0
} aclrtMemAllocationType;

/** Kinds of handle that physical memory can be exported as. */
typedef enum aclrtMemHandleType {
    ACL_MEM_HANDLE_TYPE_NONE = 0,
    ACL_MEM_HANDLE_TYPE_POSIX = 2
} aclrtMemHandleType;

/** Kinds of shared handle. */
typedef enum aclrtMemSharedHandleType {
    ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT = 1,
    ACL_MEM_SHARE_HANDLE_TYPE_FABRIC = 2
} aclrtMemSharedHandleType;

/** Which granularity is asked for. */
typedef enum aclrtMemGranularityOptions {
    ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
    ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF = 0xFFFF
} aclrtMemGranularityOptions;

/** What may be done with mapped memory. */
typedef enum aclrtMemAccessFlags {
    ACL_RT_MEM_ACCESS_FLAGS_NONE = 0,
    ACL_RT_MEM_ACCESS_FLAGS_READ = 1,
    ACL_RT_MEM_ACCESS_FLAGS_READWRITE = 3
} aclrtMemAccessFlags;

/** Health of a device. */
typedef enum aclrtDeviceStatus {
    ACL_RT_DEVICE_STATUS_NORMAL = 0,
    ACL_RT_DEVICE_STATUS_ABNORMAL = 1,
    ACL_RT_DEVICE_STATUS_END = 0xFFFF
} aclrtDeviceStatus;

/** What kind of failure a device had. */
typedef enum aclrtErrorType {
    ACL_RT_NO_ERROR = 0,
    ACL_RT_ERROR_MEMORY = 1,
    ACL_RT_ERROR_L2 = 2,
    ACL_RT_ERROR_AICORE = 3,
    ACL_RT_ERROR_LINK = 4,
    ACL_RT_ERROR_L3_PORT = 5,
    ACL_RT_ERROR_OTHERS = 0xFFFF
} aclrtErrorType;

/** What kind of failure a core had. */
typedef enum aclrtAicoreErrorType {
    ACL_RT_AICORE_ERROR_UNKNOWN = 0,
    ACL_RT_AICORE_ERROR_SW = 1,
    ACL_RT_AICORE_ERROR_HW_LOCAL = 2
} aclrtAicoreErrorType;

/** Operations on the cache. */
typedef enum aclrtCmoType {
    ACL_RT_CMO_TYPE_PREFETCH = 0,
    ACL_RT_CMO_TYPE_WRITEBACK = 1,
    ACL_RT_CMO_TYPE_INVALID = 2,
    ACL_RT_CMO_TYPE_FLUSH = 3
} aclrtCmoType;

/** Scope of the last error. */
typedef enum aclrtLastErrLevel {
    ACL_RT_THREAD_LEVEL = 0
} aclrtLastErrLevel;

/** Which calls a running capture forbids: any thread's, the capturing thread's, or none. */
typedef enum aclmdlRICaptureMode {
    ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
    ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
    ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2
} aclmdlRICaptureMode;

/** Whether a stream is being captured, and whether the capture is still valid. */
typedef enum aclmdlRICaptureStatus {
    ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
    ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
    ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2
} aclmdlRICaptureStatus;

/** Options of loading a kernel binary. */
typedef enum aclrtBinaryLoadOptionType {
    ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD = 1,
    ACL_RT_BINARY_LOAD_OPT_LAZY_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE = 3
} aclrtBinaryLoadOptionType;

/** Attributes of a stream. */
typedef enum aclrtStreamAttr {
    ACL_STREAM_ATTR_FAILURE_MODE = 1,
    ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK = 2,
    ACL_STREAM_ATTR_USER_CUSTOM_TAG = 3,
    ACL_STREAM_ATTR_CACHE_OP_INFO = 4,
    ACL_STREAM_ATTR_PRIORITY = 5
} aclrtStreamAttr;

/** Attributes that aclrtGetDeviceInfo returns. */
typedef enum aclrtDevAttr {
    ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
    ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
    ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
    ACL_DEV_ATTR_WARP_SIZE = 202,
    ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE = 203,
    ACL_DEV_ATTR_LOCAL_MEM_PER_VECTOR_CORE = 204,
    ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE = 204,
    ACL_DEV_ATTR_MAX_GRID_DIM_X = 205,
    ACL_DEV_ATTR_MAX_GRID_DIM_Y = 206,
    ACL_DEV_ATTR_MAX_GRID_DIM_Z = 207,
    ACL_DEV_ATTR_MAX_BLOCK_PER_GRID = 208,
    ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK = 209,
    ACL_DEV_ATTR_MAX_BLOCK_DIM_X = 210,
    ACL_DEV_ATTR_MAX_BLOCK_DIM_Y = 211,
    ACL_DEV_ATTR_MAX_BLOCK_DIM_Z = 212,
    ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
    ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
    ACL_DEV_ATTR_SMP_ID = 401,
    ACL_DEV_ATTR_PHY_CHIP_ID = 402,
    ACL_DEV_ATTR_SUPER_POD_DEVIDE_ID = 403,
    ACL_DEV_ATTR_SUPER_POD_DEVICE_ID = 403,
    ACL_DEV_ATTR_SUPER_POD_SERVER_ID = 404,
    ACL_DEV_ATTR_SUPER_POD_ID = 405,
    ACL_DEV_ATTR_CUST_OP_PRIVILEGE = 406,
    ACL_DEV_ATTR_MAINBOARD_ID = 407,
    ACL_DEV_ATTR_HD_CONNECT_TYPE = 408,
    ACL_DEV_ATTR_DEVICE_FORM_FACTOR = 409,
    ACL_DEV_ATTR_IS_VIRTUAL = 501,
    ACL_DEV_ATTR_NPU_ARCH = 601
} aclrtDevAttr;

/** Features that aclrtGetDeviceCapability can be asked for. */
typedef enum aclrtDevFeatureType {
    ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV = 1,
    ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV = 21
} aclrtDevFeatureType;

/** Kinds of core whose number can be limited. */
typedef enum aclrtDevResLimitType {
    ACL_RT_DEV_RES_CUBE_CORE = 0,
    ACL_RT_DEV_RES_VECTOR_CORE = 1
} aclrtDevResLimitType;

/** Reductions that a copy can do. */
typedef enum aclrtReduceKind {
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM = 10,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX = 11,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN = 12,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL = 13
} aclrtReduceKind;

/** Moments at which a device state callback is called. */
typedef enum aclrtDeviceState {
    ACL_RT_DEVICE_STATE_SET_PRE = 0,
    ACL_RT_DEVICE_STATE_SET_POST = 1,
    ACL_RT_DEVICE_STATE_RESET_PRE = 2,
    ACL_RT_DEVICE_STATE_RESET_POST = 3
} aclrtDeviceState;

/** Moments at which a stream state callback is called. */
typedef enum aclrtStreamState {
    ACL_RT_STREAM_STATE_CREATE_POST = 1,
    ACL_RT_STREAM_STATE_DESTROY_PRE = 2
} aclrtStreamState;

/** Whether host memory can be mapped for a unit of the device. */
typedef enum aclrtHostMemMapCapability {
    ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED = 0,
    ACL_RT_HOST_MEM_MAP_SUPPORTED = 1
} aclrtHostMemMapCapability;

/** Units of a device that may reach host memory. */
typedef enum aclrtHacType {
    ACL_RT_HAC_TYPE_STARS = 0,
    ACL_RT_HAC_TYPE_AICPU = 1,
    ACL_RT_HAC_TYPE_AIC = 2,
    ACL_RT_HAC_TYPE_AIV = 3,
    ACL_RT_HAC_TYPE_PCIEDMA = 4,
    ACL_RT_HAC_TYPE_RDMA = 5,
    ACL_RT_HAC_TYPE_SDMA = 6,
    ACL_RT_HAC_TYPE_DVPP = 7
} aclrtHacType;

/** What aclrtRandomNumAsync generates. */
typedef enum aclrtRandomNumFuncType {
    ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK = 0,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS = 1,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS = 2,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS = 3
} aclrtRandomNumFuncType;

/** Attributes of memory that processes share. */
typedef enum aclrtIpcMemAttrType {
    ACL_RT_IPC_MEM_ATTR_ACCESS_LINK = 0
} aclrtIpcMemAttrType;

/** Packages whose version can be asked for. */
typedef enum aclCANNPackageName {
    ACL_PKG_NAME_CANN = 0,
    ACL_PKG_NAME_RUNTIME = 1,
    ACL_PKG_NAME_COMPILER = 2,
    ACL_PKG_NAME_HCCL = 3,
    ACL_PKG_NAME_TOOLKIT = 4,
    ACL_PKG_NAME_OPP = 5,
    ACL_PKG_NAME_OPP_KERNEL = 6,
    ACL_PKG_NAME_DRIVER = 7
} aclCANNPackageName;

/* Handles of physical memory and of loaded kernels. */
typedef void *aclrtDrvMemHandle;
typedef void *aclrtBinary;
typedef void *aclrtBinHandle;
typedef void *aclrtFuncHandle;
typedef void *aclrtArgsHandle;
typedef void *aclrtParamHandle;
typedef void *aclmdlRI;

/* Value of an attribute in aclrtMallocConfig. */
typedef union aclrtMallocAttrValue {
    uint16_t moduleId;
    uint32_t deviceId;
    uint32_t vaFlag;
    uint8_t rsv[8];
} aclrtMallocAttrValue;

typedef struct aclrtMallocAttribute {
    aclrtMallocAttrType attr;
    aclrtMallocAttrValue value;
} aclrtMallocAttribute;

/* A list of optional attributes of an allocation. */
typedef struct aclrtMallocConfig {
    aclrtMallocAttribute *attrs;
    size_t numAttrs;
} aclrtMallocConfig;

/* Settings of a stream to be made; set with aclrtSetStreamConfigOpt. */
typedef struct aclrtStreamConfigHandle {
    void *workptr;
    size_t workSize;
    size_t flag;
    uint32_t priority;
} aclrtStreamConfigHandle;

typedef union aclrtStreamAttrValue {
    uint64_t failureMode;
    uint32_t overflowSwitch;
    uint32_t userCustomTag;
    uint32_t cacheOpInfoSwitch;
    uint32_t streamPriority;
    uint32_t reserve[4];
} aclrtStreamAttrValue;

/* A device, or the host. */
typedef struct aclrtMemLocation {
    uint32_t id;
    aclrtMemLocationType type;
} aclrtMemLocation;

/* From where to where the copies of a batch go. */
typedef struct aclrtMemcpyBatchAttr {
    aclrtMemLocation dstLoc;
    aclrtMemLocation srcLoc;
    uint8_t rsv[16];
} aclrtMemcpyBatchAttr;

/* What is known of an address. */
typedef struct aclrtPtrAttributes {
    aclrtMemLocation location;
    uint32_t pageSize;
    uint32_t rsv[4];
} aclrtPtrAttributes;

/* What aclrtMallocPhysical is to allocate. */
typedef struct aclrtPhysicalMemProp {
    aclrtMemHandleType handleType;
    aclrtMemAllocationType allocationType;
    aclrtMemAttr memAttr;
    aclrtMemLocation location;
    uint64_t reserve;
} aclrtPhysicalMemProp;

/* Who may do what with a mapped range. */
typedef struct aclrtMemAccessDesc {
    aclrtMemAccessFlags flags;
    aclrtMemLocation location;
    uint8_t rsv[12];
} aclrtMemAccessDesc;

typedef struct aclrtMemFabricHandle {
    uint8_t data[128];
} aclrtMemFabricHandle;

/* Memory in use by one part of the system. */
typedef struct aclrtMemUsageInfo {
    char name[32];
    uint64_t curMemSize;
    uint64_t memPeakSize;
    size_t reserved[8];
} aclrtMemUsageInfo;

typedef struct aclrtUtilizationExtendInfo aclrtUtilizationExtendInfo;

/* Load of a device in percent. */
typedef struct aclrtUtilizationInfo {
    int32_t cubeUtilization;
    int32_t vectorUtilization;
    int32_t aicpuUtilization;
    int32_t memoryUtilization;
    aclrtUtilizationExtendInfo *utilizationExtend;
} aclrtUtilizationInfo;

/* A range of memory that failed. */
typedef struct aclrtMemUceInfo {
    void *addr;
    size_t len;
    size_t reserved[14];
} aclrtMemUceInfo;

typedef struct aclrtMemUceInfoArray {
    size_t arraySize;
    aclrtMemUceInfo memUceInfoArray[ACL_RT_MEM_UCE_INFO_MAX_NUM];
} aclrtMemUceInfoArray;

typedef union aclrtErrorInfoDetail {
    aclrtMemUceInfoArray uceInfo;
    aclrtAicoreErrorType aicoreErrType;
} aclrtErrorInfoDetail;

/* What went wrong on a device. */
typedef struct aclrtErrorInfo {
    uint8_t tryRepair;
    uint8_t hasDetail;
    uint8_t reserved[2];
    aclrtErrorType errorType;
    aclrtErrorInfoDetail detail;
} aclrtErrorInfo;

typedef union aclrtBinaryLoadOptionValue {
    uint32_t isLazyLoad;
    uint32_t magic;
    int32_t cpuKernelMode;
    uint32_t rsv[4];
} aclrtBinaryLoadOptionValue;

typedef struct aclrtBinaryLoadOption {
    aclrtBinaryLoadOptionType type;
    aclrtBinaryLoadOptionValue value;
} aclrtBinaryLoadOption;

/* A list of options for loading a kernel binary. */
typedef struct aclrtBinaryLoadOptions {
    aclrtBinaryLoadOption *options;
    size_t numOpt;
} aclrtBinaryLoadOptions;

/* A package version as text, whole and in parts. */
typedef struct aclCANNPackageVersion {
    char version[ACL_PKG_VERSION_MAX_SIZE];
    char majorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char minorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char releaseVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char patchVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char reserved[ACL_PKG_VERSION_MAX_SIZE];
} aclCANNPackageVersion;

typedef struct aclrtUuid {
    char bytes[16];
} aclrtUuid;

typedef struct aclrtIpcEventHandle {
    char reserved[ACL_IPC_EVENT_HANDLE_SIZE];
} aclrtIpcEventHandle;

/* A value, or the address of one, for aclrtRandomNumAsync. */
typedef struct aclrtRandomParaInfo {
    uint8_t isAddr;
    uint8_t valueOrAddr[8];
    uint8_t size;
    uint8_t rsv[6];
} aclrtRandomParaInfo;

typedef struct aclrtDropoutBitmaskInfo {
    aclrtRandomParaInfo dropoutRation;
} aclrtDropoutBitmaskInfo;

typedef struct aclrtUniformDisInfo {
    aclrtRandomParaInfo min;
    aclrtRandomParaInfo max;
} aclrtUniformDisInfo;

typedef struct aclrtNormalDisInfo {
    aclrtRandomParaInfo mean;
    aclrtRandomParaInfo stddev;
} aclrtNormalDisInfo;

/* A distribution and its parameters. */
typedef struct aclrtRandomNumFuncParaInfo {
    aclrtRandomNumFuncType funcType;
    union {
        aclrtDropoutBitmaskInfo dropoutBitmaskInfo;
        aclrtUniformDisInfo uniformDisInfo;
        aclrtNormalDisInfo normalDisInfo;
    } paramInfo;
} aclrtRandomNumFuncParaInfo;

/* What aclrtRandomNumAsync is to generate, and where. */
typedef struct aclrtRandomNumTaskInfo {
    aclDataType dataType;
    aclrtRandomNumFuncParaInfo randomNumFuncParaInfo;
    void *randomParaAddr;
    void *randomResultAddr;
    void *randomCounterAddr;
    aclrtRandomParaInfo randomSeed;
    aclrtRandomParaInfo randomNum;
    uint8_t rsv[8];
} aclrtRandomNumTaskInfo;

/* Functions of the program that the runtime calls. */
typedef void (*aclrtCallback)(void *userData);
typedef void (*aclrtHostFunc)(void *args);
typedef void (*aclrtDeviceStateCallback)(int32_t deviceId, aclrtDeviceState state, void *args);
typedef void (*aclrtStreamStateCallback)(aclrtStream stm, aclrtStreamState state, void *args);

/* ---- Start and end ---- */

/**
 * Starts ACL. `configPath` names a JSON file, or is NULL. A second call gives
 * ACL_ERROR_REPEAT_INITIALIZE.
 */
aclError aclInit(const char *configPath);

/** Ends ACL. It may be started again. */
aclError aclFinalize(void);

/**
 * Undoes one aclInit and ends ACL with the last one; `refCount`, unless NULL, gets what is left.
 */
aclError aclFinalizeReference(uint64_t *refCount);

/* ---- Errors and versions ---- */

/**
 * The text of the calling thread's last failure, or NULL. Reading it clears it; the pointer is
 * valid until the thread's next call.
 */
const char *aclGetRecentErrMsg(void);

/** The last failed code of the calling thread. */
aclError aclrtPeekAtLastError(aclrtLastErrLevel level);

/** The last failed code of the calling thread; also clears it. */
aclError aclrtGetLastError(aclrtLastErrLevel level);

/** The version of this interface: ACL_MAJOR_VERSION, ACL_MINOR_VERSION, ACL_PATCH_VERSION. */
aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion);

/** The version of a package, by number. */
aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version);

/**
 * The version of a package as text, by name. `versionStr` has room for ACL_PKG_VERSION_MAX_SIZE
 * bytes.
 */
aclError aclsysGetVersionStr(char *pkgName, char *versionStr);

/** The version of a package as one number, by name. */
aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum);

/* ---- Devices ---- */

/** The number of devices that this process sees. */
aclError aclrtGetDeviceCount(uint32_t *count);

/**
 * Makes a device and its primary context current on the calling thread. Calls are counted per
 * device; aclrtResetDevice undoes one.
 */
aclError aclrtSetDevice(int32_t deviceId);

/** Undoes one aclrtSetDevice. The last one waits for the device and releases what it holds. */
aclError aclrtResetDevice(int32_t deviceId);

/** Releases what a device holds whatever the count is. */
aclError aclrtResetDeviceForce(int32_t deviceId);

/** The calling thread's device; ACL_ERROR_RT_CONTEXT_NULL when it has none. */
aclError aclrtGetDevice(int32_t *deviceId);

/** Where the program itself runs: ACL_HOST. */
aclError aclrtGetRunMode(aclrtRunMode *runMode);

/** Waits until every stream of the current device is done. */
aclError aclrtSynchronizeDevice(void);

/** The same, for a limited time. */
aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

/** An attribute of a device. */
aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value);

/** ACL_DEV_FEATURE_SUPPORT or ACL_DEV_FEATURE_NOT_SUPPORT. */
aclError aclrtGetDeviceCapability(
    int32_t deviceId, aclrtDevFeatureType devFeatureType, int32_t *value);

/** The health of a device. */
aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus);

/** Sets what an overflow gives on the current device. */
aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);

/** What an overflow gives on the current device. */
aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode);

/** The process id that other processes know this one by. */
aclError aclrtDeviceGetBareTgid(int32_t *pid);

/**
 * Calls `callback` around every set and reset of a device. A name stands for one callback; NULL
 * unregisters it.
 */
aclError aclrtRegDeviceStateCallback(
    const char *regName, aclrtDeviceStateCallback callback, void *args);

/** How long an operator may run, in seconds. */
aclError aclrtSetOpExecuteTimeOut(uint32_t timeout);

/** How long a task may wait for an event, in seconds; 0 means indefinitely. */
aclError aclrtSetOpWaitTimeout(uint32_t timeout);

/*
 * The ids of a device: the user id (its index among the devices visible to the program), the
 * logical id and the physical id.
 */

/** From user id to logical id. */
aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId);

/** From logical id to user id. */
aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid);

/** From logical id to physical id. */
aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t *const phyDevId);

/** From physical id to logical id. */
aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t *const logicDevId);

/** From user id to physical id. */
aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t *const phyDevId);

/** From physical id to user id. */
aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t *const userDevId);

/** Whether one device can reach the memory of another. */
aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId);

/** Lets the current device reach the memory of another. `flags` is 0. */
aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);

/** Disables it again. */
aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);

/** 1 when access is enabled, else 0. */
aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status);

/* ---- Contexts and options ---- */

/** Creates a context on a device and makes it current on the calling thread. */
aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);

/** Destroys a context that aclrtCreateContext made. */
aclError aclrtDestroyContext(aclrtContext context);

/** Makes a context current on the calling thread. */
aclError aclrtSetCurrentContext(aclrtContext context);

/** The calling thread's context. */
aclError aclrtGetCurrentContext(aclrtContext *context);

/** Whether the primary context of a device exists. `flags` must be NULL. */
aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active);

/** The stream that NULL stands for in the current context. */
aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream);

/** Sets an option of the current context. */
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);

/** An option of the current context; ACL_ERROR_RT_SYSPARAMOPT_NOT_SET before it was set. */
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/** Sets an option of the process. */
aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);

/** An option of the process; 0 unless it was set. */
aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/* ---- Streams ---- */

/** A stream in the current context. */
aclError aclrtCreateStream(aclrtStream *stream);

/** A stream with flags. */
aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);

/** Settings for aclrtCreateStreamV2; NULL when they cannot be made. */
aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void);

/** Sets one of them; `attrValue` points to `valueSize` bytes. */
aclError aclrtSetStreamConfigOpt(
    aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr, const void *attrValue,
    size_t valueSize);

/** Destroys them. */
aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle);

/** A stream with settings. Priorities go from 0, the most urgent, to 7. */
aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle);

/** Waits for the stream and destroys it. */
aclError aclrtDestroyStream(aclrtStream stream);

/** Destroys the stream without waiting for what is queued. */
aclError aclrtDestroyStreamForce(aclrtStream stream);

/** Drops what is queued; threads waiting on the stream get ACL_ERROR_RT_STREAM_ABORT. */
aclError aclrtStreamAbort(aclrtStream stream);

/** Waits until the stream is done and returns the first failure of its tasks. */
aclError aclrtSynchronizeStream(aclrtStream stream);

/** The same, for a limited time. */
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

/** Whether the stream is done. */
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);

/** The flags that the stream was made with. */
aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);

/** The priority that the stream was made with. */
aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority);

/** The number of the stream. */
aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId);

/**
 * What happens after a task failed: ACL_CONTINUE_ON_FAILURE or ACL_STOP_ON_FAILURE. It can be set
 * once.
 */
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

/** Sets an attribute of a stream. */
aclError aclrtSetStreamAttribute(
    aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value);

/** An attribute of a stream. */
aclError aclrtGetStreamAttribute(
    aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value);

/** The least and the most urgent priority. */
aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority);

/** How many streams can still be made. */
aclError aclrtGetStreamAvailableNum(uint32_t *streamCount);

/**
 * Calls `callback` after a stream was made and before it is destroyed. A name stands for one
 * callback; NULL unregisters it.
 */
aclError aclrtRegStreamStateCallback(
    const char *regName, aclrtStreamStateCallback callback, void *args);

/** Queues a call of `fn` on a thread of the runtime. The stream waits for it. */
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);

/** Runs the callbacks that are due on a thread that subscribed to a stream. */
aclError aclrtProcessReport(int32_t timeout);

/* ---- Events ---- */

/** An event that can be waited for and timed. */
aclError aclrtCreateEvent(aclrtEvent *event);

/** An event with ACL_EVENT_* flags, which may be reset and used again. */
aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);

/** An event with ACL_EVENT_* flags; it counts as complete until it is recorded. */
aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);

/** Destroys an event. */
aclError aclrtDestroyEvent(aclrtEvent event);

/** Queues the event: it is complete when the stream gets there. */
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

/** Queues a reset of the event. */
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);

/** Makes the stream wait for the event. */
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

/** The same, for a limited time. */
aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout);

/** Whether the event is complete. Prefer aclrtQueryEventStatus. */
aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);

/** Whether everything that the event was last recorded after is complete. */
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);

/** Whether every wait for the event has passed. */
aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);

/** Waits until the event is complete. */
aclError aclrtSynchronizeEvent(aclrtEvent event);

/** The same, for a limited time. */
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);

/** Time from one event to another. Both need ACL_EVENT_TIME_LINE. */
aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent);

/** When the event completed, in microseconds. */
aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);

/** The number of the event. */
aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId);

/** How many events can still be made. */
aclError aclrtGetEventAvailNum(uint32_t *eventCount);

/* ---- Memory ---- */

/** Device memory on the current device. `*devPtr` is NULL after a failure. */
aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** The same without padding after the end. */
aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** The same, through the cache. */
aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** The same with attributes; `cfg` may be NULL. */
aclError aclrtMallocWithCfg(
    void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg);

/** Frees device memory. Tasks already queued can still use it. */
aclError aclrtFree(void *devPtr);

/** Waits for the device, then frees. */
aclError aclrtFreeWithDevSync(void *devPtr);

/** Pinned host memory: copies from and to it are asynchronous. */
aclError aclrtMallocHost(void **hostPtr, size_t size);

/** The same with attributes; `cfg` may be NULL. */
aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg);

/** Frees pinned host memory. */
aclError aclrtFreeHost(void *hostPtr);

/** Waits for the device, then frees. */
aclError aclrtFreeHostWithDevSync(void *hostPtr);

/** Registers host memory of the program and gives its address on the device. */
aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr);

/** Registers host memory with ACL_HOST_REG_* flags. */
aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag);

/** The address on the device of registered host memory. `flag` is 0. */
aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag);

/** Undoes a registration, after the tasks queued so far. */
aclError aclrtHostUnregister(void *ptr);

/** Fills `count` bytes with the low byte of `value`; `maxCount` is the capacity at `devPtr`. */
aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);

/** The same as a task of a stream. */
aclError aclrtMemsetAsync(
    void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream);

/** Copies `count` bytes; `destMax` is the capacity at `dst`. Complete on return. */
aclError aclrtMemcpy(
    void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind);

/** Copies as a task of a stream. With pageable host memory it is complete on return. */
aclError aclrtMemcpyAsync(
    void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
    aclrtStream stream);

/** What is known of an address. */
aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes);

/** Free and total bytes of one kind of memory on the current device. */
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);

/** Copies `height` rows of `width` bytes, at once. */
aclError aclrtMemcpy2d(
    void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
    aclrtMemcpyKind kind);

/** The same as a task of a stream. With pageable host memory it is complete on return. */
aclError aclrtMemcpy2dAsync(
    void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
    aclrtMemcpyKind kind, aclrtStream stream);

/** Many copies at once, all from the host to a device or all back. */
aclError aclrtMemcpyBatch(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex);

/** The same without the index of the copy that failed. */
aclError aclrtMemcpyBatchV2(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs);

/** Many copies as tasks of a stream. */
aclError aclrtMemcpyBatchAsync(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex,
    aclrtStream stream);

/** The same without the index of the copy that failed. */
aclError aclrtMemcpyBatchAsyncV2(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, aclrtStream stream);

/** As aclrtMemcpyAsync. */
aclError aclrtMemcpyAsyncWithCondition(
    void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
    aclrtStream stream);

/** Bytes of a copy's description in device memory. */
aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize);

/** Describes a copy in device memory. `config` is NULL. */
aclError aclrtSetMemcpyDesc(
    void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr, size_t count, void *config);

/** Does the copy that device memory describes when the task runs. */
aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream stream);

/** Copies between addresses that are read from device memory when the task runs. */
aclError aclrtMemcpyAsyncWithOffset(
    void **dst, size_t destMax, size_t dstDataOffset, const void **src, size_t count,
    size_t srcDataOffset, aclrtMemcpyKind kind, aclrtStream stream);

/** Sets `N` numbers of four bytes, at once. */
aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N);

/** The same as a task of a stream. */
aclError aclrtMemsetD32Async(
    void *ptr, size_t memSize, uint32_t value, size_t N, aclrtStream stream);

/** dst = dst op src, element by element; `count` in bytes, `reserve` is NULL. */
aclError aclrtReduceAsync(
    void *dst, const void *src, uint64_t count, aclrtReduceKind kind, aclDataType type,
    aclrtStream stream, void *reserve);

/** Random numbers as a task of a stream. `reserve` is NULL. */
aclError aclrtRandomNumAsync(
    const aclrtRandomNumTaskInfo *taskInfo, const aclrtStream stream, void *reserve);

/** A hint about the cache; it has no effect here. */
aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream);

/** Bytes of a description of a range for such hints. */
aclError aclrtCmoGetDescSize(size_t *size);

/** Describes a range in device memory. */
aclError aclrtCmoSetDesc(void *cmoDesc, void *src, size_t size);

/** A hint about the range that device memory describes: ACL_RT_CMO_TYPE_PREFETCH. `reserve` is NULL. */
aclError aclrtCmoAsyncWithDesc(
    void *cmoDesc, aclrtCmoType cmoType, aclrtStream stream, const void *reserve);

/** Writes what a cache has of a range to memory. */
aclError aclrtMemFlush(void *devPtr, size_t size);

/** Forgets what a cache has of a range. */
aclError aclrtMemInvalidate(void *devPtr, size_t size);

/** Whether a unit of a device can reach host memory. */
aclError aclrtHostMemMapCapabilities(
    uint32_t deviceId, aclrtHacType hacType, aclrtHostMemMapCapability *capabilities);

/** What the parts of the system use of a device's memory. */
aclError aclrtGetMemUsageInfo(
    int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum, size_t *outputNum);

/** Ranges of a device's memory that failed: none. */
aclError aclrtGetMemUceInfo(
    int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize, size_t *retSize);

/** Repairs such ranges. */
aclError aclrtMemUceRepair(
    int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize);

/* ---- Capture of graphs ---- */

/** Whether a stream captures, and into what; one of both may be NULL. */
aclError aclmdlRICaptureGetInfo(
    aclrtStream stream, aclmdlRICaptureStatus *status, aclmdlRI *modelRI);

/* ---- Overflow ---- */

/** Copies the 64 bytes of the overflow status to device memory, in stream order. */
aclError aclrtGetOverflowStatus(void *outputAddr, size_t outputSize, aclrtStream stream);

/** Clears the overflow status, in stream order. */
aclError aclrtResetOverflowStatus(aclrtStream stream);

/** As aclrtGetOverflowStatus. */
aclError aclrtGetFloatOverflowStatus(void *outputAddr, uint64_t outputSize, aclrtStream stream);

/** As aclrtResetOverflowStatus. */
aclError aclrtResetFloatOverflowStatus(aclrtStream stream);

/**
 * As aclrtGetOverflowStatus, but on chips of the A2 and A3 families the status is written to the address of device
 * memory that stands in the first eight bytes at `outputAddr`.
 */
aclError aclrtNpuGetFloatOverFlowStatus(
    void *outputAddr, uint64_t outputSize, uint32_t checkMode, aclrtStream stream);

/** As aclrtResetOverflowStatus. */
aclError aclrtNpuClearFloatOverFlowStatus(uint32_t checkMode, aclrtStream stream);

/** Whether a stream checks for overflow. */
aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);

/** Whether a stream checks for overflow. */
aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag);

/* ---- Limits and errors of devices ---- */

/** How many cores of a kind operators of a device may use. */
aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value);

/** Sets that. */
aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value);

/** Sets all of a device back. */
aclError aclrtResetDeviceResLimit(int32_t deviceId);

/** How many cores of a kind operators of a stream may use. */
aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t *value);

/** Sets that. */
aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value);

/** Sets all of a stream back to the limits of its device. */
aclError aclrtResetStreamResLimit(aclrtStream stream);

/** Makes the limits of a stream those of the calling thread. */
aclError aclrtUseStreamResInCurrentThread(aclrtStream stream);

/** Undoes that. */
aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream);

/** The limit that holds for the calling thread. */
aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value);

/** What tells a device from all others. */
aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid);

/** What went wrong on a device. */
aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo);

/** Tries to repair it. */
aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo *errorInfo);

/** Sets how long an operator may run, in microseconds; gives the value that is used: UINT64_MAX for 0, without end. */
aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout);

/** Sets that in milliseconds; 0 is without end. */
aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout);

/** How long an operator may run, in milliseconds; UINT32_MAX is without end. */
aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs);

/** Such limits are multiples of this, in microseconds. */
aclError aclrtGetOpTimeOutInterval(uint64_t *interval);

/* ---- Physical memory and addresses ---- */

/** Reserves a range of addresses without memory. */
aclError aclrtReserveMemAddress(
    void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags);

/** Gives a reserved range back. */
aclError aclrtReleaseMemAddress(void *virPtr);

/** Memory without an address. */
aclError aclrtMallocPhysical(
    aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags);

/** Frees it, as soon as it is mapped nowhere. */
aclError aclrtFreePhysical(aclrtDrvMemHandle handle);

/** Puts memory at an address of a reserved range. */
aclError aclrtMapMem(
    void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);

/** Undoes that. Tasks already queued can still use the memory. */
aclError aclrtUnmapMem(void *virPtr);

/** Reserves addresses beyond those of device memory; Atlas A3 only. */
aclError aclrtReserveMemAddressNoUCMemory(
    void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags);

/** As aclrtMapMem; no device may touch the memory before aclrtMemSetAccess. */
aclError aclrtMemMapNoAccess(
    void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);

/** Lets devices, or the host, touch mapped memory. */
aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count);

/** What a device, or the host, may do with mapped memory: an aclrtMemAccessFlags. */
aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag);

/** Sizes of physical memory are multiples of this. */
aclError aclrtMemGetAllocationGranularity(
    aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option, size_t *granularity);

/** The handle of the memory that is mapped at an address, with one more reference. */
aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle);

/** What physical memory was made as. */
aclError aclrtMemGetAllocationPropertiesFromHandle(
    aclrtDrvMemHandle handle, aclrtPhysicalMemProp *prop);

/** First byte and size of the allocation, or of the mapped piece, around an address. */
aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize);

/** A number under which another process can import the memory. */
aclError aclrtMemExportToShareableHandle(
    aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags,
    uint64_t *shareableHandle);

/** Imports memory that another process exported. */
aclError aclrtMemImportFromShareableHandle(
    uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle *handle);

/** Names the processes that may import. */
aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum);

/** As aclrtMemExportToShareableHandle; `shareableHandle` is a uint64_t or an aclrtMemFabricHandle. */
aclError aclrtMemExportToShareableHandleV2(
    aclrtDrvMemHandle handle, uint64_t flags, aclrtMemSharedHandleType shareType,
    void *shareableHandle);

/** As aclrtMemImportFromShareableHandle, on the current device. `flags` is 0. */
aclError aclrtMemImportFromShareableHandleV2(
    void *shareableHandle, aclrtMemSharedHandleType shareType, uint64_t flags,
    aclrtDrvMemHandle *handle);

/** As aclrtMemSetPidToShareableHandle. */
aclError aclrtMemSetPidToShareableHandleV2(
    void *shareableHandle, aclrtMemSharedHandleType shareType, int32_t *pid, size_t pidNum);

/* ---- Between processes ---- */

/** A key, of 65 bytes with its end, under which another process can map an allocation. */
aclError aclrtIpcMemGetExportKey(
    void *devPtr, size_t size, char *key, size_t len, uint64_t flags);

/** Names the processes that may import. */
aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num);

/** Maps memory of another process. */
aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags);

/** Ends an import, or in the exporting process the key. */
aclError aclrtIpcMemClose(const char *key);

/** Chooses a link between devices; Atlas A3 only. */
aclError aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type, uint64_t attr);

/** The handle of an event made with ACL_EVENT_IPC, for other processes. */
aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle);

/** The event behind a handle of another process. */
aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event);

/* ---- Notifies ---- */

/** A flag that one stream sets and another waits for. `flag` is an ACL_NOTIFY_*. */
aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag);

/** Destroys it; streams that wait for it go on. */
aclError aclrtDestroyNotify(aclrtNotify notify);

/** Sets it, in stream order. */
aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream);

/** Waits in the stream until it is set, and clears it. `timeout` in seconds, 0 for ever. */
aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout);

/** The number of a notify. */
aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId);

/** Clears notifies at once. */
aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num);

/** A key, of 65 bytes with its end, under which another process can record a notify. */
aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len, uint64_t flags);

/** Names the processes that may import. */
aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num);

/** A notify of another process, which can be recorded. */
aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags);

/* ---- Kernels ---- */

/** Loads a kernel binary. */
aclError aclrtBinaryLoadFromData(
    const void *data, size_t length, const aclrtBinaryLoadOptions *options,
    aclrtBinHandle *binHandle);

/** A kernel of a loaded binary. */
aclError aclrtBinaryGetFunction(
    const aclrtBinHandle binHandle, const char *kernelName, aclrtFuncHandle *funcHandle);

/** Where a kernel is loaded. */
aclError aclrtGetFunctionAddr(aclrtFuncHandle funcHandle, void **aicAddr, void **aivAddr);

/* ---- Dumps ---- */

/** Prepares dumping of tensors. */
aclError aclmdlInitDump(void);

/** Sets what is dumped, from a JSON file. */
aclError aclmdlSetDump(const char *dumpCfgPath);

/** Ends dumping. */
aclError aclmdlFinalizeDump(void);

#ifdef __cplusplus
}
#endif

#endif

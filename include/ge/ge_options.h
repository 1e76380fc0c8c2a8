/*
 * The keys of options. C++ only. The engine takes every key; many change nothing on a CPU.
 */
#ifndef CAIRN_GE_GE_OPTIONS_H
#define CAIRN_GE_GE_OPTIONS_H

#ifdef __cplusplus

#include <string>

namespace ge {

const char *const OPTION_GRAPH_RUN_MODE = "ge.graphRunMode";
const char *const OPTION_DEVICE_TYPE = "ge.deviceType";
const char *const OPTION_EXEC_SESSION_ID = "ge.exec.sessionId";
const char *const OPTION_EXEC_DEVICE_ID = "ge.exec.deviceId";
const char *const OPTION_EXEC_JOB_ID = "ge.exec.jobId";
const char *const OPTION_EXEC_IS_USEHCOM = "ge.exec.isUseHcom";
const char *const OPTION_EXEC_IS_USEHVD = "ge.exec.isUseHvd";
const char *const OPTION_EXEC_RANK_ID = "ge.exec.rankId";
const char *const OPTION_EXEC_POD_NAME = "ge.exec.podName";
const char *const OPTION_EXEC_DEPLOY_MODE = "ge.exec.deployMode";
const char *const OPTION_EXEC_RANK_TABLE_FILE = "ge.exec.rankTableFile";
const char *const OPTION_EXEC_EXTERN_PLUGIN_PATH = "ge.soLoadPath";
const char *const OPTION_EXEC_ENABLE_DUMP = "ge.exec.enableDump";
const char *const OPTION_EXEC_DUMP_PATH = "ge.exec.dumpPath";
const char *const OPTION_EXEC_DUMP_STEP = "ge.exec.dumpStep";
const char *const OPTION_EXEC_DUMP_MODE = "ge.exec.dumpMode";
const char *const OPTION_EXEC_DUMP_DATA = "ge.exec.dumpData";
const char *const OPTION_EXEC_DUMP_LAYER = "ge.exec.dumpLayer";
const char *const OPTION_EXEC_ENABLE_DUMP_DEBUG = "ge.exec.enableDumpDebug";
const char *const OPTION_EXEC_DUMP_DEBUG_MODE = "ge.exec.dumpDebugMode";
const char *const OPTION_EXEC_ENABLE_EXCEPTION_DUMP = "ge.exec.enable_exception_dump";
const char *const OPTION_EXEC_PROFILING_MODE = "ge.exec.profilingMode";
const char *const OPTION_EXEC_PROFILING_OPTIONS = "ge.exec.profilingOptions";
const char *const OPTION_EXEC_HCCL_FLAG = "ge.exec.hcclFlag";
const char *const OPTION_EXEC_ATOMIC_FLAG = "ge.exec.enable_atomic";
const char *const OPTION_EXEC_DISABLE_REUSED_MEMORY = "ge.exec.disableReuseMemory";
const char *const OPTION_EXEC_ENABLE_TAILING_OPTIMIZATION = "ge.exec.isTailingOptimization";
const char *const OPTION_EXEC_DYNAMIC_INPUT = "ge.exec.dynamicInput";
const char *const OPTION_EXEC_DYNAMIC_EXECUTE_MODE = "ge.exec.dynamicGraphExecuteMode";
const char *const OPTION_EXEC_DATA_INPUTS_SHAPE_RANGE = "ge.exec.dataInputsShapeRange";
const char *const OPTION_EXEC_ENABLE_COPY_OUTPUT_ADDR = "ge.exec.enableCopyOutputAddr";
const char *const OPTION_EXEC_GRAPH_EXEC_TIMEOUT = "ge.exec.graphExecTimeout";
const char *const OPTION_ALL_TENSOR_NOT_EMPTY = "ge.exec.allTensorNotEmpty";
const char *const GRAPH_MEMORY_MAX_SIZE = "ge.graphMemoryMaxSize";
const char *const VARIABLE_MEMORY_MAX_SIZE = "ge.variableMemoryMaxSize";
const char *const OPTION_EXEC_REUSE_ZERO_COPY_MEMORY = "ge.exec.reuseZeroCopyMemory";
const char *const OPTION_INPUT_REUSE_MEM_INDEXES = "ge.exec.inputReuseMemIndexes";
const char *const OPTION_OUTPUT_REUSE_MEM_INDEXES = "ge.exec.outputReuseMemIndexes";
const char *const OPTION_OUTPUT_REUSE_INPUT_MEM_INDEXES = "ge.exec.outputReuseInputMemIndexes";
const char *const OPTION_GRAPH_IO_MEM_ALLOC_MODE = "ge.exec.graphIOMemAllocMode";
const char *const OPTION_EXEC_HOST_INPUT_INDEXES = "ge.exec.hostInputIndexes";
const char *const OPTION_FEATURE_BASE_REFRESHABLE = "ge.featureBaseRefreshable";
const char *const OPTION_CONST_LIFECYCLE = "ge.constLifecycle";
const char *const OPTION_EXEC_LOGICAL_DEVICE_ID = "ge.exec.logicalDeviceId";
const char *const OPTION_EXEC_ENABLE_FUSION = "ge.exec.enableFusion";
const char *const OPTION_EXEC_INPUT_FUSION_SIZE = "ge.exec.input_fusion_size";
const char *const OPTION_HOST_ENV_OS = "ge.host_env_os";
const char *const OPTION_HOST_ENV_CPU = "ge.host_env_cpu";
const char *const OPTION_GRAPH_COMPILER_CACHE_DIR = "ge.graph_compiler_cache_dir";
const char *const OPTION_GRAPH_KEY = "ge.graph_key";
const char *const OPTION_DISABLE_OPTIMIZATIONS = "ge.disableOptimizations";
const char *const OPTION_SCREEN_PRINT_MODE = "ge.screen_print_mode";
const char *const OPTION_EXEC_VARIABLE_ACC = "ge.exec.variable_acc";
const char *const OPTION_EXEC_OP_DEBUG_CONFIG = "ge.exec.opDebugConfig";
const char *const OPTION_JOB_TYPE = "ge.jobType";
const char *const OPTION_TUNINGPATH = "ge.tuningPath";
const char *const OPTION_SESSION_DEVICE_ID = "ge.session_device_id";
const char *const OPTION_EXEC_HCCL_EXECUTE_TIMEOUT = "ge.exec.hcclExecuteTimeOut";
const char *const OPTION_EXEC_PLACEMENT = "ge.exec.placement";
const char *const OPTION_EXEC_OVERFLOW = "ge.exec.overflow";
const char *const OPTION_HCCL_ALGORITHM = "HCCL_algorithm";
const char *const OPTION_EXECUTE_TIMES = "execute_times";
const char *const OPTION_EXTERNAL_WEIGHT_DIR = "ge.externalWeightDir";
const char *const OPTION_STATIC_MODEL_OPS_LOWER_LIMIT = "ge.exec.static_model_ops_lower_limit";
const char *const OPTION_EXPORT_COMPILE_STAT = "ge.exportCompileStat";
const char *const OPTION_ALLOW_MULTI_GRAPH_PARALLEL_COMPILE = "ge.AllowMultiGraphParallelCompile";
const char *const OPTION_GE_MAX_DUMP_FILE_NUM = "ge.maxDumpFileNum";
const char *const OPTION_GE_MAX_DUMP_FILE_SIZE = "ge.maxDumpFileSize";
const char *const OPTION_GE_MAX_DUMP_OP_NUM = "ge.maxDumpOpNum";
const char *const GE_AICPU_FLAG = "ge.aicpuFlag";
const char *const ENABLE_GRAPH_PARALLEL = "ge.enableGraphParallel";
const char *const GRAPH_PARALLEL_OPTION_PATH = "ge.graphParallelOptionPath";
const char *const INPUT_FORMAT = "input_format";
const char *const INPUT_SHAPE_RANGE = "input_shape_range";
const char *const INPUT_HINT_SHAPE = "ge.inputHintShape";
const char *const COMPRESS_WEIGHT_CONF = "compress_weight_conf";
const char *const ENABLE_PRINT_OP_PASS = "ge.enablePrintOpPass";
const char *const ENABLE_SINGLE_STREAM = "ge.enableSingleStream";
const char *const DEBUG_DIR = "ge.debugDir";
const char *const STATUS_CHECK = "ge.status_check";
const char *const OP_COMPILER_CACHE_DIR = "ge.op_compiler_cache_dir";
const char *const OP_COMPILER_CACHE_MODE = "ge.op_compiler_cache_mode";
const char *const BUILD_INNER_MODEL = "ge.build_inner_model";
const char *const FILE_CONSTANT_PATH = "ge.exec.value_bins";
const char *const OO_LEVEL = "ge.oo.level";
const char *const OO_CONSTANT_FOLDING = "ge.oo.constantFolding";
const char *const OO_DEAD_CODE_ELIMINATION = "ge.oo.deadCodeElimination";
const char *const OPTIMIZATION_SWITCH = "ge.optimizationSwitch";
const char *const kDynamicBatchSize = "ge.dynamicBatchSize";
const char *const kDynamicImageSize = "ge.dynamicImageSize";
const char *const kDynamicDims = "ge.dynamicDims";

namespace configure_option {
const char *const STREAM_NUM = "ge.streamNum";
const char *const HEAD_STREAM = "ge.headStream";
const char *const AC_PARALLEL_ENABLE = "ac_parallel_enable";
const char *const PERF_LEVEL = "ge.perfLevel";
const char *const FRAMEWORK_TYPE = "ge.frameworkType";
const char *const INSERT_OP_FILE = "ge.insertOpFile";
const char *const OUTPUT_NODE_NAME = "ge.outputNodeName";
const char *const PRECISION_MODE = "ge.exec.precision_mode";
const char *const PRECISION_MODE_V2 = "ge.exec.precision_mode_v2";
const char *const SINGLE_OP_FLAG = "ge.exec.single_op";
const char *const TRAIN_FLAG = "ge.trainFlag";
const char *const RUN_FLAG = "ge.runFlag";
const char *const STREAM_MAX_PARALLEL_NUM = "ge.streamMaxParallelNum";
const char *const OUTPUT_DATATYPE = "ge.outputDatatype";
const char *const OP_SELECT_IMPL_MODE = "ge.opSelectImplmode";
const char *const OPTYPELIST_FOR_IMPLMODE = "ge.optypelistForImplmode";
const char *const HCOM_PARALLEL = "ge.hcomParallel";
const char *const AUTO_TUNE_MODE = "ge.autoTuneMode";
const char *const SOC_VERSION = "ge.socVersion";
const char *const VIRTUAL_TYPE = "ge.virtual_type";
const char *const CORE_TYPE = "ge.engineType";
const char *const AICORE_NUM = "ge.aicoreNum";
const char *const L1_FUSION = "ge.l1Fusion";
const char *const BUFFER_OPTIMIZE = "ge.bufferOptimize";
const char *const ENABLE_SMALL_CHANNEL = "ge.enableSmallChannel";
const char *const ENABLE_COMPRESS_WEIGHT = "ge.enableCompressWeight";
const char *const FUSION_SWITCH_FILE = "ge.fusionSwitchFile";
const char *const OP_DEBUG_LEVEL = "ge.opDebugLevel";
const char *const OP_DEBUG_CONFIG = "op_debug_config";
const char *const OP_DEBUG_OPTION = "op_debug_option";
const char *const PERFORMANCE_MODE = "ge.performance_mode";
const char *const SHAPE_GENERALIZED_BUILD_MODE = "ge.shape_generalized_build_mode";
const char *const MODIFY_MIXLIST = "ge.exec.modify_mixlist";
const char *const OP_PRECISION_MODE = "ge.exec.op_precision_mode";
const char *const ALLOW_HF32 = "ge.exec.allow_hf32";
const char *const CUSTOMIZE_DTYPES = "ge.customizeDtypes";
const char *const ATOMIC_CLEAN_POLICY = "ge.exec.atomicCleanPolicy";
const char *const STATIC_MEMORY_POLICY = "ge.exec.staticMemoryPolicy";
const char *const EXTERNAL_WEIGHT = "ge.externalWeight";
const char *const QUANT_DUMPABLE = "ge.quant_dumpable";
const char *const DETERMINISTIC = "ge.deterministic";
const char *const DETERMINISTIC_LEVEL = "ge.deterministicLevel";
const char *const TILING_SCHEDULE_OPTIMIZE = "ge.tiling_schedule_optimize";
const char *const GRAPH_MAX_PARALLEL_MODEL_NUM = "ge.graphMaxParallelModelNum";
}  // namespace configure_option

/* The keys of aclgrphBuild* and of the parsers. */
namespace ir_option {
const char *const INPUT_FORMAT = "input_format";
const char *const INPUT_SHAPE = "input_shape";
const char *const INPUT_SHAPE_RANGE = "input_shape_range";
const char *const INPUT_DATA_NAMES = "input_data_names";
const char *const IS_INPUT_ADJUST_HW_LAYOUT = "is_input_adjust_hw_layout";
const char *const IS_OUTPUT_ADJUST_HW_LAYOUT = "is_output_adjust_hw_layout";
const char *const ENABLE_SCOPE_FUSION_PASSES = "enable_scope_fusion_passes";
const char *const OUTPUT = "output";
const char *const LOG_LEVEL = "log";
const char *const DYNAMIC_BATCH_SIZE = "ge.dynamicBatchSize";
const char *const DYNAMIC_IMAGE_SIZE = "ge.dynamicImageSize";
const char *const DYNAMIC_DIMS = "ge.dynamicDims";
const char *const INSERT_OP_FILE = "ge.insertOpFile";
const char *const OUTPUT_TYPE = "ge.outputDatatype";
const char *const OUT_NODES = "ge.outputNodeName";
const char *const INPUT_FP16_NODES = "ge.INPUT_NODES_SET_FP16";
const char *const PRECISION_MODE = "ge.exec.precision_mode";
const char *const PRECISION_MODE_V2 = "ge.exec.precision_mode_v2";
const char *const OP_SELECT_IMPL_MODE = "ge.opSelectImplmode";
const char *const OPTYPELIST_FOR_IMPLMODE = "ge.optypelistForImplmode";
const char *const EXEC_DISABLE_REUSED_MEMORY = "ge.exec.disableReuseMemory";
const char *const EXTERNAL_WEIGHT = "ge.externalWeight";
const char *const SOC_VERSION = "ge.socVersion";
const char *const VIRTUAL_TYPE = "ge.virtual_type";
const char *const CORE_TYPE = "ge.engineType";
const char *const AICORE_NUM = "ge.aicoreNum";
const char *const BUFFER_OPTIMIZE = "ge.bufferOptimize";
const char *const ENABLE_COMPRESS_WEIGHT = "ge.enableCompressWeight";
const char *const DEBUG_DIR = "ge.debugDir";
const char *const OP_COMPILER_CACHE_DIR = "ge.op_compiler_cache_dir";
const char *const OP_COMPILER_CACHE_MODE = "ge.op_compiler_cache_mode";
const char *const OP_DEBUG_LEVEL = "ge.opDebugLevel";
}  // namespace ir_option

#ifndef CAIRN_GE_RUNNER
/* The same keys as std::string, and some more. */
const std::string STREAM_NUM = "ge.streamNum";
const std::string HEAD_STREAM = "ge.headStream";
const std::string AC_PARALLEL_ENABLE = "ac_parallel_enable";
const std::string PERF_LEVEL = "ge.perfLevel";
const std::string FRAMEWORK_TYPE = "ge.frameworkType";
const std::string INSERT_OP_FILE = "ge.insertOpFile";
const std::string OUTPUT_NODE_NAME = "ge.outputNodeName";
const std::string PRECISION_MODE = "ge.exec.precision_mode";
const std::string PRECISION_MODE_V2 = "ge.exec.precision_mode_v2";
const std::string SINGLE_OP_FLAG = "ge.exec.single_op";
const std::string TRAIN_FLAG = "ge.trainFlag";
const std::string RUN_FLAG = "ge.runFlag";
const std::string STREAM_MAX_PARALLEL_NUM = "ge.streamMaxParallelNum";
const std::string OUTPUT_DATATYPE = "ge.outputDatatype";
const std::string OP_SELECT_IMPL_MODE = "ge.opSelectImplmode";
const std::string OPTYPELIST_FOR_IMPLMODE = "ge.optypelistForImplmode";
const std::string HCOM_PARALLEL = "ge.hcomParallel";
const std::string AUTO_TUNE_MODE = "ge.autoTuneMode";
const std::string SOC_VERSION = "ge.socVersion";
const std::string VIRTUAL_TYPE = "ge.virtual_type";
const std::string CORE_TYPE = "ge.engineType";
const std::string AICORE_NUM = "ge.aicoreNum";
const std::string L1_FUSION = "ge.l1Fusion";
const std::string BUFFER_OPTIMIZE = "ge.bufferOptimize";
const std::string ENABLE_SMALL_CHANNEL = "ge.enableSmallChannel";
const std::string ENABLE_COMPRESS_WEIGHT = "ge.enableCompressWeight";
const std::string FUSION_SWITCH_FILE = "ge.fusionSwitchFile";
const std::string OP_DEBUG_LEVEL = "ge.opDebugLevel";
const std::string OP_DEBUG_CONFIG = "op_debug_config";
const std::string OP_DEBUG_OPTION = "op_debug_option";
const std::string PERFORMANCE_MODE = "ge.performance_mode";
const std::string SHAPE_GENERALIZED_BUILD_MODE = "ge.shape_generalized_build_mode";
const std::string MODIFY_MIXLIST = "ge.exec.modify_mixlist";
const std::string OP_PRECISION_MODE = "ge.exec.op_precision_mode";
const std::string ALLOW_HF32 = "ge.exec.allow_hf32";
const std::string CUSTOMIZE_DTYPES = "ge.customizeDtypes";
const std::string ATOMIC_CLEAN_POLICY = "ge.exec.atomicCleanPolicy";
const std::string STATIC_MEMORY_POLICY = "ge.exec.staticMemoryPolicy";
const std::string EXTERNAL_WEIGHT = "ge.externalWeight";
const std::string QUANT_DUMPABLE = "ge.quant_dumpable";
const std::string DETERMINISTIC = "ge.deterministic";
const std::string DETERMINISTIC_LEVEL = "ge.deterministicLevel";
const std::string TILING_SCHEDULE_OPTIMIZE = "ge.tiling_schedule_optimize";
const std::string GRAPH_MAX_PARALLEL_MODEL_NUM = "ge.graphMaxParallelModelNum";
const std::string MEMORY_OPTIMIZATION_POLICY = "ge.exec.memoryOptimizationPolicy";
const std::string OPTION_EXEC_STREAM_SYNC_TIMEOUT = "stream_sync_timeout";
const std::string OPTION_EXEC_EVENT_SYNC_TIMEOUT = "event_sync_timeout";
const std::string TUNE_DEVICE_IDS = "ge.exec.tuneDeviceIds";
const std::string FUSION_TENSOR_SIZE = "ge.fusionTensorSize";
const std::string INPUT_SHAPE = "ge.inputShape";
const std::string OUTPUT_MAX_SIZE = "ge.outputMaxSize";
const std::string DYNAMIC_NODE_TYPE = "ge.dynamicNodeType";
const std::string EXCLUDE_ENGINES = "ge.exec.exclude_engines";
const std::string JIT_COMPILE = "ge.jit_compile";
const std::string OP_WAIT_TIMEOUT = "ge.exec.opWaitTimeout";
const std::string OP_EXECUTE_TIMEOUT = "ge.exec.opExecuteTimeout";
#endif

}  // namespace ge

#endif

#endif

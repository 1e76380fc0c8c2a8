/*
 * Models: files that were compiled before, loaded, described and run.
 */
#ifndef INC_EXTERNAL_ACL_ACL_MODEL_H_
#define INC_EXTERNAL_ACL_ACL_MODEL_H_

#include <stddef.h>
#include <stdint.h>
#include "acl_base.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Numbers in one entry of a range: its lower and its upper end. */
#define ACL_DIM_ENDPOINTS 2

/** The most dimensions that a tensor of a model has. */
#define ACL_MAX_DIM_CNT 128

/** Bytes of a name in aclmdlIODims, with the zero at its end. */
#define ACL_MAX_TENSOR_NAME_LEN 128

/** The most entries of aclmdlBatch. */
#define ACL_MAX_BATCH_NUM 128

/** The most entries of aclmdlHW. */
#define ACL_MAX_HW_NUM 128

/** The most entries of aclAippInfo's `outDims`. */
#define ACL_MAX_SHAPE_COUNT 128

/** The result of aclmdlGetAippType where no input is attached. */
#define ACL_INVALID_NODE_INDEX 0xFFFFFFFF

/* Values of ACL_MDL_LOAD_TYPE_SIZET: the source of the model, and whose memory it is loaded into. */
#define ACL_MDL_LOAD_FROM_FILE 1
#define ACL_MDL_LOAD_FROM_FILE_WITH_MEM 2
#define ACL_MDL_LOAD_FROM_MEM 3
#define ACL_MDL_LOAD_FROM_MEM_WITH_MEM 4
#define ACL_MDL_LOAD_FROM_FILE_WITH_Q 5
#define ACL_MDL_LOAD_FROM_MEM_WITH_Q 6

/** The input that selects a gear. */
#define ACL_DYNAMIC_TENSOR_NAME "ascend_mbatch_shape_data"

/** The input with the parameters of dynamic AIPP. */
#define ACL_DYNAMIC_AIPP_NAME "ascend_dynamic_aipp_data"

/** The only attribute that aclmdlGetOpAttr supports: the operators that a node was fused from. */
#define ACL_ATTR_NAME_DATA_DUMP_ORIGIN_OP_NAMES "_datadump_original_op_names"

/* Values of ACL_MDL_WORKSPACE_MEM_OPTIMIZE. */
#define ACL_WORKSPACE_MEM_OPTIMIZE_DEFAULT 0
#define ACL_WORKSPACE_MEM_OPTIMIZE_INPUTOUTPUT 1

/* Kinds of streams of a model. */
#define ACL_MODEL_STREAM_FLAG_HEAD 0x00000000U
#define ACL_MODEL_STREAM_FLAG_DEFAULT 0x7FFFFFFFU

/** The inputs or the outputs of one run of a model. It keeps buffers, and owns none. */
typedef struct aclmdlDataset aclmdlDataset;

/** The inputs and outputs of a model: a copy, which stays valid after the model is unloaded. */
typedef struct aclmdlDesc aclmdlDesc;

/** Parameters of image preprocessing. */
typedef struct aclmdlAIPP aclmdlAIPP;

/** An extension of aclAippInfo; always NULL. */
typedef struct aclAippExtendInfo aclAippExtendInfo;

/** How a model is loaded. */
typedef struct aclmdlConfigHandle aclmdlConfigHandle;

/** How a model is run. */
typedef struct aclmdlExecConfigHandle aclmdlExecConfigHandle;

/** The result of a query of a file of several models. */
typedef struct aclmdlBundleQueryInfo aclmdlBundleQueryInfo;

/** A model built in this process. */
typedef struct aclmdlModel aclmdlModel;

/** The formats of images. */
typedef enum {
    ACL_YUV420SP_U8 = 1,
    ACL_XRGB8888_U8 = 2,
    ACL_RGB888_U8 = 3,
    ACL_YUV400_U8 = 4,
    ACL_NC1HWC0DI_FP16 = 5,
    ACL_NC1HWC0DI_S8 = 6,
    ACL_ARGB8888_U8 = 7,
    ACL_YUYV_U8 = 8,
    ACL_YUV422SP_U8 = 9,
    ACL_AYUV444_U8 = 10,
    ACL_RAW10 = 11,
    ACL_RAW12 = 12,
    ACL_RAW16 = 13,
    ACL_RAW24 = 14,
    ACL_AIPP_RESERVED = 0xFFFF
} aclAippInputFormat;

/** The options of aclmdlSetConfigOpt. The suffix is the type of the value. */
typedef enum {
    ACL_MDL_PRIORITY_INT32 = 0,
    ACL_MDL_LOAD_TYPE_SIZET = 1,
    ACL_MDL_PATH_PTR = 2,
    ACL_MDL_MEM_ADDR_PTR = 3,
    ACL_MDL_MEM_SIZET = 4,
    ACL_MDL_WEIGHT_ADDR_PTR = 5,
    ACL_MDL_WEIGHT_SIZET = 6,
    ACL_MDL_WORKSPACE_ADDR_PTR = 7,
    ACL_MDL_WORKSPACE_SIZET = 8,
    ACL_MDL_INPUTQ_NUM_SIZET = 9,
    ACL_MDL_INPUTQ_ADDR_PTR = 10,
    ACL_MDL_OUTPUTQ_NUM_SIZET = 11,
    ACL_MDL_OUTPUTQ_ADDR_PTR = 12,
    ACL_MDL_WORKSPACE_MEM_OPTIMIZE = 13,
    ACL_MDL_WEIGHT_PATH_PTR = 14,
    ACL_MDL_MODEL_DESC_PTR = 15,
    ACL_MDL_MODEL_DESC_SIZET = 16,
    ACL_MDL_KERNEL_PTR = 17,
    ACL_MDL_KERNEL_SIZET = 18,
    ACL_MDL_KERNEL_ARGS_PTR = 19,
    ACL_MDL_KERNEL_ARGS_SIZET = 20,
    ACL_MDL_STATIC_TASK_PTR = 21,
    ACL_MDL_STATIC_TASK_SIZET = 22,
    ACL_MDL_DYNAMIC_TASK_PTR = 23,
    ACL_MDL_DYNAMIC_TASK_SIZET = 24,
    ACL_MDL_MEM_MALLOC_POLICY_SIZET = 25,
    ACL_MDL_FIFO_PTR = 26,
    ACL_MDL_FIFO_SIZET = 27,
    ACL_MDL_WITHOUT_GRAPH_INT32 = 28,
    ACL_NPU_PERF_MODE = 29,
    ACL_MDL_RESERVED = 0xFFFF
} aclmdlConfigAttr;

/** Attributes of a loaded model. */
typedef enum {
    ACL_MDL_ATTR_PRIORITY_INT32 = 0
} aclmdlAttr;

/** The value of an attribute. */
typedef union {
    /** 0, the highest, to 7. */
    uint32_t mdlPriority;
    uint32_t reserved[8];
} aclmdlAttrValue_t;

/** The options of aclmdlSetExecConfigOpt. */
typedef enum {
    ACL_MDL_STREAM_SYNC_TIMEOUT = 0,
    ACL_MDL_EVENT_SYNC_TIMEOUT = 1,
    ACL_MDL_WORK_ADDR_PTR = 2,
    ACL_MDL_WORK_SIZET = 3,
    ACL_MDL_MPAIMID_SIZET = 4,
    ACL_MDL_AICQOS_SIZET = 5,
    ACL_MDL_AICOST_SIZET = 6,
    ACL_MDL_MEC_TIMETHR_SIZET = 7,
    ACL_MDL_EXEC_PRIORITY_INT32 = 8,
    ACL_MDL_NPU_PERF_MODE = 9
} aclmdlExecConfigAttr;

/** How the images of an input are preprocessed. */
typedef enum {
    ACL_DATA_WITHOUT_AIPP = 0,
    ACL_DATA_WITH_STATIC_AIPP = 1,
    ACL_DATA_WITH_DYNAMIC_AIPP = 2,
    ACL_DYNAMIC_AIPP_NODE = 3
} aclmdlInputAippType;

/** The shape of an input or output. */
typedef struct aclmdlIODims {
    char name[ACL_MAX_TENSOR_NAME_LEN];
    size_t dimCount;
    int64_t dims[ACL_MAX_DIM_CNT];
} aclmdlIODims;

/** The range of each dimension of an input; -1 for no upper end. */
typedef struct aclmdlIODimsRange {
    size_t rangeCount;
    int64_t range[ACL_MAX_DIM_CNT][ACL_DIM_ENDPOINTS];
} aclmdlIODimsRange;

/** The batch sizes that a model was built for. */
typedef struct aclmdlBatch {
    size_t batchCount;
    uint64_t batch[ACL_MAX_BATCH_NUM];
} aclmdlBatch;

/** The heights and widths that a model was built for. */
typedef struct aclmdlHW {
    size_t hwCount;
    uint64_t hw[ACL_MAX_HW_NUM][2];
} aclmdlHW;

/** Shapes of an image before and after preprocessing. */
typedef struct aclAippDims {
    aclmdlIODims srcDims;
    size_t srcSize;
    aclmdlIODims aippOutdims;
    size_t aippOutSize;
} aclAippDims;

/** How a model preprocesses the images of an input. */
typedef struct aclAippInfo {
    aclAippInputFormat inputFormat;
    int32_t srcImageSizeW;
    int32_t srcImageSizeH;
    int8_t cropSwitch;
    int32_t loadStartPosW;
    int32_t loadStartPosH;
    int32_t cropSizeW;
    int32_t cropSizeH;
    int8_t resizeSwitch;
    int32_t resizeOutputW;
    int32_t resizeOutputH;
    int8_t paddingSwitch;
    int32_t leftPaddingSize;
    int32_t rightPaddingSize;
    int32_t topPaddingSize;
    int32_t bottomPaddingSize;
    int8_t cscSwitch;
    int8_t rbuvSwapSwitch;
    int8_t axSwapSwitch;
    int8_t singleLineMode;
    int32_t matrixR0C0;
    int32_t matrixR0C1;
    int32_t matrixR0C2;
    int32_t matrixR1C0;
    int32_t matrixR1C1;
    int32_t matrixR1C2;
    int32_t matrixR2C0;
    int32_t matrixR2C1;
    int32_t matrixR2C2;
    int32_t outputBias0;
    int32_t outputBias1;
    int32_t outputBias2;
    int32_t inputBias0;
    int32_t inputBias1;
    int32_t inputBias2;
    int32_t meanChn0;
    int32_t meanChn1;
    int32_t meanChn2;
    int32_t meanChn3;
    float minChn0;
    float minChn1;
    float minChn2;
    float minChn3;
    float varReciChn0;
    float varReciChn1;
    float varReciChn2;
    float varReciChn3;
    aclFormat srcFormat;
    aclDataType srcDatatype;
    size_t srcDimNum;
    size_t shapeCount;
    aclAippDims outDims[ACL_MAX_SHAPE_COUNT];
    aclAippExtendInfo *aippExtend;
} aclAippInfo;

/** Sizes of the parts of a model for another product. */
typedef struct aclmdlExeOMDesc {
    size_t workSize;
    size_t weightSize;
    size_t modelDescSize;
    size_t kernelSize;
    size_t kernelArgsSize;
    size_t staticTaskSize;
    size_t dynamicTaskSize;
    size_t fifoTaskSize;
    size_t reserved[8];
} aclmdlExeOMDesc;

/* Loading. A model is a file of this toolkit's atc (.om), or one of ONNX (.onnx). */

/** Loads a model from a file into device memory and returns its id. Waits until the model is ready. */
aclError aclmdlLoadFromFile(const char *modelPath, uint32_t *modelId);

/**
 * The same into device memory of the caller, of at least the sizes of aclmdlQuerySize, which must stay valid
 * until the model is unloaded. With NULL the library allocates.
 */
aclError aclmdlLoadFromFileWithMem(
    const char *modelPath, uint32_t *modelId, void *workPtr, size_t workSize, void *weightPtr,
    size_t weightSize);

/** Loads a model whose inputs and outputs are queues. Not supported. */
aclError aclmdlLoadFromFileWithQ(
    const char *modelPath, uint32_t *modelId, const uint32_t *inputQ, size_t inputQNum,
    const uint32_t *outputQ, size_t outputQNum);

/** Loads a model from host memory, which may be freed afterwards. */
aclError aclmdlLoadFromMem(const void *model, size_t modelSize, uint32_t *modelId);

/** The same into memory of the caller, as aclmdlLoadFromFileWithMem. */
aclError aclmdlLoadFromMemWithMem(
    const void *model, size_t modelSize, uint32_t *modelId, void *workPtr, size_t workSize,
    void *weightPtr, size_t weightSize);

/** Loads a model whose inputs and outputs are queues. Not supported. */
aclError aclmdlLoadFromMemWithQ(
    const void *model, size_t modelSize, uint32_t *modelId, const uint32_t *inputQ,
    size_t inputQNum, const uint32_t *outputQ, size_t outputQNum);

/** Loads as configured: a load type, and the options that this type needs. */
aclError aclmdlLoadWithConfig(const aclmdlConfigHandle *handle, uint32_t *modelId);

/**
 * Loads a model that aclgrphBuildModelFromFile or aclgrphBuildModelFromData built in this process. The priority, memory
 * and weights of `handle` are used; it needs no load type.
 */
aclError aclmdlLoadFromModel(
    const aclmdlModel *model, const aclmdlConfigHandle *handle, uint32_t *modelId);

/**
 * Unloads a model and frees its memory, without waiting: queued runs finish. aclFinalize unloads every
 * model.
 */
aclError aclmdlUnload(uint32_t modelId);

/** Creates an empty configuration of a load; NULL on failure. */
aclmdlConfigHandle *aclmdlCreateConfigHandle(void);

/** Destroys a configuration of a load. */
aclError aclmdlDestroyConfigHandle(aclmdlConfigHandle *handle);

/**
 * Sets one option of a load. `attrValue` points to an int32_t, a size_t or a pointer, and `valueSize` is
 * the size of that. Paths are copied, memory is not.
 */
aclError aclmdlSetConfigOpt(
    aclmdlConfigHandle *handle, aclmdlConfigAttr attr, const void *attrValue, size_t valueSize);

/**
 * Names device memory that holds a weight file of the model; `size` is a multiple of 32. The load copies
 * it.
 */
aclError aclmdlSetExternalWeightAddress(
    aclmdlConfigHandle *handle, const char *weightFileName, void *devPtr, size_t size);

/** The memory in bytes that the model in a file needs for runs (0 for a dynamic-shape model) and for weights. */
aclError aclmdlQuerySize(const char *fileName, size_t *workSize, size_t *weightSize);

/** The same of a model in host memory. */
aclError aclmdlQuerySizeFromMem(
    const void *model, size_t modelSize, size_t *workSize, size_t *weightSize);

/** Sizes of the parts of a model for another product. Not supported. */
aclError aclmdlQueryExeOMDesc(const char *fileName, aclmdlExeOMDesc *mdlPartitionSize);

/* Descriptions. */

/** Creates an empty description; NULL on failure. */
aclmdlDesc *aclmdlCreateDesc(void);

/** Destroys a description, and the strings that it returned. */
aclError aclmdlDestroyDesc(aclmdlDesc *modelDesc);

/** Fills the description from a loaded model; its previous content is gone. */
aclError aclmdlGetDesc(aclmdlDesc *modelDesc, uint32_t modelId);

/** Fills the description from a file, without loading the model. */
aclError aclmdlGetDescFromFile(aclmdlDesc *modelDesc, const char *modelPath);

/** Fills the description from a model in host memory, without loading it. */
aclError aclmdlGetDescFromMem(aclmdlDesc *modelDesc, const void *model, size_t modelSize);

/** The number of inputs, including the one that selects a gear; 0 for an invalid description. */
size_t aclmdlGetNumInputs(aclmdlDesc *modelDesc);

/** The number of outputs; 0 for an invalid description. */
size_t aclmdlGetNumOutputs(aclmdlDesc *modelDesc);

/** The largest size of an input in bytes; 0 if it is unbounded, or for a bad index. */
size_t aclmdlGetInputSizeByIndex(aclmdlDesc *modelDesc, size_t index);

/** The largest size of an output in bytes; 0 if it is unbounded, or for a bad index. */
size_t aclmdlGetOutputSizeByIndex(aclmdlDesc *modelDesc, size_t index);

/** The shape of an input; -1 for a dimension that a gear or a run decides. */
aclError aclmdlGetInputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/** The shape of an input as the caller passes it: that of the image if the model preprocesses images. */
aclError aclmdlGetInputDimsV2(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/** The range of each dimension of an input; none with gears. */
aclError aclmdlGetInputDimsRange(
    const aclmdlDesc *modelDesc, size_t index, aclmdlIODimsRange *dimsRange);

/** The shape of an output, in the largest gear; -1 for a dimension that a run decides. */
aclError aclmdlGetOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/** The shape of an output in the gear set last. Fails for a dynamic-shape model. */
aclError aclmdlGetCurOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/** The full name of a tensor, by its name in aclmdlIODims; NULL if there is none. */
const char *aclmdlGetTensorRealName(const aclmdlDesc *modelDesc, const char *name);

/** ACL_ATTR_NAME_DATA_DUMP_ORIGIN_OP_NAMES of an operator of a loaded model, maybe empty; NULL on failure. */
const char *aclmdlGetOpAttr(aclmdlDesc *modelDesc, const char *opName, const char *attr);

/** The name of an input; "" if there is none. */
const char *aclmdlGetInputNameByIndex(const aclmdlDesc *modelDesc, size_t index);

/** The name of an output; "" if there is none. */
const char *aclmdlGetOutputNameByIndex(const aclmdlDesc *modelDesc, size_t index);

/** The format of an input; ACL_FORMAT_UNDEFINED if there is none. */
aclFormat aclmdlGetInputFormat(const aclmdlDesc *modelDesc, size_t index);

/** The format of an output; ACL_FORMAT_UNDEFINED if there is none. */
aclFormat aclmdlGetOutputFormat(const aclmdlDesc *modelDesc, size_t index);

/** The element type of an input; ACL_DT_UNDEFINED if there is none. */
aclDataType aclmdlGetInputDataType(const aclmdlDesc *modelDesc, size_t index);

/** The element type of an output; ACL_DT_UNDEFINED if there is none. */
aclDataType aclmdlGetOutputDataType(const aclmdlDesc *modelDesc, size_t index);

/** The index of the input with this name. */
aclError aclmdlGetInputIndexByName(const aclmdlDesc *modelDesc, const char *name, size_t *index);

/** The index of the output with this name. */
aclError aclmdlGetOutputIndexByName(const aclmdlDesc *modelDesc, const char *name, size_t *index);

/* Gears: the shapes that a model was built for. The last input, ACL_DYNAMIC_TENSOR_NAME, selects one. */

/** The batch gears; 0 of them in other models. */
aclError aclmdlGetDynamicBatch(const aclmdlDesc *modelDesc, aclmdlBatch *batch);

/** The image gears; 0 of them in other models. `index` has no effect. */
aclError aclmdlGetDynamicHW(const aclmdlDesc *modelDesc, size_t index, aclmdlHW *hw);

/** The number of dims gears. `index` must be (size_t)-1. */
aclError aclmdlGetInputDynamicGearCount(
    const aclmdlDesc *modelDesc, size_t index, size_t *gearCount);

/** The shapes of all inputs, concatenated, in each dims gear; `dims` has room for `gearCount`. */
aclError aclmdlGetInputDynamicDims(
    const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims, size_t gearCount);

/** Selects a batch gear for runs with this data set, and writes it into buffer `index`, the last one. */
aclError aclmdlSetDynamicBatchSize(
    uint32_t modelId, aclmdlDataset *dataset, size_t index, uint64_t batchSize);

/** Selects an image gear. */
aclError aclmdlSetDynamicHWSize(
    uint32_t modelId, aclmdlDataset *dataset, size_t index, uint64_t height, uint64_t width);

/** Selects a dims gear by the shapes of all inputs, concatenated. */
aclError aclmdlSetInputDynamicDims(
    uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlIODims *dims);

/* Data sets. */

/** Creates an empty data set; NULL on failure. */
aclmdlDataset *aclmdlCreateDataset(void);

/** Destroys a data set and its tensor descriptions, not its buffers. */
aclError aclmdlDestroyDataset(const aclmdlDataset *dataset);

/** Appends a buffer. It stays the caller's, and each run reads its address and size. */
aclError aclmdlAddDatasetBuffer(aclmdlDataset *dataset, aclDataBuffer *dataBuffer);

/** The number of buffers; 0 for an invalid data set. */
size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset *dataset);

/** The buffer of this index; NULL if there is none. */
aclDataBuffer *aclmdlGetDatasetBuffer(const aclmdlDataset *dataset, size_t index);

/** Sets the shape of the tensor of this index for runs: a copy of the description; NULL removes it. */
aclError aclmdlSetDatasetTensorDesc(
    aclmdlDataset *dataset, aclTensorDesc *tensorDesc, size_t index);

/**
 * The description of the tensor of this index, or NULL. It belongs to the data set, and is replaced by the next
 * run of a dynamic-shape model.
 */
aclTensorDesc *aclmdlGetDatasetTensorDesc(const aclmdlDataset *dataset, size_t index);

/* Runs. */

/**
 * Runs a model and waits. For an output buffer without an address it allocates memory, which the caller frees
 * by aclrtFree, and sets address and size in the buffer.
 */
aclError aclmdlExecute(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output);

/**
 * Submits a run and returns. Data sets and buffers may be destroyed at once; their memory must stay valid until
 * the stream is synchronized. Every output needs memory. A dynamic-shape model takes all other memory from the
 * allocator that is registered on the stream.
 */
aclError aclmdlExecuteAsync(
    uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream stream);

/**
 * Runs a model and waits up to the configured time: on the stream, or for a dynamic-shape model on a stream of
 * its own.
 */
aclError aclmdlExecuteV2(
    uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream stream,
    const aclmdlExecConfigHandle *handle);

/** Submits a run as aclmdlExecuteAsync does, without the registered allocator. */
aclError aclmdlExecuteAsyncV2(
    uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream stream,
    const aclmdlExecConfigHandle *handle);

/** Creates a configuration of runs without timeouts; NULL on failure. */
aclmdlExecConfigHandle *aclmdlCreateExecConfigHandle(void);

/** Destroys a configuration of runs. */
aclError aclmdlDestroyExecConfigHandle(const aclmdlExecConfigHandle *handle);

/** Sets the timeout of streams or events: milliseconds as int32_t, -1 for none. */
aclError aclmdlSetExecConfigOpt(
    aclmdlExecConfigHandle *handle, aclmdlExecConfigAttr attr, const void *attrValue,
    size_t valueSize);

/** Sets the priority of a loaded model: that of its own stream, which runs without a caller's stream use. */
aclError aclmdlSetAttribute(uint32_t modelId, aclmdlAttr attr, aclmdlAttrValue_t *attrValue);

/** The priority of a loaded model. */
aclError aclmdlGetAttribute(uint32_t modelId, aclmdlAttr attr, aclmdlAttrValue_t *attrValue);

/** Name and tensors of the operator of a failed task. Not supported: always fails with 500002. */
aclError aclmdlCreateAndGetOpDesc(
    uint32_t deviceId, uint32_t streamId, uint32_t taskId, char *opName, size_t opNameLen,
    aclTensorDesc **inputDesc, size_t *numInputs, aclTensorDesc **outputDesc, size_t *numOutputs);

/** Recovers the communication tasks of a device. Not supported. */
aclError aclRecoverAllHcclTasks(int32_t deviceId);

/* Bundles: files of several models. Not supported: loads and ids are refused. */

/** Creates an empty query result; NULL on failure. */
aclmdlBundleQueryInfo *aclmdlBundleCreateQueryInfo(void);

/** Destroys a query result. */
aclError aclmdlBundleDestroyQueryInfo(aclmdlBundleQueryInfo *queryInfo);

/** Queries a file of several models. */
aclError aclmdlBundleQueryInfoFromFile(const char *fileName, aclmdlBundleQueryInfo *queryInfo);

/** Queries host memory. */
aclError aclmdlBundleQueryInfoFromMem(
    const void *model, size_t modelSize, aclmdlBundleQueryInfo *queryInfo);

/** The number of models in a query result; 0 before a query. */
aclError aclmdlBundleGetQueryModelNum(const aclmdlBundleQueryInfo *queryInfo, size_t *modelNum);

/** The memory in bytes that one of them needs for runs and constants. */
aclError aclmdlBundleGetSize(
    const aclmdlBundleQueryInfo *queryInfo, size_t index, size_t *workSize,
    size_t *constWeightSize);

/** The memory in bytes of their shared variables; 0 before a query. */
aclError aclmdlBundleGetVarWeightSize(
    const aclmdlBundleQueryInfo *queryInfo, size_t *variableWeightSize);

/** Opens a bundle without loading its models. */
aclError aclmdlBundleInitFromFile(
    const char *modelPath, void *varWeightPtr, size_t varWeightSize, uint32_t *bundleId);

/** The same from host memory. */
aclError aclmdlBundleInitFromMem(
    const void *model, size_t modelSize, void *varWeightPtr, size_t varWeightSize,
    uint32_t *bundleId);

/** Opens a bundle and loads all of its models. */
aclError aclmdlBundleLoadFromFile(const char *modelPath, uint32_t *bundleId);

/** The same from host memory. */
aclError aclmdlBundleLoadFromMem(const void *model, size_t modelSize, uint32_t *bundleId);

/** Loads one model of a bundle. */
aclError aclmdlBundleLoadModel(uint32_t bundleId, size_t index, uint32_t *modelId);

/** The same into memory of the caller. */
aclError aclmdlBundleLoadModelWithMem(
    uint32_t bundleId, size_t index, void *workPtr, size_t workSize, void *weightPtr,
    size_t weightSize, uint32_t *modelId);

/** The same with a configuration. */
aclError aclmdlBundleLoadModelWithConfig(
    uint32_t bundleId, size_t index, aclmdlConfigHandle *handle, uint32_t *modelId);

/** The number of models of a bundle. */
aclError aclmdlBundleGetModelNum(uint32_t bundleId, size_t *modelNum);

/** The id of a loaded model of a bundle. */
aclError aclmdlBundleGetModelId(uint32_t bundleId, size_t index, uint32_t *modelId);

/** Unloads one model of a bundle. */
aclError aclmdlBundleUnloadModel(uint32_t bundleId, uint32_t modelId);

/** Unloads a bundle with all of its models. */
aclError aclmdlBundleUnload(uint32_t bundleId);

/* Dynamic AIPP: image preprocessing with parameters for each run. No model has it: they are checked and stored. */

/** Creates parameters for a batch of images; NULL for 0 images. */
aclmdlAIPP *aclmdlCreateAIPP(uint64_t batchSize);

/** Destroys parameters. */
aclError aclmdlDestroyAIPP(const aclmdlAIPP *aippParmsSet);

/** Bytes of the input ACL_DYNAMIC_AIPP_NAME for a batch of images. */
aclError aclmdlGetAippDataSize(uint64_t batchSize, size_t *size);

/** Sets the format of the images. */
aclError aclmdlSetAIPPInputFormat(aclmdlAIPP *aippParmsSet, aclAippInputFormat inputFormat);

/** Sets the matrix and biases of the color conversion. */
aclError aclmdlSetAIPPCscParams(
    aclmdlAIPP *aippParmsSet, int8_t cscSwitch, int16_t cscMatrixR0C0, int16_t cscMatrixR0C1,
    int16_t cscMatrixR0C2, int16_t cscMatrixR1C0, int16_t cscMatrixR1C1, int16_t cscMatrixR1C2,
    int16_t cscMatrixR2C0, int16_t cscMatrixR2C1, int16_t cscMatrixR2C2, uint8_t cscOutputBiasR0,
    uint8_t cscOutputBiasR1, uint8_t cscOutputBiasR2, uint8_t cscInputBiasR0,
    uint8_t cscInputBiasR1, uint8_t cscInputBiasR2);

/** Sets whether R and B, or U and V, are swapped. */
aclError aclmdlSetAIPPRbuvSwapSwitch(aclmdlAIPP *aippParmsSet, int8_t rbuvSwapSwitch);

/** Sets whether the fourth channel comes first. */
aclError aclmdlSetAIPPAxSwapSwitch(aclmdlAIPP *aippParmsSet, int8_t axSwapSwitch);

/** Sets the size of the images. */
aclError aclmdlSetAIPPSrcImageSize(
    aclmdlAIPP *aippParmsSet, int32_t srcImageSizeW, int32_t srcImageSizeH);

/** Sets the sizes before and after scaling. */
aclError aclmdlSetAIPPScfParams(
    aclmdlAIPP *aippParmsSet, int8_t scfSwitch, int32_t scfInputSizeW, int32_t scfInputSizeH,
    int32_t scfOutputSizeW, int32_t scfOutputSizeH, uint64_t batchIndex);

/** Sets the crop of an image. */
aclError aclmdlSetAIPPCropParams(
    aclmdlAIPP *aippParmsSet, int8_t cropSwitch, int32_t cropStartPosW, int32_t cropStartPosH,
    int32_t cropSizeW, int32_t cropSizeH, uint64_t batchIndex);

/** Sets the padding of an image. */
aclError aclmdlSetAIPPPaddingParams(
    aclmdlAIPP *aippParmsSet, int8_t paddingSwitch, int32_t paddingSizeTop,
    int32_t paddingSizeBottom, int32_t paddingSizeLeft, int32_t paddingSizeRight,
    uint64_t batchIndex);

/** Sets the mean of each channel, which is subtracted. */
aclError aclmdlSetAIPPDtcPixelMean(
    aclmdlAIPP *aippParmsSet, int16_t dtcPixelMeanChn0, int16_t dtcPixelMeanChn1,
    int16_t dtcPixelMeanChn2, int16_t dtcPixelMeanChn3, uint64_t batchIndex);

/** Sets the minimum of each channel, which is subtracted too. */
aclError aclmdlSetAIPPDtcPixelMin(
    aclmdlAIPP *aippParmsSet, float dtcPixelMinChn0, float dtcPixelMinChn1,
    float dtcPixelMinChn2, float dtcPixelMinChn3, uint64_t batchIndex);

/** Sets the factor of each channel. */
aclError aclmdlSetAIPPPixelVarReci(
    aclmdlAIPP *aippParmsSet, float dtcPixelVarReciChn0, float dtcPixelVarReciChn1,
    float dtcPixelVarReciChn2, float dtcPixelVarReciChn3, uint64_t batchIndex);

/** Sets the parameters of runs, by the index of the input ACL_DYNAMIC_AIPP_NAME. Fails: no model has it. */
aclError aclmdlSetInputAIPP(
    uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlAIPP *aippParmsSet);

/** The same by the index of the image input. */
aclError aclmdlSetAIPPByInputIndex(
    uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlAIPP *aippParmsSet);

/** How the images of an input are preprocessed, and which input has the parameters. */
aclError aclmdlGetAippType(
    uint32_t modelId, size_t index, aclmdlInputAippType *type, size_t *dynamicAttachedDataIndex);

/** The parameters of static preprocessing of an input. Fails: no model has it. */
aclError aclmdlGetFirstAippInfo(uint32_t modelId, size_t index, aclAippInfo *aippInfo);

#ifdef __cplusplus
}
#endif

#endif

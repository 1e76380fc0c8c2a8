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

/** What aclmdlGetAippType gives where no input is attached. */
#define ACL_INVALID_NODE_INDEX 0xFFFFFFFF

/* Values of ACL_MDL_LOAD_TYPE_SIZET: where the model is, and whose memory it is loaded into. */
#define ACL_MDL_LOAD_FROM_FILE 1
#define ACL_MDL_LOAD_FROM_FILE_WITH_MEM 2
#define ACL_MDL_LOAD_FROM_MEM 3
#define ACL_MDL_LOAD_FROM_MEM_WITH_MEM 4
#define ACL_MDL_LOAD_FROM_FILE_WITH_Q 5
#define ACL_MDL_LOAD_FROM_MEM_WITH_Q 6

/** The input that chooses a gear. */
#define ACL_DYNAMIC_TENSOR_NAME "ascend_mbatch_shape_data"

/** The input with the parameters of dynamic AIPP. */
#define ACL_DYNAMIC_AIPP_NAME "ascend_dynamic_aipp_data"

/** The one attribute that aclmdlGetOpAttr knows: the operators that a node was made of. */
#define ACL_ATTR_NAME_DATA_DUMP_ORIGIN_OP_NAMES "_datadump_original_op_names"

/* Values of ACL_MDL_WORKSPACE_MEM_OPTIMIZE. */
#define ACL_WORKSPACE_MEM_OPTIMIZE_DEFAULT 0
#define ACL_WORKSPACE_MEM_OPTIMIZE_INPUTOUTPUT 1

/* Kinds of streams of a model. */
#define ACL_MODEL_STREAM_FLAG_HEAD 0x00000000U
#define ACL_MODEL_STREAM_FLAG_DEFAULT 0x7FFFFFFFU

/** The inputs or the outputs of one run of a model. It keeps buffers, and owns none. */
typedef struct aclmdlDataset aclmdlDataset;

/** What a model takes and gives: a copy, which stays after the model is unloaded. */
typedef struct aclmdlDesc aclmdlDesc;

/** Parameters of the preparation of images. */
typedef struct aclmdlAIPP aclmdlAIPP;

/** More of aclAippInfo; always absent. */
typedef struct aclAippExtendInfo aclAippExtendInfo;

/** How a model is loaded. */
typedef struct aclmdlConfigHandle aclmdlConfigHandle;

/** How a model is run. */
typedef struct aclmdlExecConfigHandle aclmdlExecConfigHandle;

/** What is in a file of several models. */
typedef struct aclmdlBundleQueryInfo aclmdlBundleQueryInfo;

/** A model that was built in this process. */
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

/** What aclmdlSetConfigOpt sets. The ending says what the value is. */
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

/** What can be set of a loaded model. */
typedef enum {
    ACL_MDL_ATTR_PRIORITY_INT32 = 0
} aclmdlAttr;

/** A value of that. */
typedef union {
    /** 0, the highest, to 7. */
    uint32_t mdlPriority;
    uint32_t reserved[8];
} aclmdlAttrValue_t;

/** What aclmdlSetExecConfigOpt sets. */
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

/** How images of an input are prepared. */
typedef enum {
    ACL_DATA_WITHOUT_AIPP = 0,
    ACL_DATA_WITH_STATIC_AIPP = 1,
    ACL_DATA_WITH_DYNAMIC_AIPP = 2,
    ACL_DYNAMIC_AIPP_NODE = 3
} aclmdlInputAippType;

/** The sizes of an input or output. */
typedef struct aclmdlIODims {
    char name[ACL_MAX_TENSOR_NAME_LEN];
    size_t dimCount;
    int64_t dims[ACL_MAX_DIM_CNT];
} aclmdlIODims;

/** The least and the greatest of each size of an input; -1 for no upper end. */
typedef struct aclmdlIODimsRange {
    size_t rangeCount;
    int64_t range[ACL_MAX_DIM_CNT][ACL_DIM_ENDPOINTS];
} aclmdlIODimsRange;

/** The numbers of a batch that a model was built for. */
typedef struct aclmdlBatch {
    size_t batchCount;
    uint64_t batch[ACL_MAX_BATCH_NUM];
} aclmdlBatch;

/** The heights and widths that a model was built for. */
typedef struct aclmdlHW {
    size_t hwCount;
    uint64_t hw[ACL_MAX_HW_NUM][2];
} aclmdlHW;

/** Sizes of an image before and after its preparation. */
typedef struct aclAippDims {
    aclmdlIODims srcDims;
    size_t srcSize;
    aclmdlIODims aippOutdims;
    size_t aippOutSize;
} aclAippDims;

/** How a model prepares the images of an input. */
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

/** Bytes of the parts of a model of another product. */
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

/** Loads a model from a file into memory of the device, and gives its id. Waits until it is ready. */
aclError aclmdlLoadFromFile(const char *modelPath, uint32_t *modelId);

/**
 * The same into memory of the program: at least as much as aclmdlQuerySize says, on the device, until
 * the model is unloaded. NULL stands for memory of the library's own.
 */
aclError aclmdlLoadFromFileWithMem(
    const char *modelPath, uint32_t *modelId, void *workPtr, size_t workSize, void *weightPtr,
    size_t weightSize);

/** Loads a model that takes and gives by queues. Not supported. */
aclError aclmdlLoadFromFileWithQ(
    const char *modelPath, uint32_t *modelId, const uint32_t *inputQ, size_t inputQNum,
    const uint32_t *outputQ, size_t outputQNum);

/** Loads a model from host memory, which may go once it is loaded. */
aclError aclmdlLoadFromMem(const void *model, size_t modelSize, uint32_t *modelId);

/** The same into memory of the program, as aclmdlLoadFromFileWithMem. */
aclError aclmdlLoadFromMemWithMem(
    const void *model, size_t modelSize, uint32_t *modelId, void *workPtr, size_t workSize,
    void *weightPtr, size_t weightSize);

/** Loads a model that takes and gives by queues. Not supported. */
aclError aclmdlLoadFromMemWithQ(
    const void *model, size_t modelSize, uint32_t *modelId, const uint32_t *inputQ,
    size_t inputQNum, const uint32_t *outputQ, size_t outputQNum);

/** Loads as the configuration says, which has to have a load type and what that needs. */
aclError aclmdlLoadWithConfig(const aclmdlConfigHandle *handle, uint32_t *modelId);

/** Loads a model that was built in this process. Not supported. */
aclError aclmdlLoadFromModel(
    const aclmdlModel *model, const aclmdlConfigHandle *handle, uint32_t *modelId);

/**
 * Ends a model and gives its memory back, without waiting: runs that are queued finish. aclFinalize
 * does so for every model.
 */
aclError aclmdlUnload(uint32_t modelId);

/** An empty configuration of a load; NULL when it cannot be made. */
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
 * Names memory of the device with the bytes of a file that the model refers to; `size` is a multiple of
 * 32. They are read by the load.
 */
aclError aclmdlSetExternalWeightAddress(
    aclmdlConfigHandle *handle, const char *weightFileName, void *devPtr, size_t size);

/** Bytes of memory that the model in a file wants for its runs, 0 if its sizes are not known, and for its weights. */
aclError aclmdlQuerySize(const char *fileName, size_t *workSize, size_t *weightSize);

/** The same of a model in host memory. */
aclError aclmdlQuerySizeFromMem(
    const void *model, size_t modelSize, size_t *workSize, size_t *weightSize);

/** Sizes of the parts of a model of another product. Not supported. */
aclError aclmdlQueryExeOMDesc(const char *fileName, aclmdlExeOMDesc *mdlPartitionSize);

/* Descriptions. */

/** An empty description; NULL when it cannot be made. */
aclmdlDesc *aclmdlCreateDesc(void);

/** Destroys a description, and the texts that it gave. */
aclError aclmdlDestroyDesc(aclmdlDesc *modelDesc);

/** Describes a loaded model. What the description held before ends. */
aclError aclmdlGetDesc(aclmdlDesc *modelDesc, uint32_t modelId);

/** Describes the model in a file, without loading it. */
aclError aclmdlGetDescFromFile(aclmdlDesc *modelDesc, const char *modelPath);

/** Describes the model in host memory, without loading it. */
aclError aclmdlGetDescFromMem(aclmdlDesc *modelDesc, const void *model, size_t modelSize);

/** How many inputs there are, with the one that chooses a gear; 0 for no description. */
size_t aclmdlGetNumInputs(aclmdlDesc *modelDesc);

/** How many outputs there are; 0 for no description. */
size_t aclmdlGetNumOutputs(aclmdlDesc *modelDesc);

/** Bytes of the largest that an input can be; 0 if there is no limit, or no such input. */
size_t aclmdlGetInputSizeByIndex(aclmdlDesc *modelDesc, size_t index);

/** Bytes of the largest that an output can be; 0 if there is no limit, or no such output. */
size_t aclmdlGetOutputSizeByIndex(aclmdlDesc *modelDesc, size_t index);

/** The sizes of an input; -1 for one that a gear or a run decides. */
aclError aclmdlGetInputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/** The sizes of an input as it is fed: those of the image where the model prepares images. */
aclError aclmdlGetInputDimsV2(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/** The least and the greatest of the sizes of an input; none with gears. */
aclError aclmdlGetInputDimsRange(
    const aclmdlDesc *modelDesc, size_t index, aclmdlIODimsRange *dimsRange);

/** The sizes of an output, in the largest gear; -1 for one that a run decides. */
aclError aclmdlGetOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/** The sizes of an output in the gear that was set last. Refused where runs decide sizes. */
aclError aclmdlGetCurOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/** The name that stands for a name of up to 127 characters in aclmdlIODims; NULL for one that is not there. */
const char *aclmdlGetTensorRealName(const aclmdlDesc *modelDesc, const char *name);

/** The attribute ACL_ATTR_NAME_DATA_DUMP_ORIGIN_OP_NAMES of an operator of a loaded model; NULL where there is none. */
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

/* Gears: the few sizes that a model was built for. The last input, ACL_DYNAMIC_TENSOR_NAME, chooses one. */

/** The batch gears; a count of 0 without. */
aclError aclmdlGetDynamicBatch(const aclmdlDesc *modelDesc, aclmdlBatch *batch);

/** The image gears; a count of 0 without. `index` is without effect. */
aclError aclmdlGetDynamicHW(const aclmdlDesc *modelDesc, size_t index, aclmdlHW *hw);

/** How many gears of any sizes there are. `index` has to be (size_t)-1. */
aclError aclmdlGetInputDynamicGearCount(
    const aclmdlDesc *modelDesc, size_t index, size_t *gearCount);

/** The sizes of all inputs, one after the other, in each of these gears; `dims` has room for `gearCount`. */
aclError aclmdlGetInputDynamicDims(
    const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims, size_t gearCount);

/** Chooses the gear of a batch for runs with this data set, and writes it into its last buffer. */
aclError aclmdlSetDynamicBatchSize(
    uint32_t modelId, aclmdlDataset *dataset, size_t index, uint64_t batchSize);

/** Chooses the gear of an image size. */
aclError aclmdlSetDynamicHWSize(
    uint32_t modelId, aclmdlDataset *dataset, size_t index, uint64_t height, uint64_t width);

/** Chooses a gear by the sizes of all inputs, one after the other. */
aclError aclmdlSetInputDynamicDims(
    uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlIODims *dims);

/* Data sets. */

/** An empty data set; NULL when it cannot be made. */
aclmdlDataset *aclmdlCreateDataset(void);

/** Destroys a data set and its tensor descriptions, not its buffers. */
aclError aclmdlDestroyDataset(const aclmdlDataset *dataset);

/** Adds a buffer at the end. The buffer stays the caller's, and is looked at by each run. */
aclError aclmdlAddDatasetBuffer(aclmdlDataset *dataset, aclDataBuffer *dataBuffer);

/** How many buffers there are; 0 for no data set. */
size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset *dataset);

/** The buffer of this index; NULL if there is none. */
aclDataBuffer *aclmdlGetDatasetBuffer(const aclmdlDataset *dataset, size_t index);

/** Gives the tensor of this index the sizes of a description, which is copied; NULL takes them away. */
aclError aclmdlSetDatasetTensorDesc(
    aclmdlDataset *dataset, aclTensorDesc *tensorDesc, size_t index);

/**
 * The description of the tensor of this index, or NULL. It belongs to the data set, and the next run of a
 * model whose sizes come with each run ends it.
 */
aclTensorDesc *aclmdlGetDatasetTensorDesc(const aclmdlDataset *dataset, size_t index);

/* Runs. */

/**
 * Runs a model and waits. An output whose buffer has no address gets memory as of aclrtMalloc, which the
 * program frees; address and size are in the buffer.
 */
aclError aclmdlExecute(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output);

/**
 * Submits a run and returns. Data sets and buffers may be destroyed at once; memory has to stay until the
 * stream is synchronized. Every output has memory. A model whose sizes come with each run takes what it needs
 * besides from the allocator that is registered on the stream.
 */
aclError aclmdlExecuteAsync(
    uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream stream);

/**
 * Runs a model and waits as long as the configuration says: on the stream if all sizes are known, else on one
 * of the model's own.
 */
aclError aclmdlExecuteV2(
    uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream stream,
    const aclmdlExecConfigHandle *handle);

/** Submits a run, as aclmdlExecuteAsync, but takes nothing from registered allocators. */
aclError aclmdlExecuteAsyncV2(
    uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream stream,
    const aclmdlExecConfigHandle *handle);

/** A configuration of runs, which wait for ever; NULL when it cannot be made. */
aclmdlExecConfigHandle *aclmdlCreateExecConfigHandle(void);

/** Destroys a configuration of runs. */
aclError aclmdlDestroyExecConfigHandle(const aclmdlExecConfigHandle *handle);

/** Sets how long runs wait for a stream or an event: milliseconds as int32_t, -1 for ever. */
aclError aclmdlSetExecConfigOpt(
    aclmdlExecConfigHandle *handle, aclmdlExecConfigAttr attr, const void *attrValue,
    size_t valueSize);

/** Sets the priority of a loaded model: that of the stream on which it runs where the caller gives none. */
aclError aclmdlSetAttribute(uint32_t modelId, aclmdlAttr attr, aclmdlAttrValue_t *attrValue);

/** The priority of a loaded model. */
aclError aclmdlGetAttribute(uint32_t modelId, aclmdlAttr attr, aclmdlAttrValue_t *attrValue);

/** Name and tensors of the operator that a failed task ran. There is no record of tasks: it finds none. */
aclError aclmdlCreateAndGetOpDesc(
    uint32_t deviceId, uint32_t streamId, uint32_t taskId, char *opName, size_t opNameLen,
    aclTensorDesc **inputDesc, size_t *numInputs, aclTensorDesc **outputDesc, size_t *numOutputs);

/** Recovers communication of a device. Not supported. */
aclError aclRecoverAllHcclTasks(int32_t deviceId);

/* Bundles: files of several models. None can be loaded; a file of one model is refused. */

/** An empty answer of a query; NULL when it cannot be made. */
aclmdlBundleQueryInfo *aclmdlBundleCreateQueryInfo(void);

/** Destroys an answer. */
aclError aclmdlBundleDestroyQueryInfo(aclmdlBundleQueryInfo *queryInfo);

/** Asks what a file of several models has. */
aclError aclmdlBundleQueryInfoFromFile(const char *fileName, aclmdlBundleQueryInfo *queryInfo);

/** The same of host memory. */
aclError aclmdlBundleQueryInfoFromMem(
    const void *model, size_t modelSize, aclmdlBundleQueryInfo *queryInfo);

/** How many models an answer names; 0 before a query. */
aclError aclmdlBundleGetQueryModelNum(const aclmdlBundleQueryInfo *queryInfo, size_t *modelNum);

/** Bytes of memory for the runs and constants of one of them. */
aclError aclmdlBundleGetSize(
    const aclmdlBundleQueryInfo *queryInfo, size_t index, size_t *workSize,
    size_t *constWeightSize);

/** Bytes of the variables that they share; 0 before a query. */
aclError aclmdlBundleGetVarWeightSize(
    const aclmdlBundleQueryInfo *queryInfo, size_t *variableWeightSize);

/** Opens a bundle, whose models are then loaded one by one. */
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

/** The same into memory of the program. */
aclError aclmdlBundleLoadModelWithMem(
    uint32_t bundleId, size_t index, void *workPtr, size_t workSize, void *weightPtr,
    size_t weightSize, uint32_t *modelId);

/** The same with a configuration. */
aclError aclmdlBundleLoadModelWithConfig(
    uint32_t bundleId, size_t index, aclmdlConfigHandle *handle, uint32_t *modelId);

/** How many models a bundle has. */
aclError aclmdlBundleGetModelNum(uint32_t bundleId, size_t *modelNum);

/** The id of a loaded model of a bundle. */
aclError aclmdlBundleGetModelId(uint32_t bundleId, size_t index, uint32_t *modelId);

/** Unloads one model of a bundle. */
aclError aclmdlBundleUnloadModel(uint32_t bundleId, uint32_t modelId);

/** Ends a bundle with all of its models. */
aclError aclmdlBundleUnload(uint32_t bundleId);

/* The preparation of images with parameters of each run (dynamic AIPP). No model has it: parameters are checked and kept. */

/** Parameters for a batch of images; NULL for 0 images. */
aclmdlAIPP *aclmdlCreateAIPP(uint64_t batchSize);

/** Destroys parameters. */
aclError aclmdlDestroyAIPP(const aclmdlAIPP *aippParmsSet);

/** Bytes of the input ACL_DYNAMIC_AIPP_NAME for a batch of images. */
aclError aclmdlGetAippDataSize(uint64_t batchSize, size_t *size);

/** The format of the images. */
aclError aclmdlSetAIPPInputFormat(aclmdlAIPP *aippParmsSet, aclAippInputFormat inputFormat);

/** The matrix and biases of the conversion of colours. */
aclError aclmdlSetAIPPCscParams(
    aclmdlAIPP *aippParmsSet, int8_t cscSwitch, int16_t cscMatrixR0C0, int16_t cscMatrixR0C1,
    int16_t cscMatrixR0C2, int16_t cscMatrixR1C0, int16_t cscMatrixR1C1, int16_t cscMatrixR1C2,
    int16_t cscMatrixR2C0, int16_t cscMatrixR2C1, int16_t cscMatrixR2C2, uint8_t cscOutputBiasR0,
    uint8_t cscOutputBiasR1, uint8_t cscOutputBiasR2, uint8_t cscInputBiasR0,
    uint8_t cscInputBiasR1, uint8_t cscInputBiasR2);

/** Whether R and B, or U and V, change places. */
aclError aclmdlSetAIPPRbuvSwapSwitch(aclmdlAIPP *aippParmsSet, int8_t rbuvSwapSwitch);

/** Whether the fourth channel comes first. */
aclError aclmdlSetAIPPAxSwapSwitch(aclmdlAIPP *aippParmsSet, int8_t axSwapSwitch);

/** The size of the images. */
aclError aclmdlSetAIPPSrcImageSize(
    aclmdlAIPP *aippParmsSet, int32_t srcImageSizeW, int32_t srcImageSizeH);

/** The sizes between which an image is scaled. */
aclError aclmdlSetAIPPScfParams(
    aclmdlAIPP *aippParmsSet, int8_t scfSwitch, int32_t scfInputSizeW, int32_t scfInputSizeH,
    int32_t scfOutputSizeW, int32_t scfOutputSizeH, uint64_t batchIndex);

/** The part that is cut out of an image. */
aclError aclmdlSetAIPPCropParams(
    aclmdlAIPP *aippParmsSet, int8_t cropSwitch, int32_t cropStartPosW, int32_t cropStartPosH,
    int32_t cropSizeW, int32_t cropSizeH, uint64_t batchIndex);

/** The borders that are added to an image. */
aclError aclmdlSetAIPPPaddingParams(
    aclmdlAIPP *aippParmsSet, int8_t paddingSwitch, int32_t paddingSizeTop,
    int32_t paddingSizeBottom, int32_t paddingSizeLeft, int32_t paddingSizeRight,
    uint64_t batchIndex);

/** What is subtracted from each channel first. */
aclError aclmdlSetAIPPDtcPixelMean(
    aclmdlAIPP *aippParmsSet, int16_t dtcPixelMeanChn0, int16_t dtcPixelMeanChn1,
    int16_t dtcPixelMeanChn2, int16_t dtcPixelMeanChn3, uint64_t batchIndex);

/** What is subtracted from each channel after that. */
aclError aclmdlSetAIPPDtcPixelMin(
    aclmdlAIPP *aippParmsSet, float dtcPixelMinChn0, float dtcPixelMinChn1,
    float dtcPixelMinChn2, float dtcPixelMinChn3, uint64_t batchIndex);

/** What each channel is multiplied with at the end. */
aclError aclmdlSetAIPPPixelVarReci(
    aclmdlAIPP *aippParmsSet, float dtcPixelVarReciChn0, float dtcPixelVarReciChn1,
    float dtcPixelVarReciChn2, float dtcPixelVarReciChn3, uint64_t batchIndex);

/** Hands parameters to runs with this data set, by the index of the input ACL_DYNAMIC_AIPP_NAME. */
aclError aclmdlSetInputAIPP(
    uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlAIPP *aippParmsSet);

/** The same by the index of the input that takes the image. */
aclError aclmdlSetAIPPByInputIndex(
    uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlAIPP *aippParmsSet);

/** How images of an input are prepared, and which input has the parameters. */
aclError aclmdlGetAippType(
    uint32_t modelId, size_t index, aclmdlInputAippType *type, size_t *dynamicAttachedDataIndex);

/** The parameters of an input that a model prepares by itself. */
aclError aclmdlGetFirstAippInfo(uint32_t modelId, size_t index, aclAippInfo *aippInfo);

#ifdef __cplusplus
}
#endif

#endif

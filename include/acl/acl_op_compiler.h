/*
 * Options of the operator compiler, and operators by name in one step.
 */
#ifndef INC_EXTERNAL_ACL_ACL_OP_COMPILER_H_
#define INC_EXTERNAL_ACL_ACL_OP_COMPILER_H_

#include "acl_base.h"
#include "acl_op.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How an operator is looked up. */
typedef enum aclopCompileType {
    ACL_COMPILE_SYS = 0,
    ACL_COMPILE_UNREGISTERED = 1
} aclopCompileType;

/** Options of the operator compiler; their values are strings. */
typedef enum aclCompileOpt {
    ACL_PRECISION_MODE = 0,
    ACL_AICORE_NUM = 1,
    ACL_AUTO_TUNE_MODE = 2,
    ACL_OP_SELECT_IMPL_MODE = 3,
    ACL_OPTYPELIST_FOR_IMPLMODE = 4,
    ACL_OP_DEBUG_LEVEL = 5,
    ACL_DEBUG_DIR = 6,
    ACL_OP_COMPILER_CACHE_MODE = 7,
    ACL_OP_COMPILER_CACHE_DIR = 8,
    ACL_OP_PERFORMANCE_MODE = 9,
    ACL_OP_JIT_COMPILE = 10,
    ACL_OP_DETERMINISTIC = 11,
    ACL_CUSTOMIZE_DTYPES = 12,
    ACL_OP_PRECISION_MODE = 13,
    ACL_ALLOW_HF32 = 14,
    ACL_PRECISION_MODE_V2 = 15,
    ACL_OP_DEBUG_OPTION = 16
} aclCompileOpt;

/** Whether operators are compiled for one shape or for any. */
typedef enum aclOpCompileFlag {
    ACL_OP_COMPILE_DEFAULT = 0,
    ACL_OP_COMPILE_FUZZ = 1
} aclOpCompileFlag;

/** What is written about a graph. */
typedef struct aclGraphDumpOption aclGraphDumpOption;

/** Takes an operator by name that exists. There is nothing to compile. */
aclError aclopCompile(
    const char *opType, int numInputs, const aclTensorDesc *const inputDesc[], int numOutputs,
    const aclTensorDesc *const outputDesc[], const aclopAttr *attr, aclopEngineType engineType,
    aclopCompileType compileFlag, const char *opPath);

/** Chooses how operators are compiled. Accepted and without effect. */
aclError aclopSetCompileFlag(aclOpCompileFlag flag);

/** Options for what is written about a graph. Not supported. */
aclGraphDumpOption *aclCreateGraphDumpOpt(void);

/** Destroys such options. Not supported. */
aclError aclDestroyGraphDumpOpt(const aclGraphDumpOption *graphDumpOpt);

/** Writes the graph of one operator to a file. Not supported. */
aclError aclGenGraphAndDumpForOp(
    const char *opType, int numInputs, const aclTensorDesc *const inputDesc[],
    const aclDataBuffer *const inputs[], int numOutputs, const aclTensorDesc *const outputDesc[],
    aclDataBuffer *const outputs[], const aclopAttr *attr, aclopEngineType engineType,
    const char *graphDumpPath, const aclGraphDumpOption *graphDumpOpt);

/** Sets an option of the process. */
aclError aclSetCompileopt(aclCompileOpt opt, const char *value);

/** The buffer size that aclGetCompileopt needs, with the final NUL; 0 for an unknown option. */
size_t aclGetCompileoptSize(aclCompileOpt opt);

/** Copies the value of an option to `value`, which has room for `length` bytes. */
aclError aclGetCompileopt(aclCompileOpt opt, char *value, size_t length);

/**
 * Submits an operator by name. Descriptions, buffers and attributes may be destroyed on return.
 */
aclError aclopCompileAndExecute(
    const char *opType, int numInputs, const aclTensorDesc *const inputDesc[],
    const aclDataBuffer *const inputs[], int numOutputs, const aclTensorDesc *const outputDesc[],
    aclDataBuffer *const outputs[], const aclopAttr *attr, aclopEngineType engineType,
    aclopCompileType compileFlag, const char *opPath, aclrtStream stream);

/** The same; also writes the shapes that were inferred into `outputDesc`. */
aclError aclopCompileAndExecuteV2(
    const char *opType, int numInputs, aclTensorDesc *inputDesc[], aclDataBuffer *inputs[],
    int numOutputs, aclTensorDesc *outputDesc[], aclDataBuffer *outputs[], aclopAttr *attr,
    aclopEngineType engineType, aclopCompileType compileFlag, const char *opPath,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif

/*
 * Codes that sessions answer with. C++ only.
 *
 * A code is 1343225856 + 4096 * module + number. Sessions give FAILED for most of them; the text is in
 * GEGetErrorMsgV2.
 */
#ifndef CAIRN_GE_GE_ERROR_CODES_H
#define CAIRN_GE_GE_ERROR_CODES_H

#ifdef __cplusplus

#include <cstdint>

#include "graph/ge_error_codes.h"

namespace ge {

using Status = uint32_t;

constexpr Status SUCCESS = 0;
constexpr Status FAILED = 0xFFFFFFFF;

constexpr Status MEMALLOC_FAILED = 1343225856;
constexpr Status PARAM_INVALID = 1343225857;
constexpr Status END_OF_SEQUENCE = 1343225863;
constexpr Status UNSUPPORTED = 1343225956;
constexpr Status OUT_OF_MEMORY = 1343225957;

constexpr Status GE_CLI_INIT_FAILED = 1343229953;
constexpr Status GE_CLI_SESS_REMOVE_FAILED = 1343229959;
constexpr Status GE_CLI_SESS_RUN_FAILED = 1343229960;
constexpr Status GE_CLI_GE_NOT_INITIALIZED = 1343229963;
constexpr Status GE_SESSION_MANAGER_NOT_INIT = 1343238150;

constexpr Status GE_GRAPH_ALREADY_RUNNING = 1343242241;
constexpr Status GE_GRAPH_GRAPH_NOT_EXIST = 1343242242;
constexpr Status GE_GRAPH_GRAPH_ALREADY_EXIST = 1343242243;
constexpr Status GE_GRAPH_GRAPH_IS_RUNNING = 1343242244;
constexpr Status GE_GRAPH_GET_IN_OUT_FAILED = 1343242259;
constexpr Status GE_GRAPH_GRAPH_NODE_NULL = 1343242276;
constexpr Status GE_GRAPH_UNSUPPORTED = 1343242281;
constexpr Status GE_GRAPH_NOT_BUILT = 1343242295;
constexpr Status GE_GRAPH_REPEAT_OPERATION = 1343242306;

}  // namespace ge

#endif

#endif

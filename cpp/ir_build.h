// What aclgrph* and the parsers share.
#ifndef CAIRN_CPP_IR_BUILD_H
#define CAIRN_CPP_IR_BUILD_H

#include <string>
#include <vector>

#include "bridge.h"
#include "graph/ge_error_codes.h"
#include "text.h"

namespace cairn __attribute__((visibility("hidden"))) {

// The engine's code of an argument that is not taken, in the numbers of graphs.
inline ge::graphStatus graph_status(CairnStatus status)
{
    const CairnStatus invalid = 1343225857;
    return status == invalid ? ge::GRAPH_PARAM_INVALID : status == 0 ? ge::GRAPH_SUCCESS : ge::GRAPH_FAILED;
}

inline ge::graphStatus invalid(const std::string &message)
{
    return fail(ge::GRAPH_PARAM_INVALID, message);
}

// The bytes of a file; false with errno set if it cannot be read.
bool read_file(const char *name, std::vector<char> &bytes);

// The folder that a path is in; "." if it names none.
std::string folder_of(const char *path);

}  // namespace cairn

#endif

// The parsers: models of others into ge::Graph.

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "graph.h"
#include "ir_build.h"
#include "parser/caffe_parser.h"
#include "parser/onnx_parser.h"
#include "parser/tensorflow_parser.h"

namespace cairn {

bool read_file(const char *name, std::vector<char> &bytes)
{
    std::FILE *const file = std::fopen(name, "rb");
    if (file == nullptr) {
        return false;
    }
    std::vector<char> buffer(size_t(1) << 16);
    for (size_t read = 1; read > 0;) {
        read = std::fread(buffer.data(), 1, buffer.size(), file);
        bytes.insert(bytes.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(read));
    }
    const bool is_whole = std::ferror(file) == 0;
    const int error = errno;
    (void)std::fclose(file);
    errno = error;
    return is_whole;
}

std::string folder_of(const char *path)
{
    const std::string text(path);
    const size_t slash = text.rfind('/');
    return slash == std::string::npos ? "." : text.substr(0, slash + 1);
}

}  // namespace cairn

namespace ge {

using ParserOptions = std::map<AscendString, AscendString>;

static graphStatus parse_onnx(const char *data, size_t size, const std::string &folder, const ParserOptions &options,
                              Graph &graph)
{
    if (GraphBody::Of(graph) == nullptr) {
        graph = Graph("");
    }
    const cairn::Options texts(options);
    return cairn::graph_status(CairnGraphReadOnnx(GraphBody::Of(graph), data, size, cairn::text(folder), texts.data(),
                                                  texts.count()));
}

graphStatus aclgrphParseONNX(const char *model_file, const ParserOptions &parser_params, ge::Graph &graph)
{
    if (model_file == nullptr) {
        return cairn::invalid("aclgrphParseONNX: the name of the file is null");
    }
    std::vector<char> bytes;
    if (!cairn::read_file(model_file, bytes)) {
        return cairn::fail(std::string("aclgrphParseONNX: '") + model_file + "': " + std::strerror(errno));
    }
    return parse_onnx(bytes.data(), bytes.size(), cairn::folder_of(model_file), parser_params, graph);
}

graphStatus aclgrphParseONNXFromMem(const char *buffer, size_t size, const ParserOptions &parser_params,
                                    ge::Graph &graph)
{
    if (buffer == nullptr || size == 0) {
        return cairn::invalid("aclgrphParseONNXFromMem: there are no bytes");
    }
    return parse_onnx(buffer, size, "", parser_params, graph);
}

static graphStatus not_read(const char *function, const char *framework, const char *file)
{
    return cairn::fail(std::string(function) + ": '" + (file == nullptr ? "" : file) + "': models of " + framework +
                       " are not supported: convert the model to ONNX, and call aclgrphParseONNX");
}

graphStatus aclgrphParseCaffe(const char *model_file, const char *, ge::Graph &)
{
    return not_read("aclgrphParseCaffe", "Caffe", model_file);
}

graphStatus aclgrphParseCaffe(const char *model_file, const char *, const ParserOptions &, ge::Graph &)
{
    return not_read("aclgrphParseCaffe", "Caffe", model_file);
}

graphStatus aclgrphParseTensorFlow(const char *model_file, ge::Graph &)
{
    return not_read("aclgrphParseTensorFlow", "TensorFlow", model_file);
}

graphStatus aclgrphParseTensorFlow(const char *model_file, const ParserOptions &, ge::Graph &)
{
    return not_read("aclgrphParseTensorFlow", "TensorFlow", model_file);
}

}  // namespace ge

// aclgrph*: models without a session.

#include "ir_build.h"

#include <cerrno>
#include <cstring>

#include "ge/ge_ir_build.h"
#include "graph.h"

namespace ge {

using BuildOptions = std::map<AscendString, AscendString>;
using cairn::fail;
using cairn::graph_status;
using cairn::invalid;

// What an aclmdlModel points to. aclmdlLoadFromModel may rely on the first two members.
struct __attribute__((visibility("hidden"))) ModelObject {
    const void *data;
    size_t size;
    ModelBufferData bytes;
};

// A callback that copies the bytes of a model.
static void copy_model(void *context, CairnText bytes)
{
    ModelBufferData *const model = static_cast<ModelBufferData *>(context);
    model->data = std::shared_ptr<uint8_t>(new uint8_t[bytes.size], std::default_delete<uint8_t[]>());
    std::memcpy(model->data.get(), bytes.data, bytes.size);
    model->length = bytes.size;
}

graphStatus aclgrphBuildInitialize(std::map<AscendString, AscendString> &global_options)
{
    const cairn::Options texts(global_options);
    return graph_status(CairnBuildStart(texts.data(), texts.count()));
}

void aclgrphBuildFinalize()
{
    (void)CairnBuildStop();
}

graphStatus aclgrphBuildModel(const ge::Graph &graph, const BuildOptions &build_options, ModelBufferData &model)
{
    CairnGraph *const handle = GraphBody::Of(graph);
    if (handle == nullptr) {
        return invalid("aclgrphBuildModel: the graph is empty: give it a name and nodes, or load it first");
    }
    const cairn::Options texts(build_options);
    return graph_status(CairnBuildModel(handle, texts.data(), texts.count(), &model, copy_model));
}

static graphStatus save(const char *function, const char *name, const void *data, uint64_t size)
{
    if (name == nullptr || *name == '\0' || data == nullptr || size == 0) {
        return invalid(std::string(function) + ": the " +
                       (name == nullptr || *name == '\0' ? "name of the file is empty" : "model has no bytes"));
    }
    return graph_status(CairnModelSave(data, size, cairn::text(std::string(name) + ".om")));
}

graphStatus aclgrphSaveModel(const char_t *output_file, const ModelBufferData &model)
{
    return save("aclgrphSaveModel", output_file, model.data.get(), model.length);
}

graphStatus aclgrphSaveModel(const char_t *output_file, const aclmdlModel *model)
{
    const auto *const object = reinterpret_cast<const ModelObject *>(model);
    return object == nullptr ? invalid("aclgrphSaveModel: the model is null")
                             : save("aclgrphSaveModel", output_file, object->data, object->size);
}

static graphStatus make_object(const ModelBufferData &bytes, aclmdlModel **model)
{
    *model = reinterpret_cast<aclmdlModel *>(new ModelObject{bytes.data.get(), bytes.length, bytes});
    return GRAPH_SUCCESS;
}

static graphStatus build_bytes(const char *function, const void *data, size_t size, const std::string &folder,
                               const BuildOptions &options, aclmdlModel **model)
{
    if (data == nullptr || size == 0 || model == nullptr) {
        return invalid(std::string(function) + ": there are no bytes, or the model is null");
    }
    const cairn::Options texts(options);
    ModelBufferData bytes = {nullptr, 0};
    const graphStatus status = graph_status(CairnBuildModelOfBytes(data, size, cairn::text(folder), texts.data(),
                                                                   texts.count(), &bytes, copy_model));
    return status == GRAPH_SUCCESS ? make_object(bytes, model) : status;
}

graphStatus aclgrphBuildModelFromFile(const char_t *graph_file, const BuildOptions &build_options, aclmdlModel **model)
{
    if (graph_file == nullptr) {
        return invalid("aclgrphBuildModelFromFile: the name of the file is null");
    }
    std::vector<char> bytes;
    if (!cairn::read_file(graph_file, bytes)) {
        return fail(std::string("aclgrphBuildModelFromFile: '") + graph_file + "': " + std::strerror(errno));
    }
    return build_bytes("aclgrphBuildModelFromFile", bytes.data(), bytes.size(), cairn::folder_of(graph_file),
                       build_options, model);
}

graphStatus aclgrphBuildModelFromData(const void *graph_data, size_t graph_size, const BuildOptions &build_options,
                                      aclmdlModel **model)
{
    return build_bytes("aclgrphBuildModelFromData", graph_data, graph_size, "", build_options, model);
}

graphStatus aclgrphSaveModelToBuffer(ModelBufferData &buffer, const aclmdlModel *model)
{
    if (model == nullptr) {
        return invalid("aclgrphSaveModelToBuffer: the model is null");
    }
    buffer = reinterpret_cast<const ModelObject *>(model)->bytes;
    return GRAPH_SUCCESS;
}

graphStatus aclgrphDestroyModel(const aclmdlModel *model)
{
    if (model == nullptr) {
        return invalid("aclgrphDestroyModel: the model is null");
    }
    delete reinterpret_cast<const ModelObject *>(model);
    return GRAPH_SUCCESS;
}

static graphStatus no_bundles(const char *function)
{
    return fail(std::string(function) +
                ": bundles of several models are not supported: build and load each model of its own");
}

graphStatus aclgrphBundleBuildModel(const std::vector<ge::GraphWithOptions> &graph_with_options, ModelBufferData &)
{
    return graph_with_options.size() <= 1
               ? invalid("aclgrphBundleBuildModel: a bundle has more than one graph, not " +
                         std::to_string(graph_with_options.size()))
               : no_bundles("aclgrphBundleBuildModel");
}

graphStatus aclgrphBundleSaveModel(const char_t *output_file, const ModelBufferData &model)
{
    return output_file == nullptr || model.data == nullptr || model.length == 0
               ? invalid("aclgrphBundleSaveModel: the name of the file is null, or the model has no bytes")
               : no_bundles("aclgrphBundleSaveModel");
}

graphStatus aclgrphGetIRVersion(int32_t *major_version, int32_t *minor_version, int32_t *patch_version)
{
    if (major_version == nullptr || minor_version == nullptr || patch_version == nullptr) {
        return fail("aclgrphGetIRVersion: a place for a number is null");
    }
    *major_version = 1;
    *minor_version = 0;
    *patch_version = 0;
    return GRAPH_SUCCESS;
}

}  // namespace ge

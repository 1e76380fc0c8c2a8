/*
 * Runs a model: run_model MODEL RUN [-- RUN]..
 *
 * A run is `OUTPUT GEAR INPUT..`. OUTPUT.N gets the bytes of output N, and a line on stdout has its name, type and sizes. GEAR is
 * `-`, `batch:N`, `image:H,W` or `dims:A,B,..` (all sizes of all inputs); INPUT is `FILE:A,B,..`, a file with the bytes of
 * an input and its sizes. Exits with 1 and the text of the error if a call fails.
 */
#include <acl/acl.h>
#include <acl/acl_mdl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(aclError code, const char *call)
{
    if (code == ACL_SUCCESS)
        return;
    const char *text = aclGetRecentErrMsg();
    fprintf(stderr, "%s: %d %s\n", call, code, text ? text : "");
    exit(1);
}

#define CHECK(call) check(call, #call)

/* The numbers of a list with commas; gives how many. */
static size_t numbers(const char *text, int64_t *into)
{
    size_t count = 0;
    while (*text) {
        char *end;
        into[count++] = strtoll(text, &end, 10);
        text = *end ? end + 1 : end;
    }
    return count;
}

static void *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    void *content = malloc(*bytes + 1);
    if (fread(content, 1, *bytes, file) != *bytes) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return content;
}

/* A buffer of device memory with these bytes, at least as long as the model wants it. */
static void add_input(aclmdlDataset *set, const void *bytes, size_t count, size_t wanted)
{
    void *memory = NULL;
    size_t size = count > wanted ? count : wanted;
    CHECK(aclrtMalloc(&memory, size ? size : 1, ACL_MEM_MALLOC_HUGE_FIRST));
    if (count)
        CHECK(aclrtMemcpy(memory, size, bytes, count, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclmdlAddDatasetBuffer(set, aclCreateDataBuffer(memory, size)));
}

static void set_gear(uint32_t id, aclmdlDesc *desc, aclmdlDataset *inputs, const char *gear)
{
    size_t index = 0;
    int64_t values[ACL_MAX_DIM_CNT];
    size_t count = numbers(strchr(gear, ':') + 1, values);
    CHECK(aclmdlGetInputIndexByName(desc, ACL_DYNAMIC_TENSOR_NAME, &index));
    if (strncmp(gear, "batch", 5) == 0) {
        CHECK(aclmdlSetDynamicBatchSize(id, inputs, index, (uint64_t)values[0]));
    } else if (strncmp(gear, "image", 5) == 0) {
        CHECK(aclmdlSetDynamicHWSize(id, inputs, index, (uint64_t)values[0], (uint64_t)values[1]));
    } else {
        aclmdlIODims dims = {.dimCount = count};
        memcpy(dims.dims, values, count * sizeof values[0]);
        CHECK(aclmdlSetInputDynamicDims(id, inputs, index, &dims));
    }
}

/* The sizes of an output after a run, and its bytes. */
static size_t output_dims(aclmdlDesc *desc, aclmdlDataset *outputs, size_t index, int has_gear, aclmdlIODims *dims)
{
    aclTensorDesc *tensor = aclmdlGetDatasetTensorDesc(outputs, index);
    if (tensor) {
        dims->dimCount = aclGetTensorDescNumDims(tensor);
        for (size_t i = 0; i < dims->dimCount; i++)
            CHECK(aclGetTensorDescDimV2(tensor, i, &dims->dims[i]));
    } else if (has_gear) {
        CHECK(aclmdlGetCurOutputDims(desc, index, dims));
    } else {
        CHECK(aclmdlGetOutputDims(desc, index, dims));
    }
    size_t bytes = aclDataTypeSize(aclmdlGetOutputDataType(desc, index));
    for (size_t i = 0; i < dims->dimCount; i++)
        bytes *= (size_t)dims->dims[i];
    return bytes;
}

static void write_output(aclmdlDesc *desc, aclmdlDataset *outputs, size_t index, int has_gear, const char *prefix)
{
    aclmdlIODims dims;
    char path[4096];
    size_t bytes = output_dims(desc, outputs, index, has_gear, &dims);
    void *host = malloc(bytes + 1);
    if (bytes)
        CHECK(aclrtMemcpy(host, bytes, aclGetDataBufferAddr(aclmdlGetDatasetBuffer(outputs, index)), bytes,
                          ACL_MEMCPY_DEVICE_TO_HOST));
    snprintf(path, sizeof path, "%s.%zu", prefix, index);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(host, 1, bytes, file) != bytes || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    free(host);
    printf("%s %d ", aclmdlGetOutputNameByIndex(desc, index), aclmdlGetOutputDataType(desc, index));
    for (size_t i = 0; i < dims.dimCount; i++)
        printf("%s%lld", i ? "," : "", (long long)dims.dims[i]);
    printf("\n");
}

static void destroy(aclmdlDataset *set)
{
    for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(set); i++) {
        aclDataBuffer *buffer = aclmdlGetDatasetBuffer(set, i);
        if (aclGetDataBufferAddr(buffer))
            CHECK(aclrtFree(aclGetDataBufferAddr(buffer)));
        CHECK(aclDestroyDataBuffer(buffer));
    }
    CHECK(aclmdlDestroyDataset(set));
}

static void run(uint32_t id, aclmdlDesc *desc, int count, char **words)
{
    const char *prefix = words[0], *gear = words[1];
    int has_gear = strcmp(gear, "-") != 0;
    aclmdlDataset *inputs = aclmdlCreateDataset(), *outputs = aclmdlCreateDataset();
    for (size_t i = 0; i < aclmdlGetNumInputs(desc); i++) {
        size_t wanted = aclmdlGetInputSizeByIndex(desc, i);
        if ((int)i + 2 >= count) { /* the gear's own input */
            add_input(inputs, NULL, 0, wanted);
            continue;
        }
        int64_t dims[ACL_MAX_DIM_CNT];
        char *colon = strrchr(words[i + 2], ':');
        size_t bytes = 0, rank = numbers(colon + 1, dims);
        *colon = '\0';
        void *content = read_file(words[i + 2], &bytes);
        add_input(inputs, content, bytes, wanted);
        free(content);
        if (!has_gear) {
            aclTensorDesc *shape = aclCreateTensorDesc(aclmdlGetInputDataType(desc, i), (int)rank, dims, ACL_FORMAT_ND);
            CHECK(aclmdlSetDatasetTensorDesc(inputs, shape, i));
            aclDestroyTensorDesc(shape);
        }
    }
    for (size_t i = 0; i < aclmdlGetNumOutputs(desc); i++)
        CHECK(aclmdlAddDatasetBuffer(outputs, aclCreateDataBuffer(NULL, 0)));
    if (has_gear)
        set_gear(id, desc, inputs, gear);
    CHECK(aclmdlExecute(id, inputs, outputs));
    for (size_t i = 0; i < aclmdlGetNumOutputs(desc); i++)
        write_output(desc, outputs, i, has_gear, prefix);
    destroy(inputs);
    destroy(outputs);
}

int main(int argc, char **argv)
{
    uint32_t id = 0;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclmdlLoadFromFile(argv[1], &id));
    aclmdlDesc *desc = aclmdlCreateDesc();
    CHECK(aclmdlGetDesc(desc, id));
    for (int first = 2, end; first < argc; first = end + 1) {
        for (end = first; end < argc && strcmp(argv[end], "--") != 0; end++)
            ;
        run(id, desc, end - first, argv + first);
    }
    CHECK(aclmdlUnload(id));
    CHECK(aclmdlDestroyDesc(desc));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

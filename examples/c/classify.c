/*
 * Classifies pictures with a model that atc has converted: the classic program on ACL. It loads the model, asks it
 * for its inputs and outputs, makes data sets of device memory, and runs it once for each picture.
 *
 *     gcc classify.c -I$ASCEND_HOME_PATH/include -L$ASCEND_HOME_PATH/lib64 -lascendcl -o classify
 *     ./classify digits.om 0.pgm 1.pgm ..
 *
 * `sh examples/classify.sh` makes such a model and pictures, and runs this program and the same one in Python.
 */
#include <acl/acl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 3 };

#define MUST(call)                                                                             \
    do {                                                                                       \
        aclError code = (call);                                                                \
        if (code != ACL_SUCCESS) {                                                             \
            const char *text = aclGetRecentErrMsg();                                           \
            fprintf(stderr, "%s: %d\n  %s\n", #call, code, text != NULL ? text : "(no text)"); \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void *must_have(void *made, const char *what) {
    if (made == NULL) fail(what, "there is no memory, or acl failed");
    return made;
}

// A loaded model with one input, a gray picture, and one output, a number for each class.
typedef struct {
    uint32_t id;
    size_t width, height, classes;
    aclmdlDataset *input, *output;
} Model;

// A data set of one buffer with its own device memory.
static aclmdlDataset *create_dataset(size_t bytes) {
    void *memory = NULL;
    MUST(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    aclDataBuffer *buffer = must_have(aclCreateDataBuffer(memory, bytes), "aclCreateDataBuffer");
    aclmdlDataset *dataset = must_have(aclmdlCreateDataset(), "aclmdlCreateDataset");
    MUST(aclmdlAddDatasetBuffer(dataset, buffer));
    return dataset;
}

static void destroy_dataset(aclmdlDataset *dataset) {
    for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(dataset); ++i) {
        aclDataBuffer *buffer = aclmdlGetDatasetBuffer(dataset, i);
        MUST(aclrtFree(aclGetDataBufferAddr(buffer)));
        MUST(aclDestroyDataBuffer(buffer));
    }
    MUST(aclmdlDestroyDataset(dataset));
}

static void print_tensor(const char *what, const aclmdlIODims *dims, size_t bytes) {
    printf("%s %s: [", what, dims->name);
    for (size_t i = 0; i < dims->dimCount; ++i) printf("%s%" PRId64, i ? ", " : "", dims->dims[i]);
    printf("], %zu bytes\n", bytes);
}

static Model load(const char *path) {
    Model model = {0};
    MUST(aclmdlLoadFromFile(path, &model.id));
    aclmdlDesc *desc = must_have(aclmdlCreateDesc(), "aclmdlCreateDesc");
    MUST(aclmdlGetDesc(desc, model.id));
    if (aclmdlGetNumInputs(desc) != 1 || aclmdlGetNumOutputs(desc) != 1) fail(path, "it must have one input and one output");
    aclmdlIODims image, scores;
    MUST(aclmdlGetInputDims(desc, 0, &image));
    MUST(aclmdlGetOutputDims(desc, 0, &scores));
    size_t input_bytes = aclmdlGetInputSizeByIndex(desc, 0), output_bytes = aclmdlGetOutputSizeByIndex(desc, 0);
    print_tensor("input", &image, input_bytes);
    print_tensor("output", &scores, output_bytes);
    int is_picture = image.dimCount == 4 && image.dims[0] == 1 && image.dims[1] == 1;
    int are_floats = aclmdlGetInputDataType(desc, 0) == ACL_FLOAT && aclmdlGetOutputDataType(desc, 0) == ACL_FLOAT;
    if (!is_picture || !are_floats) fail(path, "its input must be one gray picture, and all of it floats");
    model.height = (size_t)image.dims[2];
    model.width = (size_t)image.dims[3];
    model.classes = output_bytes / sizeof(float);
    model.input = create_dataset(input_bytes);
    model.output = create_dataset(output_bytes);
    MUST(aclmdlDestroyDesc(desc));
    return model;
}

// Reads a picture in the format PGM as numbers from 0 to 1.
static float *read_picture(const char *path, const Model *model) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail(path, "cannot be opened");
    size_t width = 0, height = 0, count = model->width * model->height;
    if (fscanf(file, "P5 %zu %zu 255", &width, &height) != 2 || fgetc(file) == EOF) fail(path, "is no picture in PGM");
    if (width != model->width || height != model->height) fail(path, "does not have the size of the model's input");
    unsigned char *pixels = must_have(malloc(count), "pixels");
    float *picture = must_have(malloc(count * sizeof *picture), "picture");
    if (fread(pixels, 1, count, file) != count) fail(path, "is too short");
    for (size_t i = 0; i < count; ++i) picture[i] = (float)pixels[i] / 255.0f;
    free(pixels);
    fclose(file);
    return picture;
}

// Runs the model on one picture.
static void run(const Model *model, const float *picture, float *scores) {
    size_t bytes = model->width * model->height * sizeof *picture, result = model->classes * sizeof *scores;
    aclDataBuffer *input = aclmdlGetDatasetBuffer(model->input, 0), *output = aclmdlGetDatasetBuffer(model->output, 0);
    MUST(aclrtMemcpy(
        aclGetDataBufferAddr(input), aclGetDataBufferSizeV2(input), picture, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    MUST(aclmdlExecute(model->id, model->input, model->output));
    MUST(aclrtMemcpy(scores, result, aclGetDataBufferAddr(output), result, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void print_top(const char *path, float *scores, size_t classes) {
    const char *slash = strrchr(path, '/');
    printf("%s:", slash != NULL ? slash + 1 : path);
    for (int place = 0; place < TOP && (size_t)place < classes; ++place) {
        size_t best = 0;
        for (size_t i = 1; i < classes; ++i) {
            if (scores[i] > scores[best]) best = i;
        }
        printf("%s %zu (%.1f %%)", place ? "," : "", best, 100.0 * scores[best]);
        scores[best] = -1;
    }
    printf("\n");
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s MODEL.om PICTURE.pgm ..\n", argv[0]);
        return 2;
    }
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    Model model = load(argv[1]);
    float *scores = must_have(malloc(model.classes * sizeof *scores), "scores");
    for (int i = 2; i < argc; ++i) {
        float *picture = read_picture(argv[i], &model);
        run(&model, picture, scores);
        print_top(argv[i], scores, model.classes);
        free(picture);
    }
    free(scores);
    destroy_dataset(model.input);
    destroy_dataset(model.output);
    MUST(aclmdlUnload(model.id));
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    return 0;
}

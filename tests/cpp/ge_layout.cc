// links: -lge_runner
// strings: both
/* Sizes of classes and offsets of members that programs were compiled with, for both string ABIs. */
#include "check.h"
#include "ge/ge_api.h"
#include "ge/ge_api_v2.h"
#include "graph/attr_value.h"
#include "graph/operator_reg.h"
#include <type_traits>

static_assert(sizeof(ge::AscendString) == 16 && alignof(ge::AscendString) == 8, "one shared pointer");
static_assert(sizeof(ge::Shape) == 16 && sizeof(ge::TensorDesc) == 16 && sizeof(ge::Tensor) == 16, "one shared pointer");
static_assert(sizeof(ge::Graph) == 16 && sizeof(ge::GNode) == 16 && sizeof(ge::AttrValue) == 16, "one shared pointer");
static_assert(sizeof(ge::TensorType) == 16 && sizeof(ge::CompiledGraphSummary) == 16, "one shared pointer");
static_assert(sizeof(ge::FeatureMemory) == 16 && sizeof(ge::GeSession) == 16, "one shared pointer");
static_assert(sizeof(ge::Operator) == 24 && std::is_polymorphic<ge::Operator>::value, "a virtual table and a shared pointer");
static_assert(sizeof(ge::Session) == 8 && !std::is_polymorphic<ge::Session>::value, "an id");
static_assert(sizeof(ge::InputTensorInfo) == 48 && sizeof(ge::OutputTensorInfo) == 48, "as the vendor's");
static_assert(sizeof(ge::ModelBufferData) == 24, "as the vendor's");
static_assert(sizeof(gert::Tensor) == 752 && alignof(gert::Tensor) == 8, "as the vendor's");
static_assert(sizeof(gert::TensorV2) == 1048 && sizeof(gert::StorageShape) == 536 && sizeof(gert::Shape) == 248, "as the vendor's");
static_assert(sizeof(gert::StorageFormat) == 96 && sizeof(gert::ExpandDimsType) == 48 && sizeof(gert::TensorData) == 72, "as the vendor's");
static_assert(!std::is_copy_constructible<gert::Tensor>::value && std::is_move_constructible<gert::Tensor>::value, "moved, not copied");
static_assert(ge::DT_BF16 == 27 && ge::DT_UNDEFINED == 28 && ge::DT_HIFLOAT4 == 42, "as the vendor's");
static_assert(ge::FORMAT_ND == 2 && ge::FORMAT_FRACTAL_NZ == 29 && ge::FORMAT_RESERVED == 40 && ge::FORMAT_END == 55, "as the vendor's");
static_assert(gert::kOnDeviceHbm == 0 && gert::kOnHost == 1 && gert::kTensorPlacementEnd == 4, "as the vendor's");
static_assert(ge::PARAM_INVALID == 1343225857u && ge::FAILED == 0xFFFFFFFFu, "as the vendor's");

template <typename T>
static T read_at(const void *object, size_t offset)
{
    T value;
    memcpy(&value, static_cast<const char *>(object) + offset, sizeof value);
    return value;
}

int main()
{
    GROUP("ge layout: members of gert::Tensor are where clients look for them");
    int data = 0;
    gert::Tensor tensor({{2, 3}, {6}}, {ge::FORMAT_NCHW, ge::FORMAT_NHWC, {}}, gert::kOnHost, ge::DT_INT8, &data);
    CHECK_EQ(read_at<size_t>(&tensor, 0), 2);
    CHECK_EQ(read_at<int64_t>(&tensor, 8), 2);
    CHECK_EQ(read_at<int64_t>(&tensor, 16), 3);
    CHECK_EQ(read_at<size_t>(&tensor, 248), 1);
    CHECK_EQ(read_at<int64_t>(&tensor, 256), 6);
    CHECK_EQ(read_at<int32_t>(&tensor, 536), ge::FORMAT_NCHW);
    CHECK_EQ(read_at<int32_t>(&tensor, 540), ge::FORMAT_NHWC);
    CHECK_EQ(read_at<uint8_t>(&tensor, 632), gert::kTensorV1);
    CHECK_EQ(read_at<int32_t>(&tensor, 636), ge::DT_INT8);
    CHECK(read_at<void *>(&tensor, 640) == &data);
    CHECK(read_at<void *>(&tensor, 648) == nullptr);
    CHECK_EQ(read_at<size_t>(&tensor, 656), 6);
    CHECK_EQ(read_at<int32_t>(&tensor, 664), gert::kOnHost);

    GROUP("ge layout: an operator's virtual table has its destructors only");
    ge::Operator op("name", "Type");
    ge::Operator copy = op;
    CHECK(read_at<void *>(&op, 0) == read_at<void *>(&copy, 0));
    CHECK(read_at<void *>(&op, 8) == read_at<void *>(&copy, 8) && read_at<void *>(&op, 8) != nullptr);
    return END();
}

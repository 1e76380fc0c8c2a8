// links: -lge_runner
// strings: both
/* Texts, shapes, descriptions, tensors and attribute values. */
#include "check.h"
#include "ge/ge_api.h"
#include "graph/attr_value.h"
#include "graph/utils/type_utils.h"
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

using namespace ge;

static void texts()
{
    GROUP("ge values: strings compare, and a null one is not an empty one");
    AscendString none, empty(""), a("a"), b("b");
    CHECK(strcmp(none.GetString(), "") == 0 && none.GetLength() == 0);
    CHECK(none == AscendString() && none != empty && none < empty && empty < a && a < b);
    CHECK(b > a && a <= a && a >= a && a == "a" && a != "b");
    AscendString copy = a;
    CHECK(copy.GetString() == a.GetString());
    CHECK_EQ(AscendString("xyz", 2).GetLength(), 2);
    CHECK_EQ(AscendString("a\0b", 3).GetLength(), 3);
    CHECK_EQ(AscendString("hello").Find("ll"), 2);
    CHECK(AscendString("hello").Find("z") == std::string::npos);
    std::map<AscendString, AscendString> map = {{"k", "v"}, {"a", "b"}};
    CHECK(map.begin()->first == "a");
    std::unordered_map<AscendString, int> hashed = {{"k", 7}};
    CHECK_EQ(hashed[AscendString("k")], 7);
}

static void shapes()
{
    GROUP("ge values: shapes count their elements");
    CHECK_EQ(Shape().GetShapeSize(), 0);
    CHECK_EQ(Shape().GetDimNum(), 0);
    CHECK_EQ(Shape({2, 3, 4}).GetShapeSize(), 24);
    CHECK_EQ(Shape({2, -1}).GetShapeSize(), -1);
    CHECK_EQ(Shape({-2}).GetShapeSize(), -1);
    CHECK_EQ(Shape({-2}).GetDimNum(), 0);
    CHECK_EQ(Shape({-2}).GetDims().size(), 1);
    CHECK_EQ(Shape({2, 0}).GetShapeSize(), 0);
    CHECK_EQ(Shape({INT64_MAX, 2}).GetShapeSize(), 0);
    Shape shape({2, 3});
    Shape same = shape;
    CHECK_EQ(same.SetDim(0, 5), GRAPH_SUCCESS);
    CHECK_EQ(shape.GetDim(0), 5);
    CHECK_EQ(shape.GetDim(2), 0);
    CHECK_EQ(shape.SetDim(2, 1), GRAPH_FAILED);
}

static void descriptions()
{
    GROUP("ge values: a copied description is independent");
    TensorDesc desc(Shape({2, 3}), FORMAT_NCHW, DT_FLOAT16);
    desc.SetName(std::string("x"));
    desc.SetPlacement(kPlacementDevice);
    TensorDesc copy = desc;
    copy.SetShape(Shape({7}));
    copy.SetName("y");
    CHECK_EQ(desc.GetShape().GetDim(0), 2);
    CHECK(desc.GetName() == "x" && copy.GetName() == "y");
    CHECK_EQ(copy.GetDataType(), DT_FLOAT16);
    CHECK_EQ(copy.GetPlacement(), kPlacementDevice);
    desc.GetShape().SetDim(0, 9);
    CHECK_EQ(desc.GetShape().GetDim(0), 2);
    TensorDesc moved = std::move(copy);
    CHECK_EQ(moved.GetShape().GetDim(0), 7);
    copy.SetDataType(DT_INT8);
    CHECK_EQ(copy.GetDataType(), DT_INT8);
    CHECK_EQ(desc.SetUnknownDimNumShape(), GRAPH_SUCCESS);
    CHECK_EQ(desc.GetShape().GetDims()[0], UNKNOWN_DIM_NUM);
    TensorDesc plain;
    CHECK_EQ(plain.GetDataType(), DT_FLOAT);
    CHECK_EQ(plain.GetFormat(), FORMAT_ND);
    CHECK_EQ(plain.GetPlacement(), kPlacementHost);
}

static void tensors()
{
    GROUP("ge values: copies of a tensor share data, and the last one frees them");
    int freed = 0;
    uint8_t bytes[8] = {1, 2, 3};
    {
        Tensor tensor;
        CHECK_EQ(tensor.SetData(bytes, sizeof bytes, [&](uint8_t *data) { freed += data == bytes; }), GRAPH_SUCCESS);
        Tensor copy = tensor;
        CHECK(copy.GetData() == bytes && copy.GetSize() == 8);
        copy.SetDataType(DT_INT8);
        CHECK_EQ(tensor.GetDataType(), DT_INT8);
        Tensor clone = tensor.Clone();
        CHECK(clone.GetData() != bytes && clone.GetData()[2] == 3);
        CHECK_EQ(freed, 0);
    }
    CHECK_EQ(freed, 1);

    GROUP("ge values: replaced data are freed, data that are taken out are not");
    Tensor tensor;
    tensor.SetData(bytes, 4, [&](uint8_t *) { freed += 10; });
    CHECK_EQ(tensor.ResetData(bytes, 2, [&](uint8_t *) { freed += 100; }), GRAPH_SUCCESS);
    CHECK_EQ(freed, 11);
    {
        auto detached = tensor.ResetData();
        CHECK(detached.get() == bytes && tensor.GetData() == nullptr && tensor.GetSize() == 0);
        CHECK_EQ(freed, 11);
    }
    CHECK_EQ(freed, 111);
    CHECK(tensor.ResetData().get() == nullptr);
    CHECK_EQ(tensor.SetData(nullptr, 0, [](uint8_t *) {}), GRAPH_SUCCESS);
    CHECK_EQ(tensor.SetData(nullptr, 4, [](uint8_t *) {}), GRAPH_FAILED);
    CHECK_EQ(tensor.SetData(bytes, 4, nullptr), GRAPH_FAILED);

    GROUP("ge values: a tensor is valid when it has the bytes of its shape");
    Tensor tensor_of_six(TensorDesc(Shape({2, 3}), FORMAT_ND, DT_FLOAT), std::vector<uint8_t>(24));
    CHECK_EQ(tensor_of_six.IsValid(), GRAPH_SUCCESS);
    CHECK_EQ(tensor_of_six.SetData(std::vector<uint8_t>(23)), GRAPH_SUCCESS);
    CHECK_EQ(tensor_of_six.IsValid(), GRAPH_FAILED);
    CHECK_EQ(tensor_of_six.SetShapeDimNum(1), GRAPH_SUCCESS);
    CHECK_EQ(tensor_of_six.SetShapeDim(0, 23), GRAPH_SUCCESS);
    CHECK_EQ(tensor_of_six.SetShapeDim(1, 23), GRAPH_FAILED);
    CHECK_EQ(tensor_of_six.SetDataType(DT_INT8), GRAPH_SUCCESS);
    CHECK_EQ(tensor_of_six.IsValid(), GRAPH_SUCCESS);

    GROUP("ge values: strings lie after their StringHeads");
    Tensor words;
    CHECK_EQ(words.SetData(std::vector<std::string>{"ab", "cde"}), GRAPH_SUCCESS);
    const StringHead *heads = reinterpret_cast<const StringHead *>(words.GetData());
    CHECK_EQ(heads[0].addr, 2 * sizeof(StringHead));
    CHECK_EQ(heads[1].len, 3);
    CHECK(strcmp(reinterpret_cast<const char *>(words.GetData()) + heads[1].addr, "cde") == 0);
}

static void values()
{
    GROUP("ge values: an attribute value has the type that it was given");
    AttrValue value;
    int64_t number = 0;
    CHECK_EQ(value.GetAttrValue(number), GRAPH_FAILED);
    CHECK_EQ(value.SetAttrValue(int64_t(7)), GRAPH_SUCCESS);
    CHECK_EQ(value.GetAttrValue(number), GRAPH_SUCCESS);
    CHECK_EQ(number, 7);
    float real = 1;
    CHECK_EQ(value.GetAttrValue(real), GRAPH_FAILED);
    value.SetAttrValue(AscendString("text"));
    std::string text;
    CHECK_EQ((value.GetValue<AttrValue::STR>(text)), GRAPH_SUCCESS);
    CHECK(text == "text");
    value.SetAttrValue(std::vector<std::vector<int64_t>>{{1, 2}, {}, {3}});
    std::vector<std::vector<int64_t>> rows;
    CHECK_EQ(value.GetAttrValue(rows), GRAPH_SUCCESS);
    CHECK(rows.size() == 3 && rows[0][1] == 2 && rows[1].empty() && rows[2][0] == 3);
    value.SetAttrValue(std::vector<bool>{true, false});
    std::vector<bool> flags;
    CHECK_EQ(value.GetAttrValue(flags), GRAPH_SUCCESS);
    CHECK(flags.size() == 2 && flags[0] && !flags[1]);
}

static void names()
{
    GROUP("ge values: types and formats have names");
    CHECK(strcmp(GetFormatName(FORMAT_FRACTAL_NZ), "FRACTAL_NZ") == 0);
    CHECK(strcmp(GetFormatName(FORMAT_END), "RESERVED") == 0);
    CHECK(TypeUtils::DataTypeToSerialString(DT_BF16) == "DT_BF16");
    CHECK_EQ(TypeUtils::SerialStringToDataType("DT_INT64"), DT_INT64);
    CHECK_EQ(TypeUtils::SerialStringToDataType("int64"), DT_UNDEFINED);
    CHECK_EQ(TypeUtils::SerialStringToFormat("FRACTAL_Z:4"), GetFormatFromSub(FORMAT_FRACTAL_Z, 4));
    CHECK(TypeUtils::FormatToSerialString(FORMAT_NCDHW) == "NCDHW");
    CHECK_EQ(GetSizeInBytes(3, DT_INT4), 2);
    CHECK_EQ(GetSizeInBytes(INT64_MAX, DT_FLOAT), -1);
    CHECK(StatusFactory::Instance()->GetErrDesc(SUCCESS) == "success");
    StatusFactory::Instance()->RegisterErrorNo(77, std::string("mine"));
    StatusFactory::Instance()->RegisterErrorNo(77, "other");
    CHECK(StatusFactory::Instance()->GetErrDescV2(77) == "mine");
}

static void run_time_tensors()
{
    GROUP("ge values: gert data are shared and released through their manager");
    static int shares, freed;
    shares = freed = 0;
    auto manager = [](void *addr, gert::TensorOperateType what, void **out) -> graphStatus {
        if (what == gert::kGetTensorAddress)
            *out = static_cast<char *>(addr) + 1;
        else if (what == gert::kPlusShareCount)
            shares++;
        else
            freed++;
        return GRAPH_SUCCESS;
    };
    char data[8];
    {
        gert::TensorData first(data, manager, 8, gert::kOnHost);
        CHECK(first.GetAddr() == data + 1);
        gert::TensorData second;
        CHECK_EQ(second.ShareFrom(first), GRAPH_SUCCESS);
        CHECK_EQ(shares, 1);
        gert::Tensor tensor;
        tensor.SetData(std::move(first));
        CHECK(first.GetAddr() == nullptr && tensor.GetAddr() == data + 1 && tensor.GetSize() == 8);
    }
    CHECK_EQ(freed, 2);
    size_t total = 0;
    auto buffer = gert::Tensor::CreateFollowing(3, DT_INT32, total);
    CHECK_EQ(total, sizeof(gert::Tensor) + 12);
    CHECK(reinterpret_cast<gert::Tensor *>(buffer.get())->GetAddr() == buffer.get() + sizeof(gert::Tensor));
    gert::Shape shape({2, 2}), expanded;
    CHECK_EQ(gert::ExpandDimsType("0110").Expand(shape, expanded), GRAPH_SUCCESS);
    CHECK(expanded == gert::Shape({2, 1, 1, 2}));
}

int main()
{
    texts();
    shapes();
    descriptions();
    tensors();
    values();
    names();
    run_time_tensors();
    return END();
}

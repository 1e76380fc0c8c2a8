/*
 * Shapes, descriptions and tensors. C++ only.
 */
#ifndef CAIRN_GRAPH_TENSOR_H
#define CAIRN_GRAPH_TENSOR_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/ge_error_codes.h"
#include "graph/types.h"

namespace ge {

class ShapeBody;
class TensorDescBody;
class TensorBody;

/** The sizes of a tensor's dims. Copies share them: what is set through one is seen through the other. */
class Shape {
public:
    /** A scalar. */
    Shape();
    ~Shape() = default;
    explicit Shape(const std::vector<int64_t> &dims);

    /** The number of dims; 0 when it is unknown, although GetDims then gives one element, -2. */
    size_t GetDimNum() const;
    /** 0 beyond the last. */
    int64_t GetDim(size_t idx) const;
    /** GRAPH_FAILED beyond the last. */
    graphStatus SetDim(size_t idx, int64_t value);
    std::vector<int64_t> GetDims() const;
    /** The product; -1 with an unknown dim, 0 for a scalar and where the product does not fit. */
    int64_t GetShapeSize() const;

private:
    std::shared_ptr<ShapeBody> impl_;
};

/** What a tensor is, without its data. A copy is a description of its own. */
class TensorDesc {
public:
    /** A scalar of DT_FLOAT, ND, on the host. */
    TensorDesc();
    ~TensorDesc() = default;
    explicit TensorDesc(Shape shape, Format format = FORMAT_ND, DataType dt = DT_FLOAT);
    TensorDesc(const TensorDesc &desc);
    TensorDesc(TensorDesc &&desc);
    TensorDesc &operator=(const TensorDesc &desc);
    TensorDesc &operator=(TensorDesc &&desc);

    /** Sets the three together. */
    void Update(const Shape &shape, Format format = FORMAT_ND, DataType dt = DT_FLOAT);
    /** A copy of the shape: to change it here, set it again. */
    Shape GetShape() const;
    void SetShape(const Shape &shape);
    /** The one dim -2. */
    graphStatus SetUnknownDimNumShape();
    /** The least and the largest size of each dim, -1 for no limit. */
    graphStatus SetShapeRange(const std::vector<std::pair<int64_t, int64_t>> &range);
    graphStatus GetShapeRange(std::vector<std::pair<int64_t, int64_t>> &range) const;

    Format GetFormat() const;
    void SetFormat(Format format);
    Shape GetOriginShape() const;
    void SetOriginShape(const Shape &origin_shape);
    Format GetOriginFormat() const;
    void SetOriginFormat(Format origin_format);
    DataType GetDataType() const;
    void SetDataType(DataType dt);

    std::string GetName() const;
    graphStatus GetName(AscendString &name);
    graphStatus GetName(AscendString &name) const;
    void SetName(const std::string &name);
    void SetName(const char_t *name);

    /** A size in bytes that somebody set; nothing computes it. */
    void SetSize(int64_t size);
    int64_t GetSize() const;
    int64_t GetRealDimCnt() const;
    void SetRealDimCnt(const int64_t real_dim_cnt);

    void SetPlacement(Placement placement);
    Placement GetPlacement() const;

    /** Values that are known already; the description owns them. */
    void SetConstData(std::unique_ptr<uint8_t[]> const_data_buffer, const size_t &const_data_len);
    /** False if there are none. They stay the description's. */
    bool GetConstData(uint8_t **const_data_buffer, size_t &const_data_len) const;

    /** '1' for a dim that was put in, '0' for one of the original shape, from left to right. */
    void SetExpandDimsRule(const AscendString &expand_dims_rule);
    graphStatus GetExpandDimsRule(AscendString &expand_dims_rule) const;

    void SetReuseInputIndex(const uint32_t idx);

private:
    std::shared_ptr<TensorDescBody> impl;
};

/** A description and data. Copies share both; Clone makes a tensor of its own. */
class Tensor {
public:
    using DeleteFunc = std::function<void(uint8_t *)>;

    Tensor();
    ~Tensor() = default;
    explicit Tensor(const TensorDesc &tensor_desc);
    Tensor(const TensorDesc &tensor_desc, const std::vector<uint8_t> &data);
    Tensor(const TensorDesc &tensor_desc, const uint8_t *data, size_t size);
    Tensor(TensorDesc &&tensor_desc, std::vector<uint8_t> &&data);

    /** A copy of the description. */
    TensorDesc GetTensorDesc() const;
    graphStatus SetTensorDesc(const TensorDesc &tensor_desc);

    /** Null without data. */
    const uint8_t *GetData() const;
    uint8_t *GetData();
    /** The bytes of the data. */
    size_t GetSize() const;
    /** Takes the data out, with what frees them; the tensor has none then. */
    std::unique_ptr<uint8_t[], Tensor::DeleteFunc> ResetData();

    graphStatus SetData(std::vector<uint8_t> &&data);
    /** Copies. */
    graphStatus SetData(const std::vector<uint8_t> &data);
    graphStatus SetData(const uint8_t *data, size_t size);
    /** Copies texts, with a head for each. */
    graphStatus SetData(const std::string &data);
    graphStatus SetData(const char_t *data);
    graphStatus SetData(const std::vector<std::string> &data);
    graphStatus SetData(const std::vector<AscendString> &datas);
    /** Takes data over: `deleter_func` frees them when they are replaced or the last copy of the tensor goes. */
    graphStatus SetData(uint8_t *data, size_t size, const Tensor::DeleteFunc &deleter_func);
    /** The same. */
    graphStatus ResetData(uint8_t *data, size_t size, const Tensor::DeleteFunc &deleter_func);
    /** GRAPH_SUCCESS if there are as many bytes as type and shape say. */
    graphStatus IsValid();

    graphStatus SetOriginShapeDimNum(const size_t dim_num);
    size_t GetOriginShapeDimNum() const;
    graphStatus SetOriginShapeDim(const size_t idx, const int64_t dim_value);
    int64_t GetOriginShapeDim(const size_t idx) const;
    graphStatus SetOriginFormat(const ge::Format &format);
    ge::Format GetOriginFormat() const;
    graphStatus SetShapeDimNum(const size_t dim_num);
    size_t GetShapeDimNum() const;
    graphStatus SetShapeDim(const size_t idx, const int64_t dim_value);
    int64_t GetShapeDim(const size_t idx) const;
    graphStatus SetFormat(const ge::Format &format);
    ge::Format GetFormat() const;
    graphStatus SetDataType(const ge::DataType &dtype);
    ge::DataType GetDataType() const;
    graphStatus SetPlacement(const ge::Placement &placement);
    ge::Placement GetPlacement() const;
    graphStatus SetExpandDimsRule(const AscendString &expand_dims_rule);
    graphStatus GetExpandDimsRule(AscendString &expand_dims_rule) const;

    /** A tensor with a copy of description and data. */
    Tensor Clone() const;

private:
    friend class TensorBody;
    std::shared_ptr<TensorBody> impl;
};

}  // namespace ge

#endif

#endif

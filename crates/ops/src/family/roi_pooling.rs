//! The greatest elements of regions of images.

use super::detection::{expect_matrix, no_such_image};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{ArgSource, AttrDefault, Node, node};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::region_max::pool_regions;
use cairn_tensor::{DType, Layout};

/// What the cells of regions are. Arguments: images, regions, rows and columns of cells, scales of rows and columns, out,
/// how many regions count (which is reserved, and not read).
struct Cells {
    scales: [f32; 2],
    output: Layout,
}

impl Cells {
    fn read(call: &Call<'_>) -> Result<Cells> {
        let (images, boxes) = (call.layout(0)?, call.layout(1)?);
        call.expect_dtype(0, &images, &[DType::Float, DType::Float16])?;
        call.expect_same(1, &boxes, 0, &images)?;
        expect_matrix(call, 1, &boxes, 1, 5)?;
        let &[_, channels, _, _] = images.dims() else {
            let (name, dims) = (call.parameter(0), images.dims());
            return Err(Error::invalid(format!("{name} {dims:?}: expected four dimensions")));
        };
        let mut dims = [boxes.dims()[0], channels, 0, 0];
        let mut scales = [0.0; 2];
        for i in 0..2 {
            let (cells, scale) = (call.int(2 + i)?, call.float(4 + i)?);
            if !(1..=i64::from(i32::MAX)).contains(&cells) {
                let name = call.parameter(2 + i);
                return Err(Error::invalid(format!("{name} = {cells} is no number of cells")));
            }
            if !(scale > 0.0 && scale.is_finite()) {
                let name = call.parameter(4 + i);
                return Err(Error::invalid(format!("{name} = {scale}: expected a positive scale")));
            }
            (dims[2 + i], scales[i]) = (cells as usize, scale as f32);
        }
        Ok(Cells { scales, output: Layout::contiguous(images.dtype, &dims) })
    }
}

fn roi_pooling(call: &mut Call<'_>) -> Result<Plan> {
    let Cells { scales, output } = Cells::read(call)?;
    let out = call.output(6)?;
    call.expect_dtype(6, &out, &[output.dtype])?;
    call.expect_dims(6, &out, output.dims())?;
    let (images, boxes) = (call.read_by_index(0, &[&out])?, call.read(1, &[&out])?);
    let name = call.parameter(1);
    call.plan(move |memory| {
        let (images, boxes) = (images.view(memory), boxes.view(memory));
        if out.count() == 0 {
            return Ok(());
        }
        let result = pool_regions(memory.parallel, memory.out(&out), images, boxes, scales);
        result.map_err(|region| {
            let image = PositionAccess::new(boxes).get::<f64>(&[region, 0]);
            no_such_image(name, region, image, images.dims()[0])
        })
    })
}

fn infer_cells(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Cells::read(call)?.output])
}

const fn required(name: &'static str) -> ArgSource {
    Attr(name, AttrDefault::Required)
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "ROIPooling",
    &["x", "rois", "roi_actual_num?"],
    &["y"],
    Infer::By(infer_cells),
    roi_pooling,
    &[
        A(0),
        A(1),
        required("pooled_h"),
        required("pooled_w"),
        required("spatial_scale_h"),
        required("spatial_scale_w"),
        O(0),
        A(2),
    ],
)];

//! The negative logarithm of likelihood: one class of many is right at each position.

use super::element::Compute;
use super::strip::{load_one, store_one};
use super::walk::Walk;
use crate::{Layout, View, ViewMut};

/// A target that names no class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoClass {
    /// The target.
    pub index: i64,
    /// Its flat index among the targets.
    pub position: usize,
}

/// Classes at positions: `x` has the classes as its last dimension, the dimensions before are those of
/// `target`. `weight` has one number for each class. A target equal to `ignored` counts for nothing.
#[derive(Clone, Copy)]
pub struct Classes<'v> {
    /// The right class of each position.
    pub target: View<'v>,
    /// What each class counts; 1 when absent.
    pub weight: Option<View<'v>>,
    /// The target that counts for nothing.
    pub ignored: i64,
}

impl Classes<'_> {
    /// Calls `visit` with the offsets of each position in `target`, `x` and `other`, and with the offset of its class
    /// and the class's weight; without those two where the target is ignored.
    fn each(
        &self,
        x: &Layout,
        other: &Layout,
        mut visit: impl FnMut([isize; 3], Option<(isize, f64)>),
    ) -> Result<(), NoClass> {
        let last = x.rank() - 1;
        let (classes, class_stride) = (x.dims()[last], x.strides()[last]);
        let walk = Walk::in_order([self.target.layout(), &x.without(last), other]);
        let steps = walk.inner_strides();
        let mut wrong = None;
        let mut position = 0;
        walk.runs(0..walk.count(), usize::MAX, |offsets, count| {
            for i in 0..count as isize {
                let offsets: [isize; 3] = std::array::from_fn(|at| offsets[at] + i * steps[at]);
                let index = read::<i64>(&self.target, offsets[0]);
                let class = usize::try_from(index).ok().filter(|class| *class < classes);
                match class {
                    _ if wrong.is_some() => {}
                    _ if index == self.ignored => visit(offsets, None),
                    Some(class) => {
                        let weight = self.weight.as_ref().map_or(1.0, |weight| {
                            assert!(class < weight.count());
                            read::<f64>(weight, class as isize * weight.strides()[0])
                        });
                        visit(offsets, Some((class as isize * class_stride, weight)));
                    }
                    None => wrong = Some(NoClass { index, position }),
                }
                position += 1;
            }
        });
        wrong.map_or(Ok(()), Err)
    }
}

/// One element at an offset that a walk or a checked class gave.
fn read<C: Compute>(view: &View<'_>, offset: isize) -> C {
    // SAFETY: the element belongs to the view.
    unsafe { load_one(view.dtype(), view.first().offset(offset * view.item() as isize)) }
}

/// Writes one element, as [`read`] reads it.
fn write(view: &ViewMut<'_>, offset: isize, value: f64) {
    // SAFETY: the element belongs to the view.
    unsafe {
        store_one(view.dtype(), view.first_mut().offset(offset * view.item() as isize), value);
    }
}

/// The losses, `-weight * x` of each position's class, into `out` if it is there; and the sums of losses and
/// of weights. `out` has the sizes of the targets.
pub fn likelihood(
    x: View<'_>,
    classes: Classes<'_>,
    out: Option<ViewMut<'_>>,
) -> Result<(f64, f64), NoClass> {
    let (mut losses, mut weights) = (0.0, 0.0);
    let other = out.map_or(*classes.target.layout(), |out| *out.layout());
    classes.each(x.layout(), &other, |[_, at, to], class| {
        let loss = class.map_or(0.0, |(class, weight)| {
            weights += weight;
            -weight * read::<f64>(&x, at + class)
        });
        losses += loss;
        if let Some(out) = &out {
            write(out, to, loss);
        }
    })?;
    Ok((losses, weights))
}

/// The gradient of [`likelihood`] at each position's class; the rest of `dx` is left as it is. `grad` has the
/// sizes of the targets.
pub fn likelihood_backward(
    dx: ViewMut<'_>,
    classes: Classes<'_>,
    grad: View<'_>,
    factor: f64,
) -> Result<(), NoClass> {
    classes.each(dx.layout(), grad.layout(), |[_, at, from], class| {
        if let Some((class, weight)) = class {
            write(&dx, at + class, -weight * read::<f64>(&grad, from) * factor);
        }
    })
}

//! The threads that a kernel may run on.

/// Threads that run the parts of one kernel.
///
/// A kernel splits its work by [`Parallel::width`] and its own shapes alone, never by which threads are free: results are
/// the same for a given width.
pub trait Parallel: Sync {
    /// How many parts may run at once; at least 1.
    fn width(&self) -> usize;

    /// Calls `body` once for each number below `parts`, on any threads, and returns when all are done.
    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync));
}

/// The calling thread alone.
pub struct SingleThread;

impl Parallel for SingleThread {
    fn width(&self) -> usize {
        1
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..parts).for_each(body);
    }
}

/// The part `part` of `0..count` when it is cut into `parts` of nearly the same length, whose borders are
/// multiples of `grain`.
pub fn share(count: usize, grain: usize, parts: usize, part: usize) -> std::ops::Range<usize> {
    let grains = count.div_ceil(grain);
    let border = |part: usize| (grains * part / parts * grain).min(count);
    border(part)..border(part + 1)
}

/// Calls `body` with ranges that make up `0..count`: one for each thread when there is enough
/// to do (`least` for each), else one in all. Borders are multiples of `grain`.
pub fn split(
    parallel: &dyn Parallel,
    count: usize,
    grain: usize,
    least: usize,
    body: impl Fn(std::ops::Range<usize>) + Sync,
) {
    let parts = (count / least.max(1)).clamp(1, parallel.width());
    match parts {
        1 => body(0..count),
        _ => parallel.run(parts, &|part| body(share(count, grain, parts, part))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_make_up_the_whole() {
        for count in [0, 1, 7, 64, 1000, 1001] {
            for grain in [1, 8, 100] {
                for parts in 1..5 {
                    let mut next = 0;
                    for part in 0..parts {
                        let range = share(count, grain, parts, part);
                        assert_eq!(range.start, next);
                        assert!(range.start.is_multiple_of(grain) || range.start == count);
                        next = range.end;
                    }
                    assert_eq!(next, count);
                }
            }
        }
    }
}

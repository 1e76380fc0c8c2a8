//! Gears: the few sizes that a model was built for.

/// The sizes that a model was built for besides those of its inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gears {
    /// Its inputs have one size each, or ranges.
    #[default]
    None,
    /// The first size of every input whose first size is unknown.
    Batch(Vec<i64>),
    /// Height and width of the one input where they are unknown.
    ImageSize(Vec<[i64; 2]>),
    /// All unknown sizes, in the order of the inputs.
    Dims(Vec<Vec<i64>>),
}

/// How many gears a model may have.
pub const MAX_GEARS: usize = 100;

impl Gears {
    /// How many there are; 0 for a model without.
    pub fn count(&self) -> usize {
        match self {
            Gears::None => 0,
            Gears::Batch(sizes) => sizes.len(),
            Gears::ImageSize(sizes) => sizes.len(),
            Gears::Dims(sizes) => sizes.len(),
        }
    }

    /// How many numbers choose one.
    pub fn width(&self) -> usize {
        match self {
            Gears::None => 0,
            Gears::Batch(_) => 1,
            Gears::ImageSize(_) => 2,
            Gears::Dims(sizes) => sizes.first().map_or(0, Vec::len),
        }
    }

    /// The numbers of each gear.
    pub fn values(&self) -> Vec<Vec<i64>> {
        match self {
            Gears::None => Vec::new(),
            Gears::Batch(sizes) => sizes.iter().map(|size| vec![*size]).collect(),
            Gears::ImageSize(sizes) => sizes.iter().map(|size| size.to_vec()).collect(),
            Gears::Dims(sizes) => sizes.clone(),
        }
    }

    /// The gear with these numbers.
    pub fn find(&self, numbers: &[i64]) -> Option<usize> {
        self.values().iter().position(|gear| gear == numbers)
    }

    /// The sizes of the inputs in each gear. The text of an error says which sizes do not fit.
    pub fn input_dims(&self, inputs: &[Vec<i64>]) -> Result<Vec<Vec<Vec<i64>>>, String> {
        let values = self.values();
        if matches!(self, Gears::None) {
            return Ok(Vec::new());
        }
        if values.len() < 2 || values.len() > MAX_GEARS {
            return Err(format!("there are {} gears: 2 to {MAX_GEARS} are possible", values.len()));
        }
        self.check_unknown(inputs)?;
        let mut all = Vec::with_capacity(values.len());
        for gear in &values {
            if let Some(wrong) = gear.iter().find(|size| **size <= 0) {
                return Err(format!("the size {wrong} of a gear is not positive"));
            }
            if all.len() != values.iter().position(|one| one == gear).unwrap_or(0) {
                return Err(format!("the gear {gear:?} is there twice"));
            }
            let mut next = gear.iter().cycle();
            let mut sizes = inputs.to_vec();
            for size in sizes.iter_mut().flatten().filter(|size| **size < 0) {
                *size = *next.next().expect("a gear has sizes");
            }
            all.push(sizes);
        }
        Ok(all)
    }

    /// Fails if sizes are unknown where these gears have none, or the other way round.
    fn check_unknown(&self, inputs: &[Vec<i64>]) -> Result<(), String> {
        let unknown = |dims: &Vec<i64>| dims.iter().filter(|size| **size < 0).count();
        let total: usize = inputs.iter().map(unknown).sum();
        if total == 0 {
            return Err("no size of an input is -1, so that gears choose nothing".to_owned());
        }
        match self {
            Gears::None => Ok(()),
            Gears::Batch(_) => {
                let fits = |dims: &Vec<i64>| dims.iter().skip(1).all(|size| *size >= 0);
                match inputs.iter().find(|dims| !fits(dims)) {
                    Some(dims) => Err(format!(
                        "an input has the sizes {dims:?}: with batch gears only the first may be -1"
                    )),
                    None => Ok(()),
                }
            }
            Gears::ImageSize(_) => {
                let images: Vec<&Vec<i64>> =
                    inputs.iter().filter(|dims| unknown(dims) > 0).collect();
                match images[..] {
                    [dims] if dims.len() == 4 && unknown(dims) == 2 && dims[0] >= 0 => Ok(()),
                    _ => Err(format!(
                        "the sizes {images:?} are not known: with image gears height and width of one input of 4 dimensions are -1"
                    )),
                }
            }
            Gears::Dims(sizes) => match sizes.iter().find(|gear| gear.len() != total) {
                Some(gear) => Err(format!(
                    "the gear {gear:?} has {} sizes; {total} sizes of the inputs are -1",
                    gear.len()
                )),
                None => Ok(()),
            },
        }
    }

    /// The gear with the most elements of input, which runs when none was set.
    pub fn largest(gears: &[Vec<Vec<i64>>]) -> usize {
        let elements = |inputs: &Vec<Vec<i64>>| -> i64 {
            let count =
                |dims: &Vec<i64>| dims.iter().fold(1i64, |all, dim| all.saturating_mul(*dim));
            inputs.iter().fold(0i64, |all, dims| all.saturating_add(count(dims)))
        };
        let sizes: Vec<i64> = gears.iter().map(elements).collect();
        (0..sizes.len()).rev().max_by_key(|at| sizes[*at]).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gears_fill_the_unknown_sizes() {
        let inputs = [vec![-1, 3, 8, 8], vec![-1, 10]];
        let batch = Gears::Batch(vec![1, 4]).input_dims(&inputs).unwrap();
        assert_eq!(batch[1], [vec![4, 3, 8, 8], vec![4, 10]]);
        let dims = Gears::Dims(vec![vec![1, 2], vec![3, 4]]).input_dims(&inputs).unwrap();
        assert_eq!(dims[1], [vec![3, 3, 8, 8], vec![4, 10]]);
        let image = [vec![1, 3, -1, -1], vec![1, 10]];
        let sizes = Gears::ImageSize(vec![[4, 6], [2, 2]]).input_dims(&image).unwrap();
        assert_eq!(sizes[0], [vec![1, 3, 4, 6], vec![1, 10]]);
        assert_eq!(Gears::largest(&sizes), 0);
    }

    #[test]
    fn gears_that_do_not_fit_are_refused() {
        let inputs = [vec![2, -1]];
        let refused = |gears: Gears| gears.input_dims(&inputs).unwrap_err();
        assert!(refused(Gears::Batch(vec![1, 2])).contains("[2, -1]"));
        assert!(refused(Gears::Dims(vec![vec![1]])).contains("1 gears"));
        assert!(refused(Gears::Dims(vec![vec![1, 2], vec![3, 4]])).contains("[1, 2]"));
        assert!(refused(Gears::Dims(vec![vec![1], vec![1]])).contains("twice"));
        assert!(refused(Gears::Dims(vec![vec![1], vec![0]])).contains("0"));
        assert!(refused(Gears::ImageSize(vec![[1, 1], [2, 2]])).contains("4 dimensions"));
        assert!(Gears::Batch(vec![1, 2]).input_dims(&[vec![3]]).unwrap_err().contains("-1"));
    }
}

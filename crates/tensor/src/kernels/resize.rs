//! Maps of one dimension to another as ONNX defines them for its operator `Resize`: where an output lies among the inputs,
//! and which inputs it is made of.

use super::taps::cubic;

/// Where an output lies among the inputs. `scale` is outputs for each input, a *length* the number of positions of a
/// dimension; that of the outputs is `scale` times that of the inputs, and need not be an integer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coordinates {
    /// Centres of positions: borders meet borders.
    HalfPixel,
    /// As `HalfPixel`, with the middle of the outputs at the middle of the inputs, however their length was rounded.
    HalfPixelSymmetric,
    /// As `HalfPixel`; a single output lies at the first input.
    PytorchHalfPixel,
    /// First and last positions meet.
    AlignCorners,
    /// First positions meet.
    Asymmetric,
    /// First and last outputs lie at these parts of the way from the first input to the last.
    Crop(f64, f64),
}

/// The input that is taken where an output lies between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearestMode {
    /// The nearer; of two as near the lower.
    RoundPreferFloor,
    /// The nearer; of two as near the upper.
    RoundPreferCeil,
    /// The lower.
    Floor,
    /// The upper.
    Ceil,
}

/// Which inputs an output is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// One.
    Nearest(NearestMode),
    /// Two, by their distances.
    Linear,
    /// Four, on a cubic curve of this steepness.
    Cubic(f64),
}

/// A map of one dimension to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resize {
    /// Where outputs lie.
    pub coordinates: Coordinates,
    /// What they are made of.
    pub method: Method,
    /// Outputs for each input; positive.
    pub scale: f64,
    /// Where there are fewer outputs than inputs, an output is made of as many more.
    pub antialias: bool,
    /// Positions outside of the inputs have no weight; otherwise they repeat the outermost input.
    pub exclude_outside: bool,
}

impl Resize {
    /// Where the output `at` of `output` lies among `input` positions.
    pub fn position(&self, at: usize, input: usize, output: usize) -> f64 {
        let (x, last, scale) = (at as f64, input as f64 - 1.0, self.scale);
        let length = scale * input as f64;
        match self.coordinates {
            Coordinates::HalfPixel => (x + 0.5) / scale - 0.5,
            Coordinates::PytorchHalfPixel if output <= 1 => 0.0,
            Coordinates::PytorchHalfPixel => (x + 0.5) / scale - 0.5,
            Coordinates::HalfPixelSymmetric => {
                let offset = input as f64 / 2.0 * (1.0 - output as f64 / length);
                offset + (x + 0.5) / scale - 0.5
            }
            Coordinates::AlignCorners if at == 0 => 0.0,
            Coordinates::AlignCorners => x * last / (length - 1.0),
            Coordinates::Asymmetric => x / scale,
            Coordinates::Crop(start, end) => {
                let from_start = match at {
                    _ if length == 1.0 => (end - start) * last / 2.0,
                    0 => 0.0,
                    _ => x * (end - start) * last / (length - 1.0),
                };
                start * last + from_start
            }
        }
    }

    /// Whether an output lies outside of the inputs, and is not made of them.
    pub fn is_outside(&self, at: usize, input: usize, output: usize) -> bool {
        let inside = 0.0..=input as f64 - 1.0;
        matches!(self.coordinates, Coordinates::Crop(..))
            && !inside.contains(&self.position(at, input, output))
    }

    /// The one input of an output, if the method takes one.
    pub fn source(&self, at: usize, input: usize, output: usize) -> Option<usize> {
        let Method::Nearest(mode) = self.method else { return None };
        let position = self.position(at, input, output);
        let (lower, upper) = (position.floor(), position.ceil());
        let part = position - lower;
        let nearest = match mode {
            NearestMode::Floor => lower,
            NearestMode::Ceil => upper,
            NearestMode::RoundPreferFloor if part <= 0.5 => lower,
            NearestMode::RoundPreferCeil if part < 0.5 => lower,
            NearestMode::RoundPreferFloor | NearestMode::RoundPreferCeil => upper,
        };
        Some(nearest.clamp(0.0, input as f64 - 1.0) as usize)
    }

    /// Calls `visit` with the inputs of an output and their weights, whose sum is 1.
    pub fn each(&self, at: usize, input: usize, output: usize, mut visit: impl FnMut(usize, f64)) {
        let (reach, steepness) = match self.method {
            Method::Nearest(_) => {
                let source = self.source(at, input, output).expect("the nearest input");
                return visit(source, 1.0);
            }
            Method::Linear => (1.0, None),
            Method::Cubic(steepness) => (2.0, Some(steepness)),
        };
        let narrowing = if self.antialias { self.scale.min(1.0) } else { 1.0 };
        let last = input as f64 - 1.0;
        let farthest = reach / narrowing + 1.0;
        let position = self.position(at, input, output).clamp(-farthest, last + farthest);
        let first = (position - reach / narrowing).floor() + 1.0;
        let count = ((position + reach / narrowing).ceil() - first).max(0.0) as usize;
        let weight = |tap: usize| {
            let distance = (first + tap as f64 - position) * narrowing;
            match steepness {
                None => (1.0 - distance.abs()).max(0.0),
                Some(steepness) => cubic(steepness, distance),
            }
        };
        let is_inside = |tap: usize| (0.0..=last).contains(&(first + tap as f64));
        let sum = |only_inside: bool| -> f64 {
            (0..count).filter(|tap| !only_inside || is_inside(*tap)).map(weight).sum()
        };
        let only_inside = self.exclude_outside && sum(true) != 0.0;
        let total = if only_inside || self.antialias { sum(only_inside) } else { 1.0 };
        for tap in (0..count).filter(|tap| !only_inside || is_inside(*tap)) {
            let source = (first + tap as f64).clamp(0.0, last) as usize;
            visit(source, weight(tap) / total);
        }
    }

    /// Whether every output is the input at its position.
    pub fn is_identity(&self, input: usize, output: usize) -> bool {
        let whole = match self.coordinates {
            Coordinates::Crop(start, end) => start == 0.0 && end == 1.0,
            _ => true,
        };
        input == output && self.scale == 1.0 && whole
    }
}

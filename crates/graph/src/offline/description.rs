//! What a program may know of a model without its graph: inputs, outputs, gears. The eighth part of a file.

use super::aipp::{AippInfo, record as image_record};
use super::gears::Gears;
use crate::ir::{Desc, UNKNOWN};
use cairn_tensor::{DType, Format};

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// The name that programs look it up by.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Its format.
    pub format: Format,
    /// Its sizes; -1 for one that a gear or a run decides.
    pub dims: Vec<i64>,
    /// The sizes as a program feeds them, which `aclmdlGetInputDimsV2` shows. `aipp` has those that
    /// `aclmdlGetInputDims` shows for an image.
    pub fed_dims: Vec<i64>,
    /// The least and the greatest of each size, -1 for no bound; empty if all sizes are known.
    pub ranges: Vec<(i64, i64)>,
    /// The bytes of the largest that it can be; 0 if there is no bound.
    pub bytes: u64,
    /// How the model prepares it, if it is an image.
    pub aipp: Option<AippInfo>,
}

impl Port {
    /// A port with these sizes, which may have ranges.
    pub fn new(name: String, desc: &Desc, ranges: Vec<(i64, i64)>) -> Port {
        let dims = match desc.has_rank() {
            true => desc.dims.clone(),
            false => vec![crate::ir::UNKNOWN_RANK],
        };
        let largest = dims.iter().enumerate().map(|(at, dim)| match *dim >= 0 {
            true => Some(*dim),
            false => ranges.get(at).map(|(_, high)| *high).filter(|high| *high >= 0),
        });
        let bytes = largest
            .collect::<Option<Vec<i64>>>()
            .and_then(|dims| Desc::new(desc.dtype, &dims).layout())
            .map_or(0, |layout| layout.bytes() as u64);
        let ranges = if dims.iter().all(|dim| *dim >= 0) { Vec::new() } else { ranges };
        let (dtype, format, fed_dims) = (desc.dtype, desc.format, dims.clone());
        Port { name, dtype, format, dims, fed_dims, ranges, bytes, aipp: None }
    }

    /// Whether a run may bring these sizes.
    pub fn accepts(&self, dims: &[i64]) -> bool {
        dims.len() == self.dims.len()
            && dims.iter().enumerate().all(|(at, size)| match self.dims[at] {
                UNKNOWN => {
                    let (low, high) = self.ranges.get(at).copied().unwrap_or((0, UNKNOWN));
                    *size >= low.max(0) && (high < 0 || *size <= high)
                }
                known => *size == known,
            })
    }
}

/// What a program may know of a model without its graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// The name that the model was built under.
    pub name: String,
    /// Inputs, without the one that chooses a gear.
    pub inputs: Vec<Port>,
    /// Outputs; in a model with gears, those of the largest.
    pub outputs: Vec<Port>,
    /// The sizes that it was built for.
    pub gears: Gears,
    /// The sizes of the outputs in each gear.
    pub output_dims: Vec<Vec<Vec<i64>>>,
}

impl Description {
    /// Whether sizes come with each run.
    pub fn is_dynamic(&self) -> bool {
        self.gears == Gears::None
            && self
                .inputs
                .iter()
                .chain(&self.outputs)
                .any(|port| port.dims.iter().any(|dim| *dim < 0))
    }

    /// The sizes of the inputs in each gear.
    pub fn input_dims(&self) -> Vec<Vec<Vec<i64>>> {
        let dims: Vec<Vec<i64>> = self.inputs.iter().map(|port| port.dims.clone()).collect();
        self.gears.input_dims(&dims).unwrap_or_default()
    }
}

/// The records of the part; each is a number, a length, and that many bytes.
const NAME: u32 = 100;
const INPUTS: u32 = 0;
const OUTPUTS: u32 = 1;
const BATCH_GEARS: u32 = 2;
const IMAGE_GEARS: u32 = 3;
const DIMS_GEARS: u32 = 4;
const OUTPUT_DIMS: u32 = 5;
const IMAGES: u32 = 101;

/// The bytes of a description.
pub fn write(description: &Description) -> Vec<u8> {
    let mut bytes = Writer::default();
    bytes.record(NAME, |record| record.text(&description.name));
    for (kind, ports) in [(INPUTS, &description.inputs), (OUTPUTS, &description.outputs)] {
        bytes.record(kind, |record| {
            record.number(ports.len() as u64);
            ports.iter().for_each(|port| record.port(port));
        });
    }
    let images = description.inputs.iter().enumerate();
    let images: Vec<(usize, &AippInfo)> =
        images.filter_map(|(at, port)| Some((at, port.aipp.as_ref()?))).collect();
    if !images.is_empty() {
        bytes.record(IMAGES, |record| {
            record.number(images.len() as u64);
            for (at, info) in images {
                record.number(at as u64);
                record.sizes(&image_record::write(info));
            }
        });
    }
    let kind = match &description.gears {
        Gears::None => None,
        Gears::Batch(_) => Some(BATCH_GEARS),
        Gears::ImageSize(_) => Some(IMAGE_GEARS),
        Gears::Dims(_) => Some(DIMS_GEARS),
    };
    if let Some(kind) = kind {
        bytes.record(kind, |record| {
            let values = description.gears.values();
            record.number(values.len() as u64);
            values.iter().for_each(|gear| record.sizes(gear));
        });
        bytes.record(OUTPUT_DIMS, |record| {
            record.number(description.output_dims.len() as u64);
            for outputs in &description.output_dims {
                record.number(outputs.len() as u64);
                outputs.iter().for_each(|dims| record.sizes(dims));
            }
        });
    }
    bytes.0
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
    }

    fn sizes(&mut self, sizes: &[i64]) {
        self.number(sizes.len() as u64);
        sizes.iter().for_each(|size| self.number(*size as u64));
    }

    fn port(&mut self, port: &Port) {
        self.number(port.bytes);
        self.number(port.format.0 as u64);
        self.number(port.dtype as i64 as u64);
        self.text(&port.name);
        self.sizes(&port.dims);
        self.sizes(&port.fed_dims);
        let ranges: Vec<i64> = port.ranges.iter().flat_map(|(low, high)| [*low, *high]).collect();
        self.sizes(&ranges);
    }

    fn record(&mut self, kind: u32, write: impl FnOnce(&mut Writer)) {
        let mut record = Writer::default();
        write(&mut record);
        self.0.extend(kind.to_le_bytes());
        self.0.extend((record.0.len() as u32).to_le_bytes());
        self.0.extend(record.0);
    }
}

/// Reads a description; `None` for bytes that are none.
pub fn read(bytes: &[u8]) -> Option<Description> {
    let mut rest = Reader(bytes);
    let mut description = Description::default();
    let mut images = Vec::new();
    while !rest.0.is_empty() {
        let kind = u32::from_le_bytes(rest.take(4)?.try_into().ok()?);
        let length = u32::from_le_bytes(rest.take(4)?.try_into().ok()?);
        let mut record = Reader(rest.take(length as usize)?);
        match kind {
            NAME => description.name = record.text()?,
            INPUTS => description.inputs = record.list(Reader::port)?,
            OUTPUTS => description.outputs = record.list(Reader::port)?,
            BATCH_GEARS => {
                let gears = record.list(Reader::sizes)?;
                let gears = gears.iter().map(|gear| gear.first().copied());
                description.gears = Gears::Batch(gears.collect::<Option<_>>()?);
            }
            IMAGE_GEARS => {
                let gears = record.list(Reader::sizes)?;
                let gears = gears.iter().map(|gear| gear.as_slice().try_into().ok());
                description.gears = Gears::ImageSize(gears.collect::<Option<_>>()?);
            }
            DIMS_GEARS => description.gears = Gears::Dims(record.list(Reader::sizes)?),
            OUTPUT_DIMS => {
                description.output_dims = record.list(|outputs| outputs.list(Reader::sizes))?;
            }
            IMAGES => images = record.list(|image| Some((image.number()?, image.sizes()?)))?,
            _ => {}
        }
    }
    for (at, numbers) in images {
        let at = usize::try_from(at).ok()?;
        let port = description.inputs.get_mut(at)?;
        port.aipp = Some(image_record::read(&numbers, at, &port.name)?);
    }
    Some(description)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A list, each of whose elements has at least eight bytes.
    fn list<T>(&mut self, read: impl Fn(&mut Reader<'a>) -> Option<T>) -> Option<Vec<T>> {
        let count = usize::try_from(self.number()?).ok()?;
        if count > self.0.len() / 8 {
            return None;
        }
        (0..count).map(|_| read(self)).collect()
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    fn sizes(&mut self) -> Option<Vec<i64>> {
        self.list(|one| one.number().map(|size| size as i64))
    }

    fn port(&mut self) -> Option<Port> {
        let bytes = self.number()?;
        let format = Format(self.number()? as i32);
        let dtype = DType::from_number(self.number()? as i32)?;
        let name = self.text()?;
        let (dims, fed_dims) = (self.sizes()?, self.sizes()?);
        let ranges = self.sizes()?;
        let ranges = ranges.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        Some(Port { name, dtype, format, dims, fed_dims, ranges, bytes, aipp: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> Description {
        let input = Port::new("x".into(), &Desc::new(DType::Float, &[-1, 4]), vec![(1, 8), (4, 4)]);
        let output = Port::new("y:0:out".into(), &Desc::new(DType::Int64, &[2]), Vec::new());
        Description {
            name: "net".into(),
            inputs: vec![input],
            outputs: vec![output],
            gears: Gears::Dims(vec![vec![1], vec![3]]),
            output_dims: vec![vec![vec![2]], vec![vec![2]]],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let description = described();
        assert_eq!(read(&write(&description)), Some(description));
    }

    #[test]
    fn every_prefix_is_refused_or_read() {
        let bytes = write(&described());
        for end in 0..bytes.len() {
            let _ = read(&bytes[..end]);
        }
        let huge = [INPUTS.to_le_bytes(), 8u32.to_le_bytes(), [0xff; 4], [0xff; 4]].concat();
        assert_eq!(read(&huge), None);
    }

    #[test]
    fn bytes_are_those_of_the_largest() {
        let port = &described().inputs[0];
        assert_eq!(port.bytes, 8 * 4 * 4);
        assert!(port.accepts(&[8, 4]) && !port.accepts(&[9, 4]) && !port.accepts(&[8]));
        let open = Port::new("x".into(), &Desc::new(DType::Float, &[-1]), vec![(1, -1)]);
        assert_eq!(open.bytes, 0);
        assert!(open.accepts(&[1000]) && !open.accepts(&[0]));
    }
}

//! Plain traces: the requests for memory of a program, as lines of text.
//!
//! ```text
//! # a comment
//! a ID BYTES [STREAM [DEVICE]]    a block is taken for work on a stream
//! f ID [STREAM]                   it is given back, on the stream it was taken for if none is named
//! ```
//!
//! An id is any word, and may come again once its block was given back. Streams and devices are small numbers, 0 if not given.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// The highest number of a stream: one less than a process can have.
pub const MAX_STREAM: u32 = 1983;
/// The highest number of a device.
pub const MAX_DEVICE: u32 = 15;

/// A request of a trace. Blocks are numbered from 0 in the order in which they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A block is taken.
    Take {
        /// Its number.
        block: usize,
        /// How many bytes are asked for.
        bytes: u64,
        /// The stream it is used on.
        stream: u32,
        /// The device it is on.
        device: u32,
    },
    /// A block is given back.
    Free {
        /// Its number.
        block: usize,
        /// The stream on which its last task is.
        stream: u32,
    },
}

/// The requests of a program, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    requests: Vec<Request>,
    blocks: usize,
    live: u64,
    peak_live: u64,
}

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it, with the line itself.
    pub reason: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for TraceError {}

/// A block that is live while a text is read.
struct LiveBlock {
    number: usize,
    bytes: u64,
    stream: u32,
}

impl Trace {
    /// Reads a text.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        let mut trace = Trace::default();
        let mut live = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            trace.add_line(line, &mut live).map_err(|reason| {
                let shown: String = line.chars().take(80).collect();
                TraceError { line: index + 1, reason: format!("{reason}: {shown}") }
            })?;
        }
        Ok(trace)
    }

    fn add_line<'a>(
        &mut self,
        line: &'a str,
        live: &mut HashMap<&'a str, LiveBlock>,
    ) -> Result<(), String> {
        let words: Vec<&str> = line.split_ascii_whitespace().take(6).collect();
        match words[..] {
            [] => Ok(()),
            [first, ..] if first.starts_with('#') => Ok(()),
            ["a", id, bytes, ref place @ ..] if place.len() <= 2 => {
                let bytes =
                    bytes.parse().map_err(|_| format!("`{bytes}` is no number of bytes"))?;
                let stream = number(place.first(), MAX_STREAM, "stream")?;
                let device = number(place.get(1), MAX_DEVICE, "device")?;
                if live.contains_key(id) {
                    return Err(format!("block {id} is live already"));
                }
                let number =
                    self.take(bytes, stream, device).ok_or("more bytes than there can be")?;
                live.insert(id, LiveBlock { number, bytes, stream });
                Ok(())
            }
            ["f", id, ref place @ ..] if place.len() <= 1 => {
                let block = live.get(id).ok_or_else(|| format!("no block {id} is live"))?;
                let stream = match place.first() {
                    Some(_) => number(place.first(), MAX_STREAM, "stream")?,
                    None => block.stream,
                };
                self.free(block.number, block.bytes, stream);
                live.remove(id);
                Ok(())
            }
            _ => Err("neither `a ID BYTES [STREAM [DEVICE]]` nor `f ID [STREAM]`".into()),
        }
    }

    /// Adds a request for a block, and gives the block's number; `None` if more bytes would be live than a number can say.
    pub fn take(&mut self, bytes: u64, stream: u32, device: u32) -> Option<usize> {
        self.live = self.live.checked_add(bytes)?;
        self.peak_live = self.peak_live.max(self.live);
        let block = self.blocks;
        self.blocks += 1;
        self.requests.push(Request::Take { block, bytes, stream, device });
        Some(block)
    }

    /// Adds the free of a block of this many bytes. The caller makes sure that it is live.
    pub fn free(&mut self, block: usize, bytes: u64, stream: u32) {
        self.live = self.live.saturating_sub(bytes);
        self.requests.push(Request::Free { block, stream });
    }

    /// The requests, in their order.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// How many blocks are taken in all.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// The most bytes that are live at a time.
    pub fn peak_live(&self) -> u64 {
        self.peak_live
    }

    /// The streams that blocks are taken for, each with its device, by number. A stream on two devices is two.
    pub fn streams(&self) -> BTreeSet<(u32, u32)> {
        let streams = self.requests.iter().filter_map(|request| match *request {
            Request::Take { stream, device, .. } => Some((device, stream)),
            Request::Free { .. } => None,
        });
        streams.collect()
    }
}

fn number(word: Option<&&str>, max: u32, what: &str) -> Result<u32, String> {
    let Some(word) = word else { return Ok(0) };
    let number = word.parse().ok().filter(|&number| number <= max);
    number.ok_or_else(|| format!("`{word}` is no {what}: they are numbered 0 to {max}"))
}

/// The text that [`Trace::parse`] reads. Ids are the numbers of blocks.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut streams = vec![0; self.blocks];
        for request in &self.requests {
            match *request {
                Request::Take { block, bytes, stream, device } => {
                    streams[block] = stream;
                    match (stream, device) {
                        (0, 0) => writeln!(f, "a {block} {bytes}")?,
                        (_, 0) => writeln!(f, "a {block} {bytes} {stream}")?,
                        _ => writeln!(f, "a {block} {bytes} {stream} {device}")?,
                    }
                }
                Request::Free { block, stream } if streams[block] == stream => {
                    writeln!(f, "f {block}")?;
                }
                Request::Free { block, stream } => writeln!(f, "f {block} {stream}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in prop_oneof![
            ".*",
            "([af] [0-4x]{1,2} ?[0-9]{0,4} ?[0-9]{0,2} ?[0-9]?\n){0,30}",
            "([af]? ?[0-3]? ?[0-9-]{0,21} ?[0-9]{0,5}[ #\n\r]?){0,20}",
        ]) {
            match Trace::parse(&text) {
                Ok(trace) => prop_assert_eq!(Trace::parse(&trace.to_string()), Ok(trace)),
                Err(error) => prop_assert!((1..=text.lines().count()).contains(&error.line)),
            }
        }
    }

    #[test]
    fn identifiers_may_come_again() {
        let text = "# one\na 0 10\na x 5 3 1\nf 0\na 0 7\n\nf 0 2\nf x\n#\n";
        let trace = Trace::parse(text).unwrap();
        let expected = [
            Request::Take { block: 0, bytes: 10, stream: 0, device: 0 },
            Request::Take { block: 1, bytes: 5, stream: 3, device: 1 },
            Request::Free { block: 0, stream: 0 },
            Request::Take { block: 2, bytes: 7, stream: 0, device: 0 },
            Request::Free { block: 2, stream: 2 },
            Request::Free { block: 1, stream: 3 },
        ];
        assert_eq!(trace.requests(), expected);
        assert_eq!((trace.blocks(), trace.peak_live()), (3, 15));
        assert_eq!(trace.streams().into_iter().collect::<Vec<_>>(), [(0, 0), (1, 3)]);
        assert_eq!(Trace::parse(&trace.to_string()).unwrap(), trace);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let max = u64::MAX;
        for (text, reason) in [
            ("a 0 10\na 0 10".to_owned(), "line 2: block 0 is live already: a 0 10"),
            ("f 3".into(), "line 1: no block 3 is live"),
            ("a 0 ten".into(), "line 1: `ten` is no number of bytes"),
            ("a 0 1 -1".into(), "line 1: `-1` is no stream"),
            ("a 0 1 1 16".into(), "line 1: `16` is no device: they are numbered 0 to 15"),
            (format!("a 0 {max}\na 1 {max}"), "line 2: more bytes than there can be"),
            ("x".into(), "line 1: neither"),
            ("a 0 1 1 1 1".into(), "line 1: neither"),
        ] {
            let error = Trace::parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{text}: {error}");
        }
    }
}

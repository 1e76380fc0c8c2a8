//! The output of ranks: whole lines, each with its rank in front.

use std::{
    io::{self, IsTerminal, Read, Write},
    sync::{Arc, Mutex, PoisonError},
};

/// A longer line is broken.
const MAX_LINE: usize = 1 << 20;

/// Held while a line is written: both streams may be the same terminal or file. A leaf, held by one thread for one write.
pub type OutputLock = Arc<Mutex<()>>;

/// One stream of one rank.
pub struct Lines<W> {
    prefix: String,
    lock: OutputLock,
    out: W,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
}

impl<W: Write> Lines<W> {
    pub fn new(prefix: String, lock: OutputLock, out: W) -> Lines<W> {
        Lines { prefix, lock, out, rest: Vec::new() }
    }

    /// Writes every line of the source, until it ends; an error is one of the output.
    pub fn copy(mut self, mut source: impl Read) -> io::Result<()> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => self.put(&buffer[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        match std::mem::take(&mut self.rest) {
            rest if rest.is_empty() => Ok(()),
            rest => self.write_lines(&rest),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.rest.extend_from_slice(bytes);
        let end = match self.rest.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if self.rest.len() >= MAX_LINE => self.rest.len(),
            None => return Ok(()),
        };
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        self.write_lines(&whole)
    }

    /// Writes lines in one go. Where a line begins again (`\r`, as progress bars do), so does the prefix.
    fn write_lines(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut text = Vec::with_capacity(bytes.len() + 16);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            for (index, part) in line.split(|byte| *byte == b'\r').enumerate() {
                if index > 0 {
                    text.push(b'\r');
                }
                text.extend_from_slice(self.prefix.as_bytes());
                text.extend_from_slice(part);
            }
            text.push(b'\n');
        }
        let _both = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.out.write_all(&text)?;
        self.out.flush()
    }
}

/// The prefix of a rank, in a colour of its own where that is seen.
pub fn prefix(rank: u32, out: &impl IsTerminal) -> String {
    let is_coloured = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    coloured_prefix(rank, is_coloured)
}

fn coloured_prefix(rank: u32, is_coloured: bool) -> String {
    // Cyan, green, yellow, magenta, blue and their bright twins; red is for errors.
    const COLOURS: [u8; 10] = [36, 32, 33, 35, 34, 96, 92, 93, 95, 94];
    match is_coloured {
        true => format!("\x1b[{}m[{rank}]\x1b[0m ", COLOURS[rank as usize % COLOURS.len()]),
        false => format!("[{rank}] "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that hands out its parts one by one.
    struct Parts(Vec<&'static [u8]>);

    impl Read for Parts {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let part = self.0.remove(0);
            buffer[..part.len()].copy_from_slice(part);
            Ok(part.len())
        }
    }

    /// Each write by itself.
    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<String>>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(parts: &[&'static [u8]]) -> Vec<String> {
        let out = Writes::default();
        let lines = Lines::new("[1] ".into(), OutputLock::default(), out.clone());
        lines.copy(Parts(parts.to_vec())).unwrap();
        out.0.lock().unwrap().clone()
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        assert_eq!(written(&[b"a", b"b\nc", b"\n\nd"]), ["[1] ab\n", "[1] c\n[1] \n", "[1] d\n"]);
        assert_eq!(written(&[]), [""; 0]);
        assert_eq!(written(&[b"\xff\n"]), ["[1] \u{fffd}\n"]);
    }

    #[test]
    fn a_line_that_begins_again_has_its_prefix_again() {
        assert_eq!(written(&[b"10%\r20%", b"\r30%\r\n"]), ["[1] 10%\r[1] 20%\r[1] 30%\n"]);
    }

    #[test]
    fn a_line_without_an_end_is_broken() {
        let part: &'static [u8] = Box::leak(vec![b'x'; 16 << 10].into_boxed_slice());
        let writes = written(&[part; 65]);
        assert_eq!(writes[0].len(), MAX_LINE + 5);
        assert_eq!(writes[1].len(), (16 << 10) + 5);
    }

    #[test]
    fn colours_are_for_terminals() {
        assert_eq!(coloured_prefix(12, false), "[12] ");
        assert_eq!(coloured_prefix(1, true), "\x1b[32m[1]\x1b[0m ");
        assert_ne!(coloured_prefix(11, true), coloured_prefix(12, true));
    }
}

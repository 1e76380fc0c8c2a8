//! Writes pickles (protocol 2) in which texts and objects that come again are written once.

use std::{
    collections::HashMap,
    io::{self, Write},
};

/// A pickle that is being written: values one after the other, a dictionary as keys and values in turn.
pub struct Pickle<W> {
    out: W,
    texts: HashMap<String, u32>,
    objects: HashMap<usize, u32>,
    /// How many values can be named.
    named: u32,
}

impl<W: Write> Pickle<W> {
    /// Writes what comes first.
    pub fn begin(mut out: W) -> io::Result<Pickle<W>> {
        out.write_all(&[0x80, 2])?;
        Ok(Pickle { out, texts: HashMap::new(), objects: HashMap::new(), named: 0 })
    }

    /// Writes what comes last.
    pub fn end(mut self) -> io::Result<()> {
        self.out.write_all(b".")
    }

    /// A number; what is beyond 63 bits is cut to that.
    pub fn number(&mut self, value: u64) -> io::Result<()> {
        match value {
            0..=0xff => self.out.write_all(&[b'K', value as u8]),
            0x100..=0x7fff_ffff => {
                self.out.write_all(b"J")?;
                self.out.write_all(&(value as u32).to_le_bytes())
            }
            _ => {
                self.out.write_all(&[0x8a, 8])?;
                self.out.write_all(&value.min(i64::MAX as u64).to_le_bytes())
            }
        }
    }

    /// Keys of a dictionary with numbers.
    pub fn numbers(&mut self, fields: &[(&str, u64)]) -> io::Result<()> {
        for (key, value) in fields {
            self.text(key)?;
            self.number(*value)?;
        }
        Ok(())
    }

    /// The value `False`.
    pub fn no(&mut self) -> io::Result<()> {
        self.out.write_all(&[0x89])
    }

    /// A tuple of two numbers.
    pub fn pair(&mut self, first: u64, second: u64) -> io::Result<()> {
        self.number(first)?;
        self.number(second)?;
        self.out.write_all(&[0x86])
    }

    /// A text.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(name) = self.texts.get(text) {
            return recall(&mut self.out, *name);
        }
        self.out.write_all(b"X")?;
        self.out.write_all(&(text.len() as u32).to_le_bytes())?;
        self.out.write_all(text.as_bytes())?;
        let name = self.name()?;
        self.texts.insert(text.to_owned(), name);
        Ok(())
    }

    /// A list.
    pub fn list<T>(
        &mut self,
        values: &[T],
        mut write: impl FnMut(&mut Self, &T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.out.write_all(b"](")?;
        for value in values {
            write(self, value)?;
        }
        self.out.write_all(b"e")
    }

    /// A dictionary; `write` writes its keys and values.
    pub fn dictionary(
        &mut self,
        write: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        self.out.write_all(b"}(")?;
        write(self)?;
        self.out.write_all(b"u")
    }

    /// A value that `write` writes the first time; `key` tells it from others.
    pub fn once(
        &mut self,
        key: usize,
        write: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some(name) = self.objects.get(&key) {
            return recall(&mut self.out, *name);
        }
        write(self)?;
        let name = self.name()?;
        self.objects.insert(key, name);
        Ok(())
    }

    /// Gives the last value a name.
    fn name(&mut self) -> io::Result<u32> {
        let name = self.named;
        self.named += 1;
        match u8::try_from(name) {
            Ok(short) => self.out.write_all(&[b'q', short])?,
            Err(_) => {
                self.out.write_all(b"r")?;
                self.out.write_all(&name.to_le_bytes())?;
            }
        }
        Ok(name)
    }
}

/// The value of a name.
fn recall(out: &mut impl Write, name: u32) -> io::Result<()> {
    match u8::try_from(name) {
        Ok(short) => out.write_all(&[b'h', short]),
        Err(_) => {
            out.write_all(b"j")?;
            out.write_all(&name.to_le_bytes())
        }
    }
}

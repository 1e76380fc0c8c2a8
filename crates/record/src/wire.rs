//! Numbers and texts as bytes.

use crate::decode::DecodeError;

/// What takes the bytes of entries, one after the other.
pub trait Output {
    /// Appends a byte.
    fn byte(&mut self, byte: u8);

    /// Appends bytes.
    fn bytes(&mut self, bytes: &[u8]);

    /// Appends the lowest `count` bytes of a number, at most eight, the lowest first.
    fn low_bytes(&mut self, number: u64, count: usize) {
        self.bytes(&number.to_le_bytes()[..count]);
    }
}

impl Output for Vec<u8> {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Collects bytes in a register, eight at a time. Everything that is called with it is inlined: what is not gets
/// [`Collector::direct`].
pub(crate) struct Collector<'a, O> {
    out: &'a mut O,
    number: u64,
    count: usize,
}

impl<'a, O: Output> Collector<'a, O> {
    #[inline(always)]
    pub fn new(out: &'a mut O) -> Collector<'a, O> {
        Collector { out, number: 0, count: 0 }
    }

    /// The output itself, with all that was collected.
    #[inline(always)]
    pub fn direct(&mut self) -> &mut O {
        self.out.low_bytes(self.number, self.count);
        (self.number, self.count) = (0, 0);
        self.out
    }
}

impl<O: Output> Output for Collector<'_, O> {
    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        if self.count == 8 {
            self.direct();
        }
        self.number |= u64::from(byte) << (8 * self.count);
        self.count += 1;
    }

    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        self.direct().bytes(bytes);
    }
}

/// Appends a number, seven bits a byte, the lowest first.
#[inline(always)]
pub(crate) fn put(out: &mut impl Output, mut value: u64) {
    while value >= 0x80 {
        out.byte(value as u8 | 0x80);
        value >>= 7;
    }
    out.byte(value as u8);
}

/// Appends a signed number: small ones of either sign are short.
#[inline(always)]
pub(crate) fn put_signed(out: &mut impl Output, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a text with its length.
pub(crate) fn put_text(out: &mut impl Output, text: &str) {
    put(out, text.len() as u64);
    out.bytes(text.as_bytes());
}

/// Bytes that are read from the front.
pub(crate) struct Bytes<'a> {
    pub rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    pub fn number(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Invalid("a number of more than 64 bits"))
    }

    pub fn signed(&mut self) -> Result<i64, DecodeError> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn small(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.number()?)
            .map_err(|_| DecodeError::Invalid("a number of more than 32 bits"))
    }

    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        let length = self.number()?;
        if length > self.rest.len() as u64 {
            return Err(DecodeError::Truncated);
        }
        let (text, rest) = self.rest.split_at(length as usize);
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| DecodeError::Invalid("a text that is not UTF-8"))
    }

    /// The length of a list whose items take at least a byte each: no more than there are bytes.
    pub fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.number()?;
        if count > self.rest.len() as u64 {
            return Err(DecodeError::Truncated);
        }
        Ok(count as usize)
    }
}

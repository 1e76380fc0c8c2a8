//! Numbers and texts as bytes.

use crate::decode::DecodeError;

/// Appends a number, seven bits a byte, the lowest first.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        return out.push(value as u8);
    }
    put_long(out, value);
}

/// The bytes are put together first, so that the vector is asked for room once.
fn put_long(out: &mut Vec<u8>, mut value: u64) {
    let mut bytes = [0; 10];
    let mut count = 0;
    while value >= 0x80 {
        bytes[count] = value as u8 | 0x80;
        value >>= 7;
        count += 1;
    }
    bytes[count] = value as u8;
    out.extend_from_slice(&bytes[..=count]);
}

/// Appends a signed number: small ones of either sign are short.
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a text with its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
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

//! Reads memory of this process that may not be there: the kernel copies, and an address that is not mapped is no fault.

use smallvec::SmallVec;
use std::ffi::c_void;

/// Bytes that are read at a time: no range of this alignment is mapped in part.
const PAGE: usize = 4096;

/// How many pages are kept.
const PAGES: usize = 4;

/// Reads words, and keeps the pages that they were in. What it reads must not change while it lives.
#[derive(Default)]
pub(super) struct Pages {
    /// First addresses and bytes, the last one read last.
    pages: SmallVec<[(usize, Box<[u8; PAGE]>); PAGES]>,
}

impl Pages {
    /// The word at an address that is a multiple of 8.
    pub fn word(&mut self, address: usize) -> Option<usize> {
        let (page, offset) = (address & !(PAGE - 1), address % PAGE);
        if !address.is_multiple_of(8) {
            return None;
        }
        let index = match self.pages.iter().position(|(first, _)| *first == page) {
            Some(index) => index,
            None => {
                let mut bytes = Box::new([0; PAGE]);
                if read(page, &mut bytes[..]) != PAGE {
                    return None;
                }
                if self.pages.len() == PAGES {
                    self.pages.remove(0);
                }
                self.pages.push((page, bytes));
                self.pages.len() - 1
            }
        };
        Some(word_of(&self.pages[index].1[..], offset))
    }

    /// The number of four bytes at an address.
    pub fn half_word(&mut self, address: usize) -> Option<u32> {
        let word = self.word(address & !7)?;
        Some(if address.is_multiple_of(8) { word as u32 } else { (word >> 32) as u32 })
    }
}

/// The word at an offset of bytes that were read.
pub(super) fn word_of(bytes: &[u8], offset: usize) -> usize {
    let word = bytes.get(offset..offset + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, usize::from_ne_bytes)
}

/// Copies bytes from an address; the result is how many could be read.
pub(super) fn read(address: usize, bytes: &mut [u8]) -> usize {
    let length = bytes.len();
    read_parts(&[(address, length)], bytes)
}

/// Copies several ranges, one after the other, up to the first that cannot be read; the result is how many bytes that were.
pub(super) fn read_parts(parts: &[(usize, usize)], bytes: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote: SmallVec<[libc::iovec; 64]> = (parts.iter())
        .map(|&(address, length)| libc::iovec { iov_base: address as *mut c_void, iov_len: length })
        .collect();
    // SAFETY: the kernel writes into `bytes`, no more than it has, and checks the other addresses itself.
    let count = unsafe {
        libc::process_vm_readv(
            libc::getpid(),
            &local,
            1,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_read_and_what_is_not_is_none() {
        let words = [1usize, 2, 3];
        let address = words.as_ptr() as usize;
        let mut pages = Pages::default();
        assert_eq!(pages.word(address + 8), Some(2));
        assert_eq!(pages.half_word(address + 16), Some(3));
        assert_eq!(pages.word(address + 1), None);
        for nothing in [0, 8, PAGE, usize::MAX - 7] {
            assert_eq!(pages.word(nothing), None);
        }
        let mut bytes = [0; 16];
        assert_eq!(read_parts(&[(address, 8), (8, 8)], &mut bytes), 8);
        assert_eq!(word_of(&bytes, 0), 1);
    }
}

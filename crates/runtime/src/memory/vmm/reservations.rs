//! Addresses, taken and given back.

use super::mapping::take_maps;
use super::window::{self, WINDOW};
use super::{VirtualMemory, busy, range_of, tables};
use crate::error::{Code, Error, Result};
use crate::lock::MutexGuard;
use std::ops::Range;
use tables::Tables;

impl VirtualMemory {
    /// Reserves addresses, at a multiple of 2 MiB, or of 1 GiB if they are so many; at `expected` if that is given.
    pub fn reserve(&self, bytes: u64, expected: Option<usize>) -> Result<usize> {
        let exhausted = |reason: &str| {
            let text = format!("no {bytes} bytes of addresses can be reserved: {reason}");
            Error::new(Code::MemoryAllocation, text)
        };
        let too_many = || {
            exhausted(
                "virtual memory has 8 TiB of them, and no range of that size among them is free",
            )
        };
        let (size, align) = tables::shape(bytes).ok_or_else(too_many)?;
        let mut tables = match expected {
            Some(start) => self.vacate_released(&range_of(start, size))?,
            None => self.tables.lock(),
        };
        self.reap(&mut tables);
        take_maps(&mut tables).map_err(|reason| exhausted(&reason))?;
        let window = self.window(&mut tables)?;
        let refused =
            |error: std::io::Error| exhausted(&format!("the kernel says: {error} (ulimit -v?)"));
        if let Some(start) = expected {
            let range = range_of(start, size);
            if range.start < WINDOW.start || range.end > WINDOW.end {
                return Err(Error::refused(format!(
                    "expectPtr {start:#x} with {size} bytes: addresses are {:#x} to {:#x}",
                    WINDOW.start, WINDOW.end
                )));
            }
            let is_taken = tables.reservation_in(&range).is_some();
            if is_taken || !window.reserve(start, size).map_err(refused)? {
                return Err(busy(format!("expectPtr {start:#x}: addresses there are in use")));
            }
            tables.reserve(start, size);
            return Ok(start);
        }
        let mut start = tables.free_addresses(size, align, None).ok_or_else(too_many)?;
        while !window.reserve(start, size).map_err(refused)? {
            let obstacle = window::obstacle(&range_of(start, size)).unwrap_or(start + 1);
            start = tables.free_addresses(size, align, Some(obstacle)).ok_or_else(too_many)?;
        }
        tables.reserve(start, size);
        Ok(start)
    }

    /// Frees addresses from what tasks still see there, if only released reservations have them.
    fn vacate_released(&self, range: &Range<usize>) -> Result<MutexGuard<'_, Tables>> {
        let tables = self.tables.lock();
        if tables.reservations_in(range).any(|(_, reservation)| !reservation.is_released) {
            return Ok(tables);
        }
        let all = tables.reservations_in(range).fold(range.clone(), |all, (start, found)| {
            all.start.min(start)..all.end.max(start + found.bytes as usize)
        });
        drop(tables);
        self.vacate(&all)
    }

    /// Gives a reservation back, which has nothing mapped any more.
    pub fn release(&self, start: usize) -> Result<()> {
        let mut tables = self.tables.lock();
        let bytes = match tables.reservations.get(&start) {
            Some(reservation) if !reservation.is_released => reservation.bytes,
            _ => {
                let place = match tables.reservation_in(&(start..start.saturating_add(1))) {
                    Some((of, _)) => format!("it lies inside the one at {of:#x}"),
                    None => "nothing is reserved there".into(),
                };
                return Err(Error::refused(format!(
                    "{start:#x} is not the start of a reservation: {place}"
                )));
            }
        };
        let range = range_of(start, bytes);
        let mapped = tables.pieces.range(range).count();
        if mapped > 0 {
            return Err(busy(format!(
                "the reservation {start:#x} has {mapped} mapped pieces: unmap them first"
            )));
        }
        if let Some(reservation) = tables.reservations.get_mut(&start) {
            reservation.is_released = true;
            tables.released += 1;
        }
        self.reap(&mut tables);
        Ok(())
    }
}

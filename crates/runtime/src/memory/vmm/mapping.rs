//! Physical memory put at addresses, and who may touch it there.

use super::physical::{Physical, PhysicalSpec, Place};
use super::tables::{Piece, Tables};
use super::window::PAGE;
use super::{VirtualMemory, busy, held, memory_kind, range_of};
use crate::error::{Code, Error, Result};
use crate::memory::purpose::{Owner, Purpose};
use crate::memory::system_limits;
use crate::record::{Event, Kind};
use crate::sync::Arc;
use std::ops::Range;

/// Maps of the process that a piece may cost: it, and the rest of what was there on both sides, at two places where
/// memory is protected.
const MAPS_PER_PIECE: u64 = 4;
/// The most maps that pieces leave to the rest of the process, whose heap and stacks need some: without them it ends.
const SPARE_MAPS: u64 = 4096;

/// Makes sure that the process may have the maps of one more piece, or of something like it. Counts them only when the last count leaves it open.
pub(super) fn take_maps(tables: &mut Tables) -> std::result::Result<(), String> {
    if tables.maps_left < MAPS_PER_PIECE {
        let Some((maps, limit)) = system_limits::maps_and_limit() else { return Ok(()) };
        let spare = SPARE_MAPS.min(limit / 8);
        tables.maps_left = limit.saturating_sub(spare).saturating_sub(maps);
        if tables.maps_left < MAPS_PER_PIECE {
            return Err(format!(
                "the process has {maps} memory maps, vm.max_map_count is {limit}, and {spare} are for the rest of it"
            ));
        }
    }
    tables.maps_left -= MAPS_PER_PIECE;
    Ok(())
}

impl VirtualMemory {
    /// Maps the first bytes of physical memory at an address. Tasks that were submitted before what was there was unmapped go on
    /// seeing that; only those that touch it at this moment are waited for.
    /// Unless `is_visible`, no task may touch it before [`VirtualMemory::set_access`].
    pub fn map(
        &self,
        start: usize,
        bytes: u64,
        physical: &Arc<Physical>,
        is_visible: bool,
    ) -> Result<()> {
        let spec = &physical.spec;
        let granularity = PhysicalSpec::granularity(spec.place, spec.pages, true);
        if !start.is_multiple_of(PAGE as usize) || !bytes.is_multiple_of(granularity) {
            return Err(busy(format!(
                "{bytes} bytes cannot be mapped at {start:#x}: the address must be a multiple of {PAGE}, the size one of {granularity}"
            )));
        }
        if bytes > spec.bytes {
            return Err(Error::refused(format!(
                "size {bytes}: the physical memory {:#x} has {} bytes",
                physical.handle(),
                spec.bytes
            )));
        }
        self.map_pages(start, bytes, physical, is_visible)
    }

    /// The same for whole pages of the machine.
    pub(in crate::memory) fn map_pages(
        &self,
        start: usize,
        bytes: u64,
        physical: &Arc<Physical>,
        is_visible: bool,
    ) -> Result<()> {
        let spec = &physical.spec;
        let range = range_of(start, bytes);
        {
            let mut tables = self.tables.lock();
            held(&mut tables, physical)?;
            self.check_free(&tables, &range, physical)?;
        }
        let mut tables = self.vacate(&range)?;
        held(&mut tables, physical)?;
        let reservation = self.check_free(&tables, &range, physical)?;
        take_maps(&mut tables).map_err(|reason| {
            let text = format!("{bytes} bytes cannot be mapped at {start:#x}: {reason}");
            Error::new(Code::MemoryAllocation, text)
        })?;
        let window = self.window(&mut tables)?;
        let entry = held(&mut tables, physical)?;
        let is_device = matches!(spec.place, Place::Device(_));
        let mut at = start;
        let backed = entry.bytes.parts(bytes).into_iter().try_for_each(|(file, offset, len)| {
            window.back(at, len, (file, offset), is_device)?;
            at += len as usize;
            Ok::<_, std::io::Error>(())
        });
        if let Err(error) = backed {
            // A first mapping may stand where a second failed.
            let _ = window.clear(start, bytes);
            let text = format!("{bytes} bytes cannot be mapped at {start:#x}: {error}");
            return Err(Error::new(Code::MemoryAllocation, text));
        }
        entry.maps += 1;
        let piece =
            Piece { bytes, physical: physical.clone(), devices: 0, host: false, is_visible };
        tables.pieces.insert(start, piece);
        if is_visible {
            window.show(&reservation, &range, spec.place);
        }
        self.spine.emit(Kind::Alloc, || Event::Alloc {
            kind: memory_kind(spec.place),
            address: start,
            bytes,
            purpose: Purpose::User,
            owner: Owner::default(),
            stream: None,
        });
        Ok(())
    }

    /// The reservation around a range in which nothing is mapped and which may have this memory.
    fn check_free(
        &self,
        tables: &Tables,
        range: &Range<usize>,
        physical: &Physical,
    ) -> Result<Range<usize>> {
        let (start, bytes) = (range.start, range.end - range.start);
        let reservation = tables
            .reservation_in(range)
            .filter(|(_, reservation)| !reservation.is_released)
            .map(|(start, reservation)| range_of(start, reservation.bytes))
            .filter(|reservation| reservation.start <= start && range.end <= reservation.end)
            .ok_or_else(|| {
                busy(format!("{bytes} bytes at {start:#x} do not lie inside one reservation"))
            })?;
        if let Some((other, piece)) = tables.piece_in(range) {
            return Err(busy(format!(
                "{bytes} bytes cannot be mapped at {start:#x}: {} are mapped at {other:#x}",
                piece.bytes
            )));
        }
        let neighbour = tables.pieces.range(reservation.clone()).next();
        if let Some((at, piece)) = neighbour {
            let other = &piece.physical;
            if other.spec.place != physical.spec.place {
                return Err(Error::refused(format!(
                    "memory of {} cannot be mapped at {start:#x}: the reservation has memory of {} at {at:#x}",
                    physical.spec.place, other.spec.place
                )));
            }
            if other.is_imported != physical.is_imported {
                return Err(Error::refused(format!(
                    "own and imported memory cannot be mapped in one reservation: see {at:#x}"
                )));
            }
        }
        Ok(reservation)
    }

    /// Lets devices, or the host, touch the piece that begins at an address and has this size.
    pub fn set_access(&self, start: usize, bytes: u64, places: &[Place]) -> Result<()> {
        let mut tables = self.tables.lock();
        let reservation = tables
            .reservation_in(&(start..start.saturating_add(1)))
            .map(|(start, reservation)| range_of(start, reservation.bytes));
        let (Some(piece), Some(reservation)) =
            (tables.pieces.get_mut(&start).filter(|piece| piece.bytes == bytes), reservation)
        else {
            return Err(busy(format!("{bytes} bytes at {start:#x} are no mapped piece")));
        };
        for place in places {
            match place {
                Place::Device(device) => piece.devices |= 1 << device,
                Place::Host => piece.host = true,
            }
        }
        let place = piece.physical.spec.place;
        if !std::mem::replace(&mut piece.is_visible, true)
            && let Some(window) = self.window.get()
        {
            window.show(&reservation, &range_of(start, bytes), place);
        }
        Ok(())
    }

    /// Whether a place may read and write the piece around an address; `None` if none is there.
    pub fn access(&self, address: usize, place: Place) -> Option<bool> {
        let tables = self.tables.lock();
        let (_, piece) = tables.piece_in(&(address..address.checked_add(1)?))?;
        Some(piece.has_access(place))
    }
}

//! How pages of a source move to other addresses of it.
//!
//! ```text
//! before    |...old...|       |...new...|        zero pages
//! after     |  zeroes |       |   old   |        one map of the kernel's own
//! refused   |  zeroes |       |  zeroes |        some kernels take the map at `new` away first: it is put back
//! ```

use super::super::moved_pages::parts;
use super::super::system_limits::maps_in;
use super::Source;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::ffi::c_void;
use std::io;
use std::ops::Range;

/// Moves so many bytes of pages from one address to another; what is there is gone, also if it fails.
pub(super) type RemapCall = unsafe fn(*mut c_void, usize, *mut c_void) -> io::Result<()>;

/// Asks the kernel.
pub(super) unsafe fn remap(from: *mut c_void, bytes: usize, to: *mut c_void) -> io::Result<()> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
    // SAFETY: the caller has both ranges, and nobody has anything in them.
    match unsafe { libc::mremap(from, bytes, bytes, flags, to) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

impl Source {
    /// Moves the pages at `old` to `new`, as far as the kernel can: where it cannot, the old ones are released, and those at the new place are
    /// zero. The old addresses stay usable and read as zero. Ranges are of whole pages, and nobody uses either of them.
    pub fn move_pages(&self, old: &Range<u64>, new: u64) {
        let new_range = new..new + (old.end - old.start);
        let is_private = self.file.is_none()
            && !self.shared.overlaps(old)
            && !self.shared.overlaps(&new_range)
            && new_range.end <= self.committed();
        let mut waiting = parts(old, [self.moved.edges(old), self.advised.edges(old)].concat());
        while let Some(part) = waiting.pop() {
            let to = new + (part.start - old.start);
            if is_private && self.moved.has_room() {
                let Err(error) = self.move_part(&part, to) else { continue };
                let spans_maps = matches!(error.raw_os_error(), Some(libc::EFAULT | libc::EINVAL));
                let maps = if spans_maps { self.maps_of(&part) } else { Ok(Vec::new()) };
                if let Ok(maps) = maps
                    && maps.len() > 1
                {
                    waiting.extend(maps);
                    continue;
                }
                log::debug!("pages are not moved: {error}");
            }
            let bytes = part.end - part.start;
            if let Err(error) = self.release(part.start, bytes) {
                log::warn!("{bytes} bytes of free memory stay resident: {error}");
            }
        }
    }

    /// Moves pages that lie in one map, as far as is known: a kernel up to 6.16 refuses those of several.
    fn move_part(&self, old: &Range<u64>, new: u64) -> io::Result<()> {
        let (bytes, from, to) = (old.end - old.start, self.pointer(old.start), self.pointer(new));
        // SAFETY: both ranges are private memory inside this source, in which nobody has anything; if it fails, the map at
        // the new one is put back.
        match unsafe { (self.remap)(from, bytes as usize, to) } {
            Ok(()) => self.moved.add(new..new + bytes),
            Err(error) => {
                self.fill_holes(new..new + bytes);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The parts of a range that lie in one map of the kernel each.
    fn maps_of(&self, range: &Range<u64>) -> io::Result<Vec<Range<u64>>> {
        let first = self.pointer(0).addr() as u64;
        let maps = maps_in(&(first + range.start..first + range.end))?;
        Ok(maps.iter().map(|map| map.start - first..map.end - first).collect())
    }

    /// Puts new pages wherever the kernel took the map away; if it gives none, at least others cannot have the addresses.
    fn fill_holes(&self, range: Range<u64>) {
        let Ok(maps) = self.maps_of(&range) else {
            return self.fill_hole(range);
        };
        let mut from = range.start;
        for map in maps.into_iter().chain(std::iter::once(range.end..range.end)) {
            if from < map.start {
                self.fill_hole(from..map.start);
            }
            from = map.end;
        }
    }

    fn fill_hole(&self, hole: Range<u64>) {
        let (address, bytes) = (self.pointer(hole.start), (hole.end - hole.start) as usize);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: the addresses are this source's, and nothing is replaced.
        let map = |access| unsafe { mmap_anonymous(address, bytes, access, flags) };
        match map(ProtFlags::READ | ProtFlags::WRITE) {
            Ok(_) => {
                if let Err(error) = self.advise_new_pages(hole) {
                    log::warn!("new memory is not like that around it: {error}");
                }
            }
            Err(Errno::EXIST) => log::warn!("another map is at {address:p} already"),
            Err(error) => {
                let is_kept = map(ProtFlags::empty()).is_ok();
                // As if moved there: so they are renewed when they are released.
                self.moved.add(hole);
                log::error!(
                    "{bytes} bytes of memory at {address:p} cannot be used until they are free again: {error}; \
                     the addresses are {}",
                    if is_kept { "kept" } else { "lost" }
                );
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::super::{Backing, STEP};
    use super::*;
    use rustix::mm::{Advice, munmap};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::cell::Cell;
    use std::process::Command;

    const PAGE: u64 = 4096;

    thread_local! {
        static REFUSALS: Cell<usize> = const { Cell::new(0) };
    }

    /// Refuses as kernels before 6.17 do: with the map at the new place gone.
    unsafe fn refuse(to: *mut c_void, bytes: usize, code: i32) -> io::Result<()> {
        REFUSALS.set(REFUSALS.get() + 1);
        // SAFETY: the caller has the range.
        unsafe { munmap(to, bytes)? };
        Err(io::Error::from_raw_os_error(code))
    }

    unsafe fn remap_one_map(from: *mut c_void, bytes: usize, to: *mut c_void) -> io::Result<()> {
        let start = from.addr() as u64;
        // SAFETY: the caller has both ranges.
        unsafe {
            match maps_in(&(start..start + bytes as u64))?.len() {
                1 => remap(from, bytes, to),
                _ => refuse(to, bytes, libc::EFAULT),
            }
        }
    }

    unsafe fn remap_nothing(_: *mut c_void, bytes: usize, to: *mut c_void) -> io::Result<()> {
        // SAFETY: the caller has the range.
        unsafe { refuse(to, bytes, libc::ENOMEM) }
    }

    /// Leaves no memory for new pages either.
    unsafe fn remap_out_of_memory(
        from: *mut c_void,
        bytes: usize,
        to: *mut c_void,
    ) -> io::Result<()> {
        setrlimit(Resource::Data, Rlimit { current: Some(1), ..getrlimit(Resource::Data) })?;
        // SAFETY: the caller has both ranges.
        unsafe { remap_nothing(from, bytes, to) }
    }

    fn source(remap: RemapCall) -> Source {
        let mut source = Source::reserve(16 * STEP, Backing::Anonymous).unwrap();
        source.remap = remap;
        source.grow_to(16 * STEP).unwrap();
        source
    }

    fn write(source: &Source, range: Range<u64>) {
        for at in range.step_by(PAGE as usize) {
            // SAFETY: committed memory of a source that only this test knows.
            unsafe { source.pointer(at).cast::<u64>().write_volatile(at + 1) };
        }
    }

    /// What was written into each page; 0 where nothing was.
    fn read(source: &Source, range: Range<u64>) -> Vec<u64> {
        // SAFETY: as above.
        let word = |at| unsafe { source.pointer(at).cast::<u64>().read_volatile() };
        range.step_by(PAGE as usize).map(word).collect()
    }

    #[test]
    fn pages_of_several_maps_move() {
        for call in [remap as RemapCall, remap_one_map] {
            REFUSALS.set(0);
            let source = source(call);
            let (old, new) = (3 * PAGE..103 * PAGE, 2 * STEP);
            write(&source, old.start..40 * PAGE);
            write(&source, 60 * PAGE..old.end);
            // Maps that no table knows, new pages between such as were in use, and huge pages.
            source.advise(20 * PAGE, 5 * PAGE, Advice::LinuxDoDump).unwrap();
            source.put_new_pages(40 * PAGE..60 * PAGE).unwrap();
            let _ = source.advise_huge(70 * PAGE, 7 * PAGE);
            write(&source, old.clone());
            assert!(source.maps_of(&old).unwrap().len() >= 3);
            let expected = read(&source, old.clone());
            source.move_pages(&old, new);
            assert_eq!(read(&source, new..new + 100 * PAGE), expected);
            assert!(read(&source, old.clone()).iter().all(|&word| word == 0));
            assert_eq!(REFUSALS.get() > 0, call as usize == remap_one_map as RemapCall as usize);
            // And once more, from where they are now.
            source.move_pages(&(new..new + 100 * PAGE), 4 * STEP);
            assert_eq!(read(&source, 4 * STEP..4 * STEP + 100 * PAGE), expected);
            source.release(0, 16 * STEP).unwrap();
            assert!(read(&source, 0..16 * STEP).iter().all(|&word| word == 0));
        }
    }

    #[test]
    fn a_refused_move_leaves_usable_memory() {
        let source = source(remap_nothing);
        let (old, new) = (3 * PAGE..103 * PAGE, 2 * STEP..2 * STEP + 100 * PAGE);
        write(&source, old.clone());
        source.move_pages(&old, new.start);
        let whole = source.maps_of(&(0..16 * STEP)).unwrap();
        assert_eq!(whole.len(), 1, "one map again, with the advice of the others: {whole:?}");
        assert_eq!(whole[0], 0..16 * STEP);
        assert!(
            read(&source, old).iter().chain(&read(&source, new.clone())).all(|&word| word == 0)
        );
        write(&source, new.clone());
        assert_eq!(read(&source, new)[99], 2 * STEP + 99 * PAGE + 1);
    }

    #[test]
    fn a_refused_move_without_memory_keeps_the_addresses() {
        let test = module_path!().split_once("::").unwrap().1;
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--ignored", "--exact", &format!("{test}::without_memory")]);
        let output = program.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    #[ignore = "run by a_refused_move_without_memory_keeps_the_addresses"]
    fn without_memory() {
        let source = source(remap_out_of_memory);
        let (old, new) = (0..100 * PAGE, 2 * STEP..2 * STEP + 100 * PAGE);
        let before = getrlimit(Resource::Data);
        // Room for what is allocated meanwhile.
        drop(std::hint::black_box(vec![1u8; 64 << 10]));
        source.move_pages(&old, new.start);
        setrlimit(Resource::Data, before).unwrap();
        let maps = source.maps_of(&(0..16 * STEP)).unwrap();
        assert_eq!(maps, [0..new.start, new.clone(), new.end..16 * STEP]);
        source.release(new.start, new.end - new.start).unwrap();
        write(&source, new.clone());
        assert_eq!(read(&source, new)[0], 2 * STEP + 1);
    }
}

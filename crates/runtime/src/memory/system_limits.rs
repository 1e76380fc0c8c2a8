//! What the system allows this process: memory maps, memory, huge pages; and what it says when a limit is reached.

use std::io::{self, BufRead as _, Read as _};
use std::ops::Range;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

const GIB: u64 = 1 << 30;

/// How many maps the process has, and may have.
pub(super) fn maps_and_limit() -> Option<(u64, u64)> {
    Some((count_maps().ok()?, max_maps()))
}

/// How many maps the process has. Takes no memory: there may be none.
fn count_maps() -> io::Result<u64> {
    let mut file = std::fs::File::open("/proc/self/maps")?;
    let (mut buffer, mut lines) = ([0u8; 4096], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(lines),
            read => lines += buffer[..read].iter().filter(|&&byte| byte == b'\n').count() as u64,
        }
    }
}

/// The maps of the process in a range of addresses, as far as they lie in it.
pub(super) fn maps_in(range: &Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let mut maps = Vec::new();
    for line in io::BufReader::new(std::fs::File::open("/proc/self/maps")?).lines() {
        let line = line?;
        let mut bounds = line.split(['-', ' ']).map(|text| u64::from_str_radix(text, 16));
        let (Some(Ok(start)), Some(Ok(end))) = (bounds.next(), bounds.next()) else { continue };
        if start >= range.end {
            break;
        }
        if end > range.start {
            maps.push(start.max(range.start)..end.min(range.end));
        }
    }
    Ok(maps)
}

/// Explains "out of memory" of the kernel: whether the number of maps or the memory was the limit.
pub(crate) fn explain_error(error: io::Error, what: &str, bytes: u64) -> io::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return error;
    }
    let (maps, limit) = maps_and_limit().unwrap_or((0, u64::MAX));
    let reason = if maps.saturating_add(8) >= limit {
        format!("the process has {maps} memory maps, and vm.max_map_count is {limit}")
    } else {
        format!(
            "the kernel has no memory for it (overcommit or ulimit -d; {maps} of {limit} maps are in use)"
        )
    };
    io::Error::new(io::ErrorKind::OutOfMemory, format!("{what}, {bytes} bytes: {reason}"))
}

/// How many memory maps a process may have.
pub(super) fn max_maps() -> u64 {
    read(Path::new("/proc/sys/vm/max_map_count")).and_then(|text| number(&text)).unwrap_or(u64::MAX)
}

/// True if the machine has a memory node of this number. Where the kernel does not say it has node 0 alone.
pub fn has_numa_node(number: u32) -> bool {
    let online = read(Path::new("/sys/devices/system/node/online"));
    lists_node(online.as_deref().unwrap_or("0"), number)
}

/// Whether a list of ranges, such as `0-1,4`, has a number.
fn lists_node(list: &str, wanted: u32) -> bool {
    list.trim().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&wanted),
            _ => false,
        }
    })
}

/// When the kernel uses huge pages for anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Wherever it can.
    Always,
    /// Only where [`Source::advise_huge`](super::source::Source::advise_huge) asked for them.
    Madvise,
    /// Nowhere.
    Never,
    /// The kernel does not say.
    Unknown,
}

/// The machine's setting, read anew with each call.
pub fn huge_page_mode() -> HugePages {
    read(Path::new("/sys/kernel/mm/transparent_hugepage/enabled"))
        .map_or(HugePages::Unknown, |text| parse_huge_pages(&text))
}

/// The word in brackets.
fn parse_huge_pages(text: &str) -> HugePages {
    match text.split(['[', ']']).nth(1) {
        Some("always") => HugePages::Always,
        Some("madvise") => HugePages::Madvise,
        Some("never") => HugePages::Never,
        _ => HugePages::Unknown,
    }
}

/// Bytes that this process may use from now on: the least of what the machine has available,
/// what each of its control groups (both versions, up to the root) has left, and `ulimit -v` and
/// `-d`. As in the kernel's own estimate, file pages that a group has not used lately count as
/// available. 1 GiB if the kernel says nothing. Reads some files: call it once.
///
/// Under `ulimit -v` a [`Source`](super::source::Source) may have been granted less: the lesser of the two counts.
pub fn machine_available() -> u64 {
    machine_limit().bytes.min(process_limit())
}

/// What `ulimit -v` and `-d` leave to this process alone.
pub fn process_limit() -> u64 {
    limit(Resource::As).min(limit(Resource::Data))
}

/// The limit that this process meets first among those that it shares with other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLimit {
    /// The same for all processes under it: the folder of a control group, or `machine`.
    pub name: String,
    /// Bytes that are left under it.
    pub bytes: u64,
}

/// The machine, or the control group with the least memory left, as [`machine_available`] sees it.
pub fn machine_limit() -> SharedLimit {
    tightest(&read)
}

pub(super) fn limit(resource: Resource) -> u64 {
    getrlimit(resource).current.unwrap_or(u64::MAX)
}

/// The name of the limit that is the machine itself.
const MACHINE: &str = "machine";

type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The limit with the least left, of the machine and its control groups; `read` reads files.
fn tightest(read: Read) -> SharedLimit {
    let machine = read(Path::new("/proc/meminfo"))
        .and_then(|text| Some(field(&text, "MemAvailable:")? << 10));
    let machine = machine.map(|bytes| SharedLimit { name: MACHINE.into(), bytes });
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let groups = groups.lines().filter_map(|line| group_left(read, line));
    let limits = machine.into_iter().chain(groups);
    let none = SharedLimit { name: MACHINE.into(), bytes: GIB };
    limits.min_by_key(|limit| limit.bytes).unwrap_or(none)
}

/// The group with the least left among that of one line of `/proc/self/cgroup` and those above it.
fn group_left(read: Read, line: &str) -> Option<SharedLimit> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
    let (root, limit, usage, cached) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        list if list.split(',').any(|c| c == "memory") => (
            "/sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
        _ => return None,
    };
    let left = |group: &Path| {
        let limit = number(&read(&group.join(limit))?)?;
        let used = number(&read(&group.join(usage))?)?;
        let cached =
            read(&group.join("memory.stat")).and_then(|text| field(&text, cached)).unwrap_or(0);
        let bytes = limit.saturating_sub(used.saturating_sub(cached));
        Some(SharedLimit { name: group.to_string_lossy().into_owned(), bytes })
    };
    let own_group = Path::new(root).join(path);
    let groups = own_group.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(left).min_by_key(|limit| limit.bytes)
}

/// A file that is one number; `max`, which means no limit, is none.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The number after `key` in lines of "key number [unit]".
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == key).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_memory_names_the_limit() {
        let error =
            explain_error(io::Error::from_raw_os_error(libc::ENOMEM), "making memory usable", 42);
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(
            error
                .to_string()
                .starts_with("making memory usable, 42 bytes: the kernel has no memory"),
            "{error}"
        );
        assert_eq!(
            explain_error(io::Error::from_raw_os_error(libc::EINVAL), "x", 1).raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn settings_are_parsed() {
        assert_eq!(parse_huge_pages("[always] madvise never\n"), HugePages::Always);
        assert_eq!(parse_huge_pages("always [madvise] never\n"), HugePages::Madvise);
        assert_eq!(parse_huge_pages("always madvise [never]\n"), HugePages::Never);
        assert_eq!(parse_huge_pages(""), HugePages::Unknown);
        assert_eq!((number("max\n"), number("12\n")), (None, Some(12)));
        let nodes = [0, 1, 2, 3, 4, 5].map(|node| lists_node("0-1,4\n", node));
        assert_eq!(nodes, [true, true, false, false, true, false]);
        assert!(lists_node("0\n", 0) && !lists_node("", 0) && has_numa_node(0));
        assert_eq!(field("MemTotal: 9 kB\nMemAvailable:   5 kB\n", "MemAvailable:"), Some(5));
        assert_eq!(field("inactive_file_x 9\nx", "inactive_file"), None);
    }

    fn available_with(files: &[(&str, &str)]) -> u64 {
        tightest_with(files).bytes
    }

    fn tightest_with(files: &[(&str, &str)]) -> SharedLimit {
        tightest(&|path: &Path| {
            files.iter().find(|(name, _)| path == Path::new(name)).map(|(_, text)| text.to_string())
        })
    }

    #[test]
    fn the_tightest_limit_counts() {
        let meminfo = ("/proc/meminfo", "MemTotal: 2000 kB\nMemAvailable: 1000 kB\n");
        assert_eq!(available_with(&[]), GIB);
        assert_eq!(available_with(&[meminfo]), 1000 << 10);

        let second = [
            meminfo,
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/b/memory.current", "1\n"),
            ("/sys/fs/cgroup/a/memory.max", "9000\n"),
            ("/sys/fs/cgroup/a/memory.current", "5000\n"),
            ("/sys/fs/cgroup/a/memory.stat", "anon 3\ninactive_file 500\n"),
        ];
        assert_eq!(available_with(&second), 4500);
        assert_eq!(tightest_with(&second).name, "/sys/fs/cgroup/a");
        assert_eq!(tightest_with(&[meminfo]).name, MACHINE);

        let first = [
            meminfo,
            ("/proc/self/cgroup", "4:cpu:/x\n3:hugetlb,memory:/docker/7\n0::/\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "8000\n"),
        ];
        assert_eq!(available_with(&first), 0);
        assert!(machine_available() > 0);
    }
}

//! Whether another process is alive, and what it has open.

use rustix::fs::stat;
use std::io::{self, ErrorKind};

/// True while a process runs: one that has ended and was not waited for does not.
pub fn is_alive(pid: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = text.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// True if a descriptor of a process is of this file: device and inode.
pub fn has_open(pid: u32, descriptor: u32, file: (u64, u64)) -> bool {
    stat(format!("/proc/{pid}/fd/{descriptor}"))
        .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == file)
}

/// A descriptor that a process has of a memory file of this name; `None` if it has none, or has ended. Fails where it may
/// not be asked.
pub fn find_open(pid: u32, name: &str, file: (u64, u64)) -> io::Result<Option<u32>> {
    let entries = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let link = format!("/memfd:{name}");
    for entry in entries {
        // One that ends meanwhile has none either.
        let Ok(entry) = entry else { return Ok(None) };
        let descriptor = entry.file_name().to_string_lossy().parse();
        let is_named = std::fs::read_link(entry.path())
            .is_ok_and(|target| target.to_string_lossy().split(' ').next() == Some(&link));
        if let Ok(descriptor) = descriptor
            && is_named
            && has_open(pid, descriptor, file)
        {
            return Ok(Some(descriptor));
        }
    }
    Ok(None)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, fstat, memfd_create};
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_has_a_file_until_it_closes_it_or_becomes_another_program() {
        let [file, other] =
            [(); 2].map(|()| memfd_create("cairn-test", MemfdFlags::CLOEXEC).unwrap());
        let inode = fstat(&file).map(|stat| (stat.st_dev, stat.st_ino)).unwrap();
        let (own, descriptor) = (std::process::id(), file.as_raw_fd() as u32);
        assert_eq!(find_open(own, "cairn-test", inode).unwrap(), Some(descriptor));
        assert_eq!(find_open(own, "cairn", inode).unwrap(), None);
        assert!(has_open(own, descriptor, inode));
        assert!(!has_open(own, other.as_raw_fd() as u32, inode));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(is_alive(child.id()));
        assert_eq!(find_open(child.id(), "cairn-test", inode).unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(find_open(child.id(), "cairn-test", inode).unwrap(), None);
        drop(file);
        assert_eq!(find_open(own, "cairn-test", inode).unwrap(), None);
    }
}

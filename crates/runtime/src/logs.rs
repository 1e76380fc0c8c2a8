//! Logs in CANN's format, under CANN's settings: `ASCEND_GLOBAL_LOG_LEVEL` (0 debug, 1 info,
//! 2 warning, 3 error, 4 off; error by default), `ASCEND_SLOG_PRINT_TO_STDOUT=1`, else files below
//! `ASCEND_PROCESS_LOG_PATH` (or `ASCEND_WORK_PATH`/log, or ~/ascend/log). A line that is off costs
//! one atomic load. Files are private (0600; new folders are 0700). A file, or a folder below the path
//! given, that is a link, somebody else's or open to others' writing is not used.

use crate::lock::{Mutex, Rank};
use crate::memory::process_file;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// CANN's levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// Level 0.
    Debug = 0,
    /// Level 1.
    Info = 1,
    /// Level 2.
    Warning = 2,
    /// Level 3.
    Error = 3,
}

impl Level {
    /// The level with this number of the user.
    pub fn from_number(number: i64) -> Option<Level> {
        [Level::Debug, Level::Info, Level::Warning, Level::Error]
            .get(usize::try_from(number).ok()?)
            .copied()
    }

    fn name(self) -> &'static str {
        match self {
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warning => "WARNING",
            Level::Error => "ERROR",
        }
    }
}

struct Logger {
    /// The lowest level that is written; `None` for nothing.
    min_level: Option<Level>,
    stdout: bool,
    folder: PathBuf,
    process: String,
    file: Mutex<Sink>,
}

/// The log file.
enum Sink {
    Unopened,
    Open(File),
    Broken,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Reads the settings and begins to log. Later calls do nothing.
pub fn install() {
    let logger = LOGGER.get_or_init(|| Logger::new(|name| std::env::var(name).ok()));
    let filter = match logger.min_level {
        Some(Level::Debug) => log::LevelFilter::Debug,
        Some(Level::Info) => log::LevelFilter::Info,
        Some(Level::Warning) => log::LevelFilter::Warn,
        Some(Level::Error) => log::LevelFilter::Error,
        None => log::LevelFilter::Off,
    };
    if log::set_logger(&Facade).is_ok() {
        log::set_max_level(filter);
    }
}

/// True if a line of this level would be written.
pub fn enabled(level: Level) -> bool {
    LOGGER.get().is_some_and(|l| l.min_level.is_some_and(|min_level| level >= min_level))
}

/// Writes one line of the user's program (`aclAppLog`) or of ours.
pub fn write(level: Level, module: &str, file: &str, line: u32, text: std::fmt::Arguments<'_>) {
    if enabled(level)
        && let Some(logger) = LOGGER.get()
    {
        logger.write(level, module, file, line, text);
    }
}

/// Takes the lines of the `log` crate.
struct Facade;

impl log::Log for Facade {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let level = match record.level() {
            log::Level::Error => Level::Error,
            log::Level::Warn => Level::Warning,
            log::Level::Info => Level::Info,
            _ => Level::Debug,
        };
        let file = record.file().unwrap_or("?").rsplit('/').next().unwrap_or("?");
        write(level, "CAIRN", file, record.line().unwrap_or(0), *record.args());
    }

    fn flush(&self) {}
}

impl Logger {
    fn new(get: impl Fn(&str) -> Option<String>) -> Logger {
        let number = get("ASCEND_GLOBAL_LOG_LEVEL").and_then(|v| v.trim().parse::<i64>().ok());
        let home = || get("HOME").filter(|h| !h.is_empty()).unwrap_or_else(|| "/tmp".into());
        let folder = get("ASCEND_PROCESS_LOG_PATH")
            .filter(|p| !p.is_empty())
            .map(PathBuf::from)
            .or_else(|| {
                get("ASCEND_WORK_PATH").filter(|p| !p.is_empty()).map(|p| Path::new(&p).join("log"))
            })
            .unwrap_or_else(|| Path::new(&home()).join("ascend/log"));
        Logger {
            min_level: match number {
                None => Some(Level::Error),
                Some(n) => Level::from_number(n),
            },
            stdout: get("ASCEND_SLOG_PRINT_TO_STDOUT").is_some_and(|v| v.trim() == "1"),
            folder,
            process: std::fs::read_to_string("/proc/self/comm")
                .unwrap_or_default()
                .trim()
                .to_string(),
            file: Mutex::new(Rank::Log, Sink::Unopened),
        }
    }

    fn write(
        &self,
        level: Level,
        module: &str,
        file: &str,
        line: u32,
        text: std::fmt::Arguments<'_>,
    ) {
        let line = format!(
            "[{}] {module}({},{}):{} [{file}:{line}]{} {text}\n",
            level.name(),
            std::process::id(),
            self.process,
            timestamp("-", ":", "."),
            rustix::thread::gettid().as_raw_nonzero(),
        );
        if self.stdout {
            let _ = std::io::stdout().lock().write_all(line.as_bytes());
            return;
        }
        let mut sink = self.file.lock();
        if let Sink::Unopened = *sink {
            *sink = self.open().map_or(Sink::Broken, Sink::Open);
        }
        if let Sink::Open(file) = &mut *sink
            && process_file::has_room(file, line.len() as u64)
            && file.write_all(line.as_bytes()).is_err()
        {
            *sink = Sink::Broken;
        }
    }

    fn open(&self) -> std::io::Result<File> {
        let folder = self.folder.join("debug/plog");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        for part in [&self.folder.join("debug"), &folder] {
            let meta = std::fs::symlink_metadata(part)?;
            let is_own = meta.uid() == rustix::process::geteuid().as_raw();
            if !meta.is_dir() || !is_own || meta.mode() & 0o022 != 0 {
                return Err(std::io::ErrorKind::PermissionDenied.into());
            }
        }
        let name = format!("plog-{}_{}.log", std::process::id(), timestamp("", "", ""));
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(folder.join(name))
    }
}

/// The local time down to microseconds, with these separators in the date and time, in the time of day, and before the
/// milli- and microseconds.
fn timestamp(day: &str, hour: &str, fraction: &str) -> String {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    // SAFETY: a zeroed tm is valid, and localtime_r fills it from the seconds given.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now.tv_sec, &mut tm);
        tm
    };
    let (ms, us) = (now.tv_nsec / 1_000_000, now.tv_nsec / 1000 % 1000);
    format!(
        "{:04}{day}{:02}{day}{:02}{day}{:02}{hour}{:02}{hour}{:02}{fraction}{ms:03}{fraction}{us:03}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec
    )
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn torch_4_log_files_are_private_and_in_canns_shape() {
        let base = std::env::temp_dir().join(format!("cairn-log-{}", std::process::id()));
        let path = base.to_str().unwrap().to_string();
        let logger = Logger::new(|name| (name == "ASCEND_PROCESS_LOG_PATH").then(|| path.clone()));
        assert_eq!(logger.min_level, Some(Level::Error));
        logger.write(Level::Error, "APP", "x.cc", 7, format_args!("hello"));
        let folder = base.join("debug/plog");
        let entry = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        let text = std::fs::read_to_string(entry.path()).unwrap();
        assert!(
            text.starts_with("[ERROR] APP(")
                && text.contains("[x.cc:7]")
                && text.ends_with("hello\n"),
            "{text}"
        );
        std::fs::remove_dir_all(base).unwrap();
    }
}

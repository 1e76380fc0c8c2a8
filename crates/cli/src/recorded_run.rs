//! A program that runs with a record: `cairn record` and `cairn check` start it, and read what its processes wrote.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::ErrorKind,
    os::unix::{fs::OpenOptionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus},
    sync::mpsc::{Receiver, RecvTimeoutError},
    thread::JoinHandle,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, bail};
use cairn_record::{
    layout::{HEADER_BYTES, Header, HeaderError},
    reader::Source,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM},
    iterator::{Handle, Signals},
};

use crate::{
    ranks::RankGroup,
    run,
    toolkit::{KERNEL_HOOK, Toolkit},
};

/// What the records of one run have in common: their place and the text that tells them from those of other runs.
pub struct Session {
    output: PathBuf,
    name: String,
}

impl Session {
    /// Records at `output`, an absolute path.
    pub fn new(output: PathBuf) -> Session {
        Session { output, name: unique() }
    }

    /// What switches the records of a program on.
    pub fn variables(&self, stacks: bool) -> Result<Vec<(&'static str, OsString)>> {
        let mut variables = vec![
            ("CAIRN_RECORD", self.output.clone().into()),
            ("CAIRN_RECORD_SESSION", self.name.clone().into()),
            ("CAIRN_RECORD_STACKS", if stacks { "1" } else { "0" }.into()),
        ];
        variables.extend(preloaded()?.map(|libraries| ("LD_PRELOAD", libraries)));
        Ok(variables)
    }

    /// The records, in the order in which their processes began.
    pub fn files(&self) -> Vec<(PathBuf, Header)> {
        files_of_session(&self.output, &self.name)
    }
}

/// A program that can be waited for.
pub trait Running {
    /// Waits for the end of the program, for so long at most; true if it has ended.
    fn wait(&mut self, limit: Option<Duration>) -> Result<bool>;
}

impl Running for RankGroup {
    fn wait(&mut self, limit: Option<Duration>) -> Result<bool> {
        RankGroup::wait(self, limit)
    }
}

/// A program that runs with a record. Signals of the terminal reach it by themselves; those that are sent to this process are
/// passed on.
pub struct RecordedRun {
    end: Receiver<std::io::Result<ExitStatus>>,
    signals: Handle,
    forwarder: Option<JoinHandle<()>>,
    status: Option<ExitStatus>,
}

impl RecordedRun {
    /// Starts a program with more variables. The inner error says why it was not started.
    pub fn start(
        program: &[OsString],
        session: &Session,
        stacks: bool,
        variables: &[(&str, String)],
    ) -> Result<std::io::Result<RecordedRun>> {
        let mut command = run::command(program)?;
        command.envs(session.variables(stacks)?);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])?;
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Err(error)),
        };
        let pid = rustix::process::Pid::from_raw(child.id() as i32);
        let handle = signals.handle();
        let forwarder = std::thread::spawn(move || {
            for signal in signals.forever().filter(|signal| [SIGTERM, SIGHUP].contains(signal)) {
                if let (Some(pid), Some(signal)) =
                    (pid, rustix::process::Signal::from_named_raw(signal))
                {
                    let _ = rustix::process::kill_process(pid, signal);
                }
            }
        });
        let (sender, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait()));
        Ok(Ok(RecordedRun { end, signals: handle, forwarder: Some(forwarder), status: None }))
    }

    /// The exit code of the program, or 128 and the number of the signal that ended it, as shells have it.
    pub fn code(&self) -> u8 {
        let Some(status) = self.status else { return 1 };
        match status.code() {
            Some(code) => code as u8,
            None => 128u8.wrapping_add(status.signal().unwrap_or(0) as u8),
        }
    }

    /// Ends as the program did: with its code, or by its signal.
    pub fn end_like_program(&self) -> ExitCode {
        if let Some(signal) = self.status.and_then(|status| status.signal()) {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
        ExitCode::from(self.code())
    }
}

impl Running for RecordedRun {
    fn wait(&mut self, limit: Option<Duration>) -> Result<bool> {
        if self.status.is_some() {
            return Ok(true);
        }
        let received = match limit {
            Some(limit) => self.end.recv_timeout(limit),
            None => self.end.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(status) => {
                self.status = Some(status?);
                self.signals.close();
                self.forwarder.take().map(JoinHandle::join);
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => bail!("the program cannot be waited for"),
        }
    }
}

/// `LD_PRELOAD` as the user has it, with the toolkit's empty library whose name there lets torch_npu say which tensor has which
/// memory; `None` where it is not there, or its path cannot be in a list.
fn preloaded() -> Result<Option<OsString>> {
    let hook = Toolkit::of_current_exe()?.library(KERNEL_HOOK);
    let is_listable = !hook.to_string_lossy().contains([':', ' ']);
    if !is_listable || !hook.exists() {
        return Ok(None);
    }
    let mut libraries = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    if !libraries.is_empty() {
        libraries.push(":");
    }
    libraries.push(&hook);
    Ok(Some(libraries))
}

/// A text that no other run has.
pub fn unique() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), since.as_nanos())
}

/// The header of a file; an error if it is no plain file or cannot be read. Links are not followed.
pub fn read_header(path: &Path) -> std::io::Result<Result<Header, HeaderError>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, "it is not a plain file"));
    }
    let file: File = fs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    let mut bytes = vec![0; HEADER_BYTES];
    let count = Source::read_at(&file, 0, &mut bytes)?;
    Ok(Header::decode(&bytes[..count]))
}

/// So that a pipe that took the file's place blocks nobody.
const O_NONBLOCK: i32 = 0o4000;

/// The record at `output` and those beside it with numbers appended, as far as they belong to the session.
pub fn files_of_session(output: &Path, session: &str) -> Vec<(PathBuf, Header)> {
    let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_ours = |path: &PathBuf| {
        let other = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        other.strip_prefix(&name).is_some_and(|rest| {
            rest.is_empty()
                || rest
                    .strip_prefix('.')
                    .is_some_and(|rest| rest.split('.').all(|part| part.parse::<u32>().is_ok()))
        })
    };
    let entries = fs::read_dir(output.parent().unwrap_or(Path::new("/")));
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_ours);
    let mut files: Vec<_> = paths
        .filter_map(|path| {
            let header = read_header(&path).ok()?.ok()?;
            (header.session == session).then_some((path, header))
        })
        .collect();
    files.sort_by(|a, b| (a.1.start_unix_ns, &a.0).cmp(&(b.1.start_unix_ns, &b.0)));
    files
}

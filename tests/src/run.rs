//! Running a command with a limit on its time.

use std::{
    fs::{self, File},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// How a command ended, and all that it wrote to either stream.
pub struct Outcome {
    /// `None` when it ran out of time and was killed.
    pub status: Option<ExitStatus>,
    /// Standard output and standard error, as they came.
    pub output: String,
}

impl Outcome {
    /// The output when the command ended with this code; otherwise an error with code and output.
    pub fn expect(self, code: i32) -> Result<String> {
        match self.status {
            Some(status) if status.code() == Some(code) => Ok(self.output),
            Some(status) => match status.signal() {
                Some(signal) => bail!("ended by signal {signal}\n{}", self.output),
                None => bail!("{status}, expected {code}\n{}", self.output),
            },
            None => bail!("killed: it took too long\n{}", self.output),
        }
    }
}

/// Runs a command in a process group of its own, which is killed as a whole after `limit`. Both
/// streams go to `log`, so that a grandchild that lives on does not block the test.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> Result<Outcome> {
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let status = wait(&mut child, limit)?;
    let output = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    let _ = fs::remove_file(log);
    Ok(Outcome { status, output })
}

/// Waits for a child that leads its process group; `None` when it had to be killed.
pub fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            if let Some(group) = Pid::from_raw(child.id() as i32) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

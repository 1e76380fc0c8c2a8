//! The processes of a job: started together, ended together.
//!
//! ```text
//!  a rank fails ──────────────> SIGTERM to the others ── grace ──> SIGKILL
//!  Ctrl-C ──> SIGINT to all ── grace, or Ctrl-C again ──^
//!  SIGTERM, SIGHUP ──> passed on to all ── grace ──> SIGKILL
//! ```
//!
//! Each rank is a process group of its own, so that what it starts ends with it. A rank is reaped only after its group was told,
//! so no signal reaches a process that took its number.

use std::{
    ffi::OsString,
    io::IsTerminal,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process_group, waitid};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM},
    iterator::{Handle, Signals},
};

use super::{
    Job,
    ending::{self, Ending, Pressure},
    lines::{self, Lines, OutputLock},
};

/// How long output is waited for when all ranks have ended: a process that one of them left behind may hold it open.
const DRAIN: Duration = Duration::from_secs(2);

/// The ranks of a job. Made, waited for and dropped by one thread: the kernel ends the ranks with the thread that started them.
pub struct RankGroup {
    ranks: Vec<Rank>,
    events: Receiver<Event>,
    signals: Handle,
    grace: Duration,
    /// In the order in which they ended.
    endings: Vec<Ending>,
    /// Streams of output that are open.
    open_outputs: usize,
    /// How often the user has interrupted.
    interrupts: u32,
    /// What comes next for those that run, and when.
    next: Option<(Instant, Pressure)>,
    /// When output is waited for no longer.
    drained_by: Option<Instant>,
}

struct Rank {
    child: Child,
    pressure: Pressure,
    has_ended: bool,
}

enum Event {
    /// A rank has ended and is not reaped.
    Ended(usize),
    Signal(i32),
    OutputClosed,
}

impl RankGroup {
    /// Starts every rank, with the variables of the job and more.
    pub fn start(
        job: &Job,
        program: &[OsString],
        more: impl Fn(u32) -> Result<Vec<(&'static str, OsString)>>,
    ) -> Result<RankGroup> {
        let (sender, events) = mpsc::channel();
        let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let of_signals = sender.clone();
        std::thread::spawn(move || {
            signals
                .forever()
                .take_while(|it| of_signals.send(Event::Signal(*it)).is_ok())
                .for_each(drop);
        });
        let mut group = RankGroup {
            ranks: Vec::new(),
            events,
            signals: handle,
            grace: job.grace,
            endings: Vec::new(),
            open_outputs: 0,
            interrupts: 0,
            next: None,
            drained_by: None,
        };
        let lock = OutputLock::default();
        for rank in job.ranks() {
            let mut command = command(job, program, rank)?;
            command.envs(more(rank)?);
            group.add(command, rank, &sender, &lock)?;
        }
        Ok(group)
    }

    fn add(
        &mut self,
        mut command: Command,
        rank: u32,
        sender: &Sender<Event>,
        lock: &OutputLock,
    ) -> Result<()> {
        let mut child =
            command.spawn().with_context(|| format!("rank {rank} cannot be started"))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let pid = pid_of(&child);
        let index = self.ranks.len();
        self.ranks.push(Rank { child, pressure: Pressure::None, has_ended: false });
        if let Some(source) = stdout {
            let out = std::io::stdout();
            let lines = Lines::new(lines::prefix(rank, &out), lock.clone(), out);
            self.copy(sender, move || lines.copy(source));
        }
        if let Some(source) = stderr {
            let out = std::io::stderr();
            let lines = Lines::new(lines::prefix(rank, &out), lock.clone(), out);
            self.copy(sender, move || lines.copy(source));
        }
        let sender = sender.clone();
        std::thread::spawn(move || {
            // Not reaped here: its number stays its own until the group was told.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), options).is_err_and(|it| it == Errno::INTR) {}
            sender.send(Event::Ended(index))
        });
        Ok(())
    }

    fn copy(
        &mut self,
        sender: &Sender<Event>,
        copy: impl FnOnce() -> std::io::Result<()> + Send + 'static,
    ) {
        self.open_outputs += 1;
        let sender = sender.clone();
        std::thread::spawn(move || {
            // Whoever read our output has gone: the rank learns it when it writes.
            let _ = copy();
            sender.send(Event::OutputClosed)
        });
    }

    /// Waits for the end of all ranks and their output, for so long at most; true if they have ended.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<bool> {
        let limit = limit.map(|limit| Instant::now() + limit);
        loop {
            if self.is_done() {
                self.signals.close();
                return Ok(true);
            }
            let now = Instant::now();
            if let Some((_, pressure)) = self.next.filter(|(at, _)| *at <= now) {
                self.press(pressure);
                continue;
            }
            if limit.is_some_and(|limit| limit <= now) {
                return Ok(false);
            }
            let wake = [limit, self.next.map(|(at, _)| at), self.drained_by];
            let event = match wake.into_iter().flatten().min() {
                Some(wake) => self.events.recv_timeout(wake.saturating_duration_since(now)),
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Ended(index)) => self.ended(index)?,
                Ok(Event::Signal(signal)) => self.signalled(signal),
                Ok(Event::OutputClosed) => self.open_outputs -= 1,
                Err(_) => {}
            }
        }
    }

    fn is_done(&self) -> bool {
        let is_drained = self.open_outputs == 0
            || self.drained_by.is_some_and(|moment| moment <= Instant::now());
        self.endings.len() == self.ranks.len() && is_drained
    }

    fn ended(&mut self, index: usize) -> Result<()> {
        let rank = &mut self.ranks[index];
        let is_ending = rank.pressure > Pressure::None;
        let pid = pid_of(&rank.child);
        // Its status is read without reaping it first: then what it started can still be reached by its number.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(pid), options).ok().flatten();
        let has_failed = status.is_none_or(|status| status.exit_status() != Some(0));
        if has_failed || is_ending {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let status = rank.child.wait()?;
        rank.has_ended = true;
        let pressure = rank.pressure;
        self.endings.push(Ending { rank: index as u32, status, pressure });
        if has_failed && self.next.is_none() {
            self.press(Pressure::Terminated);
        }
        if self.endings.len() == self.ranks.len() {
            self.drained_by = Some(Instant::now() + DRAIN);
        }
        Ok(())
    }

    /// The user wants something.
    fn signalled(&mut self, signal: i32) {
        if signal == SIGINT {
            self.interrupts += 1;
        }
        match self.interrupts {
            2 if signal == SIGINT => return self.press(Pressure::Terminated),
            3.. if signal == SIGINT => return self.press(Pressure::Killed),
            _ => {}
        }
        if let Some(named) = Signal::from_named_raw(signal) {
            self.tell(named, Pressure::Asked);
        }
        let is_end = signal == SIGTERM || signal == SIGHUP;
        let then = if is_end { Pressure::Killed } else { Pressure::Terminated };
        if signal != SIGQUIT && self.next.is_none_or(|(_, next)| next < then) {
            self.next = Some((Instant::now() + self.grace, then));
        }
    }

    /// Ends those that run, with more pressure after the grace time.
    fn press(&mut self, pressure: Pressure) {
        let (signal, next) = match pressure {
            Pressure::Killed => (Signal::KILL, None),
            _ => (Signal::TERM, Some((Instant::now() + self.grace, Pressure::Killed))),
        };
        self.tell(signal, pressure);
        self.next = next;
    }

    fn tell(&mut self, signal: Signal, pressure: Pressure) {
        for rank in self.ranks.iter_mut().filter(|rank| !rank.has_ended) {
            rank.pressure = rank.pressure.max(pressure);
            let _ = kill_process_group(pid_of(&rank.child), signal);
        }
    }

    /// The exit code of the first rank that failed, 0 if none did.
    pub fn code(&self) -> u8 {
        let failed = self.endings.iter().find(|ending| !ending.status.success());
        failed.map_or(0, Ending::code)
    }

    /// Says which rank ended how, if one failed.
    pub fn report(&self) {
        if let Some(line) = ending::describe(&self.endings, self.grace) {
            eprintln!("cairn: {line}");
        }
    }
}

impl Drop for RankGroup {
    /// Where a rank could not be started, the others end.
    fn drop(&mut self) {
        self.signals.close();
        for rank in self.ranks.iter_mut().filter(|rank| !rank.has_ended) {
            let _ = kill_process_group(pid_of(&rank.child), Signal::KILL);
            let _ = rank.child.wait();
        }
    }
}

/// The command of a rank. Input goes to the first one, unless it is a terminal: a group in the background would be stopped.
fn command(job: &Job, program: &[OsString], rank: u32) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cairn does not find itself")?);
    command.args(["rank-start", "--parent", &getpid().as_raw_pid().to_string(), "--"]);
    command.args(program);
    command.envs(job.variables(rank, |name| std::env::var_os(name).is_some()));
    let has_input = rank == 0 && !std::io::stdin().is_terminal();
    command.stdin(if has_input { Stdio::inherit() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    Ok(command)
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

//! `--ranks N`: one program as N processes, the ranks of one job, each with its device, its variables and its prefix.

mod ending;
mod group;
mod lines;
pub mod start;

pub use group::RankGroup;

use std::{
    ffi::OsString,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use cairn_runtime::config::{self, MAX_DEVICES};

/// Options of commands that run a program.
#[derive(clap::Args)]
pub struct RankOptions {
    /// Run N processes of the program, the ranks of one job: docs/ranks.md
    #[arg(long, value_name = "N")]
    ranks: Option<u32>,
    /// Devices of each rank
    #[arg(long, value_name = "N", default_value_t = 1, requires = "ranks")]
    devices_per_rank: u32,
    /// The port at which ranks meet (MASTER_PORT); a free one when not given
    #[arg(long, value_name = "PORT", requires = "ranks")]
    master_port: Option<u16>,
    /// How long ranks may take to end after SIGTERM, when another one has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "ranks")]
    grace: u64,
}

/// The ranks of one run.
#[derive(Debug, PartialEq, Eq)]
pub struct Job {
    ranks: u32,
    devices_per_rank: u32,
    /// Devices of the machine, as each rank sees it.
    devices: usize,
    port: u16,
    grace: Duration,
    /// Threads of each rank, where the user says nothing else.
    threads: usize,
}

impl RankOptions {
    /// The ranks that the user asks for; `None` without `--ranks`.
    pub fn job(&self) -> Result<Option<Job>> {
        let Some(ranks) = self.ranks else { return Ok(None) };
        let configured = config::device_count()?;
        let port = match self.master_port {
            Some(port) => port,
            None => free_port()?,
        };
        Job::new(self, ranks, configured, port).map(Some)
    }
}

/// A port of loopback that nobody listens at.
fn free_port() -> Result<u16> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port of 127.0.0.1 is free")?;
    Ok(listener.local_addr()?.port())
}

impl Job {
    fn new(options: &RankOptions, ranks: u32, configured: usize, port: u16) -> Result<Job> {
        let per_rank = options.devices_per_rank;
        ensure!(ranks > 0, "--ranks 0: there is at least one rank");
        ensure!(per_rank > 0, "--devices-per-rank 0: a rank has at least one device");
        let needed = u64::from(ranks) * u64::from(per_rank);
        ensure!(
            needed <= MAX_DEVICES as u64,
            "{ranks} ranks with {per_rank} devices each need {needed} devices: a machine has at most {MAX_DEVICES} software devices"
        );
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Job {
            ranks,
            devices_per_rank: per_rank,
            devices: configured.max(needed as usize),
            port,
            grace: Duration::from_secs(options.grace),
            threads: (cores / ranks as usize).max(1),
        })
    }

    /// The ranks, by number.
    pub fn ranks(&self) -> std::ops::Range<u32> {
        0..self.ranks
    }

    /// Variables of a rank. Those that the user may have set are kept: `is_set` tells.
    fn variables(&self, rank: u32, is_set: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
        let (rank_text, size) = (rank.to_string(), self.ranks.to_string());
        let mut variables = vec![
            ("RANK", rank_text.clone()),
            ("LOCAL_RANK", rank_text.clone()),
            ("WORLD_SIZE", size.clone()),
            ("LOCAL_WORLD_SIZE", size.clone()),
            ("MASTER_ADDR", Ipv4Addr::LOCALHOST.to_string()),
            ("MASTER_PORT", self.port.to_string()),
            ("RANK_ID", rank_text),
            ("RANK_SIZE", size),
            ("DEVICE_ID", (rank * self.devices_per_rank).to_string()),
            ("CAIRN_DEVICES", self.devices.to_string()),
        ];
        let defaults = [
            // A pipe is no terminal: without this, lines come late.
            ("PYTHONUNBUFFERED", "1".to_owned()),
            ("OMP_NUM_THREADS", self.threads.to_string()),
            ("CAIRN_WORKERS", self.threads.to_string()),
        ];
        variables.extend(defaults.into_iter().filter(|(name, _)| !is_set(name)));
        variables
    }
}

/// `FILE.rankN.EXTENSION`: where a rank's part of an output goes.
pub fn path_of_rank(path: &Path, rank: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(format!(".rank{rank}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// `cairn run --ranks`: runs the job to its end.
pub fn run(job: &Job, program: &[OsString]) -> Result<ExitCode> {
    let mut group = RankGroup::start(job, program, |_| Ok(Vec::new()))?;
    group.wait(None)?;
    group.report();
    Ok(ExitCode::from(group.code()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(devices_per_rank: u32) -> RankOptions {
        RankOptions { ranks: Some(2), devices_per_rank, master_port: None, grace: 10 }
    }

    fn job(ranks: u32, devices_per_rank: u32, configured: usize) -> Result<Job> {
        Job::new(&options(devices_per_rank), ranks, configured, 2400)
    }

    #[test]
    fn a_rank_has_the_variables_of_launchers() {
        let job = Job { threads: 3, ..job(4, 2, 2).unwrap() };
        let variables = job.variables(3, |name| name == "OMP_NUM_THREADS");
        let text: Vec<String> =
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            text.join(" "),
            "RANK=3 LOCAL_RANK=3 WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=2400 RANK_ID=3 \
             RANK_SIZE=4 DEVICE_ID=6 CAIRN_DEVICES=8 PYTHONUNBUFFERED=1 CAIRN_WORKERS=3"
        );
    }

    #[test]
    fn there_are_devices_for_all_and_no_more_than_a_machine_has() {
        assert_eq!(job(2, 1, 8).unwrap().devices, 8);
        assert_eq!(job(16, 1, 2).unwrap().devices, 16);
        let text = |ranks, per_rank| job(ranks, per_rank, 2).unwrap_err().to_string();
        assert_eq!(
            text(6, 3),
            "6 ranks with 3 devices each need 18 devices: a machine has at most 16 software devices"
        );
        assert!(text(u32::MAX, u32::MAX).contains("need 18446744065119617025 devices"));
        assert_eq!(text(0, 1), "--ranks 0: there is at least one rank");
        assert_eq!(text(1, 0), "--devices-per-rank 0: a rank has at least one device");
    }

    #[test]
    fn files_of_ranks() {
        let path = |text: &str| path_of_rank(Path::new(text), 3).display().to_string();
        assert_eq!(path("/a/run.cairn"), "/a/run.rank3.cairn");
        assert_eq!(path("run"), "run.rank3");
        assert_eq!(path("a.b/c.d.e"), "a.b/c.d.rank3.e");
    }

    #[test]
    fn a_free_port_can_be_listened_at() {
        let port = free_port().unwrap();
        assert!(port > 0 && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
    }
}

//! The machine as `npu-smi` shows it: the settings, and the live figures of the running processes.

use std::time::Duration;

use cairn_runtime::{
    config::Config,
    live::{
        self, Snapshot,
        details::{self, CommunicatorFigures},
    },
};

/// The devices and who uses them, at one moment.
#[derive(Debug)]
pub struct Machine {
    pub soc: Soc,
    pub devices: Vec<Device>,
    /// Ends of communicators, by process.
    pub communicators: Vec<(i32, CommunicatorFigures)>,
}

/// How long a process may take to tell its communicators.
const ANSWER: Duration = Duration::from_millis(500);

/// One device; its id is its index in the list.
#[derive(Debug, Default)]
pub struct Device {
    pub capacity: u64,
    pub users: Vec<User>,
}

/// One process that has the device open.
#[derive(Debug)]
pub struct User {
    pub pid: i32,
    pub name: String,
    pub used: u64,
    /// Freed bytes in the quarantine.
    pub waiting: u64,
    pub streams: u64,
}

impl Machine {
    /// Reads settings and processes. An unusable setting is an error that names it.
    pub fn read() -> Result<Machine, String> {
        let config = Config::from_env().map_err(|error| error.to_string())?;
        let processes = live::read_all();
        let machine = Machine::new(&config.soc, config.devices, config.device_memory, &processes);
        Ok(Machine { communicators: communicators(&processes), ..machine })
    }

    /// A process may have been started with more devices or other memory than our own settings say:
    /// the figures of running processes win.
    fn new(soc: &str, devices: usize, memory: u64, processes: &[Snapshot]) -> Machine {
        let mut all: Vec<Device> = Vec::new();
        all.resize_with(devices, || Device { capacity: memory, users: Vec::new() });
        for process in processes {
            for (id, figures) in
                process.devices.iter().enumerate().filter(|(_, figures)| figures.active)
            {
                if id >= all.len() {
                    all.resize_with(id + 1, || Device { capacity: memory, users: Vec::new() });
                }
                let device = &mut all[id];
                device.capacity =
                    if device.users.is_empty() { 0 } else { device.capacity }.max(figures.capacity);
                device.users.push(User {
                    pid: process.pid,
                    name: process.name.clone(),
                    used: figures.used,
                    waiting: figures.waiting,
                    streams: figures.streams,
                });
            }
        }
        Machine { soc: Soc::new(soc), devices: all, communicators: Vec::new() }
    }
}

/// Asks the processes that have communicators for them.
fn communicators(processes: &[Snapshot]) -> Vec<(i32, CommunicatorFigures)> {
    let processes = processes.iter().filter(|process| process.communicators > 0);
    let details = processes.filter_map(|it| Some((it.pid, details::details_of(it.pid, ANSWER)?)));
    details.flat_map(|(pid, it)| it.communicators.into_iter().map(move |it| (pid, it))).collect()
}

impl Device {
    pub fn used(&self) -> u64 {
        self.users.iter().map(|user| user.used).sum()
    }

    /// Freed bytes in the quarantine.
    pub fn waiting(&self) -> u64 {
        self.users.iter().map(|user| user.waiting).sum()
    }

    /// How full it is, in percent, rounded down.
    pub fn usage(&self) -> u64 {
        (self.used() * 100).checked_div(self.capacity).unwrap_or(0)
    }
}

/// An address on a bus that no real machine has.
pub fn bus(id: usize) -> String {
    format!("CA17:{:02X}:00.0", id + 1)
}

/// The bytes in whole MiB, as the tool counts them.
pub fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// A SoC's name in the parts that the tool shows separately.
#[derive(Debug, PartialEq, Eq)]
pub struct Soc {
    /// `910B1`, or `Ascend910` for a SoC named with an underscore.
    pub chip: String,
    /// `9391` of `Ascend910_9391`.
    pub npu: Option<String>,
}

impl Soc {
    pub fn new(name: &str) -> Soc {
        match name.split_once('_') {
            Some((chip, npu)) => Soc { chip: chip.into(), npu: Some(npu.into()) },
            None => Soc { chip: name.strip_prefix("Ascend").unwrap_or(name).into(), npu: None },
        }
    }

    /// Whether the device's memory is HBM; the 310 series has DDR.
    pub fn has_hbm(&self) -> bool {
        !self.chip.starts_with("310")
    }
}

#[cfg(test)]
impl Machine {
    /// Two devices of 32 GiB; one process holds 1 GiB on the second.
    pub fn example() -> Machine {
        let mut devices = vec![live::DeviceFigures::default(); 2];
        devices[1] = live::DeviceFigures {
            capacity: 32 << 30,
            used: 1 << 30,
            waiting: 5 << 20,
            streams: 3,
            active: true,
        };
        let claim = live::Claim::default();
        let process =
            Snapshot { pid: 4711, name: "python".into(), devices, claim, communicators: 0 };
        Machine::new("Ascend910B1", 2, 32 << 30, &[process])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_running_processes_win() {
        let figures =
            |capacity| live::DeviceFigures { capacity, active: true, ..Default::default() };
        let process = |pid, devices| Snapshot {
            pid,
            name: "p".into(),
            devices,
            claim: live::Claim::default(),
            communicators: 0,
        };
        let processes = [
            process(1, vec![figures(4 << 30)]),
            process(2, vec![figures(8 << 30), live::DeviceFigures::default(), figures(8 << 30)]),
        ];
        let machine = Machine::new("Ascend910B1", 1, 64 << 30, &processes);
        let capacities: Vec<_> =
            machine.devices.iter().map(|device| device.capacity >> 30).collect();
        assert_eq!(capacities, [8, 64, 8]);
        assert_eq!(machine.devices[0].users.len(), 2);
        assert!(machine.devices[1].users.is_empty());
    }

    #[test]
    fn names_in_parts() {
        let soc =
            |chip: &str, npu: Option<&str>| Soc { chip: chip.into(), npu: npu.map(Into::into) };
        assert_eq!(Soc::new("Ascend910B1"), soc("910B1", None));
        assert_eq!(Soc::new("Ascend910_9391"), soc("Ascend910", Some("9391")));
        assert!(Soc::new("Ascend910B1").has_hbm() && !Soc::new("Ascend310P3").has_hbm());
    }
}

//! `npu-smi info -l`, `-m` and `-t`: lists of names and values.

use std::fmt::Write;

use clap::ValueEnum;

use super::{
    VERSION,
    machine::{Device, Machine, bus, mib},
};

/// The kinds of detail of `-t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Board,
    Usages,
    Memory,
    Common,
    Health,
    ProcMem,
}

impl Kind {
    pub fn name(self) -> String {
        self.to_possible_value().expect("no kind is hidden").get_name().to_string()
    }
}

/// Lines `name : value`, aligned as the tool does.
#[derive(Default)]
struct Fields {
    text: String,
}

impl Fields {
    fn add(&mut self, name: &str, value: impl ToString) -> &mut Self {
        let _ = writeln!(self.text, "\t{name:<30} : {}", value.to_string());
        self
    }

    fn blank_line(&mut self) -> &mut Self {
        self.text.push('\n');
        self
    }
}

/// `npu-smi info -l`.
pub fn list(machine: &Machine) -> String {
    let mut fields = Fields::default();
    fields.add("Total Count", machine.devices.len());
    for id in 0..machine.devices.len() {
        fields
            .blank_line()
            .add("NPU ID", id)
            .add("Product Name", product(machine))
            .add("Serial Number", serial(id));
        fields.add("Chip Count", 1);
    }
    fields.text
}

/// `npu-smi info -m`.
pub fn mapping(machine: &Machine) -> String {
    let mut text = String::new();
    let mut row = |cells: [&str; 4]| {
        let _ = writeln!(text, "\t{:<30} {:<30} {:<30} {}", cells[0], cells[1], cells[2], cells[3]);
    };
    row(["NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"]);
    let chip = match machine.soc.npu {
        Some(_) => machine.soc.chip.clone(),
        None => format!("Ascend {}", machine.soc.chip),
    };
    for id in 0..machine.devices.len() {
        row([&id.to_string(), "0", &id.to_string(), &chip]);
    }
    text
}

/// `npu-smi info -t KIND -i ID [-c 0]`. The device exists.
pub fn detail(machine: &Machine, kind: Kind, id: usize, chip: bool) -> String {
    let device = &machine.devices[id];
    let mut fields = Fields::default();
    fields.add("NPU ID", id);
    match kind {
        Kind::Board if chip => self::chip(&mut fields, machine, id),
        Kind::Board => board(&mut fields, machine, id),
        Kind::Usages => usages(&mut fields, device, machine.soc.has_hbm()),
        Kind::Memory => memory(&mut fields, device, machine.soc.has_hbm()),
        Kind::Common => {
            let memory =
                if machine.soc.has_hbm() { "HBM Usage Rate(%)" } else { "Memory Usage Rate(%)" };
            fields.add("Chip Count", 1).blank_line().add("Chip ID", 0).add(memory, device.usage());
            fields
                .add("Aicore Usage Rate(%)", 0)
                .add("Temperature(C)", "NA")
                .add("NPU Real-time Power(W)", "NA");
        }
        Kind::Health => {
            fields.add("Chip Count", 1).blank_line().add("Health", "OK").add("Error Code", "NA");
            fields.add("Error Information", "NA").add("Chip ID", 0);
        }
        Kind::ProcMem => {
            for user in &device.users {
                let memory = mib(user.used);
                let _ = writeln!(
                    fields.text,
                    "\tProcess id:{:<10} Process name:{:<16} Process memory(MB):{memory}",
                    user.pid, user.name
                );
            }
            fields.add("Chip ID", 0);
        }
    }
    fields.text
}

fn board(fields: &mut Fields, machine: &Machine, id: usize) {
    fields.add("Product Name", product(machine)).add("Model", "NA").add("Manufacturer", "Cairn");
    fields.add("Serial Number", serial(id)).add("Software Version", VERSION);
    fields.add("Firmware Version", env!("CARGO_PKG_VERSION")).add("Compatibility", "OK");
    fields
        .add("Board ID", "0x00")
        .add("PCB ID", "NA")
        .add("BOM ID", "NA")
        .add("PCIe Bus Info", bus(id));
    fields
        .add("Slot ID", id)
        .add("Class ID", "NA")
        .add("PCI Vendor ID", "NA")
        .add("PCI Device ID", "NA");
    fields.add("Subsystem Vendor ID", "NA").add("Subsystem Device ID", "NA").add("Chip Count", 1);
}

fn chip(fields: &mut Fields, machine: &Machine, id: usize) {
    fields.add("Chip ID", 0);
    match &machine.soc.npu {
        Some(npu) => fields.add("Chip Name", &machine.soc.chip).add("NPU Name", npu),
        None => fields.add("Chip Type", "Ascend").add("Chip Name", &machine.soc.chip),
    };
    fields
        .add("Chip Version", "V1")
        .add("Board ID", "0x00")
        .add("PCB ID", "NA")
        .add("BOM ID", "NA");
    fields.add("VDie ID", die(id)).add("Chip Position ID", 0).add("PCIe Bus Info", bus(id));
    fields.add("Firmware Version", env!("CARGO_PKG_VERSION"));
}

fn usages(fields: &mut Fields, device: &Device, hbm: bool) {
    let [capacity, rate] = if hbm {
        ["HBM Capacity(MB)", "HBM Usage Rate(%)"]
    } else {
        ["DDR Capacity(MB)", "DDR Usage Rate(%)"]
    };
    fields
        .add("Chip Count", 1)
        .blank_line()
        .add(capacity, mib(device.capacity))
        .add(rate, device.usage());
    for name in [
        "Aicore Usage Rate(%)",
        "Aivector Usage Rate(%)",
        "Aicpu Usage Rate(%)",
        "Ctrlcpu Usage Rate(%)",
    ] {
        fields.add(name, 0);
    }
    fields.add("NPU Utilization(%)", 0).add("Chip ID", 0);
}

fn memory(fields: &mut Fields, device: &Device, hbm: bool) {
    let kind = if hbm { "HBM" } else { "DDR" };
    fields.add("Chip Count", 1).blank_line();
    for (name, bytes) in
        [("Capacity", device.capacity), ("Used", device.used()), ("Waiting", device.waiting())]
    {
        fields.add(&format!("{kind} {name}(MB)"), mib(bytes));
    }
    let streams: u64 = device.users.iter().map(|user| user.streams).sum();
    fields.add("Streams", streams).add("Hugepages Total (page)", 0).add("Chip ID", 0);
}

fn product(machine: &Machine) -> String {
    let npu = machine.soc.npu.as_ref().map(|npu| format!("_{npu}")).unwrap_or_default();
    format!("Cairn {}{npu}", machine.soc.chip)
}

fn serial(id: usize) -> String {
    format!("CAIRN{id:04}")
}

/// A die number that is stable and different for every device.
fn die(id: usize) -> String {
    format!("CA170000 00000000 00000000 00000000 {:08X}", id + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smi::machine::Soc;

    fn value(text: &str, name: &str) -> String {
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("{name} in\n{text}")).split_once(" : ").unwrap().1.to_string()
    }

    #[test]
    fn the_list() {
        let expected = "\tTotal Count                    : 2

\tNPU ID                         : 0
\tProduct Name                   : Cairn 910B1
\tSerial Number                  : CAIRN0000
\tChip Count                     : 1

\tNPU ID                         : 1
\tProduct Name                   : Cairn 910B1
\tSerial Number                  : CAIRN0001
\tChip Count                     : 1
";
        assert_eq!(list(&Machine::example()), expected);
    }

    #[test]
    fn the_mapping_has_an_id_a_name_and_no_empty_line() {
        let text = mapping(&Machine::example());
        let rows: Vec<Vec<_>> =
            text.lines().skip(1).map(|line| line.split_ascii_whitespace().collect()).collect();
        assert_eq!(rows, [["0", "0", "0", "Ascend", "910B1"], ["1", "0", "1", "Ascend", "910B1"]]);
    }

    #[test]
    fn boards_and_chips() {
        let mut machine = Machine::example();
        let text = detail(&machine, Kind::Board, 1, false);
        assert_eq!(value(&text, "NPU ID"), "1");
        assert_eq!(value(&text, "Software Version"), "25.5.0");
        assert_eq!(value(&text, "PCIe Bus Info"), "CA17:02:00.0");
        assert_eq!(value(&text, "Chip Count"), "1");
        let text = detail(&machine, Kind::Board, 1, true);
        assert_eq!(
            (value(&text, "Chip Type"), value(&text, "Chip Name")),
            ("Ascend".into(), "910B1".into())
        );
        machine.soc = Soc::new("Ascend910_9391");
        let text = detail(&machine, Kind::Board, 1, true);
        assert_eq!(
            (value(&text, "Chip Name"), value(&text, "NPU Name")),
            ("Ascend910".into(), "9391".into())
        );
        assert!(!text.contains("Chip Type"));
    }

    #[test]
    fn memory_and_processes() {
        let machine = Machine::example();
        let text = detail(&machine, Kind::Usages, 1, false);
        assert_eq!(
            (value(&text, "HBM Capacity(MB)"), value(&text, "HBM Usage Rate(%)")),
            ("32768".into(), "3".into())
        );
        let text = detail(&machine, Kind::Memory, 1, false);
        assert_eq!(
            (value(&text, "HBM Used(MB)"), value(&text, "HBM Waiting(MB)")),
            ("1024".into(), "5".into())
        );
        assert_eq!(value(&text, "Streams"), "3");
        let text = detail(&machine, Kind::ProcMem, 1, false);
        assert!(
            text.contains(
                "Process id:4711       Process name:python           Process memory(MB):1024"
            ),
            "{text}"
        );
        assert_eq!(value(&detail(&machine, Kind::Health, 0, false), "Health"), "OK");
    }
}

//! `npu-smi info`: the boxed table.

use cairn_runtime::live::details::CommunicatorFigures;

use crate::text::visible;

use super::{
    VERSION,
    machine::{Device, Machine, bus, mib},
};

/// Widths between the bars: device, health, figures.
const WIDTHS: [usize; 3] = [27, 15, 52];
/// The last column of the process table is divided again.
const PROCESS_WIDTHS: [usize; 4] = [27, 15, 26, 25];

/// The whole answer.
pub fn render(machine: &Machine) -> String {
    let hbm = machine.soc.has_hbm();
    let mut out = Lines::default();
    out.rule('-', &[WIDTHS.iter().sum::<usize>() + 2]);
    out.row(
        &[WIDTHS.iter().sum::<usize>() + 2],
        &[format!("npu-smi {VERSION:<25}Version: {VERSION}")],
    );
    out.rule('-', &WIDTHS);
    out.row(
        &WIDTHS,
        &["NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"],
    );
    let chips = if hbm {
        "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"
    } else {
        "AICore(%)   Memory-Usage(MB)"
    };
    out.row(&WIDTHS, &[if hbm { "Chip" } else { "Chip  Device" }, "Bus-Id", chips]);
    out.rule('=', &WIDTHS);
    for (id, device) in machine.devices.iter().enumerate() {
        out.device(id, device, &machine.soc.chip, hbm);
    }
    out.rule('-', &WIDTHS);
    out.row(&PROCESS_WIDTHS, &["NPU     Chip", "Process id", "Process name", "Process memory(MB)"]);
    out.rule('=', &WIDTHS);
    for (id, device) in machine.devices.iter().enumerate() {
        for user in &device.users {
            let name: String = user.name.chars().take(24).collect();
            out.row(
                &PROCESS_WIDTHS,
                &[format!("{id:<8}0"), user.pid.to_string(), name, mib(user.used).to_string()],
            );
        }
        if device.users.is_empty() {
            let text = format!("No running processes found in NPU {id}");
            out.row(&[WIDTHS.iter().sum::<usize>() + 2], &[text]);
        }
        out.rule('=', &WIDTHS);
    }
    if !machine.communicators.is_empty() {
        out.communicators(&machine.communicators);
    }
    out.text
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn rule(&mut self, line: char, widths: &[usize]) {
        let parts: Vec<_> = widths.iter().map(|width| line.to_string().repeat(*width)).collect();
        self.text.push_str(&format!("+{}+\n", parts.join("+")));
    }

    /// A row of cells, each with a blank before it, cut or filled to the width of its column.
    fn row(&mut self, widths: &[usize], cells: &[impl AsRef<str>]) {
        for (width, cell) in widths.iter().zip(cells) {
            let cell: String = cell.as_ref().chars().take(width - 1).collect();
            self.text.push_str(&format!("| {cell:<0$}", width - 1));
        }
        self.text.push_str("|\n");
    }

    /// A row for each rank of a communicator. The real tool has no such table: it comes last, and only where there are any.
    fn communicators(&mut self, all: &[(i32, CommunicatorFigures)]) {
        let name_row = |name: &str, operators: &str, state: &str| {
            let name: String = name.chars().take(29).collect();
            format!("{name:<30}{operators:<12}{state}")
        };
        self.rule('-', &WIDTHS);
        let heading = name_row("Communicator", "Operators", "State");
        self.row(&WIDTHS, &["NPU     Rank / Size", "Process id", &heading]);
        self.rule('=', &WIDTHS);
        let mut all: Vec<_> = all.iter().collect();
        all.sort_by_key(|(pid, figures)| (figures.device, &figures.name, *pid));
        for (pid, figures) in all {
            let state = match figures.submitted.saturating_sub(figures.finished) {
                0 => "idle".into(),
                queued => format!("{queued} queued"),
            };
            let place = format!("{:<8}{:<5}/ {}", figures.device, figures.rank, figures.size);
            let name = visible(&figures.name).replace(['\n', '\t'], " ");
            let row = name_row(&name, &figures.finished.to_string(), &state);
            self.row(&WIDTHS, &[place, pid.to_string(), row]);
        }
        self.rule('=', &WIDTHS);
    }

    /// The two rows of a device. There is no power and no temperature to tell: `NA`, as the tool has
    /// it on boards that do not measure.
    fn device(&mut self, id: usize, device: &Device, chip: &str, hbm: bool) {
        let state = format!("{:<12}{:<18}{}", "NA", "NA", pair(0, 0));
        self.row(&WIDTHS, &[format!("{id:<6}{chip}"), "OK".into(), state]);
        let memory = pair(mib(device.used()), mib(device.capacity));
        let figures = if hbm {
            format!("{:<12}{:<18}{memory}", 0, pair(0, 0))
        } else {
            format!("{:<12}{memory}", 0)
        };
        let chip_cell = if hbm { "0".into() } else { format!("{:<6}{id}", 0) };
        self.row(&WIDTHS, &[chip_cell, bus(id), figures]);
        self.rule('=', &WIDTHS);
    }
}

/// `used / total` with the bar in its usual place.
fn pair(used: u64, total: u64) -> String {
    format!("{used:<5}/ {total}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classic_table() {
        let expected = "\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.5.0                   Version: 25.5.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B1               | OK            | NA          NA                0    / 0             |
| 0                         | CA17:01:00.0  | 0           0    / 0          0    / 32768         |
+===========================+===============+====================================================+
| 1     910B1               | OK            | NA          NA                0    / 0             |
| 0                         | CA17:02:00.0  | 0           0    / 0          1024 / 32768         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
| 1       0                 | 4711          | python                   | 1024                    |
+===========================+===============+====================================================+
";
        let drawn = render(&Machine::example());
        assert_eq!(drawn, expected, "\n{drawn}");
    }

    #[test]
    fn communicators_come_last() {
        let figures = |name: &str, rank, finished| CommunicatorFigures {
            name: name.into(),
            rank,
            size: 2,
            device: rank,
            submitted: 12,
            finished,
        };
        let mut machine = Machine::example();
        machine.communicators = vec![
            (4712, figures("group_name_0", 1, 10)),
            (4711, figures("group_name_0", 0, 12)),
            (4711, figures("127.0.0.1%lo_60000_0_1763471234567\n", 0, 12)),
        ];
        let expected = "\
+---------------------------+---------------+----------------------------------------------------+
| NPU     Rank / Size       | Process id    | Communicator                  Operators   State    |
+===========================+===============+====================================================+
| 0       0    / 2          | 4711          | 127.0.0.1%lo_60000_0_17634712 12          idle     |
| 0       0    / 2          | 4711          | group_name_0                  12          idle     |
| 1       1    / 2          | 4712          | group_name_0                  10          2 queued |
+===========================+===============+====================================================+
";
        let drawn = render(&machine);
        assert!(drawn.ends_with(expected), "\n{drawn}");
    }

    #[test]
    fn socs_without_hbm_have_one_memory() {
        let mut machine = Machine::example();
        machine.soc = super::super::machine::Soc::new("Ascend310P3");
        let drawn = render(&machine);
        assert!(!drawn.contains("HBM"), "\n{drawn}");
        assert!(
            drawn.contains(
                "| 0     1                   | CA17:02:00.0  | 0           1024 / 32768 "
            ),
            "\n{drawn}"
        );
    }
}

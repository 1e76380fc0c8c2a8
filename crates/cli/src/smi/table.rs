//! `npu-smi info`: the boxed table.

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

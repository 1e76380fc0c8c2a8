//! How ranks ended, and what is said of it.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

/// What `cairn` did to a rank before it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Nothing.
    #[default]
    None,
    /// It passed a signal of the user on.
    Asked,
    /// It sent SIGTERM.
    Terminated,
    /// It sent SIGKILL.
    Killed,
}

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub rank: u32,
    pub status: ExitStatus,
    pub pressure: Pressure,
}

impl Ending {
    /// The exit code, or 128 and the number of the signal, as shells have it.
    pub fn code(&self) -> u8 {
        match self.status.code() {
            Some(code) => code as u8,
            None => 128u8.wrapping_add(self.status.signal().unwrap_or(0) as u8),
        }
    }

    fn describe(&self) -> String {
        match self.status.signal() {
            Some(signal) => {
                let name = signal_hook::low_level::signal_name(signal);
                let name = name.map_or(format!("signal {signal}"), str::to_owned);
                format!("rank {} was ended by {name}", self.rank)
            }
            None => format!("rank {} ended with code {}", self.rank, self.code()),
        }
    }
}

/// One line on a job whose ranks have all ended, in the order of `endings`; `None` if all succeeded.
pub fn describe(endings: &[Ending], grace: Duration) -> Option<String> {
    let first = endings.iter().position(|ending| !ending.status.success())?;
    let mut parts = vec![endings[first].describe()];
    let others = || endings.iter().enumerate().filter(|(at, _)| *at != first).map(|(_, it)| it);
    let by_themselves =
        others().filter(|it| it.pressure <= Pressure::Asked && !it.status.success());
    parts.extend(by_themselves.map(|ending| format!("then {}", ending.describe())));
    let list = |is_one: fn(&Ending) -> bool| {
        let mut ranks: Vec<u32> = others().filter(|it| is_one(it)).map(|it| it.rank).collect();
        ranks.sort_unstable();
        cairn_check::ranks::list_ranks(&ranks)
    };
    let count = |is_one: fn(&Ending) -> bool| others().filter(|it| is_one(it)).count();
    let is_done = |it: &Ending| it.pressure <= Pressure::Asked && it.status.success();
    let is_terminated = |it: &Ending| it.pressure == Pressure::Terminated;
    let is_killed = |it: &Ending| it.pressure == Pressure::Killed;
    let were = |count: usize| if count == 1 { "was" } else { "were" };
    if count(is_done) > 0 {
        parts.push(format!("{} had ended with code 0", list(is_done)));
    }
    if count(is_terminated) > 0 {
        parts.push(format!(
            "{} {} ended by SIGTERM",
            list(is_terminated),
            were(count(is_terminated))
        ));
    }
    if count(is_killed) > 0 {
        let (ranks, were, after) = (list(is_killed), were(count(is_killed)), grace.as_secs());
        parts.push(format!("{ranks} {were} killed, {after} s after SIGTERM"));
    }
    Some(parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE_3: i32 = 3 << 8;
    const SIGKILL: i32 = 9;
    const SIGTERM: i32 = 15;

    fn line(endings: &[(u32, i32, Pressure)]) -> Option<String> {
        let ending = |&(rank, raw, pressure): &(u32, i32, Pressure)| Ending {
            rank,
            status: ExitStatus::from_raw(raw),
            pressure,
        };
        let endings: Vec<Ending> = endings.iter().map(ending).collect();
        describe(&endings, Duration::from_secs(10))
    }

    #[test]
    fn the_first_that_failed_comes_first() {
        use Pressure::{Asked, Killed, None, Terminated};
        assert_eq!(line(&[(0, 0, None), (1, 0, None)]), Option::None);
        assert_eq!(line(&[(1, CODE_3, None)]).unwrap(), "rank 1 ended with code 3");
        assert_eq!(
            line(&[(2, SIGKILL, None), (1, SIGTERM, Terminated), (0, SIGTERM, Terminated)])
                .unwrap(),
            "rank 2 was ended by SIGKILL; ranks 0 and 1 were ended by SIGTERM"
        );
        assert_eq!(
            line(&[(0, 0, None), (1, CODE_3, None), (3, 256, None), (2, SIGKILL, Killed)]).unwrap(),
            "rank 1 ended with code 3; then rank 3 ended with code 1; rank 0 had ended with code 0; \
             rank 2 was killed, 10 s after SIGTERM"
        );
        assert_eq!(
            line(&[(1, 2, Asked), (0, 0, Asked)]).unwrap(),
            "rank 1 was ended by SIGINT; rank 0 had ended with code 0"
        );
    }

    #[test]
    fn codes_are_those_of_shells() {
        let code = |raw| {
            Ending { rank: 0, status: ExitStatus::from_raw(raw), pressure: Pressure::None }.code()
        };
        assert_eq!((code(CODE_3), code(SIGKILL), code(0)), (3, 137, 0));
    }
}

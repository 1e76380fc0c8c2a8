//! What the figures should be. A goal is printed beside its figure, met or not; it fails nothing.

use super::available::{
    IN_RUNTIME, LARGE_PIECES, OFFSET, ORT, PLUGIN, POOL, SMALL_PIECES, STANDALONE,
};
use super::efficiency::{Growth, TraceResult, TrimResult};
use super::speed::{HOT, column};
use super::streams::Streams;
use super::table::{Table, bytes};
use serde_json::{Value, json};

/// One figure and its limit.
struct Goal {
    what: String,
    figure: Option<f64>,
    limit: f64,
    unit: &'static str,
    at_least: bool,
}

impl Goal {
    fn verdict(&self) -> &'static str {
        match self.figure {
            None => "not measured",
            Some(figure) if self.at_least == (figure >= self.limit) || figure == self.limit => {
                "met"
            }
            Some(_) => "NOT MET",
        }
    }
}

/// All goals of a run.
#[derive(Default)]
pub struct Goals(Vec<Goal>);

impl Goals {
    /// Goals of speed.
    pub fn speed(&mut self, table: &Table, streams: &Streams) {
        let best = |column: &str, row: &str| table.figure(column, row).map(|figure| figure.best);
        for (how, row, limit) in [("from Rust", POOL, 20.0), ("through the plugin", PLUGIN, 40.0)] {
            let figures: Option<Vec<f64>> = HOT.iter().map(|&b| best(&bytes(b), row)).collect();
            let most = |f: &Vec<f64>| f.iter().copied().fold(0.0, f64::max);
            let least = |f: &Vec<f64>| f.iter().copied().fold(f64::MAX, f64::min);
            self.at_most(
                format!("hot pair, {how}, any size"),
                figures.as_ref().map(most),
                limit,
                "ns",
            );
            let spread = figures.as_ref().map(|f| most(f) / least(f));
            self.at_most(format!("hot pair, {how}, slowest over fastest size"), spread, 1.3, "x");
        }
        for churn in [column::CHURN_1K, column::CHURN_64L] {
            for (peer, limit) in [(OFFSET, 1.1), (ORT, 0.5)] {
                let ratio_to_peer =
                    best(churn, POOL).zip(best(churn, peer)).map(|(own, peer)| own / peer);
                self.at_most(format!("{churn} over {peer}"), ratio_to_peer, limit, "x");
            }
        }
        let two_and_one = best(column::TWO_THREADS, POOL).zip(best(column::ONE_THREAD, POOL));
        self.at_most(
            "two streams on two threads over one".into(),
            two_and_one.map(|(b, a)| b / a),
            1.15,
            "x",
        );
        self.at_most("record_use adds, streams idle".into(), Some(streams.recorded), 150.0, "ns");
        let busy = Some(streams.recorded_busy);
        self.at_most("record_use adds, other stream behind".into(), busy, 150.0, "ns");
    }

    /// Goals of memory.
    pub fn memory(&mut self, rows: &[TraceResult], growth: &Growth, trims: &[TrimResult]) {
        for row in rows {
            let (kind, limit) =
                if row.training { ("training", 1.04) } else { ("inference", 1.005) };
            let figure = ratio(&row.reserved, row.peak_live);
            self.at_most(format!("{kind} {}, reserved over live", row.trace), figure, limit, "x");
        }
        for (name, limit) in
            [(SMALL_PIECES, 1.01), (IN_RUNTIME[1], 1.01), (LARGE_PIECES, 1.03), (STANDALONE, 1.03)]
        {
            let figures =
                rows.iter().filter_map(|row| ratio_of(name, &row.reserved, row.peak_live));
            let worst = figures.reduce(f64::max);
            self.at_most(format!("{name}, reserved over live, worst"), worst, limit, "x");
        }
        let figure = ratio(&growth.reserved, growth.live);
        self.at_most("growing pattern, reserved over live".into(), figure, 1.6, "x");
        let share = |t: &TrimResult| t.returned as f64 / t.free.max(1) as f64;
        let worst = trims.iter().map(share).reduce(f64::min);
        self.0.push(Goal {
            what: "trim returns, of wholly free pages".into(),
            figure: worst,
            limit: 0.99,
            unit: "",
            at_least: true,
        });
    }

    fn at_most(&mut self, what: String, figure: Option<f64>, limit: f64, unit: &'static str) {
        self.0.push(Goal { what, figure, limit, unit, at_least: false });
    }

    /// One line each.
    pub fn print(&self) {
        for goal in &self.0 {
            let figure = goal.figure.map_or("-".into(), |f| with_unit(f, goal.unit));
            let limit = with_unit(goal.limit, goal.unit);
            let bound = if goal.at_least { "at least" } else { "at most" };
            println!("{:<52} {figure:>9}  {bound} {limit:<8} {}", goal.what, goal.verdict());
        }
    }

    /// All goals.
    pub fn json(&self) -> Value {
        let each = |goal: &Goal| {
            json!({
                "goal": goal.what, "figure": goal.figure, "limit": goal.limit, "unit": goal.unit,
                "verdict": goal.verdict(),
            })
        };
        self.0.iter().map(each).collect()
    }
}

fn ratio(reserved: &[(&str, u64)], live: u64) -> Option<f64> {
    ratio_of(POOL, reserved, live)
}

fn ratio_of(allocator: &str, reserved: &[(&str, u64)], live: u64) -> Option<f64> {
    let (_, bytes) = reserved.iter().find(|(name, _)| *name == allocator)?;
    Some(*bytes as f64 / live as f64)
}

fn with_unit(figure: f64, unit: &str) -> String {
    match unit {
        "ns" => format!("{figure:.1} ns"),
        unit => format!("{figure:.3}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let mut goals = Goals::default();
        for figure in [Some(0.9), Some(1.0), Some(1.1), None] {
            goals.at_most("x".into(), figure, 1.0, "x");
        }
        goals.0.push(Goal {
            what: "y".into(),
            figure: Some(0.9),
            limit: 0.99,
            unit: "",
            at_least: true,
        });
        let verdicts: Vec<_> = goals.0.iter().map(Goal::verdict).collect();
        assert_eq!(verdicts, ["met", "met", "NOT MET", "not measured", "NOT MET"]);
    }
}

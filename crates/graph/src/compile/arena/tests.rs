//! Plans against a naive checker, a naive greedy-by-size, and lifetimes as real graphs have them.

use super::exact::{Choice, Outcome, Search};
use super::{
    Arena, Block, Lifetime, packing::Packing, placement::Placement, plan, problem::Problem,
};
use proptest::prelude::*;

const ALIGN: u64 = 512;

fn lifetime(bytes: u64, first: usize, last: usize) -> Lifetime {
    Lifetime { bytes, first, last }
}

fn rounded(lifetime: &Lifetime) -> u64 {
    lifetime.bytes.div_ceil(ALIGN) * ALIGN
}

fn overlap(a: &Lifetime, b: &Lifetime) -> bool {
    a.first <= b.last && b.first <= a.last
}

/// Checks a plan, pair by pair and step by step.
fn check(lifetimes: &[Lifetime], arena: &Arena) {
    assert_eq!(arena.offsets.len(), lifetimes.len());
    let range = |at: usize| arena.offsets[at]..arena.offsets[at] + lifetimes[at].bytes;
    for a in 0..lifetimes.len() {
        assert_eq!(arena.offsets[a] % ALIGN, 0);
        assert!(range(a).end <= arena.bytes);
        for b in 0..a {
            let apart = range(a).is_empty()
                || range(b).is_empty()
                || range(a).end <= range(b).start
                || range(b).end <= range(a).start;
            assert!(
                apart || !overlap(&lifetimes[a], &lifetimes[b]),
                "{a} and {b} share bytes and a step"
            );
        }
    }
    let at = |step| -> u64 {
        lifetimes.iter().filter(|one| one.first <= step && step <= one.last).map(rounded).sum()
    };
    let bound = lifetimes.iter().map(|one| at(one.first)).max().unwrap_or(0);
    assert_eq!(arena.lower_bound, bound);
    assert!(arena.bytes >= bound);
}

/// The size of a plan that takes the largest first; `best_fit` takes the smallest gap, else the lowest.
fn greedy_by_size(lifetimes: &[Lifetime], best_fit: bool) -> u64 {
    let mut order: Vec<usize> =
        (0..lifetimes.len()).filter(|at| lifetimes[*at].bytes > 0).collect();
    order.sort_by_key(|at| std::cmp::Reverse(rounded(&lifetimes[*at])));
    let mut placed: Vec<(u64, u64, usize)> = Vec::new();
    for at in order {
        let mut neighbors: Vec<_> = placed
            .iter()
            .filter(|(_, _, other)| overlap(&lifetimes[at], &lifetimes[*other]))
            .collect();
        neighbors.sort();
        let (mut end, mut gaps) = (0, Vec::new());
        for (begin, range_end, _) in neighbors {
            if *begin >= end + rounded(&lifetimes[at]) {
                gaps.push((begin - end, end));
            }
            end = end.max(*range_end);
        }
        let gap = if best_fit { gaps.iter().min() } else { gaps.first() };
        let begin = gap.map_or(end, |(_, begin)| *begin);
        placed.push((begin, begin + rounded(&lifetimes[at]), at));
    }
    placed.iter().map(|(_, end, _)| *end).max().unwrap_or(0)
}

fn blocks(lifetimes: &[Lifetime]) -> Vec<Block> {
    let block = |one: &Lifetime| Block { bytes: rounded(one), first: one.first, last: one.last };
    lifetimes.iter().filter(|one| one.bytes > 0).map(block).collect()
}

/// The size of the plan without the search for packings.
fn heuristic(lifetimes: &[Lifetime]) -> u64 {
    let blocks = blocks(lifetimes);
    let bound = super::lower_bound(&blocks);
    let mut placement = Placement::new(&blocks);
    let (mut best, mut bytes, order) = super::by_order(&blocks, &mut placement, bound);
    if bytes > bound {
        super::search::improve(&blocks, &mut placement, &order, bound, &mut best, &mut bytes);
    }
    bytes
}

fn any_lifetimes() -> impl Strategy<Value = Vec<Lifetime>> {
    let one = (prop_oneof![Just(0), 1u64..3000, 1u64..200_000], 0usize..60, 0usize..25);
    prop::collection::vec(
        one.prop_map(|(bytes, first, more)| lifetime(bytes, first, first + more)),
        0..70,
    )
}

/// The size of the smallest plan: of any plan that is pushed down, its blocks by rising offset give it again.
fn smallest(blocks: &mut Vec<Lifetime>, placed: &mut Vec<(Lifetime, u64)>, best: &mut u64) {
    let top = placed.iter().map(|(one, at)| at + rounded(one)).max().unwrap_or(0);
    if top >= *best {
        return;
    }
    if blocks.is_empty() {
        *best = top;
    }
    for at in 0..blocks.len() {
        let block = blocks.swap_remove(at);
        let below = placed.iter().filter(|(one, _)| overlap(one, &block));
        let offset = below.map(|(one, at)| at + rounded(one)).max().unwrap_or(0);
        placed.push((block, offset));
        smallest(blocks, placed, best);
        placed.pop();
        blocks.push(block);
        let last = blocks.len() - 1;
        blocks.swap(at, last);
    }
}

fn few_lifetimes() -> impl Strategy<Value = Vec<Lifetime>> {
    let one = (1u64..12, 0usize..8, 0usize..5);
    prop::collection::vec(
        one.prop_map(|(units, first, more)| lifetime(units * ALIGN, first, first + more)),
        1..8,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn plans_hold_and_are_no_larger_than_greedy_ones(lifetimes in any_lifetimes()) {
        let arena = plan(&lifetimes, ALIGN);
        check(&lifetimes, &arena);
        prop_assert!(arena.bytes <= greedy_by_size(&lifetimes, false));
        prop_assert!(arena.bytes <= greedy_by_size(&lifetimes, true));
        prop_assert_eq!(&arena, &plan(&lifetimes, ALIGN));
        prop_assert!(arena.bytes <= heuristic(&lifetimes));
    }

    #[test]
    fn small_plans_cannot_be_smaller(lifetimes in few_lifetimes()) {
        let mut best = u64::MAX;
        smallest(&mut lifetimes.clone(), &mut Vec::new(), &mut best);
        let arena = plan(&lifetimes, ALIGN);
        check(&lifetimes, &arena);
        prop_assert_eq!(arena.bytes, best);
    }

    #[test]
    fn searches_find_what_is_there_and_nothing_else(lifetimes in few_lifetimes()) {
        let mut best = u64::MAX;
        smallest(&mut lifetimes.clone(), &mut Vec::new(), &mut best);
        let blocks = blocks(&lifetimes);
        let placement = Placement::new(&blocks);
        let problem = Problem::new(&blocks, &placement, best).expect("small enough to be searched");
        let mut search = Search::new(Packing::new(&problem));
        let ranks: Vec<u32> = (0..blocks.len() as u32).rev().collect();
        let limit = problem.units(best);
        for choice in [Choice::Fewest, Choice::Product] {
            for (limit, expected) in [
                (limit, Outcome::Found),
                (limit - 1, Outcome::Impossible),
                (limit + 1, Outcome::Found),
                (limit / 2, Outcome::Impossible),
            ] {
                let outcome = search.run(limit, choice, &ranks, u64::MAX, u64::MAX);
                prop_assert_eq!(outcome, expected, "{} of {}, {:?}", limit, best, choice);
            }
        }
    }
}

#[test]
fn nothing_and_empty_lifetimes_take_no_room() {
    assert_eq!(plan(&[], ALIGN), Arena { offsets: vec![], bytes: 0, lower_bound: 0 });
    let arena = plan(&[lifetime(0, 0, 9), lifetime(1, 0, 9), lifetime(0, 3, 3)], ALIGN);
    assert_eq!(arena, Arena { offsets: vec![0; 3], bytes: 512, lower_bound: 512 });
}

#[test]
fn a_lifetime_that_ends_before_it_begins_lasts_one_step() {
    let arena = plan(&[lifetime(512, 5, 2), lifetime(512, 5, 5)], ALIGN);
    assert_eq!(arena.bytes, 1024);
}

#[test]
fn what_does_not_fit_into_64_bits_has_the_largest_size() {
    let arena = plan(&[lifetime(u64::MAX, 0, 1), lifetime(u64::MAX, 1, 2)], ALIGN);
    assert_eq!((arena.bytes, arena.lower_bound), (u64::MAX, u64::MAX));
}

#[test]
fn ten_thousand_lifetimes_of_a_training_graph() {
    let lifetimes = training(&[4096, 1024, 9216, 300], 240);
    assert!(lifetimes.len() >= 10_000, "{}", lifetimes.len());
    let begun = std::time::Instant::now();
    let arena = plan(&lifetimes, ALIGN);
    let ratio = arena.bytes as f64 / arena.lower_bound as f64;
    println!("{} lifetimes: {ratio:.4} of the lower bound, {:?}", lifetimes.len(), begun.elapsed());
    check(&lifetimes, &arena);
}

#[test]
fn real_patterns_come_close_to_the_lower_bound() {
    for (name, lifetimes) in patterns() {
        let begun = std::time::Instant::now();
        let arena = plan(&lifetimes, ALIGN);
        report(name, &lifetimes, &arena, begun.elapsed());
        check(&lifetimes, &arena);
        assert!(
            arena.bytes <= greedy_by_size(&lifetimes, false).min(greedy_by_size(&lifetimes, true))
        );
        assert!(arena.bytes * 1000 <= arena.lower_bound * 1005, "{name}: {arena:?}");
    }
}

/// The capacity of the planning problems in the data folder, which all of them fit.
const CAPACITY: u64 = 1 << 20;

/// Plans of the problems in the data folder: `id,lower,upper,size`, the upper step excluded.
#[test]
#[ignore = "needs the data folder: cargo xtask test runs it when CAIRN_DATA names one"]
fn hard_problems_fit_their_capacity() {
    let problems = read_folder("data/planning");
    assert!(!problems.is_empty(), "there are no planning problems");
    for (name, lifetimes) in problems {
        let begun = std::time::Instant::now();
        let arena = plan(&lifetimes, ALIGN);
        report(&name, &lifetimes, &arena, begun.elapsed());
        check(&lifetimes, &arena);
        assert!(arena.bytes <= CAPACITY, "{name}: {}", arena.bytes);
        assert_eq!(arena, plan(&lifetimes, ALIGN), "{name}");
    }
}

/// Plans of what real programs allocated.
#[test]
#[ignore = "needs the data folder: cargo xtask test runs it when CAIRN_DATA names one"]
fn captured_traces_reach_the_lower_bound() {
    for (name, lifetimes) in read_folder("data/traces") {
        let begun = std::time::Instant::now();
        let arena = plan(&lifetimes, ALIGN);
        report(&name, &lifetimes, &arena, begun.elapsed());
        check(&lifetimes, &arena);
        assert!(arena.bytes * 1000 <= arena.lower_bound * 1005, "{name}: {}", arena.bytes);
    }
}

/// The lifetimes in a folder of the data folder, by the names of their files.
fn read_folder(folder: &str) -> Vec<(String, Vec<Lifetime>)> {
    let data = std::env::var_os("CAIRN_DATA").expect("CAIRN_DATA names the data folder");
    let entries = std::path::Path::new(&data).join(folder).read_dir().expect("the folder exists");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "csv"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).expect("a readable file");
        let parsed = text.lines().skip(1).map(|line| {
            let field: Vec<u64> =
                line.split(',').map(|one| one.parse().expect("a number")).collect();
            lifetime(field[3], field[1] as usize, field[2] as usize - 1)
        });
        (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), parsed.collect())
    };
    paths.iter().map(read).collect()
}

fn report(name: &str, lifetimes: &[Lifetime], arena: &Arena, time: std::time::Duration) {
    let ratio = |bytes: u64| bytes as f64 / arena.lower_bound as f64;
    println!(
        "{name}: {} lifetimes, {:.4} of the lower bound, greedy-by-size {:.4}, {time:?}",
        lifetimes.len(),
        ratio(arena.bytes),
        ratio(greedy_by_size(lifetimes, false).min(greedy_by_size(lifetimes, true)))
    );
}

/// The lifetimes of a program that is built step by step.
#[derive(Default)]
struct Program {
    lifetimes: Vec<Lifetime>,
    step: usize,
}

impl Program {
    /// One step that reads some, writes one and takes a workspace.
    fn run(&mut self, reads: &[usize], bytes: u64, workspace: u64) -> usize {
        reads.iter().for_each(|at| self.lifetimes[*at].last = self.step);
        if workspace > 0 {
            self.lifetimes.push(lifetime(workspace, self.step, self.step));
        }
        self.lifetimes.push(lifetime(bytes, self.step, self.step));
        self.step += 1;
        self.lifetimes.len() - 1
    }
}

fn patterns() -> Vec<(&'static str, Vec<Lifetime>)> {
    vec![
        ("mlp", mlp(&[784, 512, 256, 1024, 128, 2048, 64, 10], 128)),
        ("wide mlp", mlp(&[300, 4096, 4000, 900, 4096, 31, 7000, 12], 33)),
        ("transformer", transformer(12, 1, 128, 768, 12)),
        ("long transformer", transformer(4, 2, 1000, 384, 6)),
        ("decoder step", transformer(32, 1, 1, 4096, 32)),
        ("residual convolutions", convolutions(&[(64, 56), (128, 28), (256, 14), (512, 7)])),
        ("unet", unet(&[64, 128, 256, 512, 1024], 256)),
        ("training mlp", training(&[784, 512, 256, 1024, 128, 10], 1)),
        ("training stack", training(&[768, 3072, 768, 2304, 700], 12)),
        ("training transformer", training_transformer(6, 128, 512)),
    ]
}

fn mlp(widths: &[u64], batch: u64) -> Vec<Lifetime> {
    let mut program = Program::default();
    let mut x = program.run(&[], widths[0] * batch * 4, 0);
    for width in &widths[1..] {
        let bytes = width * batch * 4;
        let product = program.run(&[x], bytes, bytes / 3);
        let biased = program.run(&[product], bytes, 0);
        x = program.run(&[biased], bytes, 0);
    }
    program.lifetimes
}

fn transformer(layers: usize, batch: u64, tokens: u64, width: u64, heads: u64) -> Vec<Lifetime> {
    let mut program = Program::default();
    let hidden = batch * tokens * width * 4;
    let scores = batch * heads * tokens * tokens * 4;
    let mask = program.run(&[], tokens * tokens, 0);
    let mut x = program.run(&[], hidden, 0);
    for _ in 0..layers {
        let norm = program.run(&[x], hidden, batch * tokens * 8);
        let qkv: Vec<usize> = (0..3)
            .map(|_| {
                let product = program.run(&[norm], hidden, hidden / 5);
                let biased = program.run(&[product], hidden, 0);
                program.run(&[biased], hidden, 0)
            })
            .collect();
        let transposed = program.run(&[qkv[1]], hidden, 0);
        let raw = program.run(&[qkv[0], transposed], scores, scores / 7);
        let scaled = program.run(&[raw], scores, 0);
        let masked = program.run(&[scaled, mask], scores, 0);
        let soft = program.run(&[masked], scores, batch * heads * tokens * 4);
        let mixed = program.run(&[soft, qkv[2]], hidden, hidden / 5);
        let merged = program.run(&[mixed], hidden, 0);
        let projected = program.run(&[merged], hidden, hidden / 5);
        let added = program.run(&[projected, x], hidden, 0);
        let norm = program.run(&[added], hidden, batch * tokens * 8);
        let up = program.run(&[norm], 4 * hidden, hidden / 5);
        let gelu = program.run(&[up], 4 * hidden, 0);
        let down = program.run(&[gelu], hidden, hidden / 5);
        x = program.run(&[down, added], hidden, 0);
    }
    program.run(&[x], hidden, 0);
    program.lifetimes
}

fn convolutions(stages: &[(u64, u64)]) -> Vec<Lifetime> {
    let mut program = Program::default();
    let mut x = program.run(&[], 3 * 224 * 224 * 4, 0);
    x = program.run(&[x], 64 * 112 * 112 * 4, 3 * 49 * 112 * 112);
    for (channels, side) in stages {
        let bytes = channels * side * side * 4;
        for block in 0..3 {
            let shortcut = if block == 0 { program.run(&[x], 4 * bytes, 0) } else { x };
            let reduced = program.run(&[x], bytes, 0);
            let reduced = program.run(&[reduced], bytes, 9 * bytes);
            let reduced = program.run(&[reduced], bytes, 0);
            let expanded = program.run(&[reduced], 4 * bytes, bytes);
            x = program.run(&[expanded, shortcut], 4 * bytes, 0);
        }
    }
    program.run(&[x], 4000, 0);
    program.lifetimes
}

fn unet(channels: &[u64], side: u64) -> Vec<Lifetime> {
    let mut program = Program::default();
    let bytes = |level: usize| channels[level] * (side >> level).pow(2) * 4;
    let mut x = program.run(&[], side * side * 12, 0);
    let mut skips = Vec::new();
    for level in 0..channels.len() {
        let first = program.run(&[x], bytes(level), bytes(level) / 2);
        let second = program.run(&[first], bytes(level), bytes(level) / 2);
        skips.push(second);
        x = program.run(&[second], bytes(level) / 4, 0);
    }
    for level in (0..channels.len()).rev() {
        let upsampled = program.run(&[x], bytes(level), 0);
        let concatenated = program.run(&[upsampled, skips[level]], 2 * bytes(level), 0);
        let first = program.run(&[concatenated], bytes(level), bytes(level) / 2);
        x = program.run(&[first], bytes(level), bytes(level) / 2);
    }
    program.run(&[x], side * side * 4, 0);
    program.lifetimes
}

/// Forward, backward and an update of each weight; gradients of weights live to the end.
fn training(widths: &[u64], times: usize) -> Vec<Lifetime> {
    let (mut program, batch) = (Program::default(), 64);
    let widths: Vec<u64> = widths.repeat(times);
    let mut x = program.run(&[], widths[0] * batch * 4, 0);
    let mut activations = vec![x];
    for width in &widths[1..] {
        let product = program.run(&[x], width * batch * 4, width * 40);
        x = program.run(&[product], width * batch * 4, 0);
        activations.push(x);
    }
    let mut gradient = program.run(&[x], widths[widths.len() - 1] * batch * 4, 256);
    let mut weight_gradients = Vec::new();
    for at in (1..widths.len()).rev() {
        let product_gradient = program.run(&[gradient, activations[at]], widths[at] * batch * 4, 0);
        weight_gradients.push(program.run(
            &[product_gradient, activations[at - 1]],
            widths[at] * widths[at - 1] * 4,
            999,
        ));
        weight_gradients.push(program.run(&[product_gradient], widths[at] * 4, 0));
        gradient = program.run(&[product_gradient], widths[at - 1] * batch * 4, widths[at] * 40);
    }
    let total = program.run(&weight_gradients, 4, 0);
    for weight_gradient in weight_gradients {
        let bytes = program.lifetimes[weight_gradient].bytes;
        program.run(&[weight_gradient, total], bytes, 0);
    }
    program.lifetimes
}

fn training_transformer(layers: usize, tokens: u64, width: u64) -> Vec<Lifetime> {
    let mut program = Program::default();
    let (hidden, scores) = (tokens * width * 32, tokens * tokens * 256);
    let mut x = program.run(&[], hidden, 0);
    let mut activations = Vec::new();
    for _ in 0..layers {
        let norm = program.run(&[x], hidden, 0);
        let qkv: Vec<usize> = (0..3).map(|_| program.run(&[norm], hidden, hidden / 9)).collect();
        let raw = program.run(&[qkv[0], qkv[1]], scores, 0);
        let soft = program.run(&[raw], scores, scores / 64);
        let dropped = program.run(&[soft], scores, 0);
        let mixed = program.run(&[dropped, qkv[2]], hidden, 0);
        let projected = program.run(&[mixed], hidden, hidden / 9);
        let added = program.run(&[projected, x], hidden, 0);
        let second = program.run(&[added], hidden, 0);
        let up = program.run(&[second], 4 * hidden, 0);
        let gelu = program.run(&[up], 4 * hidden, 0);
        let down = program.run(&[gelu], hidden, hidden / 9);
        let next = program.run(&[down, added], hidden, 0);
        activations
            .push([x, norm, qkv[0], qkv[1], qkv[2], soft, dropped, mixed, added, second, up, gelu]);
        x = next;
    }
    let mut gradient = program.run(&[x], hidden, 0);
    for layer in activations.into_iter().rev() {
        let [x, norm, q, k, v, soft, dropped, mixed, added, second, up, gelu] = layer;
        program.run(&[gradient, gelu], 4 * width * width * 4, 0);
        let up_gradient = program.run(&[gradient], 4 * hidden, 0);
        let up_gradient = program.run(&[up_gradient, up], 4 * hidden, 0);
        program.run(&[up_gradient, second], 4 * width * width * 4, 0);
        let second_gradient = program.run(&[up_gradient], hidden, hidden / 9);
        let added_gradient = program.run(&[second_gradient, added, gradient], hidden, 0);
        program.run(&[added_gradient, mixed], width * width * 4, 0);
        let mixed_gradient = program.run(&[added_gradient], hidden, 0);
        let v_gradient = program.run(&[mixed_gradient, dropped], hidden, 0);
        let dropped_gradient = program.run(&[mixed_gradient, v], scores, 0);
        let soft_gradient = program.run(&[dropped_gradient, soft], scores, scores / 64);
        let q_gradient = program.run(&[soft_gradient, k], hidden, 0);
        let k_gradient = program.run(&[soft_gradient, q], hidden, 0);
        let mut sum = None;
        for part in [q_gradient, k_gradient, v_gradient] {
            program.run(&[part, norm], width * width * 4, 0);
            let one = program.run(&[part], hidden, hidden / 9);
            sum = Some(match sum {
                Some(sum) => program.run(&[sum, one], hidden, 0),
                None => one,
            });
        }
        let sum = sum.unwrap_or(gradient);
        gradient = program.run(&[sum, x, added_gradient], hidden, 0);
    }
    program.lifetimes
}

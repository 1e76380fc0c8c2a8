//! `leak`: what the program never gave back, by the call that made it.

use super::{Rule, Tool};
use crate::finding::{Fact, Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;
use cairn_record::Site;
use cairn_record::entry::{MemoryKind, Purpose};
use std::collections::BTreeMap;

/// The rule.
pub const RULE: Rule = Rule {
    id: "leak",
    tool: Tool::Leak,
    check: |state, moment, findings| check(state, moment, findings, Tool::Leak),
};

/// The same for what the contract names.
pub const CONTRACT_RULE: Rule = Rule {
    id: "leak",
    tool: Tool::Contract,
    check: |state, moment, findings| check(state, moment, findings, Tool::Contract),
};

/// The same for communicators: other processes are part of them.
pub const COMMUNICATOR_RULE: Rule = Rule {
    id: "leak",
    tool: Tool::Ranks,
    check: |state, moment, findings| check(state, moment, findings, Tool::Ranks),
};

const DESCRIPTOR: &str = "allocator descriptor";
const USERS_BLOCK: &str = "a block of a user's allocator";
const COMMUNICATOR: &str = "communicator";

/// What is left of an allocator that was never unregistered.
const REGISTRATION: &str = "registration of an allocator";

/// The tool that reports it.
fn tool_of(what: &str) -> Tool {
    match what {
        DESCRIPTOR | USERS_BLOCK => Tool::Contract,
        COMMUNICATOR => Tool::Ranks,
        _ => Tool::Leak,
    }
}

/// Things of one kind that one call made.
#[derive(Default)]
struct Group {
    count: u64,
    bytes: u64,
    time_ns: u64,
    thread: u64,
    /// What the program calls them; empty for what has no names.
    names: Vec<String>,
}

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings, tool: Tool) {
    if !matches!(moment, Moment::End) {
        return;
    }
    let mut groups: BTreeMap<(String, String, u32), Group> = BTreeMap::new();
    let mut add = |what: &str, site: &Site, bytes: u64, time_ns: u64| {
        let key = (what.to_owned(), site.entry.to_string(), site.stack);
        let group = groups.entry(key).or_default();
        if group.count == 0 {
            (group.time_ns, group.thread) = (time_ns, site.thread);
        }
        group.count += 1;
        group.bytes += bytes;
    };
    let live = [&state.allocations, &state.pool_blocks, &state.user_blocks];
    let blocks = live.iter().flat_map(|blocks| blocks.live()).chain(&state.lost_blocks);
    for block in blocks {
        let what = match block.kind {
            MemoryKind::Device(_) => "device memory",
            MemoryKind::Pinned => "pinned host memory",
            MemoryKind::Registered => "registered host memory",
            MemoryKind::Mapped { .. } => "mapped memory",
            MemoryKind::PoolBlock { .. } => "memory of a pool",
            MemoryKind::External { .. } => USERS_BLOCK,
            MemoryKind::PoolSegment { .. } => continue,
        };
        // Memory of a graph that is still loaded is the graph's.
        let is_own = matches!(block.purpose, Purpose::User | Purpose::Output);
        if is_own && !block.site.entry.is_empty() {
            add(what, &block.site, block.bytes, block.time_ns);
        }
    }
    for object in state.objects.values() {
        // These have entries of their own, which leave out those of the engine.
        let has_entry = ["stream", "context", COMMUNICATOR].contains(&&*object.kind);
        if !has_entry && !object.site.entry.is_empty() {
            add(&object.kind, &object.site, 0, object.time_ns);
        }
    }
    let streams = state.streams.values().map(|site| ("stream", site));
    let contexts = state.contexts.values().map(|site| ("context", site));
    let lost = state.lost_handles.iter().map(|(what, site)| (*what, site));
    for (what, site) in streams.chain(contexts).chain(lost) {
        // A context brings a stream of its own.
        let made_by = if what == "stream" { "aclrtCreateStream" } else { "aclrtCreateContext" };
        if site.entry.starts_with(made_by) {
            add(what, site, 0, 0);
        }
    }
    for (_, site) in state.registered.values() {
        add(REGISTRATION, site, 0, 0);
    }
    for graph in state.graphs.values().filter(|graph| graph.unloaded.is_none()) {
        add("a loaded graph", &graph.site, 0, 0);
    }
    for (_, site, time_ns) in state.communicators.values() {
        add(COMMUNICATOR, site, 0, *time_ns);
    }
    for (name, site, _) in state.communicators.values() {
        let key = (COMMUNICATOR.to_owned(), site.entry.to_string(), site.stack);
        groups.entry(key).or_default().names.push(name.clone());
    }
    for ((what, entry, stack), group) in
        groups.into_iter().filter(|(key, _)| tool_of(&key.0) == tool)
    {
        let thread = group.thread;
        let bytes =
            if group.bytes > 0 { format!(", {} bytes", group.bytes) } else { String::new() };
        let clauses: &[_] = match what.as_str() {
            DESCRIPTOR => &["ACL-REG-3"],
            USERS_BLOCK => &["GE-REG-7"],
            REGISTRATION => &["GE-UNREG-3"],
            _ => &[],
        };
        findings.add(
            &what,
            Finding {
                rule: RULE.id,
                severity: Severity::Error,
                title: format!("never given back: {what}, {} in all{bytes}", group.count),
                clauses,
                places: vec![Place::unplaced(
                    Site { entry: entry.clone().into(), thread, stack },
                    format!("thread {thread}: made in {entry}"),
                )],
                facts: names(&group.names),
                help: help(&what).into(),
                count: 1,
                time_ns: group.time_ns,
            },
        );
    }
}

/// What the program calls them, in a line.
fn names(names: &[String]) -> Vec<Fact> {
    let fact = format!("it is called {}", names.join(", "));
    names.first().map(|_| fact.into()).into_iter().collect()
}

fn help(what: &str) -> &'static str {
    match what {
        COMMUNICATOR => {
            "call HcclCommDestroy on every rank before the program ends (torch: destroy_process_group)"
        }
        _ => "free or destroy it before the program ends",
    }
}

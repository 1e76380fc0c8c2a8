//! What the ranks of communicators call, over all processes of a program. Rules across ranks ([`crate::rules::ACROSS_RANKS`]) look
//! at it; [`RankChecker`] collects what they find.
//!
//! Collectives belong together by their number: the first of every rank, the second, and so on; messages by their number between
//! two ranks. A round is looked at when every rank has called it, or when all has ended: what is found does not depend on who
//! came first.

use crate::finding::Findings;
use crate::rules;
use cairn_record::entry::{Change, Collective, Happening};
use cairn_record::{Entry, Site};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

/// How many rounds, and messages between two ranks, may wait for another rank before the oldest are forgotten.
const MAX_WAITING: usize = 1 << 16;

/// A call of an operator, on one rank.
#[derive(Clone, Debug)]
pub struct Call {
    /// The rank in the communicator.
    pub rank: u32,
    /// Its number among the rank's collectives on the communicator, from 1; of a message, among those between the two ranks.
    pub number: u64,
    /// What was called, and with which arguments.
    pub collective: Collective,
    /// Where. The stack's number is one of the checker: [`RankChecker::stack`].
    pub site: Site,
    /// When, on the clock of the process.
    pub time_ns: u64,
}

impl Call {
    /// True if two ranks agree on a collective.
    pub fn agrees(&self, other: &Call) -> bool {
        let key = |call: &Call| {
            let Collective { operator, count, data_type, reduction, root, .. } = &call.collective;
            (operator.clone(), *count, *data_type, *reduction, *root)
        };
        key(self) == key(other)
    }

    /// The function and its arguments, such as "HcclReduce of 1024 fp32, sum, root 0".
    pub fn describe(&self) -> String {
        let Collective { operator, count, data_type, reduction, root, to, from, .. } =
            &self.collective;
        let mut text = operator.to_string();
        if *count > 0 {
            text += &format!(" of {}", elements(*count, *data_type));
        }
        if let Some(reduction) = reduction {
            text += &format!(", {}", reduction_name(*reduction));
        }
        if let Some(root) = root {
            text += &format!(", root {root}");
        }
        for (word, ranks) in [("to", to), ("from", from)] {
            if !ranks.is_empty() {
                text += &format!(" {word} {}", list_ranks(ranks));
            }
        }
        text
    }
}

/// "1024 fp32".
pub fn elements(count: u64, data_type: u8) -> String {
    format!("{count} {}", type_name(data_type))
}

/// The name of an element type by its number in `HcclDataType`.
fn type_name(number: u8) -> String {
    const NAMES: [&str; 18] = [
        "int8", "int16", "int32", "fp16", "fp32", "int64", "uint64", "uint8", "uint16", "uint32",
        "fp64", "bfp16", "int128", "", "hif8", "fp8e4m3", "fp8e5m2", "fp8e8m0",
    ];
    match NAMES.get(usize::from(number)) {
        Some(name) if !name.is_empty() => (*name).into(),
        _ => format!("elements of type {number}"),
    }
}

fn reduction_name(number: u8) -> String {
    match ["sum", "prod", "max", "min"].get(usize::from(number)) {
        Some(name) => (*name).into(),
        None => format!("reduction {number}"),
    }
}

/// "rank 3", or "ranks 0, 1 and 5".
pub fn list_ranks(ranks: &[u32]) -> String {
    match ranks {
        [] => "no rank".into(),
        [one] => format!("rank {one}"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(u32::to_string).collect();
            format!("ranks {} and {last}", first.join(", "))
        }
    }
}

/// One rank's end of a communicator.
#[derive(Debug)]
pub struct Member {
    /// The process, by its number in the checker.
    pub process: usize,
    /// The process as texts call it.
    pub label: Rc<str>,
    /// How many collectives it has called.
    pub calls: u64,
    /// The last of them.
    pub last: Option<Rc<Call>>,
    /// It calls nothing more: it was destroyed, or its process ended in order.
    pub has_ended: bool,
}

/// Messages from one rank to another that wait for their other half.
#[derive(Debug, Default)]
pub struct Channel {
    /// Sends without a receive.
    pub sends: VecDeque<Rc<Call>>,
    /// Receives without a send.
    pub receives: VecDeque<Rc<Call>>,
    /// How many were sent, and received.
    pub counts: [u64; 2],
    /// Some were forgotten: which belong together is known no longer.
    pub is_lost: bool,
}

/// A communicator, seen from all its ranks.
#[derive(Debug)]
pub struct Group {
    /// What the program calls it.
    pub name: String,
    /// How many ranks it has.
    pub size: u32,
    /// Its ranks, as far as they are seen.
    pub members: BTreeMap<u32, Member>,
    /// Collectives that not all ranks have called yet, the first of which has the number `first_round`.
    pub rounds: VecDeque<Vec<Rc<Call>>>,
    /// See there.
    pub first_round: u64,
    /// Messages by sender and receiver.
    pub channels: BTreeMap<(u32, u32), Channel>,
    /// Ranks differ: what comes later belongs together no longer.
    pub is_apart: bool,
}

impl Group {
    /// The communicator as texts call it.
    pub fn title(&self) -> String {
        format!("communicator {}", self.name)
    }

    /// Which processes these ranks are, in a line; none where they share one.
    pub fn describe_processes(&self, ranks: &[u32]) -> Option<String> {
        let members = ranks.iter().filter_map(|rank| Some((rank, self.members.get(rank)?)));
        let members: Vec<_> = members.collect();
        let first = members.first()?.1.process;
        members.iter().any(|(_, member)| member.process != first).then(|| {
            let names =
                members.iter().map(|(rank, member)| format!("rank {rank} is {}", member.label));
            names.collect::<Vec<_>>().join(", ")
        })
    }

    /// A call of one of its ranks: the round that is thereby complete.
    fn call(&mut self, call: Call) -> Option<Vec<Rc<Call>>> {
        let member = self.members.get_mut(&call.rank)?;
        member.calls += 1;
        let call = Rc::new(Call { number: member.calls, ..call });
        member.last = Some(call.clone());
        let index = call.number.checked_sub(self.first_round)? as usize;
        while self.rounds.len() <= index {
            self.rounds.push_back(Vec::new());
        }
        self.rounds[index].push(call);
        if self.rounds.len() > MAX_WAITING {
            self.rounds.pop_front();
            self.first_round += 1;
            return None;
        }
        let is_complete = self.rounds.front().is_some_and(|it| it.len() as u32 == self.size);
        is_complete.then(|| {
            self.first_round += 1;
            self.rounds.pop_front().unwrap_or_default()
        })
    }

    /// One half of a message between two ranks: both halves, once they are there.
    fn message(&mut self, pair: (u32, u32), is_send: bool, call: &Call) -> Option<[Rc<Call>; 2]> {
        let channel = self.channels.entry(pair).or_default();
        if channel.is_lost {
            return None;
        }
        let count = &mut channel.counts[usize::from(!is_send)];
        *count += 1;
        let call = Rc::new(Call { number: *count, ..call.clone() });
        let queue = if is_send { &mut channel.sends } else { &mut channel.receives };
        queue.push_back(call);
        if queue.len() > MAX_WAITING {
            *channel = Channel { is_lost: true, ..Channel::default() };
            return None;
        }
        if channel.sends.is_empty() || channel.receives.is_empty() {
            return None;
        }
        Some([channel.sends.pop_front()?, channel.receives.pop_front()?])
    }
}

/// What rules across ranks look at.
pub enum RankMoment<'a> {
    /// Calls of different ranks that belong together.
    Round(&'a Group, &'a [Rc<Call>]),
    /// A message: its send and its receive.
    Message(&'a Group, &'a [Rc<Call>; 2]),
    /// Nothing more comes.
    End(&'a Group),
}

/// What is known of a process.
#[derive(Debug)]
struct Process {
    label: Rc<str>,
    /// Its entries are all there.
    is_whole: bool,
}

/// The identity of a communicator, and how often its ranks have joined it: one of a file may be made again.
type GroupKey = (u128, u32);

/// Reads the entries of several processes, each in its own order, and collects what rules across ranks find.
#[derive(Default)]
pub struct RankChecker {
    processes: Vec<Process>,
    groups: BTreeMap<GroupKey, Group>,
    /// How often a rank has joined a communicator of this identity.
    joins: HashMap<(u128, u32), u32>,
    /// The communicator and the rank of a process's communicator, by its id there.
    ends: HashMap<(usize, u64), (GroupKey, u32)>,
    stacks: Vec<(usize, u32)>,
    stack_numbers: HashMap<(usize, u32), u32>,
    findings: Findings,
}

impl RankChecker {
    /// Adds a process, such as "process 4711"; its number.
    pub fn add_process(&mut self, label: &str) -> usize {
        self.processes.push(Process { label: label.into(), is_whole: true });
        self.processes.len() - 1
    }

    /// The next entry of a process.
    pub fn entry(&mut self, process: usize, entry: &Entry<'_>) {
        match &entry.happening {
            Happening::Communicator(communicator, Change::Created) => {
                let rank = communicator.rank;
                let joins = self.joins.entry((communicator.identity, rank)).or_default();
                *joins += 1;
                let key = (communicator.identity, *joins);
                self.ends.insert((process, communicator.id), (key, rank));
                let group = self.groups.entry(key).or_insert_with(|| Group {
                    name: communicator.name.clone(),
                    size: communicator.size,
                    members: BTreeMap::new(),
                    rounds: VecDeque::new(),
                    first_round: 1,
                    channels: BTreeMap::new(),
                    is_apart: false,
                });
                let label = self.processes[process].label.clone();
                let member = Member { process, label, calls: 0, last: None, has_ended: false };
                group.members.insert(rank, member);
            }
            Happening::Communicator(communicator, Change::Destroyed) => {
                if let Some((key, rank)) = self.ends.remove(&(process, communicator.id)) {
                    self.end_member(key, rank);
                }
            }
            Happening::Collective(collective) => self.collective(process, entry, collective),
            Happening::Exit => {
                let of_process = self.ends.iter().filter(|((of, _), _)| *of == process);
                let ends: Vec<_> = of_process.map(|(_, end)| *end).collect();
                ends.into_iter().for_each(|(key, rank)| self.end_member(key, rank));
            }
            _ => {}
        }
    }

    fn end_member(&mut self, key: GroupKey, rank: u32) {
        let group = self.groups.get_mut(&key);
        if let Some(member) = group.and_then(|group| group.members.get_mut(&rank)) {
            member.has_ended = true;
        }
    }

    fn collective(&mut self, process: usize, entry: &Entry<'_>, collective: &Collective) {
        let Some(&(key, rank)) = self.ends.get(&(process, collective.communicator)) else {
            return;
        };
        let site =
            Site { stack: self.number_stack(process, entry.site.stack), ..entry.site.clone() };
        let Some(group) = self.groups.get_mut(&key) else { return };
        let collective = collective.clone();
        let (to, from) = (collective.to.clone(), collective.from.clone());
        let call = Call { rank, number: 0, collective, site, time_ns: entry.time_ns };
        if to.is_empty() && from.is_empty() {
            if !group.is_apart
                && let Some(round) = group.call(call)
            {
                look(&RankMoment::Round(group, &round), &mut self.findings);
                group.is_apart |= !all_agree(&round);
            }
            return;
        }
        let sends = to.iter().map(|peer| ((rank, *peer), true));
        for (pair, is_send) in sends.chain(from.iter().map(|peer| ((*peer, rank), false))) {
            if let Some(message) = group.message(pair, is_send, &call) {
                look(&RankMoment::Message(group, &message), &mut self.findings);
            }
        }
    }

    /// Entries of a process are missing: nothing is said of its communicators from now on.
    pub fn set_incomplete(&mut self, process: usize) {
        self.processes[process].is_whole = false;
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        let processes = &self.processes;
        let is_whole = |member: &Member| processes[member.process].is_whole;
        for group in self.groups.values_mut() {
            if group.is_apart || !group.members.values().all(is_whole) {
                continue;
            }
            for round in group.rounds.iter().filter(|round| round.len() > 1) {
                look(&RankMoment::Round(group, round), &mut self.findings);
                if !all_agree(round) {
                    group.is_apart = true;
                    break;
                }
            }
            if !group.is_apart {
                look(&RankMoment::End(group), &mut self.findings);
            }
        }
    }

    /// How many ranks of one communicator were seen at most.
    pub fn ranks_seen(&self) -> usize {
        self.groups.values().map(|group| group.members.len()).max().unwrap_or(0)
    }

    /// What was found so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The same, to be taken out.
    pub fn findings_mut(&mut self) -> &mut Findings {
        &mut self.findings
    }

    /// The process of a stack that a place of a finding names, and its number there.
    pub fn stack(&self, number: u32) -> Option<(usize, u32)> {
        self.stacks.get((number as usize).checked_sub(1)?).copied()
    }

    fn number_stack(&mut self, process: usize, stack: u32) -> u32 {
        if stack == 0 {
            return 0;
        }
        let next = self.stacks.len() as u32 + 1;
        let number = *self.stack_numbers.entry((process, stack)).or_insert(next);
        if number == next {
            self.stacks.push((process, stack));
        }
        number
    }
}

fn all_agree(round: &[Rc<Call>]) -> bool {
    round.iter().all(|call| call.agrees(&round[0]))
}

fn look(moment: &RankMoment<'_>, findings: &mut Findings) {
    rules::ACROSS_RANKS.iter().for_each(|rule| (rule.check)(moment, findings));
}

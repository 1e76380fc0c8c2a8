//! Who has come to a meeting, and whether they agree.

use super::wire::Member;
use std::time::Duration;

/// The ranks of one communicator while they come.
#[derive(Default)]
pub struct Gathering {
    members: Vec<Option<Member>>,
    come: usize,
}

impl Gathering {
    /// Adds a rank; true when it was the last. The error names the ranks that disagree, and is for all of them.
    pub fn add(&mut self, member: Member) -> Result<bool, String> {
        if self.members.is_empty() {
            self.members.resize(member.size as usize, None);
        }
        if let Some(first) = self.members.iter().flatten().next() {
            if first.size != member.size {
                return Err(format!(
                    "rank {} says that there are {} ranks, rank {} says {}",
                    first.rank, first.size, member.rank, member.size
                ));
            }
            if first.name != member.name {
                return Err(format!(
                    "rank {} calls the communicator \"{}\", rank {} calls it \"{}\"",
                    first.rank, first.name, member.rank, member.name
                ));
            }
        }
        let place = &mut self.members[member.rank as usize];
        if let Some(other) = place {
            return Err(format!(
                "rank {} came twice: from process {} with device {} and from process {} with device {}",
                member.rank, other.pid, other.device, member.pid, member.device
            ));
        }
        *place = Some(member);
        self.come += 1;
        Ok(self.come == self.members.len())
    }

    /// All ranks, once the last has come.
    pub fn all(&self) -> Vec<Member> {
        self.members.iter().flatten().cloned().collect()
    }

    /// Which ranks have not come.
    pub fn missing(&self, after: Duration) -> String {
        let absent = (0..).zip(&self.members).filter(|(_, member)| member.is_none());
        let absent: Vec<u32> = absent.map(|(rank, _)| rank).collect();
        let size = self.members.len();
        let seconds = after.as_secs_f32();
        format!(
            "{} of {size} did not come within {seconds} s (HCCL_CONNECT_TIMEOUT)",
            ranks(&absent)
        )
    }
}

/// A list of ranks for a message: `ranks 1, 4 to 7`.
pub fn ranks(list: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in list {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let most = 16;
    let mut texts: Vec<String> = runs
        .iter()
        .take(most)
        .map(|(first, last)| match last - first {
            0 => format!("{first}"),
            1 => format!("{first}, {last}"),
            _ => format!("{first} to {last}"),
        })
        .collect();
    if runs.len() > most {
        texts.push("..".into());
    }
    let word = if list.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(rank: u32, size: u32, name: &str) -> Member {
        Member {
            rank,
            size,
            device: rank,
            host: 1,
            pid: 100 + rank,
            name: name.into(),
            buffer_bytes: 1,
            address: [127, 0, 0, 1].into(),
        }
    }

    #[test]
    fn the_last_rank_completes() {
        let mut gathering = Gathering::default();
        assert_eq!(gathering.add(member(2, 3, "a")), Ok(false));
        assert_eq!(gathering.add(member(0, 3, "a")), Ok(false));
        let text = gathering.missing(Duration::from_secs(2));
        assert_eq!(text, "rank 1 of 3 did not come within 2 s (HCCL_CONNECT_TIMEOUT)");
        assert_eq!(gathering.add(member(1, 3, "a")), Ok(true));
        assert_eq!(gathering.all().iter().map(|m| m.rank).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn disagreement_names_both_ranks() {
        let mut gathering = Gathering::default();
        gathering.add(member(1, 3, "a")).unwrap();
        let wrong = |member| {
            let mut other = Gathering { members: gathering.members.clone(), come: gathering.come };
            other.add(member).unwrap_err()
        };
        assert!(
            wrong(member(0, 4, "a")).contains("rank 1 says that there are 3 ranks, rank 0 says 4")
        );
        assert!(wrong(member(0, 3, "b")).contains("rank 1 calls the communicator \"a\", rank 0"));
        assert!(wrong(member(1, 3, "a")).contains("rank 1 came twice: from process 101"));
    }

    #[test]
    fn lists_of_ranks_are_short() {
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[1, 2, 4, 5, 6, 9]), "ranks 1, 2, 4 to 6, 9");
        let many: Vec<u32> = (0..100).map(|n| n * 2).collect();
        assert!(ranks(&many).ends_with("30, .."));
    }
}

//! Mistakes that can be planted, to show that the auditor finds them.

use std::fmt;

/// A classic mistake. Each has one place in the simulated layers where it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// Work that arrives while a server asks for it wakes nobody, and nobody looks again.
    LostWakeUp,
    /// Of two runners that ask together, both get the same job.
    DoubleClaim,
    /// A job that is cancelled keeps its concurrency slot.
    SlotLeakOnCancel,
    /// The last word about an earlier claim is taken for one about the current claim.
    StaleCompletion,
    /// A job forgets how often it was tried.
    RetryWithoutCap,
    /// Nobody tells the dependents of a job that failed.
    SkippedPropagation,
    /// A leg that a failed sibling cancels stays on its organization's count.
    FailFastSlot,
    /// The reaper does not look again whether the lease was renewed meanwhile.
    ReaperRace,
    /// A group keeps its holder when that fails.
    GateLeak,
    /// A job that waits for its group is queued all the same.
    GateBypass,
    /// `cancel-in-progress` cancels the one that was just let in.
    EvictsAdmitted,
    /// The database answers before what it did is on the disk.
    AnswerBeforeCommit,
    /// A task leaves the outbox when it is taken, not when it is done.
    LostTask,
    /// `success()` holds although a need was skipped.
    SkipIsSuccess,
    /// A runner that was restarted begins its job anew instead of saying that it is lost.
    RunnerRepeats,
    /// A limit is compared with a count that was read before others took their share.
    LimitRace,
    /// A runner for a single job has had it, although the answer got lost and the job was cancelled.
    SpentUnseen,
    /// A re-run of what failed forgets jobs that failed before they had legs.
    RerunForgetsBare,
    /// Jobs of a repository that is paused are handed out all the same.
    PauseBypass,
    /// A runner that is to get nothing more gets jobs.
    DrainBypass,
    /// Work that may go on after a pause wakes nobody, and nobody looks again.
    ResumeWakesNobody,
    /// A question that is asked again has the first of its jobs again, and others for the rest.
    FreshOnRepeat,
    /// Of ends that come with one request all are said to be heard when one is.
    HeardForAll,
    /// Of runners of several kinds that ask together, the first gets several jobs and another one none.
    GreedyAnswer,
    /// Whoever was woken and gets one of several jobs wakes nobody else, and nobody looks again.
    ServedWakesNobody,
    /// A runner is given several jobs while another one waits for such work.
    TakesFromSleepers,
}

impl Bug {
    pub const ALL: [Self; 26] = [
        Self::LostWakeUp,
        Self::DoubleClaim,
        Self::SlotLeakOnCancel,
        Self::StaleCompletion,
        Self::RetryWithoutCap,
        Self::SkippedPropagation,
        Self::FailFastSlot,
        Self::ReaperRace,
        Self::GateLeak,
        Self::GateBypass,
        Self::EvictsAdmitted,
        Self::AnswerBeforeCommit,
        Self::LostTask,
        Self::SkipIsSuccess,
        Self::RunnerRepeats,
        Self::LimitRace,
        Self::SpentUnseen,
        Self::RerunForgetsBare,
        Self::PauseBypass,
        Self::DrainBypass,
        Self::ResumeWakesNobody,
        Self::FreshOnRepeat,
        Self::HeardForAll,
        Self::GreedyAnswer,
        Self::ServedWakesNobody,
        Self::TakesFromSleepers,
    ];

    pub fn word(self) -> String {
        let mut word = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !word.is_empty() {
                word.push('-');
            }
            word.push(letter.to_ascii_lowercase());
        }
        word
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| bug.word() == word)
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::Bug;

    #[test]
    fn bugs_are_read_from_their_words() {
        assert_eq!(Bug::LostWakeUp.word(), "lost-wake-up");
        for bug in Bug::ALL {
            assert_eq!(Bug::parse(&bug.word()), Some(bug));
        }
        assert_eq!(Bug::parse("none"), None);
    }
}

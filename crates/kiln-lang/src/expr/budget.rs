//! What one evaluation may use: memory for the values it builds, and work for looking at them.

/// Text that comparisons and searches may look at in one evaluation, in bytes and items.
const MAX_WORK: usize = 64 << 20;

/// The bytes that one item of an array or object is charged.
const ITEM_BYTES: usize = 32;

#[derive(Debug)]
pub(super) struct Budget {
    memory: usize,
    work: usize,
}

impl Budget {
    pub(super) fn new(memory: usize) -> Self {
        Self { memory, work: MAX_WORK }
    }

    /// Charges text that is about to be built, two bytes for a character as GitHub counts.
    pub(super) fn text(&mut self, bytes: usize) -> Result<(), String> {
        self.memory(bytes.saturating_mul(2))
    }

    /// Charges items of an array or object that are about to be built.
    pub(super) fn items(&mut self, count: usize) -> Result<(), String> {
        self.memory(count.saturating_mul(ITEM_BYTES))
    }

    /// Charges reading this many bytes or items.
    pub(super) fn work(&mut self, amount: usize) -> Result<(), String> {
        let left = self.work.checked_sub(amount);
        self.work = left.ok_or("the evaluation takes too long on very large values")?;
        Ok(())
    }

    fn memory(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.memory.checked_sub(bytes);
        self.memory = left.ok_or("the evaluation needs more memory than it may use")?;
        Ok(())
    }
}

/// A string that grows on a budget.
#[derive(Debug)]
pub(super) struct Text<'a> {
    text: String,
    budget: &'a mut Budget,
}

impl<'a> Text<'a> {
    pub(super) fn new(budget: &'a mut Budget) -> Self {
        Self { text: String::new(), budget }
    }

    pub(super) fn push(&mut self, text: &str) -> Result<(), String> {
        self.budget.text(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

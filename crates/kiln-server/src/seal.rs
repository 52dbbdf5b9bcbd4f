//! Secrets at rest and on their way to runners.

/// Opens secrets that are kept, and seals them to runners.
#[derive(Debug, Clone, Default)]
pub struct Vault;

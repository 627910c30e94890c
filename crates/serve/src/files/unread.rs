//! Reads that failed, as the operator hears of them.
//!
//! A failed read leaves the file system in use: the call that needs the block fails, and another
//! may succeed. So each cause is told once, and only so many of them.

use seekless_engine::io::IoError;

/// Causes that are told. A dead device has one for each block.
const MOST: usize = 16;

/// The causes that were told.
#[derive(Debug, Default)]
pub(super) struct Unread {
    told: Vec<IoError>,
}

impl Unread {
    /// Tells the operator, unless that was done.
    pub(super) fn say(&mut self, error: IoError) {
        if let Some(message) = self.message(error) {
            tracing::error!("{message}");
        }
    }

    fn message(&mut self, error: IoError) -> Option<String> {
        if self.told.len() > MOST || self.told.contains(&error) {
            return None;
        }
        self.told.push(error);
        Some(match self.told.len() {
            0..=MOST => format!("a read failed, programs that need it get an error: {error}"),
            _ => "more reads fail, which are not named from now on".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_named_once_and_not_without_end() {
        let mut unread = Unread::default();
        let mut say = |block| unread.message(IoError::Media { block });
        assert!(say(7).is_some_and(|message| message.contains("block 7:")));
        assert_eq!(say(7), None);
        let told: Vec<String> = (8..100).filter_map(&mut say).collect();
        assert_eq!(told.len(), MOST);
        assert!(told.last().is_some_and(|message| !message.contains("block")));
    }
}

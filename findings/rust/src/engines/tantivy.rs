//! tantivy with one document a commit.

use super::Engine;
use crate::rows::Row;
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use tantivy::merge_policy::NoMergePolicy;
use tantivy::schema::{Field, STORED, STRING, Schema, Value as _};
use tantivy::{Index, IndexWriter, TantivyDocument, doc};

const WRITER_BYTES: usize = 15_000_000;

/// The index.
pub struct Tantivy {
    index: Index,
    /// Made by the first commit, as it takes a lock file.
    writer: Option<IndexWriter>,
    number: Field,
    content: Field,
}

impl Tantivy {
    fn of(index: Index) -> Result<Self> {
        let number = index.schema().get_field("number")?;
        let content = index.schema().get_field("content")?;
        Ok(Tantivy { index, writer: None, number, content })
    }
}

impl Engine for Tantivy {
    const ROWS: u64 = 10;

    fn create(directory: &Path) -> Result<Self> {
        let path = directory.join("index");
        std::fs::create_dir(&path)?;
        let mut schema = Schema::builder();
        schema.add_u64_field("number", STORED);
        schema.add_text_field("content", STRING | STORED);
        Tantivy::of(Index::create_in_dir(path, schema.build())?)
    }

    fn open(directory: &Path) -> Result<Self> {
        Tantivy::of(Index::open_in_dir(directory.join("index"))?)
    }

    fn commit(&mut self, number: u64, content: &str) -> Result<()> {
        if self.writer.is_none() {
            let writer: IndexWriter = self.index.writer_with_num_threads(1, WRITER_BYTES)?;
            // Merges run in the background and would make each recording another.
            writer.set_merge_policy(Box::new(NoMergePolicy));
            self.writer = Some(writer);
        }
        let writer = self.writer.as_mut().context("the writer is made above")?;
        writer.add_document(doc!(self.number => number, self.content => content))?;
        writer.commit()?;
        Ok(())
    }

    fn rows(&mut self) -> Result<Vec<Row>> {
        let broken = self.index.validate_checksum()?;
        if !broken.is_empty() {
            bail!("validate_checksum: {} files are damaged", broken.len());
        }
        let mut rows = Vec::new();
        for segment in self.index.reader()?.searcher().segment_readers() {
            for document in segment.get_store_reader(0)?.iter(None) {
                let document: TantivyDocument = document?;
                let number = document.get_first(self.number).and_then(|value| value.as_u64());
                let content = document.get_first(self.content).and_then(|value| value.as_str());
                let number = number.context("a document has no number")?;
                rows.push((number, content.unwrap_or_default().to_owned()));
            }
        }
        Ok(rows)
    }
}

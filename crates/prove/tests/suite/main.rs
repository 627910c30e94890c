//! Tests of the prover in one program.
#![allow(missing_docs)]

mod hunters;

mod array_tasks;
mod contract;
mod edges;
mod files;
mod making;
mod own_subject;
mod planted_bugs;
mod planted_files;
mod planted_log;
mod rules;
mod stranger;
mod sweep;
mod tasks;

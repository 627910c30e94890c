//! The example of a store on a log runs.

#[path = "../../examples/write_ahead_log.rs"]
mod write_ahead_log;

#[test]
fn the_store_on_a_log_keeps_its_values() {
    write_ahead_log::main().expect("a volume in memory");
}

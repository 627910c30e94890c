//! End-to-end tests: the program with real clients.
//!
//! A test whose client is missing, or that needs root rights, FUSE or loop devices where there are
//! none, says `skipped …` and passes.

mod acks;
mod array_upkeep;
mod arrays;
mod attach;
mod bad_input;
mod block_device;
mod clients;
mod command_line;
mod crash_clients;
mod crash_test;
mod crashes;
mod disk_fit;
mod disk_learn;
mod disk_models;
mod disk_speed;
mod effect;
mod faults;
mod files;
mod filesystems;
mod findings;
mod full;
mod harness;
mod hostile;
mod listening;
mod load;
mod log_apart;
mod log_service;
mod loge_tables;
mod merge;
mod minix;
mod models;
mod mount;
mod mount_again;
mod mount_clients;
mod mount_databases;
mod mount_direct;
mod mount_failures;
mod mount_handles;
mod mount_helper;
mod mount_journals;
mod mount_policies;
mod mount_power;
mod mount_programs;
mod mount_salvage;
mod mount_scripts;
#[path = "../../src/nbd.rs"]
mod nbd;
mod packages;
mod record;
mod replay;
mod reproduce;
mod salvage;
mod same_figures;
mod sim_fs;
mod space;
mod stacked;
mod status;
mod switch_policy;
mod traces;
mod tree;
mod vlfs;

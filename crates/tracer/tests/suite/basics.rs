//! What is recorded, call by call.

use crate::harness::{Place, assert_complete, words};

#[test]
fn calls_of_a_shell_are_on_record() {
    let place = Place::new();
    let script = "echo one > a; echo two >> a; mv a b; ln b c; rm b; mkdir d; rmdir d; sync c; \
                  echo 1 >> $SEEKLESS_ACKS";
    let recording = place.sh(script);
    assert_complete(&recording, &place);
    let expected = [
        "make", "write", "write", "rename", "link", "unlink", "make", "rmdir", "forget", "fsync",
        "=1",
    ];
    assert_eq!(words(&recording), expected);
}

#[test]
fn a_program_that_writes_nothing_has_an_empty_record() {
    let place = Place::new();
    let recording = place.sh("cat /dev/null; echo hello > /dev/null; echo x > ../outside");
    assert_complete(&recording, &place);
    assert_eq!(words(&recording), Vec::<String>::new());
    assert_eq!(std::fs::read(place.outer().join("outside")).unwrap(), b"x\n");
}

#[test]
fn the_preflight_passes_where_runs_are_recorded() {
    seekless_tracer::preflight().unwrap();
}

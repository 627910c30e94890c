//! Any text at all, in every place that comes from outside.

use super::super::*;
use super::hostile::{hostile, is_clean, parse};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_text_gives_clean_and_well_formed_reports(nasty in "(?s).{0,200}") {
        let report = hostile(&nasty);
        prop_assert!(is_clean(&text::write(&report, false)));
        let page = html::write(&report);
        prop_assert!(is_clean(&page) && page.len() < html::MOST_BYTES);
        parse(&junit::write(&report).expect("memory"));
        let json = json::write(&report).expect("serializes");
        let back: Report = serde_json::from_str(&json).expect("the model");
        prop_assert_eq!(back, report);
    }

    #[test]
    fn every_output_has_a_short_signature(output in "(?s).{0,300}") {
        let signature = signature(Kind::Broken, Some(1), &output);
        prop_assert!(is_clean(&signature) && !signature.contains('\n'), "{:?}", signature);
        prop_assert!(signature.chars().count() <= 100 + "exit 1: ".len());
    }

    #[test]
    fn numbers_and_paths_do_not_change_it(first: u32, second: u32, dir in "[a-z0-9]{1,9}") {
        let of = |number: u32, dir: &str| {
            let output = format!("row {number} is missing in /tmp/{dir}/d.db");
            signature(Kind::Lost, Some(1), &output)
        };
        prop_assert_eq!(of(first, &dir), of(second, "x"));
    }
}

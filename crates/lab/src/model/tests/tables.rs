//! Tables, plots and JSON.

use super::{hp, params, st};
use crate::model::loge::Drive;
use crate::model::report::{self, Dice, FREE, RESERVES, UTILISATIONS};
use crate::model::{Overrides, Params, Table};
use seekless_disk::specs;

fn all(dice: Option<Dice>) -> Vec<Table> {
    let mut tables = Vec::new();
    for params in [hp(), st(), params("st19101", 8), params("desktop7200-bare", 8)] {
        // A simulated disk has to fit into memory.
        let small = dice.filter(|_| params.cylinders() < 100);
        tables.push(report::track(&params, &UTILISATIONS, small).expect("track"));
        tables.push(report::cylinder(&params, &UTILISATIONS, small).expect("cylinder"));
        tables.push(report::filling(&params, &RESERVES, small).expect("filling"));
        tables.extend(report::block(&params, &[0.5, 0.8], 8, small).expect("block"));
    }
    tables.push(report::loge(&Drive::ideal(), &FREE, dice).expect("loge"));
    tables
}

#[test]
fn every_table_reads_well() {
    for dice in [None, Some(Dice { trials: 40, seed: 1 })] {
        for table in all(dice) {
            for text in [table.to_text(), table.to_plot()] {
                assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
                assert!(text.starts_with(&table.title), "{text}");
            }
            let plotted = table.columns.iter().filter(|column| column.plotted);
            for column in plotted {
                assert!(table.to_plot().contains(column.key), "{}", column.key);
            }
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
            let numbers = table.rows.iter().flatten().flatten();
            assert!(numbers.into_iter().all(|number| number.is_finite()), "{}", table.to_text());
            let json = table.to_json();
            let rows = json["rows"].as_array().expect("rows");
            assert_eq!(rows.len(), table.rows.len());
            let first = table.columns[0].key;
            assert_eq!(rows[0][first].as_f64(), table.rows[0][0]);
        }
    }
}

/// Outside the range of the paper's fit there is no number.
#[test]
fn tracks_too_large_for_the_fit_have_no_equation_10() {
    let table = report::filling(&params("desktop7200-bare", 1), &[0.25], None).expect("table");
    assert_eq!(table.rows[0][4], None);
    assert!(table.to_json()["rows"][0]["eq10_ms"].is_null());
    assert!(table.to_json()["quantities"]["best_eq10_ms"].is_null());
    assert!(table.to_json()["quantities"]["best_exact_ms"]["value"].is_number());
}

#[test]
fn what_is_no_share_is_refused() {
    let hp = hp();
    for share in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        assert!(report::track(&hp, &[share], None).is_err());
        assert!(report::cylinder(&hp, &[share], None).is_err());
        assert!(report::filling(&hp, &[share], None).is_err());
        assert!(report::block(&hp, &[share], 8, None).is_err());
        assert!(report::loge(&Drive::ideal(), &[share], None).is_err());
    }
    assert!(report::loge(&Drive::ideal(), &[0.0], None).is_err());
    assert!(report::track(&hp, &[], None).is_err());
    assert!(report::track(&hp, &[0.5], Some(Dice { trials: 0, seed: 1 })).is_err());
    for logical in [0, 5, 73] {
        assert!(report::block(&hp, &[0.5], logical, None).is_err(), "{logical}");
    }
    let spec = specs::find("st19101").expect("it comes with the program");
    let many = Overrides { cylinders: Some(1 << 20), ..Overrides::default() };
    let huge = Params::new(&spec, 1, &many).expect("a disk");
    let error = report::cylinder(&huge, &[0.5], Some(Dice { trials: 1, seed: 1 }));
    assert!(error.expect_err("too large").to_string().contains("fewer"));
}

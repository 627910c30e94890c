use super::*;
use proptest::{prop_assert, proptest};

/// The distributions of the claims.
const ALL: [Distribution; 6] = [
    Distribution::Uniform,
    Distribution::HotCold { references: 0.9, pages: 0.1 },
    Distribution::knuth(70.0, 30.0),
    Distribution::knuth(80.0, 20.0),
    Distribution::knuth(90.0, 10.0),
    Distribution::DATABASE,
];

#[test]
fn h13_hill_of_databases() {
    let points = [(0.01, 68.7), (0.02, 77.1), (0.05, 86.1), (0.1, 91.3), (0.2, 95.2), (0.5, 98.8)];
    for (pages, percent) in points {
        let found = Distribution::DATABASE.references_to(pages) * 100.0;
        assert!((found - percent).abs() < 0.05, "{pages}: {found} for {percent}");
    }
    assert!((hill(100.0, 105.0, 0.528, 0.546) - 100.7).abs() < 0.05, "before it is cut off");
    assert_eq!(Distribution::DATABASE.references_to(1.0), 1.0);
}

#[test]
fn h14_knuth_is_a_power_of_the_share() {
    let Distribution::Knuth { references, pages } = Distribution::knuth(80.0, 20.0) else {
        panic!("it is Knuth's");
    };
    let theta: f64 = references.ln() / pages.ln();
    assert!((theta - 0.13865).abs() < 5e-6, "{theta}");
    // The corrected probabilities are those of the ranks that are drawn.
    let (count, draws) = (50_u64, 400_000);
    let mut rng = Rng::stream(1, "test");
    let mut hits = vec![0_u32; count as usize];
    for _ in 0..draws {
        hits[Distribution::knuth(80.0, 20.0).rank(count, &mut rng) as usize] += 1;
    }
    for (index, &hit) in hits.iter().enumerate() {
        let power = |i: usize| (i as f64).powf(theta);
        let expected = f64::from(draws) * (power(index + 1) - power(index)) / power(count as usize);
        assert!((f64::from(hit) - expected).abs() < 6.0 * expected.sqrt(), "rank {index}: {hit}");
    }
}

#[test]
fn h15_shares_of_references() {
    for (distribution, pages, share) in [
        (ALL[0], 0.2, 0.2),
        (ALL[1], 0.1, 0.9),
        (ALL[1], 0.55, 0.95),
        (ALL[2], 0.3, 0.7),
        (ALL[3], 0.2, 0.8),
        (ALL[3], 0.04, 0.64),
        (ALL[4], 0.1, 0.9),
    ] {
        let found = distribution.references_to(pages);
        assert!((found - share).abs() < 1e-12, "{distribution} at {pages}: {found}");
    }
}

#[test]
fn draws_follow_the_cumulative_function() {
    for distribution in ALL {
        let mut rng = Rng::stream(7, "test");
        let (count, draws) = (20_000, 100_000);
        let ranks: Vec<u64> = (0..draws).map(|_| distribution.rank(count, &mut rng)).collect();
        for share in [0.01, 0.1, 0.3, 0.6] {
            let hot = (count as f64 * share) as u64;
            let found = ranks.iter().filter(|&&rank| rank < hot).count() as f64 / draws as f64;
            let expected = distribution.references_to(share);
            assert!((found - expected).abs() < 0.008, "{distribution} at {share}: {found}");
        }
    }
}

#[test]
fn names_come_back() {
    for distribution in ALL {
        assert_eq!(distribution.to_string().parse(), Ok(distribution));
    }
    assert_eq!("hill:105,.528,.546".parse(), Ok(Distribution::DATABASE));
    assert_eq!("hotcold:90,10".parse(), Ok(ALL[1]));
    assert_eq!(serde_json::to_string(&ALL[3]).expect("text"), "\"knuth:80,20\"");
}

#[test]
fn senseless_texts_are_explained() {
    for (text, part) in [
        ("", "not a distribution"),
        ("zipf", "knuth:80,20"),
        ("knuth:80", "not a distribution"),
        ("knuth:80,20,1", "not a distribution"),
        ("knuth:a,b", "not a distribution"),
        ("hotcold:100,10", "percentages"),
        ("hotcold:nan,10", "percentages"),
        ("knuth:80,0", "percentages"),
        ("knuth:20,80", "larger number first"),
        ("hill:100,.5,.5", "does not"),
        ("hill:105,-1,.5", "does not"),
        ("hill:inf,.5,.5", "does not"),
    ] {
        let error = text.parse::<Distribution>().expect_err(text).to_string();
        assert!(error.contains(part) && error.contains("; "), "{text}: {error}");
    }
}

#[test]
fn popular_places_are_scattered_and_stay() {
    let sampler = Sampler::new(ALL[1], 10_000, 3);
    let mut rng = Rng::stream(3, "test");
    let mut hits = vec![0_u32; 10_000];
    (0..100_000).for_each(|_| hits[sampler.draw(&mut rng) as usize] += 1);
    // A hot page is drawn 90 times, a cold one about once.
    let hot: Vec<usize> = (0..10_000).filter(|&place| hits[place] > 30).collect();
    assert_eq!(hot.len(), 1000);
    let low = hot.iter().filter(|&&place| place < 5000).count();
    assert!((400..600).contains(&low), "{low} of the hot places in the first half");
}

proptest! {
    #[test]
    fn the_inverse_is_the_inverse(share in 0.0..1.0_f64, which in 0..ALL.len()) {
        let distribution = ALL[which];
        let pages = distribution.pages_for(share);
        prop_assert!((0.0..=1.0).contains(&pages));
        prop_assert!((distribution.references_to(pages) - share).abs() < 1e-9);
    }
}

//! The length of a vector.
//!
//! `f64::hypot` is a function of the C library. Libraries round its last bit differently, so a fit
//! would print other figures with glibc than with musl, and a program that calls it asks for glibc
//! 2.35. Products, sums and roots are exactly rounded everywhere.

/// The length of a vector of two components, each of less than 1e150 in size: their squares have to
/// be finite.
pub(crate) fn length(x: f64, y: f64) -> f64 {
    let length = (x * x + y * y).sqrt();
    debug_assert!(length.is_finite() || !(x.is_finite() && y.is_finite()), "{x}, {y}");
    length
}

#[cfg(test)]
mod tests {
    use super::length;

    #[test]
    fn sides_give_their_diagonal() {
        assert_eq!(length(3.0, -4.0), 5.0);
        assert_eq!(length(0.0, 0.0), 0.0);
        assert_eq!(length(-2e12, 0.0), 2e12);
        assert!(length(f64::NAN, 1.0).is_nan());
    }
}

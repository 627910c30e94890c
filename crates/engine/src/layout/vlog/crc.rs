//! Arithmetic behind CRC-32C: polynomials over GF(2) modulo its generator, bits reflected (the
//! highest bit of a word is the coefficient of x⁰).

/// The generator of CRC-32C, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The product of two polynomials.
pub const fn multiply(a: u32, b: u32) -> u32 {
    let (mut product, mut shifted) = (0, b);
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        // Masks instead of branches: the bits are random.
        product ^= shifted & 0_u32.wrapping_sub((a >> bit) & 1);
        shifted = (shifted >> 1) ^ (POLYNOMIAL & 0_u32.wrapping_sub(shifted & 1));
    }
    product
}

/// x to the powers `bits · (N − 1 − i)` for `i` in `0..N`.
pub const fn shifts<const N: usize>(bits: u32) -> [u32; N] {
    let one = 1 << 31;
    let mut step = one;
    let mut bit = 0;
    while bit < bits {
        step = (step >> 1) ^ (POLYNOMIAL & 0_u32.wrapping_sub(step & 1));
        bit += 1;
    }
    let mut out = [one; N];
    let mut index = N - 1;
    while index > 0 {
        out[index - 1] = multiply(out[index], step);
        index -= 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_neutral_and_the_product_commutes() {
        for (a, b) in [(0x1234_5678, 0x9abc_def0), (1, 0x8000_0000), (u32::MAX, 3)] {
            assert_eq!(multiply(a, 1 << 31), a);
            assert_eq!(multiply(a, b), multiply(b, a));
        }
    }
}

//! Arithmetic behind CRC-32C: polynomials over GF(2) modulo its generator, bits reflected (the
//! highest bit of a word is the coefficient of x⁰).

/// The generator of CRC-32C, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// A polynomial times x.
const fn times_x(a: u32) -> u32 {
    // Masks instead of branches: the bits are random.
    (a >> 1) ^ (POLYNOMIAL & 0_u32.wrapping_sub(a & 1))
}

/// What the lowest four bits of a word become when it is multiplied by x⁴.
static CARRIES: [u32; 16] = {
    let mut out = [0; 16];
    let mut low = 0;
    while low < 16 {
        out[low as usize] = times_x(times_x(times_x(times_x(low))));
        low += 1;
    }
    out
};

/// The product of two polynomials, four coefficients of `a` at a time.
pub fn multiply(a: u32, b: u32) -> u32 {
    let mut multiples = [0; 16];
    multiples[8] = b;
    multiples[4] = times_x(b);
    multiples[2] = times_x(multiples[4]);
    multiples[1] = times_x(multiples[2]);
    for index in [3_usize, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15] {
        let lowest = index & index.wrapping_neg();
        multiples[index] = multiples[index - lowest] ^ multiples[lowest];
    }
    (0..32).step_by(4).fold(0, |product: u32, shift| {
        let carry = CARRIES[product as usize & 15];
        (product >> 4) ^ carry ^ multiples[(a >> shift) as usize & 15]
    })
}

/// The product of two polynomials at compile time.
const fn slow_multiply(a: u32, b: u32) -> u32 {
    let (mut product, mut shifted) = (0, b);
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        product ^= shifted & 0_u32.wrapping_sub((a >> bit) & 1);
        shifted = times_x(shifted);
    }
    product
}

/// x to the powers `bits · (N − i)` for `i` in `0..N`.
pub const fn shifts<const N: usize>(bits: u32) -> [u32; N] {
    let mut step = 1 << 31;
    let mut bit = 0;
    while bit < bits {
        step = times_x(step);
        bit += 1;
    }
    let mut out = [step; N];
    let mut index = N - 1;
    while index > 0 {
        out[index - 1] = slow_multiply(out[index], step);
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
            assert_eq!(multiply(a, b), slow_multiply(a, b));
        }
    }
}

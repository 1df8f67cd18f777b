//! Integers of any size: powers of ten, numbers of digits, and rounding.

use num_bigint::{BigInt, BigUint};

/// Returns a power of ten.
pub fn ten_to(digits: u32) -> BigInt {
    BigInt::from(10).pow(digits)
}

/// Returns whether an integer is below zero.
pub(super) fn is_negative(value: &BigInt) -> bool {
    value.sign() == num_bigint::Sign::Minus
}

/// Returns whether an integer is zero.
pub(super) fn is_zero(value: &BigInt) -> bool {
    value.sign() == num_bigint::Sign::NoSign
}

/// Returns `value / divisor`, rounded half away from zero.
pub fn divide_rounded(value: &BigInt, divisor: &BigInt) -> BigInt {
    let double: BigInt = value * 2;
    let half = if is_negative(value) == is_negative(divisor) { divisor.clone() } else { -divisor };
    (double + half) / (divisor * 2)
}

/// Returns the number of decimal digits; 0 of zero.
pub(super) fn count_digits(magnitude: &BigUint) -> u32 {
    let bits = magnitude.bits();
    if bits == 0 {
        return 0;
    }
    // The estimate is the number of digits, or one less.
    let estimate = ((bits - 1) as f64 * std::f64::consts::LOG10_2) as u32;
    let at_estimate = *magnitude >= BigUint::from(10u8).pow(estimate);
    let above_estimate = *magnitude >= BigUint::from(10u8).pow(estimate + 1);
    estimate + u32::from(at_estimate) + u32::from(above_estimate)
}

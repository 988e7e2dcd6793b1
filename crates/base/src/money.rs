//! Sums of money in decimal arithmetic: tenths of cents add up to the sum that a person would calculate.

use std::ops::{Add, Div, Mul};

#[cfg(test)]
mod tests;

/// Decimal places that are kept.
const PLACES: usize = 15;
const DOLLAR: i128 = 1_000_000_000_000_000;

/// An amount of US dollars, exact to 15 decimal places.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(i128);

impl Money {
    /// Reads a number as the decimal that it was written as; a negative or infinite number or NaN is zero.
    pub fn from_dollars(amount: f64) -> Self {
        if !amount.is_finite() || amount <= 0.0 {
            return Self::default();
        }
        // The shortest text that gives this number again is the one that somebody wrote.
        let text = amount.to_string();
        let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
        let decimals = format!("{decimals:0<PLACES$.PLACES$}");
        let whole: i128 = whole.parse().unwrap_or_default();
        let decimals: i128 = decimals.parse().unwrap_or_default();
        Self(whole.saturating_mul(DOLLAR).saturating_add(decimals))
    }

    /// Returns the number that is nearest.
    pub fn dollars(self) -> f64 {
        format!("{}.{:0PLACES$}", self.0 / DOLLAR, self.0 % DOLLAR).parse().unwrap_or_default()
    }
}

impl Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Mul<u64> for Money {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(i128::from(times)))
    }
}

impl Div<u64> for Money {
    type Output = Self;

    /// Divides and rounds to the nearest.
    fn div(self, parts: u64) -> Self {
        let parts = i128::from(parts.max(1));
        Self(self.0.saturating_add(parts / 2) / parts)
    }
}

/// Adds two amounts of dollars.
pub fn sum(one: f64, other: f64) -> f64 {
    (Money::from_dollars(one) + Money::from_dollars(other)).dollars()
}

/// Subtracts an amount of dollars; nothing is left of a smaller one.
pub fn difference(amount: f64, less: f64) -> f64 {
    let left = Money::from_dollars(amount).0.saturating_sub(Money::from_dollars(less).0);
    Money(left.max(0)).dollars()
}

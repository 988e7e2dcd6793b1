//! Amounts are read and added as they are written.

use super::{Money, difference, sum};

#[test]
fn amounts_come_back_as_they_were() {
    for amount in [0.0, 0.1, 0.3, 1.0, 0.000_000_25, 123.456, 1e-15, 98_765.432_1] {
        assert_eq!(Money::from_dollars(amount).dollars(), amount);
    }
    for nothing in [-1.0, f64::NAN, f64::INFINITY, 1e-16] {
        assert_eq!(Money::from_dollars(nothing), Money::default());
    }
}

#[test]
fn sums_are_exact_where_floating_point_is_not() {
    assert_ne!(0.1 + 0.2, 0.3);
    assert_eq!((sum(0.1, 0.2), difference(0.3, 0.1), difference(0.1, 0.3)), (0.3, 0.2, 0.0));
    let total = (0..1_000_000).fold(Money::default(), |total, _| total + Money::from_dollars(0.000_003));
    assert_eq!(total.dollars(), 3.0);
    assert_eq!((Money::from_dollars(2.0) / 3).dollars(), 0.666_666_666_666_667);
}

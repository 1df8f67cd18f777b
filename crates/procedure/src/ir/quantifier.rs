//! ANY and ALL of an array: the comparison of a value with each element.

use super::compare::compare;
use crate::{CompareClass, CompareOperator, Evaluated, Function, Machine};
use catalog::Datum;

/// The comparison of a value with an element. It is NULL where one of them is NULL.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ElementTest {
    /// A comparison of the value (left) with the element (right).
    Compare {
        /// The operator.
        operator: CompareOperator,
        /// How the values compare.
        class: CompareClass,
    },
    /// A function of the value and the element: LIKE, for example.
    Function(Function),
}

/// ANY or ALL.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantifier {
    /// The comparison.
    pub test: ElementTest,
    /// ALL, in place of ANY.
    pub is_all: bool,
}

impl ElementTest {
    fn holds(self, value: Datum, element: Datum, machine: &mut Machine) -> Evaluated {
        if value.is_null() || element.is_null() {
            return Ok(Datum::Null);
        }
        match self {
            Self::Compare { operator, class } => {
                Ok(Datum::boolean(operator.holds(compare(class, value, element, &machine.frame.arena))))
            }
            Self::Function(function) => function.apply(&[value, element], machine),
        }
    }
}

impl Quantifier {
    /// `= ANY`, under a class.
    pub fn equals_any(class: CompareClass) -> Self {
        Self { test: ElementTest::Compare { operator: CompareOperator::Equal, class }, is_all: false }
    }

    /// Returns the class of `= ANY`; `None` for any other quantifier.
    pub fn class_of_equals_any(self) -> Option<CompareClass> {
        match self {
            Self {
                test: ElementTest::Compare { operator: CompareOperator::Equal, class },
                is_all: false,
            } => Some(class),
            _ => None,
        }
    }

    /// Returns whether the comparison holds for one element, or for all. It is NULL if it is NULL for an
    /// element, and the remaining elements do not decide it.
    ///
    /// # Errors
    /// The error of the function.
    pub(crate) fn evaluate(self, value: Datum, array: Datum, machine: &mut Machine) -> Evaluated {
        let Datum::Array(span) = array else { return Ok(Datum::Null) };
        let mut answer = Datum::boolean(self.is_all);
        for index in 0..span.length as usize {
            let element = machine.frame.arena.elements(span)[index];
            match self.test.holds(value, element, machine)? {
                Datum::Null => answer = Datum::Null,
                holds if holds.is_true() != self.is_all => return Ok(Datum::boolean(!self.is_all)),
                _ => {}
            }
        }
        Ok(answer)
    }
}

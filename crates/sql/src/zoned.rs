//! The time zone in which statements read texts of timestamps, and expressions that depend on a zone.
//!
//! A literal of a client's statement is a constant, in the zone that the session has when it prepares the
//! statement. Casts and functions that depend on the zone are never folded: they see the zone of each
//! execution. A routine is compiled once for all sessions, so its literals are converted when it runs.
//! Definitions are kept as text, and no zone is kept with them: their literals are in UTC. A session in
//! another zone cannot make a definition whose meaning depends on the zone.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::schema::Schema;
use catalog::{Datum, ScalarType, SessionZone, Type, array_elements, local_timestamp};
use procedure::{Cast, CastContext, Effect, Expression, Function, SqlError};
use squawk_syntax::SyntaxNode;
use std::sync::Arc;

/// The zone of the texts of timestamps that name none.
#[derive(Clone, Default, Debug)]
pub(crate) enum TextZone {
    #[default]
    Utc,
    /// The zone of the session that prepares the statement.
    Session(Arc<SessionZone>),
    /// Such texts are refused: a session in another zone than UTC makes a definition.
    Refused,
}

/// Returns whether the meaning of a literal depends on the zone.
fn is_local(text: &str, ty: Type) -> bool {
    let is_local = |text: &str| matches!(local_timestamp(text), Ok(Some(_)));
    match ty {
        Type::Scalar(_) => is_local(text),
        Type::Array(_) => {
            array_elements(text).is_ok_and(|elements| elements.iter().flatten().any(|own| is_local(own)))
        }
    }
}

fn refused(what: &str) -> SqlError {
    let message =
        format!("{what} in a definition by a session in another time zone than UTC is not supported");
    SqlError::new("0A000", message).with_hint("Write the offset from UTC, or SET TimeZone TO 'UTC' before.")
}

impl Schema {
    /// Returns the definitions as a session in a zone uses them; `None` is UTC.
    #[must_use]
    pub fn in_zone(&self, zone: Option<Arc<SessionZone>>) -> Self {
        Self { text_zone: zone.map_or(TextZone::Utc, TextZone::Session), ..self.clone() }
    }

    /// Checks that a definition means the same in each zone.
    ///
    /// # Errors
    /// `0A000`: it does not. Any other error is that of the definition itself.
    pub fn check_zoneless(&self, statement: &str) -> Result<(), StatementError> {
        let (_, effect) = Self { text_zone: TextZone::Refused, ..self.clone() }.apply_unchecked(statement)?;
        match depends_on_zone(&effect) {
            true => Err(StatementError {
                line: 1,
                column: 1,
                error: refused("a conversion of rows by the time zone"),
            }),
            false => Ok(()),
        }
    }
}

impl Schema {
    /// Checks that a text in a definition is the same time in each zone.
    ///
    /// # Errors
    /// `0A000`: it is not.
    pub(crate) fn check_zone(&self, text: Option<&str>) -> Result<(), SqlError> {
        let is_local = text.is_some_and(|text| is_local(text, ScalarType::Timestamptz.into()));
        match (&self.text_zone, is_local) {
            (TextZone::Refused, true) => Err(refused("a timestamp without an offset")),
            _ => Ok(()),
        }
    }
}

/// Returns whether the rows that a definition makes depend on the zone.
fn depends_on_zone(effect: &Effect) -> bool {
    match effect {
        Effect::All(effects) => effects.iter().any(depends_on_zone),
        Effect::Rebuild(rebuild) => {
            let generated = rebuild.generated.iter().map(|(_, value)| value);
            let checks = rebuild.checks.iter().map(|check| &check.condition);
            rebuild.values.iter().chain(generated).chain(checks).any(Expression::depends_on_zone)
        }
        _ => false,
    }
}

impl Binder<'_> {
    /// Returns the zone in which a literal is read now; `None` is UTC.
    ///
    /// # Errors
    /// `0A000`: its meaning depends on the zone, and it belongs to a definition.
    pub(crate) fn zone_of_literal(
        &self,
        text: &str,
        to: Type,
        node: &SyntaxNode,
    ) -> Result<Option<&Arc<SessionZone>>, StatementError> {
        match &self.schema.text_zone {
            _ if self.is_kept_text || !to.element().is_zoned() => Ok(None),
            TextZone::Utc => Ok(None),
            TextZone::Session(zone) => Ok(Some(zone)),
            TextZone::Refused if is_local(text, to) => {
                Err(self.error(node, refused("a timestamp without an offset")))
            }
            TextZone::Refused => Ok(None),
        }
    }

    /// Returns a literal of a routine as an expression that reads it in the zone of the session; `None` if
    /// the zone does not matter.
    pub(crate) fn literal_of_routine(
        &self,
        text: &str,
        to: Type,
        context: CastContext,
    ) -> Option<Expression> {
        let element = to.element();
        if self.body.is_none() || !element.is_zoned() || !is_local(text, to) {
            return None;
        }
        match to {
            Type::Scalar(_) => {
                let local = local_timestamp(text).ok().flatten()?;
                let cast = Cast::between(ScalarType::Timestamp, element, context == CastContext::Explicit)?;
                Some(Expression::Cast { cast, operand: Box::new(Expression::Constant(Datum::Int(local))) })
            }
            Type::Array(_) => {
                let function = Function::ReadArray(element);
                Some(Expression::Function { function, arguments: vec![Expression::text(text)] })
            }
        }
    }

    /// Notes whether the value of an expression depends on the zone.
    pub(crate) fn note_zone(&self, depends: bool) {
        self.uses_zone.set(self.uses_zone.get() || depends);
    }
}

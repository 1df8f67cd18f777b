//! Functions over roles: `pg_has_role`, `pg_get_userbyid`, `acldefault`.
//!
//! Roles are known when a statement is bound, so a call becomes a choice among them.
//! Not here: functions over privileges (`privilege_functions`).

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::privilege_functions::choice;
use crate::roles::acl::{Inheritance, RoleId};
use catalog::{Datum, ScalarType, Type};
use procedure::{CastContext, CompareClass, CompareOperator, Expression, SqlError};
use squawk_syntax::SyntaxNode;

fn boolean(value: bool) -> Typed {
    Typed::Known(Expression::boolean(value), ScalarType::Boolean.into())
}

impl Binder<'_> {
    /// Returns a role that a literal or the acting role names.
    fn role_argument(&self, argument: &Typed, node: &SyntaxNode) -> Result<RoleId, StatementError> {
        let schema = self.schema;
        let missing =
            |name: &str| self.error(node, SqlError::new("42704", format!("role \"{name}\" does not exist")));
        match argument {
            Typed::Literal(name) if name == "public" => Ok(crate::roles::acl::PUBLIC),
            Typed::Literal(name) => schema.roles().named(name).ok_or_else(|| missing(name)),
            Typed::Known(Expression::Constant(Datum::Int(id)), _) => Ok(u32::try_from(*id).unwrap_or(0)),
            Typed::Known(Expression::Bytes(name), _) => {
                let name = String::from_utf8_lossy(name);
                schema.roles().named(&name).ok_or_else(|| missing(&name))
            }
            _ => Err(self.unsupported(node, "a role that is not a literal in this function")),
        }
    }

    /// Binds `pg_has_role`.
    pub(crate) fn has_role(
        &mut self,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let member = match arguments.len() {
            3 => self.role_argument(&arguments[0], node)?,
            _ => self.schema.acting,
        };
        let [role, privilege] = &arguments[arguments.len() - 2..] else { return Ok(boolean(false)) };
        let Typed::Literal(privilege) = privilege else {
            return Err(self.unsupported(node, "a privilege that is not a literal in this function"));
        };
        let roles = self.schema.roles();
        let mut words = Vec::new();
        for word in privilege.split(',') {
            match word.trim().to_uppercase().as_str() {
                own @ ("USAGE" | "MEMBER") => words.push(own.to_owned()),
                own if own.ends_with(" WITH GRANT OPTION") || own.ends_with(" WITH ADMIN OPTION") => {
                    words.push("ADMIN".into());
                }
                _ => {
                    let message = format!("unrecognized privilege type: \"{}\"", word.trim());
                    return Err(self.error(node, SqlError::new("22023", message)));
                }
            }
        }
        let has = |role: RoleId| {
            words.iter().any(|word| match word.as_str() {
                "USAGE" => roles.has_privileges_of(member, role),
                "MEMBER" => roles.is_member(member, role),
                _ => roles.is_admin(member, role),
            })
        };
        if matches!(role, Typed::Literal(_) | Typed::Known(Expression::Bytes(_), _)) {
            return Ok(boolean(has(self.role_argument(role, node)?)));
        }
        let number = self.coerce(role.clone(), ScalarType::BigInt.into(), CastContext::Explicit, node)?;
        let all = self.schema.role_names().into_iter();
        let branches = all.map(|(id, _)| (Datum::Int(id), Expression::boolean(has(id as u32)))).collect();
        let value = choice(&number, branches, Expression::boolean(false));
        Ok(Typed::Known(value, ScalarType::Boolean.into()))
    }

    /// Binds `pg_get_userbyid`.
    pub(crate) fn user_by_number(&mut self, number: Expression) -> Typed {
        let all = self.schema.role_names().into_iter();
        let branches = all.map(|(id, name)| (Datum::Int(id), Expression::text(&name))).collect();
        let value = choice(&number, branches, Expression::text("unknown"));
        Typed::Known(value, ScalarType::Text.into())
    }

    /// Binds `acldefault`: the privileges on an object of a kind that has none given.
    pub(crate) fn acl_default(
        &mut self,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let argument = |position: usize| arguments.get(position).cloned().unwrap_or(Typed::Null);
        let kind = self.coerce(argument(0), ScalarType::Text.into(), CastContext::Explicit, node)?;
        let owner = self.coerce(argument(1), ScalarType::BigInt.into(), CastContext::Explicit, node)?;
        let of_owner = |id: RoleId| {
            let branch = |(letter, items): (&str, Vec<String>)| {
                let operands = Box::new([kind.clone(), Expression::text(letter)]);
                let (operator, class) = (CompareOperator::Equal, CompareClass::Bytes);
                let items = items.iter().map(|item| Expression::text(item)).collect();
                (Expression::Compare { operator, class, operands }, Expression::Array(items))
            };
            let branches = self.schema.acl_defaults(id).into_iter().map(branch).collect();
            Expression::Case { branches, otherwise: Box::new(Expression::NULL) }
        };
        let all = self.schema.role_names().into_iter();
        let branches = all.map(|(id, _)| (Datum::Int(id), of_owner(id as u32))).collect();
        let value = choice(&owner, branches, Expression::NULL);
        Ok(Typed::Known(value, Type::Array(ScalarType::Text)))
    }
}

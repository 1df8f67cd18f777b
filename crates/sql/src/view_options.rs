//! ALTER VIEW, and the option `security_invoker`, under which a view reads with the rights of the role that
//! names it, and not with those of its owner.
//! Held by: `crates/workload/tests/sql/invokers.slt`.

use crate::StatementError;
use crate::full_names::{in_schema_of, short};
use crate::roles::acl::RoleId;
use crate::roles::role::BOOTSTRAP;
use crate::schema::{Schema, View, unsupported};
use crate::source::{At, Source};
use crate::subject::Subject;
use crate::types::object_name;
use procedure::{Effect, SqlError};
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// The option that is supported.
const INVOKER: &str = "security_invoker";

impl View {
    /// Returns whether the view reads with the rights of the role that names it.
    pub(crate) fn reads_as_invoker(&self) -> bool {
        self.invoker.as_deref().is_some_and(|value| truth_of(value) == Some(true))
    }

    /// Returns the options as `pg_class` shows them.
    pub(crate) fn options(&self) -> Option<Vec<String>> {
        let invoker = self.invoker.as_ref().map(|value| format!("{INVOKER}={value}"));
        let check = self.check.map(|check| format!("check_option={}", check.name()));
        let options: Vec<String> = invoker.into_iter().chain(check).collect();
        Some(options).filter(|options| !options.is_empty())
    }
}

/// Returns the Boolean value that a text means.
fn truth_of(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "on" | "yes" | "1" | "t" | "y" => Some(true),
        "false" | "off" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// Reads the value of the option in a list. The list of RESET has no values.
///
/// # Errors
/// `0A000`: another option. `22023`: PostgreSQL knows no such option; the value is not Boolean; the option is
/// given twice.
pub(crate) fn read_options(
    list: Option<ast::AttributeList>,
    source: &Source,
) -> Result<Option<String>, StatementError> {
    let mut found = None;
    for option in list.into_iter().flat_map(|list| list.attribute_options()) {
        let node = option.syntax();
        let refused = |message: String| {
            let error = SqlError::new("22023", message);
            Err(source.error_at(node.text_range().start().into(), error))
        };
        let text = source.text_of(node);
        let (name, value) = text.split_once('=').unwrap_or((text, "true"));
        let (name, value) = (name.trim().to_lowercase(), value.trim().trim_matches('\'').to_lowercase());
        match name.as_str() {
            INVOKER => {}
            "security_barrier" | "check_option" => {
                return Err(unsupported(source, node, "this option of a view"));
            }
            _ => return refused(format!("unrecognized parameter \"{name}\"")),
        }
        if truth_of(&value).is_none() {
            return refused(format!("invalid value for boolean option \"{name}\": {value}"));
        }
        if found.replace(value).is_some() {
            return refused(format!("parameter \"{name}\" specified more than once"));
        }
    }
    Ok(found)
}

impl Schema {
    /// Returns the role with whose rights a view reads and writes its relations.
    pub(crate) fn reader_of(&self, view: &str, reads_as_invoker: bool) -> RoleId {
        match reads_as_invoker {
            // As in PostgreSQL, the privileges on a partition suffice.
            _ if self.is_partition(view) => BOOTSTRAP,
            true => self.acting,
            false => self.owner_of(&Subject::Relation(view.into())),
        }
    }

    /// Executes ALTER VIEW. The owner of a view or schema is changed by `alter_owner`.
    ///
    /// # Errors
    /// `0A000`: another form of ALTER VIEW or ALTER SCHEMA. Those of `read_options`. `42P01`, `42809`: there
    /// is no such view. `42P07`: the new name is taken. `3F000`: the new schema does not exist.
    pub(crate) fn alter_view_or_schema(
        &mut self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        use ast::AlterViewAction as Action;
        let node = statement.syntax();
        if node.children().any(|child| ast::OwnerTo::can_cast(child.kind())) {
            return Ok(Effect::None);
        }
        let ast::Stmt::AlterView(alter) = statement else {
            return Err(unsupported(source, node, "this form of ALTER SCHEMA"));
        };
        let path = alter.view_ref().and_then(|name| name.path_ref());
        let name = path.as_ref().map(object_name).unwrap_or_default();
        let Some(view) = self.view(&name).filter(|_| !self.is_partition(&name)).cloned() else {
            let error = match self.relation_exists(&name) {
                true => SqlError::new("42809", format!("\"{}\" is not a view", short(&name))),
                false if alter.if_exists().is_some() => {
                    self.notices.skip_missing(&format!("relation \"{}\"", short(&name)));
                    return Ok(Effect::None);
                }
                false => SqlError::new("42P01", format!("relation \"{}\" does not exist", short(&name))),
            };
            return Err(source.error_at(node.text_range().start().into(), error));
        };
        match alter.action() {
            Some(Action::SetOptions(set)) => {
                if let Some(invoker) = read_options(set.attribute_list(), source)? {
                    let invoker = Some(invoker);
                    self.views.insert(name, Arc::new(View { invoker, ..View::clone(&view) }));
                }
            }
            Some(Action::ResetOptions(reset)) => {
                if read_options(reset.attribute_list(), source)?.is_some() {
                    self.views.insert(name, Arc::new(View { invoker: None, ..View::clone(&view) }));
                }
            }
            Some(Action::ViewRenameTo(rename)) => {
                let new = rename.view().and_then(|view| view.path()).and_then(|path| path.segment());
                let new = in_schema_of(&name, new.map(|name| name.text()).unwrap_or_default());
                self.refuse_taken_relation(&new, source, node)?;
                self.move_view(&name, &new, At { source, node })?;
            }
            Some(Action::SetSchema(set)) => {
                let schema = set.schema_ref().map(|name| ast::normalize_name_node(name.syntax()));
                let schema = schema.unwrap_or_default();
                if !self.has_namespace(&schema) {
                    let message = format!("schema \"{schema}\" does not exist");
                    return Err(
                        source.error_at(node.text_range().start().into(), SqlError::new("3F000", message))
                    );
                }
                let own = short(&name);
                let new = if schema == "public" { own.into() } else { format!("{schema}.{own}") };
                self.move_view(&name, &new, At { source, node })?;
            }
            _ => return Err(unsupported(source, node, "this form of ALTER VIEW")),
        }
        self.recompile(source, node)?;
        Ok(Effect::None)
    }

    /// Gives a view another name or schema.
    fn move_view(&mut self, old: &str, new: &str, At { source, node }: At<'_>) -> Result<(), StatementError> {
        if old != new {
            self.refuse_taken(new, source, node)?;
            self.rename_view(old, new);
        }
        Ok(())
    }
}

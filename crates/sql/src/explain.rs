//! The options of EXPLAIN.

use crate::binder::Binder;
use crate::error::StatementError;
use procedure::SqlError;
use procedure::query::{ExplainFormat, ExplainOptions};
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    /// Returns the options of an EXPLAIN. Of those without an effect, only the values are checked.
    pub(crate) fn explain_options(&self, explain: &ast::Explain) -> Result<ExplainOptions, StatementError> {
        let mut options = ExplainOptions::default();
        match explain.explain_mode() {
            None | Some(ast::ExplainMode::ExplainVerbose(_)) => {}
            Some(ast::ExplainMode::ExplainAnalyze(_)) => options.analyzes = true,
            Some(ast::ExplainMode::ExplainOptionList(list)) => self.read_options(&list, &mut options)?,
        }
        Ok(options)
    }

    fn read_options(
        &self,
        list: &ast::ExplainOptionList,
        options: &mut ExplainOptions,
    ) -> Result<(), StatementError> {
        let node = list.syntax();
        let mut needs_analyze = None;
        for option in list.explain_options() {
            let node = option.syntax();
            let text = node.text().to_string().to_lowercase();
            let (name, value) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
            let value = value.trim().trim_matches('\'');
            let is_on = || match value {
                "" | "true" | "on" | "1" => Ok(true),
                "false" | "off" | "0" => Ok(false),
                _ => Err(self.syntax(node, &format!("{name} requires a Boolean value"))),
            };
            match name {
                "analyze" | "analyse" => options.analyzes = is_on()?,
                "timing" => {
                    options.hides_times = !is_on()?;
                    needs_analyze = is_on()?.then_some("TIMING").or(needs_analyze);
                }
                "wal" => needs_analyze = is_on()?.then_some("WAL").or(needs_analyze),
                "summary" => options.hides_summary = !is_on()?,
                "verbose" | "costs" | "settings" | "buffers" | "generic_plan" => drop(is_on()?),
                "format" => options.format = self.format_of(value, node)?,
                _ => return Err(self.syntax(node, &format!("unrecognized EXPLAIN option \"{name}\""))),
            }
        }
        match needs_analyze.filter(|_| !options.analyzes) {
            Some(name) => {
                let message = format!("EXPLAIN option {name} requires ANALYZE");
                Err(self.error(node, SqlError::new("22023", message)))
            }
            None => Ok(()),
        }
    }

    fn format_of(
        &self,
        value: &str,
        node: &squawk_syntax::SyntaxNode,
    ) -> Result<ExplainFormat, StatementError> {
        match value {
            "text" => Ok(ExplainFormat::Text),
            "json" => Ok(ExplainFormat::Json),
            "xml" | "yaml" => Err(self.unsupported(node, "this format of EXPLAIN")),
            _ => {
                let message = format!("unrecognized value for EXPLAIN option \"format\": \"{value}\"");
                Err(self.error(node, SqlError::new("22023", message)))
            }
        }
    }
}

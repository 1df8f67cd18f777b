//! The notices of definitions: they name what a statement has skipped because it is there, or is not there.

use procedure::{Notice, Severity, SqlError};

/// Returns a notice.
pub(crate) fn notice(severity: Severity, sqlstate: &str, message: String) -> Notice {
    Notice { severity, content: SqlError::new(sqlstate, message) }
}

/// Returns the notice of a statement that goes on without an object.
pub(crate) fn skipping(sqlstate: &str, fact: &str) -> Notice {
    notice(Severity::Notice, sqlstate, format!("{fact}, skipping"))
}

/// What a statement tells.
#[derive(Clone, Default, Debug)]
pub(crate) struct Notices {
    told: Vec<Notice>,
    /// The objects that CASCADE has dropped.
    dropped: Vec<String>,
}

impl Notices {
    /// Returns all notices, in order.
    pub(crate) fn into_told(self) -> Vec<Notice> {
        let Self { mut told, dropped } = self;
        let tell = |what: &str| notice(Severity::Notice, "00000", format!("drop cascades to {what}"));
        match dropped.as_slice() {
            [] => {}
            [one] => told.push(tell(one)),
            all => {
                let lines: Vec<_> = all.iter().map(|own| format!("drop cascades to {own}")).collect();
                let mut cascade = tell(&format!("{} other objects", all.len()));
                cascade.content = cascade.content.with_detail(lines.join("\n"));
                told.push(cascade);
            }
        }
        told
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        self.told.push(notice);
    }

    /// Tells that CASCADE drops an object.
    pub(crate) fn drops_also(&mut self, object: String) {
        self.dropped.push(object);
    }

    /// Tells that IF NOT EXISTS has found an object. `sqlstate` is that of the error without it.
    pub(crate) fn skip_existing(&mut self, sqlstate: &str, object: &str) {
        self.tell(skipping(sqlstate, &format!("{object} already exists")));
    }

    /// Tells that IF EXISTS has found no object.
    pub(crate) fn skip_missing(&mut self, object: &str) {
        self.tell(skipping("00000", &format!("{object} does not exist")));
    }

    /// Tells that IF EXISTS has found no object. `error` is that of the statement without it.
    pub(crate) fn skip_missing_of(&mut self, error: &SqlError) {
        self.tell(skipping("00000", &error.message));
    }
}

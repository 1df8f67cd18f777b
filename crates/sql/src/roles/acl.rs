//! Lists of privileges on one object, and how GRANT and REVOKE change them.
//! Source: PostgreSQL 15's documentation, "Privileges", and the behaviour of its `aclupdate`, `aclmask` and
//! `recursive_revoke`.
//!
//! Invariant: an item has an option only for a privilege that it has.
//! Held by: `roles::grants_depend_on_grant_options`.

use procedure::SqlError;
use serde::{Deserialize, Serialize};

/// The number of a role.
pub(crate) type RoleId = u32;

/// The grantee that stands for all roles.
pub(crate) const PUBLIC: RoleId = 0;

/// A set of privileges.
pub(crate) type Privileges = u16;

pub(crate) const INSERT: Privileges = 1;
pub(crate) const SELECT: Privileges = 1 << 1;
pub(crate) const UPDATE: Privileges = 1 << 2;
pub(crate) const DELETE: Privileges = 1 << 3;
pub(crate) const TRUNCATE: Privileges = 1 << 4;
pub(crate) const REFERENCES: Privileges = 1 << 5;
pub(crate) const TRIGGER: Privileges = 1 << 6;
pub(crate) const EXECUTE: Privileges = 1 << 7;
pub(crate) const USAGE: Privileges = 1 << 8;
pub(crate) const CREATE: Privileges = 1 << 9;
pub(crate) const TEMPORARY: Privileges = 1 << 10;
pub(crate) const CONNECT: Privileges = 1 << 11;

/// The privileges on a table of which one shows its constraints and triggers in `information_schema`.
pub(crate) const CHANGING: Privileges = INSERT | UPDATE | DELETE | TRUNCATE | REFERENCES | TRIGGER;

/// The privileges: set, letter and word, in the order in which PostgreSQL writes the letters.
pub(crate) const WORDS: [(Privileges, char, &str); 12] = [
    (INSERT, 'a', "INSERT"),
    (SELECT, 'r', "SELECT"),
    (UPDATE, 'w', "UPDATE"),
    (DELETE, 'd', "DELETE"),
    (TRUNCATE, 'D', "TRUNCATE"),
    (REFERENCES, 'x', "REFERENCES"),
    (TRIGGER, 't', "TRIGGER"),
    (EXECUTE, 'X', "EXECUTE"),
    (USAGE, 'U', "USAGE"),
    (CREATE, 'C', "CREATE"),
    (TEMPORARY, 'T', "TEMPORARY"),
    (CONNECT, 'c', "CONNECT"),
];

/// The kind of an object that has privileges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum AclKind {
    Table,
    Column,
    Sequence,
    Routine,
    Namespace,
    Type,
    Database,
}

impl AclKind {
    /// Returns all privileges on an object of this kind.
    pub(crate) fn all(self) -> Privileges {
        match self {
            Self::Table => INSERT | SELECT | UPDATE | DELETE | TRUNCATE | REFERENCES | TRIGGER,
            Self::Column => INSERT | SELECT | UPDATE | REFERENCES,
            Self::Sequence => SELECT | UPDATE | USAGE,
            Self::Routine => EXECUTE,
            Self::Namespace => USAGE | CREATE,
            Self::Type => USAGE,
            Self::Database => CREATE | TEMPORARY | CONNECT,
        }
    }

    /// Returns the privileges that all roles have on a new object.
    fn of_public(self) -> Privileges {
        match self {
            Self::Routine => EXECUTE,
            Self::Type => USAGE,
            Self::Database => TEMPORARY | CONNECT,
            Self::Table | Self::Column | Self::Sequence | Self::Namespace => 0,
        }
    }

    /// Returns the privileges on an object of which none were granted.
    pub(crate) fn default(self, owner: RoleId) -> Acl {
        let item = |grantee, privileges| AclItem { grantee, grantor: owner, privileges, options: 0 };
        let own = if self == Self::Column { 0 } else { self.all() };
        let items = [item(PUBLIC, self.of_public()), item(owner, own)];
        Acl(items.into_iter().filter(|item| item.privileges != 0).collect())
    }
}

/// What one role has granted to another one, or to all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct AclItem {
    pub(crate) grantee: RoleId,
    pub(crate) grantor: RoleId,
    pub(crate) privileges: Privileges,
    /// The privileges that the grantee may grant.
    pub(crate) options: Privileges,
}

/// The privileges on one object.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Acl(pub(crate) Vec<AclItem>);

/// A change of privileges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AclChange {
    pub(crate) item: AclItem,
    pub(crate) grants: bool,
    pub(crate) cascades: bool,
}

/// Knows which roles have the privileges of which.
pub(crate) trait Inheritance {
    /// Returns whether `member` has the privileges of `role`.
    fn has_privileges_of(&self, member: RoleId, role: RoleId) -> bool;

    /// Returns the roles whose privileges a role has, itself first.
    fn privileges_from(&self, role: RoleId) -> Vec<RoleId>;
}

/// Returns the error of a REVOKE that would leave grants without a grantor who may grant.
fn dependent() -> SqlError {
    SqlError::new("2BP01", "dependent privileges exist").with_hint("Use CASCADE to revoke them too.")
}

impl Acl {
    /// Returns the privileges of a role, those of all roles and of the roles that it is a member of included.
    pub(crate) fn privileges_of(&self, role: RoleId, known: &dyn Inheritance) -> Privileges {
        let is_its = |item: &&AclItem| {
            item.grantee == PUBLIC || item.grantee == role || known.has_privileges_of(role, item.grantee)
        };
        self.0.iter().filter(is_its).fold(0, |all, item| all | item.privileges)
    }

    /// Returns the privileges that a role may grant. The owner may grant all.
    pub(crate) fn options_of(&self, role: RoleId, owner: RoleId, known: &dyn Inheritance) -> Privileges {
        if known.has_privileges_of(role, owner) {
            return Privileges::MAX;
        }
        let is_its = |item: &&AclItem| item.grantee == role || known.has_privileges_of(role, item.grantee);
        self.0.iter().filter(is_its).fold(0, |all, item| all | item.options)
    }

    /// Returns the privileges that a role may grant itself, without those of other roles.
    fn own_options(&self, role: RoleId, owner: RoleId) -> Privileges {
        if role == owner {
            return Privileges::MAX;
        }
        self.0.iter().filter(|item| item.grantee == role).fold(0, |all, item| all | item.options)
    }

    /// Returns the role as which a member of several roles grants privileges, and what that role may grant.
    pub(crate) fn grantor_for(
        &self,
        role: RoleId,
        owner: RoleId,
        wanted: Privileges,
        known: &dyn Inheritance,
    ) -> (RoleId, Privileges) {
        if known.has_privileges_of(role, owner) {
            return (owner, Privileges::MAX);
        }
        let mut best = (role, 0);
        for own in known.privileges_from(role) {
            let options = self.own_options(own, owner) & wanted;
            if options == wanted {
                return (own, options);
            }
            if options.count_ones() > Privileges::count_ones(best.1) {
                best = (own, options);
            }
        }
        best
    }

    /// Applies a change.
    ///
    /// # Errors
    /// `2BP01`: grants depend on a revoked option. `0LP01`: an option would be granted back to its grantor.
    pub(crate) fn change(
        &mut self,
        change: AclChange,
        owner: RoleId,
        known: &dyn Inheritance,
    ) -> Result<(), SqlError> {
        let AclChange { item, grants, cascades } = change;
        if grants && item.options != 0 && item.grantor != owner {
            self.refuse_circle(item, owner, known)?;
        }
        let place = self.0.iter().position(|own| (own.grantee, own.grantor) == (item.grantee, item.grantor));
        let place = place.unwrap_or_else(|| {
            self.0.push(AclItem { privileges: 0, options: 0, ..item });
            self.0.len() - 1
        });
        let own = &mut self.0[place];
        let before = own.options;
        if grants {
            own.privileges |= item.privileges;
            own.options |= item.options;
        } else {
            own.privileges &= !item.privileges;
            own.options &= !item.options;
        }
        let lost = before & !own.options;
        if own.privileges == 0 && own.options == 0 {
            self.0.remove(place);
        }
        if lost != 0 {
            self.revoke_dependent(item.grantee, lost, owner, cascades, known)?;
        }
        Ok(())
    }

    /// Revokes what a role has granted and may grant no longer.
    fn revoke_dependent(
        &mut self,
        grantor: RoleId,
        lost: Privileges,
        owner: RoleId,
        cascades: bool,
        known: &dyn Inheritance,
    ) -> Result<(), SqlError> {
        if grantor == owner {
            return Ok(());
        }
        let lost = lost & !self.options_of(grantor, owner, known);
        while let Some(item) =
            self.0.iter().find(|item| item.grantor == grantor && item.privileges & lost != 0).copied()
        {
            if !cascades {
                return Err(dependent());
            }
            let item = AclItem { privileges: lost, options: lost, ..item };
            self.change(AclChange { item, grants: false, cascades }, owner, known)?;
        }
        Ok(())
    }

    /// Refuses a grant of options that its grantor has only because of the grantee.
    fn refuse_circle(&self, item: AclItem, owner: RoleId, known: &dyn Inheritance) -> Result<(), SqlError> {
        let mut without = self.clone();
        while let Some(own) =
            without.0.iter().find(|own| own.grantee == item.grantee && own.options != 0).copied()
        {
            let revoked = AclItem { privileges: 0, ..own };
            without.change(AclChange { item: revoked, grants: false, cascades: true }, owner, known)?;
        }
        if item.options & !without.options_of(item.grantor, owner, known) != 0 {
            let message = "grant options cannot be granted back to your own grantor";
            return Err(SqlError::new("0LP01", message));
        }
        Ok(())
    }

    /// Puts the items into the order in which PostgreSQL keeps those of new objects.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|item| (item.grantee, item.grantor));
    }

    /// Replaces the owner, and merges items that become one.
    pub(crate) fn change_owner(&mut self, old: RoleId, new: RoleId) {
        let mut items: Vec<AclItem> = Vec::new();
        for mut item in self.0.drain(..) {
            let renamed = |role| if role == old { new } else { role };
            (item.grantee, item.grantor) = (renamed(item.grantee), renamed(item.grantor));
            let same = |own: &&mut AclItem| (own.grantee, own.grantor) == (item.grantee, item.grantor);
            match items.iter_mut().find(same) {
                Some(own) => {
                    own.privileges |= item.privileges;
                    own.options |= item.options;
                }
                None => items.push(item),
            }
        }
        self.0 = items;
    }
}

/// Returns the letters of privileges, with a star behind each that may be granted.
pub(crate) fn letters(privileges: Privileges, options: Privileges) -> String {
    let mut letters = String::new();
    for (privilege, letter, _) in WORDS {
        if privileges & privilege != 0 {
            letters.push(letter);
            letters.extend((options & privilege != 0).then_some('*'));
        }
    }
    letters
}

/// Returns the privilege of a word.
pub(crate) fn privilege_of(word: &str) -> Option<Privileges> {
    let word = if word.eq_ignore_ascii_case("TEMP") { "TEMPORARY" } else { word };
    WORDS.iter().find(|(_, _, own)| own.eq_ignore_ascii_case(word)).map(|(own, ..)| *own)
}

//! The access control list of an object, and its changes by GRANT and REVOKE.
//! Source: PostgreSQL 15's documentation, "Privileges", and the behaviour of its `aclupdate`, `aclmask` and
//! `recursive_revoke`.
//!
//! Invariant: an item has grant options only for privileges that it has.
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

    /// Returns the privileges on a new object of this kind.
    pub(crate) fn default(self, owner: RoleId) -> Acl {
        let item = |grantee, privileges| AclItem { grantee, grantor: owner, privileges, options: 0 };
        let of_owner = if self == Self::Column { 0 } else { self.all() };
        let items = [item(PUBLIC, self.of_public()), item(owner, of_owner)];
        Acl(items.into_iter().filter(|item| item.privileges != 0).collect())
    }
}

/// The privileges that one role has granted to another role, or to PUBLIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct AclItem {
    pub(crate) grantee: RoleId,
    pub(crate) grantor: RoleId,
    pub(crate) privileges: Privileges,
    /// The grant options: the privileges that the grantee may grant.
    pub(crate) options: Privileges,
}

/// The privileges on one object.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Acl(pub(crate) Vec<AclItem>);

/// A change by GRANT or REVOKE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AclChange {
    pub(crate) item: AclItem,
    pub(crate) grants: bool,
    pub(crate) cascades: bool,
}

/// The inheritance of privileges between roles.
pub(crate) trait Inheritance {
    /// Returns whether `member` has the privileges of `role`.
    fn has_privileges_of(&self, member: RoleId, role: RoleId) -> bool;

    /// Returns the roles whose privileges a role has, beginning with the role itself.
    fn privileges_from(&self, role: RoleId) -> Vec<RoleId>;
}

/// Returns the error of a REVOKE of a grant option on which further grants depend.
fn dependent() -> SqlError {
    SqlError::new("2BP01", "dependent privileges exist").with_hint("Use CASCADE to revoke them too.")
}

impl Acl {
    /// Returns the privileges of a role, including those of PUBLIC and those that it inherits.
    pub(crate) fn privileges_of(&self, role: RoleId, known: &dyn Inheritance) -> Privileges {
        let is_its = |item: &&AclItem| {
            item.grantee == PUBLIC || item.grantee == role || known.has_privileges_of(role, item.grantee)
        };
        self.0.iter().filter(is_its).fold(0, |all, item| all | item.privileges)
    }

    /// Returns the grant options of a role, including those that it inherits. The owner has all.
    pub(crate) fn options_of(&self, role: RoleId, owner: RoleId, known: &dyn Inheritance) -> Privileges {
        if known.has_privileges_of(role, owner) {
            return Privileges::MAX;
        }
        let is_its = |item: &&AclItem| item.grantee == role || known.has_privileges_of(role, item.grantee);
        self.0.iter().filter(is_its).fold(0, |all, item| all | item.options)
    }

    /// Returns the grant options of a role, without those that it inherits.
    fn direct_options(&self, role: RoleId, owner: RoleId) -> Privileges {
        if role == owner {
            return Privileges::MAX;
        }
        self.0.iter().filter(|item| item.grantee == role).fold(0, |all, item| all | item.options)
    }

    /// Returns the role that a GRANT of `role` records as the grantor, with its grant options: the role
    /// itself or one that it inherits from, with the most of the wanted privileges.
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
        for grantor in known.privileges_from(role) {
            let options = self.direct_options(grantor, owner) & wanted;
            if options == wanted {
                return (grantor, options);
            }
            if options.count_ones() > Privileges::count_ones(best.1) {
                best = (grantor, options);
            }
        }
        best
    }

    /// Applies a change.
    ///
    /// # Errors
    /// `2BP01`: grants depend on a revoked grant option. `0LP01`: the grant would be circular.
    pub(crate) fn change(
        &mut self,
        change: AclChange,
        owner: RoleId,
        known: &dyn Inheritance,
    ) -> Result<(), SqlError> {
        let AclChange { item, grants, cascades } = change;
        if grants && item.options != 0 && item.grantor != owner {
            self.refuse_circular(item, owner, known)?;
        }
        let index =
            self.0.iter().position(|known| (known.grantee, known.grantor) == (item.grantee, item.grantor));
        let index = index.unwrap_or_else(|| {
            self.0.push(AclItem { privileges: 0, options: 0, ..item });
            self.0.len() - 1
        });
        let changed = &mut self.0[index];
        let before = changed.options;
        if grants {
            changed.privileges |= item.privileges;
            changed.options |= item.options;
        } else {
            changed.privileges &= !item.privileges;
            changed.options &= !item.options;
        }
        let lost = before & !changed.options;
        if changed.privileges == 0 && changed.options == 0 {
            self.0.remove(index);
        }
        if lost != 0 {
            self.revoke_dependent(item.grantee, lost, owner, cascades, known)?;
        }
        Ok(())
    }

    /// Revokes the grants of a role that has lost the grant options for them.
    ///
    /// # Errors
    /// `2BP01`: there are such grants, and the REVOKE has no CASCADE.
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

    /// Refuses a grant of grant options that its grantor has only from the grantee.
    ///
    /// # Errors
    /// `0LP01`.
    fn refuse_circular(&self, item: AclItem, owner: RoleId, known: &dyn Inheritance) -> Result<(), SqlError> {
        let mut without = self.clone();
        while let Some(dependent) = without
            .0
            .iter()
            .find(|dependent| dependent.grantee == item.grantee && dependent.options != 0)
            .copied()
        {
            let revoked = AclItem { privileges: 0, ..dependent };
            without.change(AclChange { item: revoked, grants: false, cascades: true }, owner, known)?;
        }
        if item.options & !without.options_of(item.grantor, owner, known) != 0 {
            let message = "grant options cannot be granted back to your own grantor";
            return Err(SqlError::new("0LP01", message));
        }
        Ok(())
    }

    /// Sorts the items as PostgreSQL sorts those of new objects.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|item| (item.grantee, item.grantor));
    }

    /// Replaces the old owner by the new one, and merges items with the same grantee and grantor.
    pub(crate) fn change_owner(&mut self, old: RoleId, new: RoleId) {
        let mut items: Vec<AclItem> = Vec::new();
        for mut item in self.0.drain(..) {
            let renamed = |role| if role == old { new } else { role };
            (item.grantee, item.grantor) = (renamed(item.grantee), renamed(item.grantor));
            let same = |known: &&mut AclItem| (known.grantee, known.grantor) == (item.grantee, item.grantor);
            match items.iter_mut().find(same) {
                Some(merged) => {
                    merged.privileges |= item.privileges;
                    merged.options |= item.options;
                }
                None => items.push(item),
            }
        }
        self.0 = items;
    }
}

/// Returns the letters of privileges, each followed by a star if it has the grant option.
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

/// Returns the privilege of a keyword.
pub(crate) fn privilege_of(word: &str) -> Option<Privileges> {
    let word = if word.eq_ignore_ascii_case("TEMP") { "TEMPORARY" } else { word };
    WORDS.iter().find(|(_, _, name)| name.eq_ignore_ascii_case(word)).map(|(privilege, ..)| *privilege)
}

//! Statements with their values as literals. The worker uses the simple query protocol, because tokio-postgres always names prepared
//! statements, which do not work behind poolers such as PgBouncer before 1.21.

use std::time::Duration;

/// A value that can be written as an SQL literal.
pub(crate) trait Literal {
    fn literal(&self) -> String;
}

impl Literal for str {
    // An escape string has the same meaning whatever the setting standard_conforming_strings is. The server cannot store NUL.
    fn literal(&self) -> String {
        format!("E'{}'", self.replace('\\', r"\\").replace('\'', "''").replace('\0', r"\\0"))
    }
}

impl Literal for String {
    fn literal(&self) -> String {
        self.as_str().literal()
    }
}

impl Literal for Duration {
    fn literal(&self) -> String {
        format!("'{:.6} s'::interval", self.as_secs_f64())
    }
}

macro_rules! plain {
    ($($kind:ty),*) => { $(impl Literal for $kind { fn literal(&self) -> String { self.to_string() } })* };
}
plain!(i32, i64, usize, bool, f64);

impl<T: Literal> Literal for Option<T> {
    fn literal(&self) -> String {
        self.as_ref().map_or("NULL".to_string(), |value| value.literal())
    }
}

impl<T: Literal + ?Sized> Literal for &T {
    fn literal(&self) -> String {
        (*self).literal()
    }
}

/// An array without a type; the statement casts it.
impl<T: Literal> Literal for [T] {
    fn literal(&self) -> String {
        format!("ARRAY[{}]", self.iter().map(|item| item.literal()).collect::<Vec<_>>().join(", "))
    }
}

impl<T: Literal> Literal for Vec<T> {
    fn literal(&self) -> String {
        self.as_slice().literal()
    }
}

/// Builds a statement: sql!("SELECT f({}, {})", id, name).
macro_rules! sql {
    ($text:literal $(, $value:expr)* $(,)?) => { format!($text $(, $crate::sql::Literal::literal(&$value))*) };
}
pub(crate) use sql;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted() {
        assert_eq!(sql!("f({}, {})", "it's \\ \0", vec![1i64, 2]), r"f(E'it''s \\ \\0', ARRAY[1, 2])");
        assert_eq!(sql!("{} {}", Duration::from_millis(1500), None::<&str>), "'1.500000 s'::interval NULL");
        assert_eq!(sql!("{}", Vec::<String>::new()), "ARRAY[]");
    }
}

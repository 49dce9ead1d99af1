//! Keys as bytes that mean the same in every process, on every platform and with every compiler.

mod digest_key;
mod parts;
mod types;

#[cfg(all(test, feature = "layer"))]
mod tests;
#[cfg(all(test, feature = "layer"))]
mod tests_hostile;

pub(crate) use digest_key::DigestKey;
pub use parts::KeyParts;

/// A key that means the same in every process, so that a store shared by many can find its bucket.
///
/// Text, bytes, integers, addresses, `Option`s and tuples of these are portable, and so are the
/// keys of the extractors here. [`Hash`](std::hash::Hash) would not do: what it writes may change
/// with the platform and the compiler.
///
/// # Example: a struct is its fields, in a fixed order
///
/// ```
/// use tollgate::key::{KeyParts, PortableKey};
///
/// #[derive(Clone, PartialEq, Eq, Hash)]
/// struct Seat {
///     tenant: String,
///     number: u32,
/// }
///
/// impl PortableKey for Seat {
///     fn write_to(&self, parts: &mut KeyParts) {
///         (&self.tenant, self.number).write_to(parts);
///     }
/// }
///
/// let mut parts = KeyParts::new();
/// Seat { tenant: "acme".to_owned(), number: 7 }.write_to(&mut parts);
/// assert_eq!(parts.as_bytes(), b"s:acme;u:7;");
/// ```
///
/// # Example: an enum says first which variant it is
///
/// ```
/// use std::net::IpAddr;
/// use tollgate::key::{KeyParts, PortableKey};
///
/// #[derive(Clone, PartialEq, Eq, Hash)]
/// enum Caller {
///     User(u64),
///     Token(String),
///     Guest(IpAddr),
/// }
///
/// impl PortableKey for Caller {
///     fn write_to(&self, parts: &mut KeyParts) {
///         match self {
///             Self::User(id) => parts.text("user").number(*id),
///             Self::Token(token) => parts.text("token").secret(token.as_bytes()),
///             Self::Guest(ip) => parts.text("guest").address(*ip),
///         };
///     }
/// }
///
/// let bytes = |caller: Caller| {
///     let mut parts = KeyParts::new();
///     caller.write_to(&mut parts);
///     String::from_utf8(parts.into_bytes()).unwrap()
/// };
/// assert_eq!(bytes(Caller::User(7)), "s:user;u:7;");
/// assert_eq!(bytes(Caller::Guest("192.0.2.1".parse().unwrap())), "s:guest;4:192.0.2.1;");
/// assert!(!bytes(Caller::Token("t0p-s3cret".to_owned())).contains("t0p-s3cret"));
/// ```
///
/// # What an implementor must do
///
/// - Write equal parts for equal keys, and different ones for different keys: every field that `Eq`
///   compares.
/// - Write the same parts in every process, and in the next release too: a key whose parts change
///   has a fresh bucket.
/// - Write secrets with [`secret`](KeyParts::secret): short text can be read in the store.
///
/// # What an implementor must not do
///
/// - Write what differs between processes: an address in memory, a random seed, the order of a
///   `HashMap`.
/// - Let a caller choose the number of parts: each part is bounded, their number is not.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not mean the same in every process: a shared store cannot find its bucket",
    label = "not a portable key",
    note = "implement `tollgate::key::PortableKey` for it by writing its fields:\n\
            impl PortableKey for {Self} {{\n    \
                fn write_to(&self, parts: &mut KeyParts) {{ (&self.tenant, self.number).write_to(parts) }}\n\
            }}\n\
            a secret, such as an API key, is written by `parts.secret(..)`: others can read the keys",
    note = "text, bytes, integers, addresses, `Option`s and tuples of such are portable keys, and so are `HeaderKey` and `RouteKey`"
)]
pub trait PortableKey {
    /// Appends the parts that this key is made of.
    fn write_to(&self, parts: &mut KeyParts);
}
